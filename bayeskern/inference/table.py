"""A table of posterior numbers, as it is shown: with as many digits as their spread lets matter."""

from __future__ import annotations

import numpy as np

# Beyond these sizes numbers are shown in powers of ten.
SMALL, LARGE = 1e-4, 1e7


def shown(table):
    """ArviZ's table, which shows means and intervals to the second digit of the sd.

    ArviZ itself shows two digits of each number, however small the sd: 1200 for 1234.56 ± 0.014.
    The numbers in the table are whole. table: with a column "sd" or "mad"; another is not changed.
    """
    from arviz_stats.summary import SummaryDataFrame

    spread = next((table[name] for name in ("sd", "mad") if name in table), None)
    if spread is None:
        return table
    texts = {
        name: {row: _text(name, column[row], spread[row]) for row in table.index}
        for name, column in table.items()
    }
    return SummaryDataFrame(table, fmt_map=texts)


def _text(column: str, value: float, spread: float) -> str:
    if not np.isfinite(value):
        return str(value)
    if column.startswith("ess_"):
        return f"{np.floor(value):.0f}"
    if column == "r_hat":
        return f"{value:.2f}"
    if column.startswith("mcse_"):
        return f"{value:.2g}"
    return to_spread(value, spread)


def to_spread(value: float, spread: float) -> str:
    """A number to the second digit of its spread; of a spread that is 0 or unknown, six digits."""
    if not (np.isfinite(spread) and spread > 0):
        return f"{value:.6g}"
    last = int(np.floor(np.log10(spread))) - 1
    size = max(abs(value), spread)
    if SMALL <= size < LARGE:
        text = f"{value:.{max(0, -last)}f}"
        return text if float(text) else text.removeprefix("-")
    digits = int(np.floor(np.log10(size))) - last
    return f"{value:.{max(1, digits)}e}"
