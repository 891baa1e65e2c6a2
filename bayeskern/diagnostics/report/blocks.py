"""What a section is made of. The template knows each by its `kind`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from markupsafe import Markup

from bayeskern.core.formatting import number


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str
    kind: ClassVar[str] = "text"


@dataclass(frozen=True)
class Missing:
    """What stands where something cannot be assessed: a sentence that says why."""

    text: str
    kind: ClassVar[str] = "missing"


@dataclass(frozen=True)
class Heading:
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
    """svg: as `style.svg` made it; caption: what good looks like."""

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


def khat(x) -> str:
    """A Pareto k-hat; it is minus infinity where all weights of the tail are the same."""
    return "far below 0" if x == float("-inf") else number(x)


def percent(share: float) -> str:
    """A share as a percentage, never rounded to all or nothing."""
    if 0.0 < share < 0.01:
        return "less than 1 %"
    if 0.99 < share < 1.0:
        return "more than 99 %"
    return f"{100.0 * share:.0f} %"


def listed(names, most: int = 6) -> str:
    """Names in a sentence: "a, b and c", "a, b and 7 others"."""
    names = list(names)
    if len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} others"]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def of(name: str) -> str:
    """ " of sales"; nothing where a series has no name, and is called as all such are."""
    return "" if name == "value" else f" of {name}"
