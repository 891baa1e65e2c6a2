"""Sums of a forecast over calendar periods, including known values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np

from bayeskern.core import validation
from bayeskern.series.resample import PERIODS
from bayeskern.series.series import Series

if TYPE_CHECKING:
    import pandas as pd


def columns_of_table(
    levels: float | Sequence[float],
    quantile: Callable[[list[float]], np.ndarray],
    mean: np.ndarray,
    sd: np.ndarray,
) -> dict[str, np.ndarray]:
    """Columns median, mean, sd and interval ends such as lower_95 and upper_95."""
    levels = [validation.level(level) for level in np.ravel(levels)]
    tails = [0.5 * (1.0 - level) for level in levels]
    # All quantiles in one call, which takes about as long as one quantile.
    median, *ends = quantile([0.5, *tails, *(1.0 - tail for tail in tails)])
    table = {"median": median, "mean": mean, "sd": sd}
    for i, level in enumerate(levels):
        name = f"{100 * level:g}".replace(".", "_")
        table[f"lower_{name}"], table[f"upper_{name}"] = ends[i], ends[len(levels) + i]
    return table


def totals(
    series: Series,
    paths: Callable[[], np.ndarray],
    mean: np.ndarray,
    every: str,
    levels: float | Sequence[float],
) -> pd.DataFrame:
    """Data frame of sums over whole periods, with the columns of `Forecast.to_frame`.

    Each joint draw is summed, because the values of a path are dependent. The sum of a period that
    has begun includes its known values; the period is left out if a known value is missing.

    Args:
        series: The series.
        paths: Function that returns joint draws of the next values, (n, horizon).
        mean: Mean of the next values, (horizon,).
        every: Period, a name of `resample.PERIODS`.
        levels: Probabilities of the central intervals.

    Raises:
        ValueError: If times are numbers or irregular, or if no period is complete.
    """
    import pandas as pd  # slow to import

    start_frequency = PERIODS[validation.one_of("every", every, PERIODS)]
    calendar, horizon = series.calendar, len(mean)
    if calendar.kind == "number" or not calendar.regular:
        raise ValueError(
            f"totals needs regular dates; the times of this series are {calendar.description}."
        )
    # The times one step before and one step after show whether the first and the last period are
    # complete.
    times = calendar.wall(calendar.grid(horizon + 1)).astype("M8[ns]")
    times = np.append(times[:1] - (times[1:2] - times[:1]), times)
    # pandas periods take "M", not the "MS" of timestamps, and name a week by its last day, Sunday.
    frequency = "W-SUN" if every == "week" else start_frequency.rstrip("S")
    periods = pd.DatetimeIndex(times).to_period(frequency)
    (period_before, period_after), periods = periods[[0, -1]], periods[1:-1]
    values = series.on_grid()
    past = pd.DataFrame({"sum": values, "missing": np.isnan(values)}, periods[: len(values)])
    past = cast("pd.DataFrame", past.groupby(level=0).sum())
    known = past["sum"].mask(past["missing"] > 0)
    # Means in the first column, draws in the others.
    mean_and_draws = np.vstack([mean, paths()]).T
    sums = pd.DataFrame(mean_and_draws, periods[len(values) :]).groupby(level=0).sum()
    sums = cast("pd.DataFrame", sums)
    sums = sums.add(known.reindex(sums.index, fill_value=0.0), axis=0)
    # A period that contains a time before the history or after the horizon is incomplete.
    sums = sums.drop(index=[period_before, period_after], errors="ignore").dropna()
    sums = sums.rename_axis(every)
    if sums.empty:
        raise ValueError(
            f"no complete {every} with all past values known ends within the horizon of "
            f"{horizon} steps; forecast more steps."
        )
    means, draws = sums.to_numpy()[:, 0], sums.to_numpy()[:, 1:]
    quantile = partial(np.quantile, draws, axis=1)
    table = columns_of_table(levels, quantile, means, draws.std(axis=1, ddof=1))
    return pd.DataFrame(table, index=sums.index)
