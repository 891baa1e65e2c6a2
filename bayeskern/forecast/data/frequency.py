"""Inference of the frequency of a series from its times.

`pandas.infer_freq` allows no gaps, no business days with holidays left out and no rule such as "day
30, or the last day of February". Dates with gaps are common here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayeskern.core.formatting import counted
from bayeskern.forecast.data.calendar import (
    DAYS_PER_YEAR,
    SECONDS_PER_YEAR,
    Calendar,
    Kind,
    dates_in,
    seconds_of,
)
from bayeskern.forecast.data.times import is_dated_by_digits, parse_times
from bayeskern.forecast.data.zones import to_utc, to_wall, zone_of

__all__ = ["infer_calendar"]

SECONDS_PER_UNIT = {
    "day": 86400.0,
    "hour": 3600.0,
    "minute": 60.0,
    "second": 1.0,
    "millisecond": 1e-3,
    "microsecond": 1e-6,
    "nanosecond": 1e-9,
}


class _DatePattern(NamedTuple):
    """Rule of a series of dates, with the fields of `Calendar`."""

    kind: Kind
    every: int
    regular: bool
    day: int | None
    remarks: tuple[str, ...]


def infer_calendar(times: Any, tz: str | None = None, name: str = "time") -> Calendar:
    """Infer the frequency of a series from its times; gaps are allowed.

    Args:
        times: Times that `parse_times` accepts, (n,), in any order; naive UTC if `tz` is given.
        tz: Time zone; None for the zone of aware datetimes.
        name: Name of the times, for messages.

    Raises:
        ValueError: For fewer than two times, repeated or missing times, and an unknown zone.
    """
    tz = tz or zone_of(times)
    times = np.sort(parse_times(times, name))
    if len(times) < 2:
        raise ValueError(
            f"{name}: came {len(times)} of them, wanted 2 or more to tell the frequency"
        )
    _refuse_duplicates(times, name)
    if times.dtype.kind != "M":
        if tz is not None:
            raise ValueError(f"tz: came {tz!r}, but {name} holds numbers; wanted dates")
        return _infer_from_numbers(times)
    wall = to_wall(times, tz) if tz else times
    days = wall.astype("M8[D]")
    clocks, counts = np.unique(wall - days, return_counts=True)
    clock = clocks[counts.argmax()]
    # Compared in UTC: on a day without midnight, a daily time at midnight is at 1:00.
    if (times == (to_utc(days + clock, tz) if tz else days + clock)).all():
        return _infer_from_days(times, days, clock, tz)
    return _infer_from_ticks(times, tz)


def _infer_from_numbers(times: np.ndarray) -> Calendar:
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
        remarks += ("the integers look like dates (YYYYMM or YYYYMMDD): give text to read them so",)
    return Calendar(times, "number", every, regular, description, "steps", 1.0, remarks)


def _infer_from_days(
    times: np.ndarray, days: np.ndarray, clock: np.timedelta64, tz: str | None
) -> Calendar:
    """Calendar of times at the same time of each day."""
    kind, every, regular, day, remarks = _month_pattern(days) or _day_pattern(days)
    if day is not None:
        description, step = _describe_months(every, kind, day, days[0]), every / 12.0
    elif kind == "business":
        # Five business days are a week.
        description, step = "business days", 1.4 / DAYS_PER_YEAR
    elif regular:
        description, step = _describe_days(every, days[0]), every / DAYS_PER_YEAR
    else:
        every, description, remarks = _median_step(np.diff(days).astype(np.int64), 86400.0)
        step = every / DAYS_PER_YEAR
    return Calendar(
        times, kind, every, regular, description, "years", step, remarks, tz, clock, day
    )


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
        # Whole days but for an hour: local times written in UTC.
        beyond_days = (gaps * tick + 3600.0) % 86400.0 - 3600.0
        if np.isin(beyond_days, [-3600.0, 0.0, 3600.0]).all() and _is_most_common(beyond_days, 0.0):
            remarks += ("some days are an hour longer or shorter: give the time zone",)
    step = every * tick / SECONDS_PER_YEAR
    return Calendar(times, "second", every, regular, description, "years", step, remarks, tz)


def _month_pattern(days: np.ndarray) -> _DatePattern | None:
    """Rule of dates on the same day of each month; None if there is none."""
    months = days.astype("M8[M]")
    gaps = np.diff(months).astype(np.int64)
    latest = int((days - months).astype(np.int64).max()) + 1
    candidates: tuple[tuple[Kind, int], ...]
    candidates = (("month", 31), ("business month", 31), ("month", latest))
    for kind, day in candidates:
        if (days == dates_in(months, kind, day)).all():
            every, regular = _common_step(gaps)
            if not regular:
                return None
            return _DatePattern(kind, every, True, day, _gap_remark(gaps != every))
    return None


def _day_pattern(days: np.ndarray) -> _DatePattern:
    """Rule of dates that are counted in days or business days."""
    gaps = np.diff(days).astype(np.int64)
    every, regular = _common_step(gaps)
    business_days = np.busday_count(days[:-1], days[1:])
    skips_weekends = np.is_busday(days).all() and business_days.sum() < gaps.sum()
    if regular and every == 1 and skips_weekends:
        return _DatePattern("business", 1, True, None, _gap_remark(business_days > 1))
    return _DatePattern("day", every, regular, None, _gap_remark(gaps != every))


def _common_step(gaps: np.ndarray) -> tuple[int, bool]:
    """Greatest common divisor of integer gaps, and whether it is the most common gap."""
    every = int(np.gcd.reduce(gaps))
    return every, _is_most_common(gaps, every)


def _is_most_common(gaps: np.ndarray, value: float) -> bool:
    count = (gaps == value).sum()
    counts = np.unique(gaps, return_counts=True)[1]
    # A tie is decisive only if the value makes up half of the gaps: one step and one gap.
    return bool(count == counts.max() and ((counts == count).sum() == 1 or 2 * count >= len(gaps)))


def _median_step(gaps: np.ndarray, seconds: float) -> tuple[int, str, tuple[str, ...]]:
    """Step, description and remarks of irregular times; gaps in units of `seconds`."""
    median = float(np.median(gaps))
    every = max(1, round(median))
    description = f"irregular, about every {_duration(median * seconds)}"
    return every, description, _irregular_remark(_duration(every * seconds))


def _refuse_duplicates(times: np.ndarray, name: str) -> None:
    distinct, counts = np.unique(times, return_counts=True)
    if (counts == 1).all():
        return
    first = int(np.argmax(counts > 1))
    hint = "aggregate to one value a time (their mean or sum)"
    if times.dtype.kind == "M":
        hint += ", or, for local times when clocks go back, give UTC or a time zone"
    raise ValueError(
        f"{name}: {str(distinct[first]).removesuffix('T00:00:00')} is there {counts[first]} times, "
        f"{(counts > 1).sum()} repeated in all; wanted each time once: {hint}"
    )


# -- descriptions ----------------------------------------------------------------------------------


def _describe_months(every: int, kind: Kind, day: int, first: np.datetime64) -> str:
    if every % 12 == 0 and kind == "month":
        return "yearly" if every == 12 else f"every {every // 12} years"
    month = int(first.astype("M8[M]").astype(np.int64)) % 12  # 0 is January
    where = f"on day {day}"
    if day == 31:
        where = "at quarter end" if every == 3 and month % 3 == 2 else "at month end"
    if day == 1:
        where = "at quarter start" if every == 3 and month % 3 == 0 else "at month start"
    if kind == "business month":
        where = where.replace("at ", "at business ")
    words = {1: "monthly", 3: "quarterly", 6: "half-yearly", 12: "yearly"}
    return f"{words.get(every, f'every {every} months')}, {where}"


def _describe_days(every: int, first: np.datetime64) -> str:
    if every % 7:
        return "daily" if every == 1 else f"every {every} days"
    # 1970-01-01 was a Thursday.
    weekdays = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"]
    weekday = weekdays[int(first.astype(np.int64)) % 7]
    return f"{'weekly' if every == 7 else f'every {every // 7} weeks'}, on {weekday}s"


def _duration(seconds: float) -> str:
    """Approximate duration in the largest unit that fits: '3.5 days'."""
    unit = next((u for u, size in SECONDS_PER_UNIT.items() if seconds >= size), "nanosecond")
    return counted(f"{seconds / SECONDS_PER_UNIT[unit]:.3g}", unit)


def _exact_duration(seconds: float) -> str:
    """Duration in whole units: '84 hours', 'hour'; never in days, whose length clocks change."""
    counts = {u: seconds / size for u, size in SECONDS_PER_UNIT.items() if u != "day"}
    whole = (u for u, n in counts.items() if round(n) and abs(n - round(n)) < 1e-9 * n)
    unit = next(whole, "nanosecond")
    return unit if round(counts[unit]) == 1 else f"{counts[unit]:.6g} {unit}s"


def _gap_remark(is_gap: np.ndarray) -> tuple[str, ...]:
    count = int(is_gap.sum())
    return (f"{counted(count, 'gap')} in the time axis",) if count else ()


def _irregular_remark(spacing: str) -> tuple[str, ...]:
    return (f"irregular times: future points every {spacing} (the median spacing)",)
