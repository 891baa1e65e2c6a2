"""Sums of a forecast over months or years, including known values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from bayeskern.core import validation
from bayeskern.forecast.data.resample import PERIODS

if TYPE_CHECKING:
    import pandas as pd

    from bayeskern.forecast.result import Forecast


def columns_of_table(
    levels: float | Sequence[float],
    quantile: Callable[[list[float]], np.ndarray],
    mean: np.ndarray,
    sd: np.ndarray,
) -> dict[str, np.ndarray]:
    """Columns median, mean and sd, and for each level lower_95 and upper_95."""
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
    forecast: Forecast,
    every: str,
    levels: float | Sequence[float],
    seed: int,
) -> pd.DataFrame:
    """Sums over whole periods, a row each, with the columns of `Forecast.to_frame`.

    Sums are taken of joint draws, since the values of one path are dependent. The sum of a period
    that has begun includes its known values; the period is left out if one of them is missing.

    Args:
        forecast: The forecast.
        every: Period, a name of `resample.PERIODS`.
        levels: Probabilities of the central intervals.
        seed: Random seed.

    Raises:
        ValueError: If times are numbers or irregular, or if no period is complete.
    """
    import pandas as pd  # slow to import

    start = PERIODS[validation.one_of("every", every, PERIODS)]
    series, calendar = forecast.series, forecast.series.calendar
    if calendar.kind == "number" or not calendar.regular:
        raise ValueError(
            f"totals are of regular dates, and the times of this series are {calendar.description}."
        )
    # The times one step before and one step after show whether the first and last are complete.
    times = calendar.wall(calendar.grid(forecast.horizon + 1)).astype("M8[ns]")
    times = np.append(times[:1] - (times[1:2] - times[:1]), times)
    # Frequencies of periods lack the S of "start", and weeks are named by their end, Sunday.
    frequency = "W-SUN" if every == "week" else start.rstrip("S")
    periods = pd.DatetimeIndex(times).to_period(frequency)
    before, after, periods = periods[0], periods[-1], periods[1:-1]
    past, paths = series.on_grid(), forecast.sample(4_000, seed)
    sums, means = {}, []
    for period in periods[len(past) :].unique():
        inside = np.asarray(periods == period)
        known, ahead = past[inside[: len(past)]].sum(), inside[len(past) :]
        if period in (before, after) or np.isnan(known):
            continue
        sums[period] = known + paths[:, ahead].sum(axis=1)
        means.append(known + forecast.mean[ahead].sum())
    if not sums:
        raise ValueError(
            f"no {every} is complete within the horizon, {forecast.horizon} steps, with all its "
            "past values known."
        )
    of_draws = np.stack([*sums.values()], axis=1)
    table = columns_of_table(
        levels,
        partial(np.quantile, of_draws, axis=0),
        np.array(means),
        of_draws.std(axis=0, ddof=1),
    )
    return pd.DataFrame(table, index=pd.PeriodIndex([*sums], name=every))
