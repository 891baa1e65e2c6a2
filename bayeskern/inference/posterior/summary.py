"""Table of posterior numbers, with as many digits as their spread justifies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from bayeskern.core.formatting import alike, number

if TYPE_CHECKING:
    # pandas and xarray take a while to import.
    import pandas as pd
    import xarray as xr

    from bayeskern.inference.posterior.posterior import Posterior


def summary(posterior: Posterior, data: xr.Dataset, **options: Any) -> pd.DataFrame:
    """ArviZ's table of means, sds and intervals of every number of a data set.

    R-hat and effective sample sizes are shown for Markov chains only, not for draws resampled from
    them. A point estimate has only values. Numbers have as many digits as their sd justifies,
    unless the option `round_to` is passed.

    Args:
        posterior: The posterior.
        data: The data set, from `arviz.parameters`.
        **options: Options of `arviz.summary`.

    Returns:
        A data frame with a row for each number.
    """
    # arviz takes a while to import.
    import arviz as az

    # ArviZ takes differences, which are undefined for truth values, and NumPy before 2.5 has no
    # quantiles of arrays of size 0.
    data = data[[name for name, values in data.items() if values.size]]
    data = data.map(lambda x: x.astype(int) if x.dtype == bool else x)
    if posterior.is_point:
        table = cast(
            "pd.DataFrame", az.summary(data, **{"round_to": "none", **options, "kind": "stats"})
        )
        return table[["mean"]].rename(columns={"mean": "value"})  # pyright: ignore[reportCallIssue]
    if not posterior.has_chains:
        median = options.pop("kind", "stats").endswith("_median")
        options["kind"] = "stats_median" if median else "stats"
    table = cast("pd.DataFrame", az.summary(data, **options))
    return table if "round_to" in options else with_digits(table)


def with_digits(table: pd.DataFrame) -> pd.DataFrame:
    """ArviZ's table with all digits, displayed with as many as the sd justifies.

    ArviZ itself shows two digits of each number, however small the sd: 1200 for 1234.56 ± 0.014.
    """
    # arviz_stats takes a while to import.
    from arviz_stats.summary import SummaryDataFrame

    rows = [texts(table.loc[row]) for row in table.index]
    columns = zip(table.columns, zip(*rows, strict=True), strict=True)
    formatted = {name: dict(zip(table.index, column, strict=True)) for name, column in columns}
    return SummaryDataFrame(table, fmt_map=formatted)


def texts(row: pd.Series) -> tuple[str, ...]:
    """Each number of a row of the table as text, with digits by the column "sd" or "mad"."""
    numbers = {str(name): float(value) for name, value in row.items()}
    spread = numbers.get("sd", numbers.get("mad", np.nan))
    # Other columns describe mixing, and are not in the units of the number.
    units = [name for name in numbers if not name.startswith(("ess_", "r_hat", "mcse_"))]
    shown = alike([numbers[name] for name in units], spread)
    in_units = dict(zip(units, shown, strict=True))
    return tuple(in_units.get(name) or _mixing(name, value) for name, value in numbers.items())


def _mixing(name: str, value: float) -> str:
    return f"{value:.3f}" if name == "r_hat" else number(value, 2 if "mcse" in name else 4)
