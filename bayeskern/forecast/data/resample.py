"""Values of longer periods: sums, means or last values of days, weeks, months, ..."""

from __future__ import annotations

import numpy as np

from bayeskern.core import validation
from bayeskern.core.formatting import counted

# How pandas calls them. Weeks begin on Mondays.
PERIODS = {
    "minute": "min",
    "hour": "h",
    "day": "D",
    "week": "W-MON",
    "month": "MS",
    "quarter": "QS",
    "year": "YS",
}
WAYS = ("sum", "mean", "last")


def resample(times: np.ndarray, values: np.ndarray, every: str, by: str | None):
    """(times, values, remarks) of whole periods, each at its start.

    A period at either end that the times do not fill is dropped, so that it is not taken for a
    small one; of "last", only at the end. A sum or mean that misses a value is missing.

    Args:
        times: Sorted dates, shape (n,), by the clocks of their zone; some may be there repeatedly.
        values: Shape (n,), NaN where missing.
        every: A name of PERIODS.
        by: One of WAYS.

    Raises:
        ValueError: For other names, for numbers in place of dates, and if no period is whole.
    """
    import pandas as pd  # slow to import

    rule = PERIODS[validation.one_of("every", every, PERIODS)]
    if by is None:
        raise ValueError(f"every={every!r}: say how, by= (--by) one of {', '.join(WAYS)}.")
    validation.one_of("by", by, WAYS)
    if times.dtype.kind != "M":
        raise ValueError(f"every={every!r} is for dates, and these times are numbers.")
    observed = pd.Series(values, pd.DatetimeIndex(times.astype("M8[ns]")))
    periods = observed.resample(rule, closed="left", label="left")
    counts, there = periods.size(), periods.count()
    found = periods.last() if by == "last" else periods.agg(by).where(there == counts)
    found = found.where(there > 0)
    gap = np.median(np.diff(np.unique(times))) if len(np.unique(times)) > 1 else None
    starts, end = found.index, found.index[-1] + pd.tseries.frequencies.to_offset(rule)
    first = int(by != "last" and gap is not None and times[0] - gap >= starts[0])
    last = len(found) - int(gap is not None and times[-1] + gap < end)
    if last <= first:
        raise ValueError(f"every={every!r}: the times fill no {every}.")
    remarks = [f"each {every} has the {by} of its values"]
    dropped = first + len(found) - last
    if dropped:
        remarks.append(
            f"{counted(dropped, every)} at the ends, which the times do not fill, left out"
        )
    found = found.iloc[first:last]
    return found.index.to_numpy(), found.to_numpy(), tuple(remarks)
