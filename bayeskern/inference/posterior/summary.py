"""A table of posterior numbers, as it is shown."""

from __future__ import annotations

import numpy as np

from bayeskern.core.formatting import alike, number

# How the columns of the table begin that say how the draws mix; the others are in their units.
MIXING = ("ess_", "r_hat", "mcse_")


def shown(table):
    """ArviZ's table, which shows means and intervals to the digits that the sd lets matter.

    ArviZ itself shows two digits of each number, however small the sd: 1200 for 1234.56 ± 0.014.
    The numbers in the table are whole.
    """
    from arviz_stats.summary import SummaryDataFrame

    rows = [texts(table.loc[row]) for row in table.index]
    columns = zip(table.columns, zip(*rows, strict=True), strict=True)
    found = {name: dict(zip(table.index, column, strict=True)) for name, column in columns}
    return SummaryDataFrame(table, fmt_map=found)


def texts(row) -> tuple[str, ...]:
    """One row of the table, each number as it is shown; by its column "sd" or "mad", if any."""
    spread = row.get("sd", row.get("mad", np.nan))
    units = [name for name in row.index if not name.startswith(MIXING)]
    found = dict(zip(units, alike(row[units], spread), strict=True))
    return tuple(found[name] if name in found else _mixing(name, row[name]) for name in row.index)


def _mixing(name: str, value: float) -> str:
    return f"{value:.3f}" if name == "r_hat" else number(value, 2 if "mcse" in name else 4)
