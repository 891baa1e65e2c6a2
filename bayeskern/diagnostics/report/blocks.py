"""What a section is made of. The template knows each by its `kind`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from markupsafe import Markup

# Beyond these sizes numbers are written in powers of ten.
TINY, HUGE = 1e-4, 1e7
# A spread below this share of the values is none.
ROUNDING = 1e-13


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


def number(x, digits: int = 3) -> str:
    """A number as one reads it: three digits, a dash where it is unknown."""
    x = float(x)
    if x != x:
        return "-"
    if x in (float("inf"), float("-inf")):
        return "∞" if x > 0 else "-∞"
    if x == int(x) and abs(x) < 1e6:
        return f"{int(x):,}"
    if abs(x) >= 10 ** (digits - 1) and abs(x) < 1e6:
        return f"{x:,.0f}"
    return f"{x:.{digits}g}"


def alike(values, spread: float, digits: int = 4) -> tuple[str, ...]:
    """Numbers to be read beside one another, with the same decimals, none of them dropped.

    They show a hundredth of the spread, and so many digits of the largest. spread: their sd; where
    there is none, or it is unknown, each number is written by itself, and so is one that is next to
    0 where all are above it, as the end of a heavy tail is.
    """
    values = np.asarray(values, float)
    largest = float(np.max(np.abs(values), where=np.isfinite(values), initial=0.0))
    if not (ROUNDING * largest < spread < np.inf):
        return tuple(number(x, digits) for x in values)
    last = 2 - int(np.floor(np.log10(spread)))
    if largest > 0.0:
        last = max(last, digits - 1 - int(np.floor(np.log10(largest))))
    tiny = largest < TINY
    near = np.all(values > 0.0) & (values < 10.0 ** (1 - max(0, last))) & (not tiny)
    alone = near | ~np.isfinite(values)
    return tuple(
        number(x, digits) if own else _to(x, last, tiny)
        for x, own in zip(values, alone, strict=True)
    )


def _to(x: float, last: int, tiny: bool) -> str:
    """A number to the decimal `last`, which is below 0 for tens and hundreds."""
    if x != 0.0 and (tiny or abs(x) >= HUGE):
        return f"{x:.{max(0, int(np.floor(np.log10(abs(x)))) + last)}e}"
    return f"{x:z,.{max(0, last)}f}"


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
