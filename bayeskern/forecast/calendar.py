"""The time axis of a series: what its times are, how often they come and how they go on."""

import operator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from bayeskern.forecast.times import localize, parse_times, to_utc, zone_of

__all__ = ["Calendar", "read_calendar"]

YEAR = 365.25 * 86400.0  # seconds
_SPANS = {"day": 86400.0, "hour": 3600.0, "minute": 60.0, "second": 1.0}
_SPANS |= {"millisecond": 1e-3, "microsecond": 1e-6, "nanosecond": 1e-9}
_MONTHLY = {1: "monthly", 3: "quarterly", 6: "half-yearly", 12: "yearly"}
_WEEKDAYS = ("Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays")

Kind = Literal["month", "business month", "day", "business", "second", "number"]


@dataclass(frozen=True, eq=False)
class Calendar:
    """The time axis of a series: what its times mean, its frequency and its future.

    `every` counts months, days, business days, ticks of `times` (kind "second") or plain numbers.
    With a zone `tz`, `times` are naive UTC; months and days are those of the zone's wall clock.
    """

    times: np.ndarray
    kind: Kind
    every: int | float
    regular: bool
    description: str
    unit: Literal["years", "steps"]
    step: float
    remarks: tuple[str, ...] = ()
    tz: str | None = None
    clock: np.timedelta64 | None = None  # time of day, for months and days
    day: int | None = None  # day of the month that months are dated by, 31 for their end

    def positions(self, times: Any) -> np.ndarray:
        """Years (steps, for plain numbers) since the first time.

        Months count 1/12 each, whatever their length; other dates count elapsed time.
        Raises ValueError for times of another kind than the calendar's.
        """
        times = parse_times(times)
        if (times.dtype.kind == "M") != (self.kind != "number"):
            wanted = "numbers" if self.kind == "number" else "dates"
            raise ValueError(f"times: came {times.dtype}, but this time axis is of {wanted}")
        if self.kind == "number":
            return (times - self.times[0]) / self.every
        if self.kind == "second":
            return _seconds(times - self.times[0]) / YEAR
        wall, start = self.wall(times), self.wall(self.times[:1])
        if "month" in self.kind:
            return (self._months(wall) - self._months(start)) / 12.0
        return _seconds(wall - start) / 86400.0 / 365.25  # a period of 7 / 365.25 is 7 days exactly

    def future(self, horizon: int) -> np.ndarray:
        """The next `horizon` times after the last one, in the form of `times`."""
        horizon = operator.index(horizon)
        if horizon < 0:
            raise ValueError(f"horizon: came {horizon}, wanted 0 or more steps")
        ahead = np.arange(1, horizon + 1) * self.every
        if self.kind == "number":
            return self.times[-1] + ahead
        if self.kind == "second":
            return self.times[-1] + ahead.astype(np.diff(self.times).dtype)
        last = self.wall(self.times[-1:])
        if "month" in self.kind:
            wall = self._dates(last.astype("M8[M]") + ahead.astype("m8[M]"))
        elif self.kind == "business":
            wall = np.busday_offset(last.astype("M8[D]"), ahead) + self.clock
        else:
            wall = last.astype("M8[D]") + ahead.astype("m8[D]") + self.clock
        return to_utc(wall, self.tz) if self.tz else wall

    def steps(self) -> np.ndarray:
        """The place of each time on the regular grid, from 0; its number if times are irregular."""
        if not self.regular:
            return np.arange(len(self.times))
        if self.kind == "business":
            days = self.wall(self.times).astype("M8[D]")
            return np.busday_count(days[0], days)
        return np.round(self.positions(self.times) / self.step).astype(np.int64)

    def grid(self, horizon: int) -> np.ndarray:
        """The times without gaps, and the next `horizon` ones."""
        if not self.regular:
            return np.concatenate([self.times, self.future(horizon)])
        first = replace(self, times=self.times[:1])
        return np.concatenate([first.times, first.future(int(self.steps()[-1]) + horizon)])

    def seasons(self) -> dict[str, float]:
        """Name -> period in years: at least two steps long and seen at least twice."""
        if self.unit == "steps":
            return {}
        span = self.positions(self.future(1))[0]
        periods = {"daily": 1 / 365.25, "weekly": 7 / 365.25, "yearly": 1.0}
        # two years of weeks are 728 days, and two years of days 730
        return {
            name: period
            for name, period in periods.items()
            if period > 1.99 * self.step and span > 1.99 * period
        }

    def labels(self, times: np.ndarray) -> list[str]:
        """Times as one writes them: numbers, dates, or dates with a time of day."""
        if self.kind == "number":
            whole = np.asarray(times).dtype.kind in "iu"
            return [str(time) if whole else f"{time:.12g}" for time in times]
        wall = self.wall(times)
        dated = (wall == wall.astype("M8[D]")).all()
        return [str(time) for time in (wall.astype("M8[D]") if dated else wall)]

    def wall(self, times: np.ndarray) -> np.ndarray:
        """Times as the clocks of the zone show them."""
        return localize(times, self.tz) if self.tz else times

    def _dates(self, months: np.ndarray) -> np.ndarray:
        return _days_of(months, self.kind, self.day) + self.clock

    def _months(self, wall: np.ndarray) -> np.ndarray:
        """Months since 1970, whole at the calendar's own dates and in proportion between them."""
        months = wall.astype("M8[M]")
        months = months - (wall < self._dates(months)).astype("m8[M]")
        start, stop = self._dates(months), self._dates(months + np.timedelta64(1, "M"))
        return months.astype(np.int64) + (wall - start) / (stop - start)


