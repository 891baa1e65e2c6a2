"""The time axis of a series: what its times mean, how often they come and how they go on."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from bayeskern.core.formatting import counted
from bayeskern.forecast.data.times import parse_times
from bayeskern.forecast.data.zones import to_utc, to_wall

__all__ = ["Calendar", "dates_in", "seconds_of"]

DAYS_PER_YEAR = 365.25
SECONDS_PER_YEAR = DAYS_PER_YEAR * 86400.0
# Steps that differ by less than this share are one, with rounding errors.
SAME = 1e-6
# Lengths of time that have a name, in years, the longest first.
LENGTHS = {
    "year": 1.0,
    "month": 1.0 / 12.0,
    "week": 7.0 / DAYS_PER_YEAR,
    "day": 1.0 / DAYS_PER_YEAR,
    "hour": 1.0 / (24.0 * DAYS_PER_YEAR),
}

Kind = Literal["month", "business month", "day", "business", "second", "number"]


@dataclass(frozen=True, eq=False)
class Calendar:
    """The time axis of a series: what its times mean, its frequency and its future.

    Attributes:
        times: Sorted times, shape (n,), datetime64 or numbers; naive UTC where there is a zone.
        kind: What `every` counts: months, days, business days, ticks of `times` ("second") or
            plain numbers.
        every: The step from one time to the next, in units of `kind`.
        regular: Whether all times lie on the grid of that step, gaps allowed.
        description: The frequency in words.
        unit: The unit of `positions` and of `step`: years, or steps for plain numbers.
        step: The step in that unit.
        remarks: What a user should know about the times, such as gaps.
        tz: The time zone, by its IANA name. Months and days are those of its wall clock.
        clock: The time of day, for months and days.
        day: The day of the month, for months; 31 for their end.
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
    clock: np.timedelta64 | None = None
    day: int | None = None

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
            return seconds_of(times - self.times[0]) / SECONDS_PER_YEAR
        wall, start = self.wall(times), self.wall(self.times[:1])
        if "month" in self.kind:
            return (self._months(wall) - self._months(start)) / 12.0
        # Divided in two steps, so that a period of 7 / 365.25 is 7 days exactly.
        return seconds_of(wall - start) / 86400.0 / DAYS_PER_YEAR

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
            wall = self._in_months(last.astype("M8[M]") + ahead.astype("m8[M]"))
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

    def goes_on_as(self, other: Calendar) -> bool:
        """Whether the times have the frequency of the other ones; irregular times have none."""
        if (self.kind, self.day, self.regular) != (other.kind, other.day, other.regular):
            return False
        return not self.regular or bool(np.isclose(self.every, other.every, rtol=SAME, atol=0.0))

    def seasons(self) -> dict[str, float]:
        """Name -> period in years, of the seasons at least two steps long and seen twice."""
        if self.unit == "steps":
            return {}
        span = self.positions(self.future(1))[0]
        periods = {"daily": 1 / DAYS_PER_YEAR, "weekly": 7 / DAYS_PER_YEAR, "yearly": 1.0}
        # Two years of weeks are 728 days, and two years of days 730.
        return {
            name: period
            for name, period in periods.items()
            if period > 1.99 * self.step and span > 1.99 * period
        }

    def in_words(self, period: float) -> str:
        """A period in years (steps, for plain numbers) as people say it: "1 week", "12 steps"."""
        for name, length in LENGTHS.items() if self.unit == "years" else ():
            count = period / length
            if abs(count - round(count)) < 1e-6 and round(count) > 0:
                return counted(round(count), name)
        return counted(f"{period / self.step:.4g}", "step")

    def labels(self, times: np.ndarray) -> list[str]:
        """Times as one writes them: numbers, dates, or dates with a time of day."""
        if self.kind == "number":
            integers = np.asarray(times).dtype.kind in "iu"
            return [str(time) if integers else f"{time:.12g}" for time in times]
        wall = self.wall(times)
        days = wall.astype("M8[D]")
        return [str(time) for time in (days if (wall == days).all() else wall)]

    def wall(self, times: np.ndarray) -> np.ndarray:
        """Times as the clocks of the zone show them."""
        return to_wall(times, self.tz) if self.tz else times

    def _in_months(self, months: np.ndarray) -> np.ndarray:
        return dates_in(months, self.kind, self.day) + self.clock

    def _months(self, wall: np.ndarray) -> np.ndarray:
        """Months since 1970, whole at the calendar's own dates and in proportion between them."""
        months = wall.astype("M8[M]")
        months = months - (wall < self._in_months(months)).astype("m8[M]")
        start, stop = self._in_months(months), self._in_months(months + np.timedelta64(1, "M"))
        return months.astype(np.int64) + (wall - start) / (stop - start)


def dates_in(months: np.ndarray, kind: Kind, day: int) -> np.ndarray:
    """The date in each month: the day of that number, or the last one of a shorter month."""
    ends = (months + np.timedelta64(1, "M")).astype("M8[D]") - np.timedelta64(1, "D")
    if kind == "business month":
        return np.busday_offset(ends, 0, roll="backward")
    return np.minimum(months.astype("M8[D]") + np.timedelta64(day - 1, "D"), ends)


def seconds_of(durations: np.ndarray) -> np.ndarray:
    """timedelta64 as a number of seconds."""
    return durations / np.timedelta64(1, "s")
