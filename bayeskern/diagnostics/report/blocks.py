"""The blocks that a section is made of. The template knows each by its `kind`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from markupsafe import Markup


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str
    kind: ClassVar[str] = "text"


@dataclass(frozen=True)
class Missing:
    """A sentence that says why something cannot be assessed, in its place."""

    text: str
    kind: ClassVar[str] = "missing"


@dataclass(frozen=True)
class Heading:
    """The title of a part of a section."""

    text: str
    kind: ClassVar[str] = "heading"


@dataclass(frozen=True)
class Code:
    """Text as it was typed."""

    text: str
    kind: ClassVar[str] = "code"


@dataclass(frozen=True)
class Items:
    """A list of sentences, each with what it is about."""

    items: tuple[tuple[str, str], ...]
    kind: ClassVar[str] = "items"


@dataclass(frozen=True)
class Table:
    """head: of the columns, the first of which names the rows; rows: cells of text."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""
    kind: ClassVar[str] = "table"


@dataclass(frozen=True)
class Figure:
    """svg: as `style.svg` returns it; caption: what it shows, and what good looks like."""

    svg: Markup
    caption: str
    kind: ClassVar[str] = "figure"


@dataclass(frozen=True)
class Verdict:
    """name: of the posterior, where there are several; facts: the evidence in words."""

    name: str
    verdict: str
    headline: str
    advice: str
    facts: tuple[str, ...]
    kind: ClassVar[str] = "verdict"
