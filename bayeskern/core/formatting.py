"""Numbers and names as text: as many digits as their spread lets matter, no longer than fits."""

from __future__ import annotations

import numpy as np

# Beyond these sizes numbers are written in powers of ten.
TINY, HUGE = 1e-4, 1e7
# A spread below this share of the values is none.
ROUNDING = 1e-13


def counted(number: int | str, noun: str, plural: str = "") -> str:
    """A number with its noun: 1 draw, 2 draws."""
    return f"{number} {noun if str(number) == '1' else plural or f'{noun}s'}"


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


def short(name: str, most: int) -> str:
    """A name in so many letters: of a long one both ends stay, since names differ at either."""
    head = (most - 1) // 2
    return name if len(name) <= most else f"{name[:head]}…{name[len(name) - (most - 1 - head) :]}"
