"""Format numbers and names as text; the spread of numbers decides their digits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import SupportsFloat

import numpy as np
from numpy.typing import ArrayLike

# A spread below this fraction of the values counts as rounding error.
ROUNDING_ERROR = 1e-13


def counted(number: int | str, noun: str, plural: str = "") -> str:
    """A number with its noun: "1 draw", "2 draws"."""
    return f"{number} {noun if str(number) == '1' else plural or f'{noun}s'}"


def number(x: SupportsFloat, digits: int = 3) -> str:
    """A number with three significant digits, whole numbers in full; a dash for NaN."""
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


def three_digits(x: ArrayLike) -> np.ndarray:
    """Numbers rounded to three significant digits."""
    return np.reshape([float(f"{v:.3g}") for v in np.ravel(x)], np.shape(x))


def alike(values: ArrayLike, spread: float, digits: int = 4) -> tuple[str, ...]:
    """Numbers as text with equally many decimals, for comparison side by side.

    The decimals resolve a hundredth of the spread, and give the largest number at least `digits`
    significant digits. A number close to 0 among positive numbers, such as the end of a heavy tail,
    is formatted separately.

    Args:
        values: The numbers.
        spread: Their sd; if it is 0 or unknown, each number is formatted separately.
        digits: Fewest significant digits of the largest number.
    """
    values = np.asarray(values, float)
    largest = float(np.max(np.abs(values), where=np.isfinite(values), initial=0.0))
    if not (ROUNDING_ERROR * largest < spread < np.inf):
        return tuple(number(x, digits) for x in values)
    # The last decimal is about spread / 100.
    decimals = 2 - int(np.floor(np.log10(spread)))
    if largest > 0.0:
        decimals = max(decimals, digits - 1 - int(np.floor(np.log10(largest))))
    tiny = largest < 1e-4
    # With fixed decimals these would have one digit or none.
    near_0 = np.all(values > 0.0) & (values < 10.0 ** (1 - max(0, decimals))) & (not tiny)
    separate = near_0 | ~np.isfinite(values)
    return tuple(
        number(x, digits) if is_separate else _fixed(x, decimals, tiny)
        for x, is_separate in zip(values, separate, strict=True)
    )


def _fixed(x: float, decimals: int, tiny: bool) -> str:
    """A number with `decimals` decimals, at least 0; extreme ones with an exponent."""
    if x != 0.0 and (tiny or abs(x) >= 1e7):
        return f"{x:.{max(0, int(np.floor(np.log10(abs(x)))) + decimals)}e}"
    return f"{x:z,.{max(0, decimals)}f}"


def short(name: str, most: int) -> str:
    """Shorten a name to `most` characters, keeping both ends, where names differ."""
    if len(name) <= most:
        return name
    head = (most - 1) // 2
    tail = most - 1 - head
    return f"{name[:head]}…{name[len(name) - tail :]}"


def aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a table: the first column is left-aligned, the others right-aligned."""
    rows = list(rows)
    first_width, *widths = (max(map(len, column)) for column in zip(*rows, strict=True))
    lines = []
    for first, *others in rows:
        cells = (cell.rjust(width) for cell, width in zip(others, widths, strict=True))
        lines.append("  ".join([first.ljust(first_width), *cells]).rstrip())
    return lines
