"""A series: values at sorted times, and the remarks on how they came to be so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bayeskern.core.formatting import counted
from bayeskern.forecast.data.calendar import Calendar
from bayeskern.forecast.data.frequency import infer_calendar
from bayeskern.forecast.data.regressors import Regressors
from bayeskern.forecast.data.resample import resample
from bayeskern.forecast.data.times import epoch_unit, parse_times
from bayeskern.forecast.data.zones import has_offset, to_utc, to_wall, zone_of

# Fewer values than this cannot show a level, a change and a spread.
FEWEST = 3
EPOCH_WORDS = {
    "s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds",
}  # fmt: skip


def remarks_on_times(times, name: str) -> tuple[str, ...]:
    """What times that are about to be read will be taken for: Unix epochs, and times in UTC."""
    unit = epoch_unit(times)
    if unit is not None:
        return (f"{name} is read as times since 1970, in {EPOCH_WORDS[unit]}, UTC",)
    if zone_of(times) is None and has_offset(times):
        return ("times with an offset are shown in UTC: give datetimes of a time zone",)
    return ()


@dataclass(frozen=True, eq=False)
class Series:
    """Values at sorted times, NaN where missing; the last one is not."""

    name: str
    time_name: str
    value_name: str
    values: np.ndarray
    calendar: Calendar
    remarks: tuple[str, ...]
    regressors: Regressors | None = None

    @classmethod
    def of(
        cls,
        name: str,
        time_name: str,
        value_name: str,
        times,
        values,
        date_format: str | None = None,
        every: str | None = None,
        by: str | None = None,
        remarks: Sequence[str] = (),
        regressors: Mapping[str, Sequence] | None = None,
    ) -> Series:
        """Sort the values, drop what is missing at the end, infer the calendar; say what was done.

        times: (n,), anything that `parse_times` takes, in the form `date_format` if that is given;
        values: (n,), NaN where missing; every, by: as `resample` has them, if they are to be those
        of longer periods; remarks: those on how they were read; regressors: columns of numbers at
        the same times.
        Raises ValueError for fewer than three values and for times that make no series.
        """
        values = np.asarray(values, float)
        if not np.any(np.isfinite(values)):
            what = "is empty" if len(values) == 0 else f"has {len(values)} rows but no value"
            raise ValueError(f"{value_name}: the series {what}; wanted at least {FEWEST} numbers.")
        beside = None
        if regressors:
            if every is not None:
                raise ValueError("every= makes other times than those of the regressors.")
            beside = Regressors.of(times, regressors, time_name, date_format)
        remarks, tz = [*remarks, *remarks_on_times(times, time_name)], zone_of(times)
        times = parse_times(times, time_name, date_format)
        order = np.argsort(times, kind="stable")
        if not np.array_equal(order, np.arange(len(order))):
            times, values = times[order], values[order]
            remarks.append("the times were not in order and have been sorted")
        if every is not None:
            wall = times if tz is None else to_wall(times, tz)
            wall, values, said = resample(wall, values, every, by)
            times = parse_times(wall if tz is None else to_utc(wall, tz))
            remarks += said
        elif by is not None:
            raise ValueError(f"by={by!r} says how to resample: say every= (--every) too.")
        count = int(np.flatnonzero(np.isfinite(values))[-1]) + 1
        if count < len(values):
            rows = "row at the end has" if len(values) - count == 1 else "rows at the end have"
            remarks.append(f"{len(values) - count} {rows} no value: forecast too")
            times, values = times[:count], values[:count]
        missing = int(np.sum(~np.isfinite(values)))
        if missing:
            remarks.append(f"{counted(missing, 'missing value')} left out of the fit")
        if count - missing < FEWEST:
            raise ValueError(
                f"{value_name} has {counted(count - missing, 'value')}; wanted at least {FEWEST}."
            )
        calendar = infer_calendar(times, tz, time_name)
        remarks += calendar.remarks
        return cls(name, time_name, value_name, values, calendar, tuple(remarks), beside)

    @property
    def times(self) -> np.ndarray:
        return self.calendar.times

    @property
    def observed(self) -> np.ndarray:
        """Which values are there."""
        return np.isfinite(self.values)

    def on_grid(self) -> np.ndarray:
        """The values at each step of the calendar, NaN in its gaps."""
        steps = self.calendar.steps()
        values = np.full(steps[-1] + 1, np.nan)
        values[steps] = self.values
        return values

    def last(self, count: int) -> Series:
        """The last `count` values that are there, and what is missing between them."""
        start = int(np.flatnonzero(self.observed)[-count])
        calendar = replace(self.calendar, times=self.times[start:])
        fewer = f"only the last {count:,} of {int(self.observed.sum()):,} values are fitted"
        remarks = (*self.remarks, fewer)
        return replace(self, values=self.values[start:], calendar=calendar, remarks=remarks)

    def extended(self, values, times=None) -> Series:
        """The series and more values, (m,), at later times; at the next ones if None.

        Raises ValueError where they are none, or not at times that go on as those before.
        """
        values = np.atleast_1d(np.asarray(values, float))
        name, calendar = self.time_name, self.calendar
        if values.ndim != 1 or not np.any(np.isfinite(values)):
            raise ValueError(f"update: wanted new values of {self.value_name}, got {values}.")
        if times is None:
            new = calendar.future(len(values))
        else:
            new = parse_times(np.atleast_1d(times), name)
        if len(new) != len(values) or new.dtype.kind != self.times.dtype.kind:
            raise ValueError(f"update: {len(values)} values at {len(new)} times, {new.dtype}.")
        if not np.all(np.diff(np.append(self.times[-1:], new)) > np.zeros(1, np.diff(new).dtype)):
            last = calendar.labels(self.times[-1:])[0]
            raise ValueError(f"update: the new times must come after {last}, in their order.")
        count = int(np.flatnonzero(np.isfinite(values))[-1]) + 1
        joined = np.append(self.times, new[:count].astype(self.times.dtype))
        found = infer_calendar(joined, calendar.tz, name)
        if not found.goes_on_as(calendar):
            raise ValueError(
                f"update: the times were {calendar.description}, and are {found.description} with "
                "the new ones. Forecast the longer series instead."
            )
        # The unit of the positions stays: a step that is a mean or a median may be another now.
        found = replace(found, every=calendar.every, step=calendar.step)
        remarks, missing = self.remarks, int(np.sum(~np.isfinite(values[:count])))
        if missing:
            says = f"{counted(missing, 'missing value')} among those that came later left out"
            remarks = (*remarks, says)
        together = np.append(self.values, values[:count])
        return replace(self, values=together, calendar=found, remarks=remarks)

    def until(self, count: int) -> Series:
        """The series up to the last value among the first `count` times, its frequency known."""
        end = int(np.flatnonzero(self.observed[:count])[-1]) + 1
        calendar = replace(self.calendar, times=self.times[:end], remarks=())
        return replace(self, values=self.values[:end], calendar=calendar, remarks=())
