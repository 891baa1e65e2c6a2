"""Numbers and tables as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from bayeskern.core.formatting import printable


def rounded(value: float, digits: int) -> str:
    """A number rounded to `digits` decimals, or to tens, hundreds, ... if negative.

    A number that would round to 0 keeps two significant digits, such as the lower end of an
    interval near 0.
    """
    value = float(value)
    if digits > 9 or digits < -12 or not np.isfinite(value):
        return f"{value:.4g}"
    if value and abs(value) < 5.0 * 10.0**-digits:
        return f"{value:.2g}" if abs(value) >= 1e-3 * 10.0**-digits else "0"
    return f"{round(value, digits):,.{max(digits, 0)}f}"


def right_aligned(cells: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table with right-aligned columns, indented."""
    cells = [list(map(printable, row)) for row in cells]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    rows = ([cell.rjust(w) for cell, w in zip(row, widths, strict=True)] for row in cells)
    return [f"  {'  '.join(row)}".rstrip() for row in rows]


def number_format(values: np.ndarray) -> Callable[[float], str]:
    """Number formatter that resolves the spread of the values to about four digits."""
    spread = float(np.ptp(values)) or float(np.max(np.abs(values))) or 1.0
    digits = int(3 - np.floor(np.log10(spread)))
    return "{:.4g}".format if digits > 9 or digits < -9 else f"{{:,.{max(digits, 0)}f}}".format
