"""The time axis of a series: its frequency, its positions in years, and its future times."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bayeskern.core.formatting import counted
from bayeskern.series.dates.times import parse_times
from bayeskern.series.zones import to_utc, to_wall

if TYPE_CHECKING:
    import pandas as pd

DAYS_PER_YEAR = 365.25
SECONDS_PER_YEAR = DAYS_PER_YEAR * 86400.0
MIDNIGHT = np.timedelta64(0, "s")

Kind = Literal["month", "business month", "day", "business", "second", "number"]


@dataclass(frozen=True, eq=False)
class Calendar:
    """The time axis of a series.

    Attributes:
        times: Sorted times, (n,), datetime64 or numbers; naive UTC if there is a time zone.
        kind: Unit of `every`: "month", "business month" (times on its last business day), "day",
            "business" (business days), "second" (ticks of `times`) or "number".
        every: Step from one time to the next, in units of `kind`.
        regular: True if all times lie on a grid with this step; gaps are allowed.
        description: The frequency in words.
        unit: Unit of `positions` and `step`: years, or steps for numbers.
        step: The step in this unit.
        remarks: Remarks on the times, such as gaps.
        tz: IANA name of the time zone; months and days are counted in local time.
        clock: Time of day, for months and days; else 0.
        day: Day of the month, for months; 31 for the last day.
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
    clock: np.timedelta64 = MIDNIGHT
    day: int | None = None

    def positions(self, times: Any) -> np.ndarray:
        """Years since the first time; steps for numbers.

        On an axis of months, each month counts 1/12 year, whatever its length, and on an axis of
        business days each of these 7/5 days. On other axes of dates, positions are elapsed time.

        Raises:
            ValueError: For dates on an axis of numbers, or the reverse.
        """
        times = parse_times(times)
        if (times.dtype.kind == "M") != (self.kind != "number"):
            accepted = "numbers" if self.kind == "number" else "dates"
            raise ValueError(f"times must be {accepted}, as in the series; got {times.dtype}.")
        if self.kind == "number":
            return (times - self.times[0]) / self.every
        if self.kind == "second":
            return seconds_of(times - self.times[0]) / SECONDS_PER_YEAR
        wall, start = self.wall(times), self.wall(self.times[:1])
        if "month" in self.kind:
            return (self._months(wall) - self._months(start)) / 12.0
        if self.kind == "business":
            first, days = start.astype("M8[D]"), wall.astype("M8[D]")
            part = seconds_of(wall - self.clock - days) / 86400.0
            return (
                np.busday_count(first, days) + np.where(np.is_busday(days), part, 0.0)
            ) * self.step
        # Two divisions, so that seven days are exactly 7 / 365.25 years, the weekly period.
        return seconds_of(wall - start) / 86400.0 / DAYS_PER_YEAR

    def future(self, horizon: int) -> np.ndarray:
        """The next `horizon` times after the last one, (horizon,)."""
        offsets = np.arange(1, horizon + 1) * self.every
        if self.kind == "number":
            return self.times[-1] + offsets
        if self.kind == "second":
            return self.times[-1] + offsets.astype(np.diff(self.times).dtype)
        last = self.wall(self.times[-1:])
        if "month" in self.kind:
            wall = self._in_months(last.astype("M8[M]") + offsets.astype("m8[M]"))
        elif self.kind == "business":
            wall = np.busday_offset(last.astype("M8[D]"), offsets.astype(int)) + self.clock
        else:
            wall = last.astype("M8[D]") + offsets.astype("m8[D]") + self.clock
        return to_utc(wall, self.tz) if self.tz else wall

    def steps(self) -> np.ndarray:
        """Index of each time on the regular grid, from 0; row numbers if times are irregular."""
        if not self.regular:
            return np.arange(len(self.times))
        if self.kind == "business":
            days = self.wall(self.times).astype("M8[D]")
            return np.busday_count(days[0], days)
        return np.round(self.positions(self.times) / self.step).astype(np.int64)

    def grid(self, horizon: int) -> np.ndarray:
        """All times of the grid, gaps filled, followed by the next `horizon` times."""
        if not self.regular:
            return np.concatenate([self.times, self.future(horizon)])
        first = replace(self, times=self.times[:1])
        return np.concatenate([first.times, first.future(int(self.steps()[-1]) + horizon)])

    def continues(self, other: Calendar) -> bool:
        """True if both calendars have the same frequency, or both are irregular."""
        if (self.kind, self.day, self.regular) != (other.kind, other.day, other.regular):
            return False
        return not self.regular or bool(np.isclose(self.every, other.every, rtol=1e-6, atol=0.0))

    def seasons(self) -> dict[str, float]:
        """Name -> period in years of the seasons that span two steps and occur twice."""
        if self.unit == "steps":
            return {}
        span = self.positions(self.future(1))[0]
        periods = {"daily": 1 / DAYS_PER_YEAR, "weekly": 7 / DAYS_PER_YEAR, "yearly": 1.0}
        # 1.99 instead of 2: two years of weekly values span 728 days, of daily values 730 days.
        return {
            name: period
            for name, period in periods.items()
            if period > 1.99 * self.step and span > 1.99 * period
        }

    def in_words(self, period: float) -> str:
        """Period in years, or in steps for numbers, in words: "1 week", "12 steps"."""
        # Unit of time -> its number in a year.
        units = {"year": 1.0, "month": 12.0, "week": DAYS_PER_YEAR / 7.0, "day": DAYS_PER_YEAR}
        units["hour"] = 24.0 * DAYS_PER_YEAR
        for name, per_year in units.items() if self.unit == "years" else ():
            count = period * per_year
            if abs(count - round(count)) < 1e-6 and round(count) > 0:
                return counted(round(count), name)
        return counted(f"{period / self.step:.4g}", "step")

    def labels(self, times: np.ndarray) -> list[str]:
        """Times as text: numbers, dates, or dates with a time of day."""
        if self.kind == "number":
            integers = np.asarray(times).dtype.kind in "iu"
            return [str(time) if integers else f"{time:.12g}" for time in times]
        wall = self.wall(times)
        days = wall.astype("M8[D]")
        return [str(time) for time in (days if (wall == days).all() else wall)]

    def index(self, times: np.ndarray, name: str) -> pd.Index:
        """Times as a pandas index, in their time zone."""
        import pandas as pd  # slow to import

        if self.tz is None:
            return pd.Index(times, name=name)
        return pd.DatetimeIndex(times, name=name).tz_localize("UTC").tz_convert(self.tz)

    def wall(self, times: np.ndarray) -> np.ndarray:
        """Local times in the time zone, if there is one."""
        return to_wall(times, self.tz) if self.tz else times

    def _in_months(self, months: np.ndarray) -> np.ndarray:
        """Local time of the calendar in each month."""
        return dates_in(months, self.kind, self.day or 31) + self.clock

    def _months(self, wall: np.ndarray) -> np.ndarray:
        """Months since 1970: integers at the dates of the calendar, linear between them."""
        months = wall.astype("M8[M]")
        months = months - (wall < self._in_months(months)).astype("m8[M]")
        start, stop = self._in_months(months), self._in_months(months + np.timedelta64(1, "M"))
        return months.astype(np.int64) + (wall - start) / (stop - start)


def dates_in(months: np.ndarray, kind: str, day: int) -> np.ndarray:
    """Date in each month: the given day or, if the month is shorter, its last day.

    For a "business month", the last business day.
    """
    ends = (months + np.timedelta64(1, "M")).astype("M8[D]") - np.timedelta64(1, "D")
    if kind == "business month":
        return np.busday_offset(ends, 0, roll="backward")
    return np.minimum(months.astype("M8[D]") + np.timedelta64(day - 1, "D"), ends)


def seconds_of(durations: np.ndarray) -> np.ndarray:
    """timedelta64 as a number of seconds."""
    return durations / np.timedelta64(1, "s")
