"""Table of posterior numbers, with as many digits as their spread justifies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from bayeskern.core.formatting import alike, number
from bayeskern.inference.known_marginal import KnownMarginal
from bayeskern.inference.model.trace.axes import netcdf_name
from bayeskern.inference.result import Fit

if TYPE_CHECKING:
    # pandas and xarray take a while to import.
    import pandas as pd
    import xarray as xr


def summary(
    posterior: Fit,
    data: xr.Dataset,
    marginals: Mapping[str, KnownMarginal] | None = None,
    **options: Any,
) -> pd.DataFrame:
    """ArviZ's table of means, sds and intervals of every number of a data set.

    R-hat and effective sample sizes are shown for Markov chains only, not for draws resampled from
    them. A point estimate has only values. Numbers have as many digits as their sd justifies,
    unless the option `round_to` is passed. Where the marginal distribution of a number is known,
    its mean, sd, median and equal-tailed interval are those of the distribution, not of draws.

    Args:
        posterior: The posterior.
        data: The data set, from `arviz.parameters`.
        marginals: Known marginals by variable of the data set; None for those of the posterior.
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
    if marginals is None:
        # Names in the groups of ArviZ have no slashes.
        marginals = {netcdf_name(name): m for name, m in posterior.marginals.items()}
    known = {name: m for name, m in marginals.items() if name in data}
    table = cast("pd.DataFrame", az.summary(data, **options))
    if known:
        _set_exact(table, data, known, options)
    return table if "round_to" in options else with_digits(table)


def _set_exact(
    table: pd.DataFrame, data: xr.Dataset, known: Mapping[str, KnownMarginal], options: dict
) -> None:
    """Replace estimates from draws by statistics of the known marginals, in the table."""
    import arviz as az

    level = options.get("ci_prob") or az.rcParams["stats.ci_prob"]
    tail, digits = 0.5 * (1.0 - level), options.get("round_to")
    statistics = {
        "mean": lambda d: d.mean(),
        "sd": lambda d: d.std(),
        "median": lambda d: d.median(),
        r"eti\d+_lb": lambda d: d.ppf(tail),
        r"eti\d+_ub": lambda d: d.ppf(1.0 - tail),
    }
    elements = _elements_by_row(data, options)
    for column in map(str, table.columns):
        pattern = next((p for p in statistics if re.fullmatch(p, column)), None)
        if pattern is None:
            continue
        values = {name: np.ravel(statistics[pattern](m.scipy)) for name, m in known.items()}
        for row, (name, element) in enumerate(elements):
            if name in known:
                value = float(values[name][element])
                value = round(value, digits) if isinstance(digits, int) else value
                table.iloc[row, table.columns.get_loc(column)] = value


def _elements_by_row(data: xr.Dataset, options: dict) -> list[tuple[str, int]]:
    """Variable, and index of its flattened element, for each row of ArviZ's table."""
    import arviz as az

    # ArviZ summarises the indices of the elements with the same selection of rows; the column of
    # means then holds the index of each row.
    places = [
        (str(name), i) for name, x in data.items() for i in range(x[{"chain": 0, "draw": 0}].size)
    ]
    first, start = data.isel(draw=slice(0, 2)), 0
    for name, x in first.items():
        size = x[{"chain": 0, "draw": 0}].size
        numbers = np.arange(start, start + size, dtype=float).reshape(x.shape[2:])
        first[name] = (x.dims, np.broadcast_to(numbers, x.shape))
        start += size
    selected = {"var_names", "filter_vars", "coords"} & options.keys()
    wanted = {name: options[name] for name in selected}
    table = az.summary(first, kind="stats", round_to="none", **wanted)
    return [places[round(i)] for i in np.asarray(table["mean"], float)]


def with_digits(table: pd.DataFrame) -> pd.DataFrame:
    """ArviZ's table with all digits, of which it displays as many as the sd justifies.

    ArviZ itself shows two digits of each number, however small the sd: 1200 for 1234.56 ± 0.014.
    """
    # arviz_stats takes a while to import.
    from arviz_stats.summary import SummaryDataFrame

    rows = [texts(table.loc[row]) for row in table.index]
    columns = zip(table.columns, zip(*rows, strict=True), strict=True)
    formatted = {name: dict(zip(table.index, column, strict=True)) for name, column in columns}
    return SummaryDataFrame(table, fmt_map=formatted)


def texts(row: pd.Series) -> tuple[str, ...]:
    """Numbers of a row of the table as text, with digits by "sd" or "mad"."""
    numbers = {str(name): float(value) for name, value in row.items()}
    spread = numbers.get("sd", numbers.get("mad", np.nan))
    # Other columns describe mixing, and are not in the units of the number.
    units = [name for name in numbers if not name.startswith(("ess_", "r_hat", "mcse_"))]
    shown = alike([numbers[name] for name in units], spread)
    in_units = dict(zip(units, shown, strict=True))
    return tuple(in_units.get(name) or _diagnostic(name, value) for name, value in numbers.items())


def _diagnostic(name: str, value: float) -> str:
    """R-hat, an effective sample size or a Monte Carlo standard error as text."""
    return f"{value:.3f}" if name == "r_hat" else number(value, 2 if "mcse" in name else 4)
