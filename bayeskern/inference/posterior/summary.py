"""The table of posterior numbers, with as many digits as their spread lets matter."""

from __future__ import annotations

import numpy as np

from bayeskern.core.formatting import alike, number

# How the columns on mixing begin; the other columns are in the units of the number.
MIXING = ("ess_", "r_hat", "mcse_")


def summary(posterior, data, **options):
    """ArviZ's table of means, sds and intervals of every number of a data set.

    R-hat and effective sample sizes stand in it for Markov chains only, where they mean what they
    say, and not for draws resampled from them. A point estimate has values alone. As many digits
    are shown as the sd lets matter, unless the option `round_to` says otherwise. data: what
    `arviz.parameters` returns.
    """
    # arviz takes a while to import.
    import arviz as az

    show = (lambda table: table) if "round_to" in options else with_digits
    # ArviZ takes differences, which truth values have not.
    data = data.map(lambda x: x.astype(int) if x.dtype == bool else x)
    if posterior.has_chains:
        return show(az.summary(data, **options))
    median = options.pop("kind", "stats").endswith("_median")
    if not posterior.is_point:
        return show(az.summary(data, kind="stats_median" if median else "stats", **options))
    table = az.summary(data, **{"kind": "stats", "round_to": "none", **options})
    return table[["mean"]].rename(columns={"mean": "value"})


def with_digits(table):
    """ArviZ's table, which shows means and intervals to the digits that the sd lets matter.

    ArviZ itself shows two digits of each number, however small the sd: 1200 for 1234.56 ± 0.014.
    The table itself keeps all digits.
    """
    # arviz_stats takes a while to import.
    from arviz_stats.summary import SummaryDataFrame

    rows = [texts(table.loc[row]) for row in table.index]
    columns = zip(table.columns, zip(*rows, strict=True), strict=True)
    formatted = {name: dict(zip(table.index, column, strict=True)) for name, column in columns}
    return SummaryDataFrame(table, fmt_map=formatted)


def texts(row) -> tuple[str, ...]:
    """One row of the table, each number as it is shown; by its column "sd" or "mad", if any."""
    spread = row.get("sd", row.get("mad", np.nan))
    units = [name for name in row.index if not name.startswith(MIXING)]
    in_units = dict(zip(units, alike(row[units], spread), strict=True))
    return tuple(in_units.get(name) or _mixing(name, row[name]) for name in row.index)


def _mixing(name: str, value: float) -> str:
    return f"{value:.3f}" if name == "r_hat" else number(value, 2 if "mcse" in name else 4)
