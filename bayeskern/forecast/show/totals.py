"""Sums of a forecast over months or years, with what is known of them already."""

from __future__ import annotations

import numpy as np

from bayeskern.core import validation
from bayeskern.forecast.data.resample import PERIODS

# Joint draws that quantiles of sums are taken from.
DRAWS = 4_000


def level_name(level: float) -> str:
    """A level as the names of columns have it: 95, or 99_9."""
    return f"{100 * level:g}".replace(".", "_")


def totals(forecast, every: str, levels, seed: int):
    """A pandas frame with a row for each whole period to come, columns as of `to_frame`.

    The sum of a period that has begun already adds the values that are known; it is left out where
    one of them is missing. Values of one path go together, so that a sum is as uncertain as they
    are jointly: it is taken draw by draw.

    Raises:
        ValueError: If times are numbers or irregular, or if no period is whole.
    """
    import pandas as pd  # slow to import

    rule = PERIODS[validation.one_of("every", every, PERIODS)]
    levels = [validation.level(level) for level in np.ravel(levels)]
    series, calendar = forecast.series, forecast.series.calendar
    if calendar.kind == "number" or not calendar.regular:
        raise ValueError(
            f"totals are of regular dates, and the times of this series are {calendar.description}."
        )
    # One step more shows where the last one ends.
    times = calendar.wall(calendar.grid(forecast.horizon + 1)).astype("M8[ns]")
    # Periods have the names of offsets without an S for their start, and weeks end on Sundays.
    freq = "W-SUN" if every == "week" else rule.rstrip("S")
    # The step before the first tells whether the period of the first is whole.
    before = times[:1] - (times[1:2] - times[:1])
    periods = pd.DatetimeIndex(np.append(before, times)).to_period(freq)
    before, of = periods[0], periods[1:]
    ahead = len(times) - 1 - forecast.horizon
    past = np.append(series.on_grid(), np.zeros(forecast.horizon))
    paths = forecast.sample(DRAWS, seed)
    rows, index = [], []
    for period in of[ahead:].unique():
        inside = np.flatnonzero(of[:-1] == period)
        known = past[inside[inside < ahead]]
        if period in (before, of[-1]) or np.isnan(known).any():
            continue
        steps = inside[inside >= ahead] - ahead
        sums, mean = known.sum() + paths[:, steps].sum(axis=1), forecast.mean[steps].sum()
        row = {"median": np.median(sums), "mean": known.sum() + mean, "sd": sums.std(ddof=1)}
        for level in levels:
            name = level_name(level)
            tails = [0.5 * (1.0 - level), 0.5 * (1.0 + level)]
            row[f"lower_{name}"], row[f"upper_{name}"] = np.quantile(sums, tails)
        rows.append(row)
        index.append(period)
    if not rows:
        raise ValueError(
            f"no {every} is whole: of those that have begun not all values are known, or none ends "
            f"within the horizon, {forecast.horizon} steps."
        )
    return pd.DataFrame(rows, index=pd.PeriodIndex(index, name=every))