def read_calendar(times: Any, tz: str | None = None, name: str = "time") -> Calendar:
    """Find the frequency of a series from its times, gaps allowed.

    `times`: (n,), any order, anything `parse_times` takes; naive UTC if a zone `tz` is given,
    which datetimes of one zone bring along.
    Raises ValueError for fewer than two times, repeated or missing times and an unknown zone.
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
        return _read_numbers(times)
    wall = localize(times, tz) if tz else times
    days = wall.astype("M8[D]")
    clocks, counts = np.unique(wall - days, return_counts=True)
    clock = clocks[counts.argmax()]
    # compared in UTC: where midnight does not exist, a daily time is at 1:00 for once
    if (times == (to_utc(days + clock, tz) if tz else days + clock)).all():
        return _read_days(times, days, clock, tz)
    return _read_seconds(times, tz)


def _read_numbers(times: np.ndarray) -> Calendar:
    integers = times.dtype.kind == "i"
    gaps = np.diff(times)
    if integers:
        every, regular = _common_step(gaps)
        counts = gaps // every
    else:
        ratios = gaps / gaps.min()
        counts = np.round(ratios)
        regular = bool((np.abs(ratios - counts) <= 1e-6 * ratios).all()) and _most_common(counts, 1)
        every = float((times[-1] - times[0]) / counts.sum())
    if regular:
        description = f"{'integers' if integers else 'numbers'}, step {every:.6g}"
        remarks = _gap_remark(counts != 1)
    else:
        every = max(1, round(np.median(gaps))) if integers else float(np.median(gaps))
        description = f"irregular, about every {np.median(gaps):.3g}"
        remarks = (_irregular_remark(f"{every:.6g}"),)
    if integers and _like_dates(times):
        remarks += ("the integers look like dates (YYYYMM or YYYYMMDD): give text to read them so",)
    return Calendar(times, "number", every, regular, description, "steps", 1.0, remarks)


def _read_days(
    times: np.ndarray, days: np.ndarray, clock: np.timedelta64, tz: str | None
) -> Calendar:
    kind, every, regular, day, remarks = _month_pattern(days) or _day_pattern(days)
    if "month" in kind:
        description, step = _describe_months(every, kind, day, days[0]), every / 12.0
    elif kind == "business":
        description, step = "business days", 1.4 / 365.25  # five of them are a week
    elif regular:
        description, step = _describe_days(every, days[0]), every / 365.25
    else:
        usual = float(np.median(np.diff(days).astype(np.int64)))
        description = f"irregular, about every {_spell(usual * 86400.0)}"
        every = max(1, round(usual))
        step = every / 365.25
        remarks = (_irregular_remark(_spell(every * 86400.0)),)
    return Calendar(
        times, kind, every, regular, description, "years", step, remarks, tz, clock, day
    )


def _month_pattern(days: np.ndarray) -> tuple | None:
    """How dates that follow one rule in every month come, or None."""
    months = days.astype("M8[M]")
    gaps = np.diff(months).astype(np.int64)
    latest = int((days - months).astype(np.int64).max()) + 1
    for kind, day in (("month", 31), ("business month", 31), ("month", latest)):
        if (days == _days_of(months, kind, day)).all():
            every, regular = _common_step(gaps)
            return (kind, every, True, day, _gap_remark(gaps != every)) if regular else None
    return None


def _day_pattern(days: np.ndarray) -> tuple:
    gaps = np.diff(days).astype(np.int64)
    every, regular = _common_step(gaps)
    weekdays = np.busday_count(days[:-1], days[1:])
    if regular and every == 1 and np.is_busday(days).all() and weekdays.sum() < gaps.sum():
        return "business", 1, True, None, _gap_remark(weekdays > 1)
    return "day", every, regular, None, _gap_remark(gaps != every)


def _read_seconds(times: np.ndarray, tz: str | None) -> Calendar:
    tick = _seconds(np.ones(1, np.diff(times).dtype))[0]
    gaps = np.diff(times).astype(np.int64)
    every, regular = _common_step(gaps)
    if regular:
        spelt = _spell(every * tick, exact=True)
        description = {"hour": "hourly"}.get(spelt, f"every {spelt}")
        remarks = _gap_remark(gaps != every)
    else:
        usual = float(np.median(gaps))
        every = max(1, round(usual))
        description = f"irregular, about every {_spell(usual * tick)}"
        remarks = (_irregular_remark(_spell(every * tick)),)
        if _shifts_by_an_hour(gaps * tick):
            remarks += ("some days are an hour longer or shorter: give the time zone",)
    step = every * tick / YEAR
    return Calendar(times, "second", every, regular, description, "years", step, remarks, tz)


def _common_step(gaps: np.ndarray) -> tuple[int, bool]:
    """The greatest common divisor of integer gaps, and whether it is the most common of them."""
    every = int(np.gcd.reduce(gaps))
    return every, _most_common(gaps, every)


def _most_common(gaps: np.ndarray, value: float) -> bool:
    count = (gaps == value).sum()
    counts = np.unique(gaps, return_counts=True)[1]
    # a tie of many different gaps, once each, says nothing; one step and one gap do
    return bool(count == counts.max() and ((counts == count).sum() == 1 or 2 * count >= len(gaps)))


def _days_of(months: np.ndarray, kind: Kind, day: int) -> np.ndarray:
    """The dates in `months`: the day of that number, or the last one where the month is shorter."""
    ends = (months + np.timedelta64(1, "M")).astype("M8[D]") - np.timedelta64(1, "D")
    if kind == "business month":
        return np.busday_offset(ends, 0, roll="backward")
    return np.minimum(months.astype("M8[D]") + np.timedelta64(day - 1, "D"), ends)


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
    return f"{_MONTHLY.get(every, f'every {every} months')}, {where}"


def _describe_days(every: int, first: np.datetime64) -> str:
    if every % 7:
        return "daily" if every == 1 else f"every {every} days"
    weekday = _WEEKDAYS[(int(first.astype(np.int64)) + 3) % 7]  # 1970-01-01 was a Thursday
    return f"{'weekly' if every == 7 else f'every {every // 7} weeks'}, on {weekday}"


def _spell(seconds: float, exact: bool = False) -> str:
    """'3.5 days'; exact: '84 hours', '15 minutes', 'hour', never days, which clocks change."""
    for unit, size in _SPANS.items():
        count = seconds / size
        whole = abs(count - round(count)) < 1e-9 * count
        if (exact and unit != "day" and whole and round(count)) or (not exact and count >= 1):
            break
    if exact and round(count) == 1:
        return unit
    return f"{count:.6g} {unit}s" if exact else f"{count:.3g} {unit}{'s' * (f'{count:.3g}' != '1')}"


def _gap_remark(gaps: np.ndarray) -> tuple[str, ...]:
    count = int(gaps.sum())
    return (f"{count} gap{'s' * (count > 1)} in the time axis",) if count else ()


def _irregular_remark(spacing: str) -> str:
    return f"irregular times: future points every {spacing} (the median spacing)"


def _shifts_by_an_hour(gaps: np.ndarray) -> bool:
    """Whether gaps in seconds are whole days but for an hour: local times written in UTC."""
    off = (gaps + 3600.0) % 86400.0 - 3600.0
    return bool(np.isin(off, [-3600.0, 0.0, 3600.0]).all()) and _most_common(off, 0.0)


def _like_dates(times: np.ndarray) -> bool:
    first = int(times[0])
    if 160001 <= first < 220013:
        months = times
    elif 16000101 <= first < 22001232:
        months, days = times // 100, times % 100
        if not ((days >= 1) & (days <= 31)).all():
            return False
    else:
        return False
    return bool(((months % 100 >= 1) & (months % 100 <= 12)).all())


def _refuse_duplicates(times: np.ndarray, name: str) -> None:
    values, counts = np.unique(times, return_counts=True)
    if (counts == 1).all():
        return
    first = int(np.argmax(counts > 1))
    hint = "aggregate to one value a time (their mean or sum)"
    if times.dtype.kind == "M":
        hint += ", or, for local times when clocks go back, give UTC or a time zone"
    raise ValueError(
        f"{name}: {str(values[first]).removesuffix('T00:00:00')} is there {counts[first]} times, "
        f"{(counts > 1).sum()} repeated in all; wanted each time once: {hint}"
    )


def _seconds(gaps: np.ndarray) -> np.ndarray:
    return gaps / np.timedelta64(1, "s")
