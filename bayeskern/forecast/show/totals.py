"""Sums of a forecast over months or years, including known values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayeskern.core import validation
from bayeskern.forecast.data.resample import PERIODS

if TYPE_CHECKING:
    import pandas as pd

    from bayeskern.forecast.result import Forecast


def level_name(level: float) -> str:
    """Level in the names of columns: 95, or 99_9."""
    return f"{100 * level:g}".replace(".", "_")


def totals(
    forecast: Forecast,
    every: str,
    levels: float | Sequence[float],
    seed: int,
    draws: int = 4_000,
) -> pd.DataFrame:
    """Sums over whole periods, a row each, with the columns of `Forecast.to_frame`.

    Sums are taken of joint draws, since the values of one path are dependent. The sum of a period
    that has begun includes its known values; the period is left out if one of them is missing.

    Args:
        forecast: The forecast.
        every: Period, a name of `resample.PERIODS`.
        levels: Probabilities of the central intervals.
        seed: Random seed.
        draws: Number of joint draws.

    Raises:
        ValueError: If times are numbers or irregular, or if no period is complete.
    """
    import pandas as pd  # slow to import

    start = PERIODS[validation.one_of("every", every, PERIODS)]
    levels = [validation.level(level) for level in np.ravel(levels)]
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
    past, paths = series.on_grid(), forecast.sample(draws, seed)
    rows = {}
    for period in periods[len(past) :].unique():
        inside = np.asarray(periods == period)
        known, ahead = past[inside[: len(past)]].sum(), inside[len(past) :]
        if period in (before, after) or np.isnan(known):
            continue
        sums, mean = known + paths[:, ahead].sum(axis=1), known + forecast.mean[ahead].sum()
        row = {"median": np.median(sums), "mean": mean, "sd": sums.std(ddof=1)}
        for level in levels:
            name = level_name(level)
            tails = [0.5 * (1.0 - level), 0.5 * (1.0 + level)]
            row[f"lower_{name}"], row[f"upper_{name}"] = np.quantile(sums, tails)
        rows[period] = row
    if not rows:
        raise ValueError(
            f"no {every} is whole: of those that have begun not all values are known, or none ends "
            f"within the horizon, {forecast.horizon} steps."
        )
    return pd.DataFrame([*rows.values()], index=pd.PeriodIndex([*rows], name=every))
