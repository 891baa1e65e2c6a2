"""Inference of the frequency of a series from its times.

`pandas.infer_freq` does not allow gaps, business days without holidays, or a rule such as "day 30,
or the last day of February". The functions in this module do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bayeskern.core.formatting import counted
from bayeskern.series.calendar import (
    DAYS_PER_YEAR,
    SECONDS_PER_YEAR,
    Calendar,
    Kind,
    dates_in,
    seconds_of,
)
from bayeskern.series.dates.times import is_dated_by_digits, parse_times
from bayeskern.series.zones import to_utc, to_wall, zone_of

SECONDS_PER_UNIT = {
    "day": 86400.0,
    "hour": 3600.0,
    "minute": 60.0,
    "second": 1.0,
    "millisecond": 1e-3,
    "microsecond": 1e-6,
    "nanosecond": 1e-9,
}


def infer_calendar(times: Any, tz: str | None = None, name: str = "time") -> Calendar:
    """Infer the frequency of a series from its times; gaps are allowed.

    Args:
        times: Times that `parse_times` accepts, (n,), in any order; naive UTC if `tz` is not None.
        tz: Time zone; None for the zone of aware datetimes.
        name: Name of the times, for messages.

    Raises:
        ValueError: If there are fewer than two times, a time is repeated or missing, or the zone is
            unknown.
    """
    tz = tz or zone_of(times)
    times = np.sort(parse_times(times, name))
    if len(times) < 2:
        raise ValueError(f"{name} must have at least 2 times; got {len(times)}.")
    _refuse_duplicates(times, name)
    if times.dtype.kind != "M":
        return _infer_from_numbers(times)
    wall = to_wall(times, tz) if tz else times
    days = wall.astype("M8[D]")
    clocks, counts = np.unique(wall - days, return_counts=True)
    clock = clocks[counts.argmax()]
    # Compared in UTC: where a clock change skips midnight, a daily time at midnight is at 1:00.
    if (times == (to_utc(days + clock, tz) if tz else days + clock)).all():
        return _infer_from_days(times, days, clock, tz)
    return _infer_from_ticks(times, tz)


def _infer_from_numbers(times: np.ndarray) -> Calendar:
    """Calendar of numeric times."""
    integers = times.dtype.kind == "i"
    gaps = np.diff(times)
    if integers:
        every, regular = _common_step(gaps)
        steps = gaps // every
    else:
        ratios = gaps / gaps.min()
        steps = np.round(ratios)
        whole = bool((np.abs(ratios - steps) <= 1e-6 * ratios).all())
        regular = whole and _is_most_common(steps, 1)
        every = float((times[-1] - times[0]) / steps.sum())
    if regular:
        description = f"{'integers' if integers else 'numbers'}, step {every:.6g}"
        remarks = _gap_remark(steps != 1)
    else:
        median = float(np.median(gaps))
        every = max(1, round(median)) if integers else median
        description = f"irregular, about every {median:.3g}"
        remarks = _irregular_remark(f"{every:.6g}")
    if integers and is_dated_by_digits(times):
        remarks += ("the integers look like dates (YYYYMM or YYYYMMDD): pass dates as text",)
    return Calendar(times, "number", every, regular, description, "steps", 1.0, remarks)


def _infer_from_days(
    times: np.ndarray, days: np.ndarray, clock: np.timedelta64, tz: str | None
) -> Calendar:
    """Calendar of times at the same time of each day."""
    months = days.astype("M8[M]")
    gaps, month_gaps = (np.diff(axis).astype(np.int64) for axis in (days, months))
    latest = int((days - months).astype(np.int64).max()) + 1
    # The last day, the last business day or a fixed day of each month.
    kinds: tuple[tuple[Kind, int], ...]
    kinds = (("month", 31), ("business month", 31), ("month", latest))
    every, regular = _common_step(month_gaps) if month_gaps.all() else (0, False)
    for kind, day in kinds if regular else ():
        if (days == dates_in(months, kind, day)).all():
            text = _describe_months(every, kind, day, days[0])
            step, remarks = every / 12.0, _gap_remark(month_gaps != every)
            return Calendar(times, kind, every, True, text, "years", step, remarks, tz, clock, day)
    every, regular = _common_step(gaps)
    business_days = np.busday_count(days[:-1], days[1:])
    skips_weekends = np.is_busday(days).all() and business_days.sum() < gaps.sum()
    kind, step = "day", every / DAYS_PER_YEAR
    if regular and every == 1 and skips_weekends:
        # Five business days are a week: a step is 7 / 5 days.
        kind, step, description = "business", 1.4 / DAYS_PER_YEAR, "business days"
        remarks = _gap_remark(business_days > 1)
    elif regular:
        description, remarks = _describe_days(every, days[0]), _gap_remark(gaps != every)
    else:
        every, description, remarks = _median_step(gaps, 86400.0)
        step = every / DAYS_PER_YEAR
    return Calendar(times, kind, every, regular, description, "years", step, remarks, tz, clock)


def _infer_from_ticks(times: np.ndarray, tz: str | None) -> Calendar:
    """Calendar of times at different times of day."""
    tick = seconds_of(np.ones(1, np.diff(times).dtype))[0]
    gaps = np.diff(times).astype(np.int64)
    every, regular = _common_step(gaps)
    if regular:
        length = _exact_duration(every * tick)
        description = "hourly" if length == "hour" else f"every {length}"
        remarks = _gap_remark(gaps != every)
    else:
        every, description, remarks = _median_step(gaps, tick)
        # Whole days, or an hour more or less, suggest local times written in UTC.
        beyond_days = (gaps * tick + 3600.0) % 86400.0 - 3600.0
        if np.isin(beyond_days, [-3600.0, 0.0, 3600.0]).all() and _is_most_common(beyond_days, 0.0):
            remarks += ("some days have 23 or 25 hours: give the time zone",)
    step = every * tick / SECONDS_PER_YEAR
    return Calendar(times, "second", every, regular, description, "years", step, remarks, tz)


def _common_step(gaps: np.ndarray) -> tuple[int, bool]:
    """Greatest common divisor of integer gaps; True if it is the most common gap."""
    every = int(np.gcd.reduce(gaps))
    return every, _is_most_common(gaps, every)


def _is_most_common(gaps: np.ndarray, value: float) -> bool:
    """True if the value is the most common gap."""
    count = (gaps == value).sum()
    counts = np.unique(gaps, return_counts=True)[1]
    # In a tie, the value must make up half of the gaps, as with one step and one longer gap.
    return bool(count == counts.max() and ((counts == count).sum() == 1 or 2 * count >= len(gaps)))


def _median_step(gaps: np.ndarray, seconds: float) -> tuple[int, str, tuple[str, ...]]:
    """Step, description and remarks of irregular times; gaps in units of `seconds`."""
    median = float(np.median(gaps))
    every = max(1, round(median))
    description = f"irregular, about every {_duration(median * seconds)}"
    return every, description, _irregular_remark(_duration(every * seconds))


def _refuse_duplicates(times: np.ndarray, name: str) -> None:
    """Raise ValueError for repeated times."""
    distinct, counts = np.unique(times, return_counts=True)
    if (counts > 1).any():
        first = int(np.argmax(counts > 1))
        label = str(distinct[first]).removesuffix("T00:00:00")
        hint = " Give local times with their zone." if times.dtype.kind == "M" else ""
        raise ValueError(
            f"{name} must hold each time once; {label} occurs {counts[first]} times. Aggregate to "
            f"one value per time, such as the mean or the sum.{hint}"
        )


# -- descriptions ----------------------------------------------------------------------------------


def _describe_months(every: int, kind: Kind, day: int, first: np.datetime64) -> str:
    """Frequency of a calendar of months in words: "quarterly, at quarter end"."""
    if every % 12 == 0 and kind == "month":
        return "yearly" if every == 12 else f"every {every // 12} years"
    place = {1: "start", 31: "end"}.get(day)
    month = int(first.astype("M8[M]").astype(np.int64)) % 12  # 0 is January
    is_quarter = every == 3 and month % 3 == (0 if day == 1 else 2)
    period = "quarter" if is_quarter else "month"
    if kind == "business month":
        period = f"business {period}"
    words = {1: "monthly", 3: "quarterly", 6: "half-yearly", 12: "yearly"}
    where = f"at {period} {place}" if place else f"on day {day}"
    return f"{words.get(every, f'every {every} months')}, {where}"


def _describe_days(every: int, first: np.datetime64) -> str:
    """Frequency of a calendar of days in words: "weekly, on Mondays"."""
    if every % 7:
        return "daily" if every == 1 else f"every {every} days"
    return f"{'weekly' if every == 7 else f'every {every // 7} weeks'}, on {first.item():%A}s"


def _duration(seconds: float) -> str:
    """Duration to three digits in the largest unit that is not longer: '3.5 days'."""
    unit = next((u for u, size in SECONDS_PER_UNIT.items() if seconds >= size), "nanosecond")
    return counted(f"{seconds / SECONDS_PER_UNIT[unit]:.3g}", unit)


def _exact_duration(seconds: float) -> str:
    """Duration in whole units up to hours, '84 hours' or 'hour': days may have 23 or 25 hours."""
    counts = {u: seconds / size for u, size in SECONDS_PER_UNIT.items() if u != "day"}
    whole = (u for u, n in counts.items() if round(n) and abs(n - round(n)) < 1e-9 * n)
    unit = next(whole, "nanosecond")
    return unit if round(counts[unit]) == 1 else f"{counts[unit]:.6g} {unit}s"


def _gap_remark(is_gap: np.ndarray) -> tuple[str, ...]:
    count = int(is_gap.sum())
    return (f"{counted(count, 'gap')} in the time axis",) if count else ()


def _irregular_remark(spacing: str) -> tuple[str, ...]:
    return (f"irregular times: future points every {spacing} (the median spacing)",)
