"""Aggregation of values to longer periods: sums, means, last values or counts."""

from __future__ import annotations

import numpy as np

from bayeskern.core import validation
from bayeskern.core.formatting import counted
from bayeskern.series.dates.times import parse_times
from bayeskern.series.files.contents import SizeLimit
from bayeskern.series.read_options import ReadOptions
from bayeskern.series.zones import to_utc, to_wall

# Names of periods and their pandas frequencies. Weeks begin on Mondays.
PERIODS = {
    "minute": "min",
    "hour": "h",
    "day": "D",
    "week": "W-MON",
    "month": "MS",
    "quarter": "QS",
    "year": "YS",
}


def resample(
    times: np.ndarray, values: np.ndarray, options: ReadOptions, tz: str | None
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Aggregate values to whole periods.

    Incomplete periods at both ends are dropped, because their sums would look like small values;
    for "last" only the final period is dropped. A sum or mean with a missing value is missing. A
    period without events has the count 0.

    Args:
        times: Sorted times, (n,), naive UTC if there is a time zone; duplicates are allowed.
        values: Values, (n,), NaN where missing.
        options: Period, a key of `PERIODS`, and aggregation.
        tz: Time zone of the periods.

    Returns:
        Starts of the periods, their values, and remarks.

    Raises:
        ValueError: If `options.every` or `options.by` is not an accepted name, the times are
            numbers, or no period is complete.
    """
    import pandas as pd  # slow to import

    every = validation.one_of("every", options.every, PERIODS)
    frequency = PERIODS[every]
    by = validation.one_of("by", options.by, ("sum", "mean", "last", "count"))
    if times.dtype.kind != "M":
        raise ValueError(
            f"every={every!r} needs dates; the times are numbers. Name the column of dates: "
            "time= or --time."
        )
    times = to_wall(times, tz) if tz else times
    # Longer periods than days need less memory.
    seconds = {"minute": 60.0, "hour": 3600.0}.get(every, 86400.0)
    steps = float(np.ptp(times) / np.timedelta64(1, "s")) / seconds
    SizeLimit.of_environment().require_steps(steps, len(times), f"every={every!r}")
    observed = pd.Series(values, pd.DatetimeIndex(times))
    groups = observed.resample(frequency, closed="left", label="left")
    present = np.asarray(groups.count())
    starts = pd.DatetimeIndex(groups.count().index)
    totals = np.array(groups.agg(by), float)
    # pandas.agg skips missing values; its "last" is the last observed value.
    complete = (present > 0) if by == "last" else (present > 0) & (present == groups.size())
    if by != "count":
        totals[~np.asarray(complete)] = np.nan
    distinct = np.unique(times)
    first, last = 0, len(starts)
    if len(distinct) > 1:
        # A period is incomplete if one more time, a typical gap away, would lie in it.
        gap = np.median(np.diff(distinct))
        end = starts[-1] + pd.tseries.frequencies.to_offset(frequency)
        first = int(by != "last" and times[0] - gap >= starts[0])
        last -= int(times[-1] + gap < end)
    if last <= first:
        raise ValueError(
            f"every={every!r}: the series covers no complete {every}; choose a shorter period."
        )
    aggregate = "number of its rows" if by == "count" else f"{by} of its values"
    remarks = (f"each {every} has the {aggregate}",)
    dropped = first + len(starts) - last
    if dropped:
        remarks += (f"{counted(dropped, f'incomplete {every}')} at the ends left out",)
    kept = starts.to_numpy()[first:last]
    return parse_times(to_utc(kept, tz) if tz else kept), totals[first:last], remarks
