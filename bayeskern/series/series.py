"""A series: values at sorted times, with remarks on how they were read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayeskern.core.formatting import counted
from bayeskern.series.calendar import Calendar
from bayeskern.series.cells import count_cells, read_numbers
from bayeskern.series.columns import SeriesColumns
from bayeskern.series.dates.times import parse_times, read_times
from bayeskern.series.files.contents import SizeLimit
from bayeskern.series.frequency import infer_calendar
from bayeskern.series.read_options import ReadOptions
from bayeskern.series.regressors import Regressors
from bayeskern.series.resample import resample

# Fewer values cannot determine level, change and spread.
MIN_VALUES = 3


@dataclass(frozen=True, eq=False)
class Series:
    """Values at sorted times; the last value is not missing.

    Attributes:
        name: Name of the series.
        time_name: Name of the times.
        value_name: Name of the values.
        values: Values, (n,), NaN where missing.
        calendar: Times and their frequency.
        remarks: Decisions made while reading.
        regressors: Columns of regressors, if there are any.
    """

    name: str
    time_name: str
    value_name: str
    values: np.ndarray
    calendar: Calendar
    remarks: tuple[str, ...]
    regressors: Regressors | None = None

    @classmethod
    def from_columns(cls, name: str, columns: SeriesColumns, options: ReadOptions) -> Series:
        """Read and sort values, drop missing values at the end, and infer the calendar.

        Args:
            name: Name of the series.
            columns: Cells of the series.
            options: Notation of the cells and the times, and aggregation.

        Raises:
            ValueError: If a cell cannot be read, or there are fewer than three values.
        """
        time_name, value_name = columns.time_name, columns.value_name
        times, values, tz, remarks = read_rows(columns, options)
        regressors = None
        if columns.regressors:
            if options.every is not None:
                raise ValueError(
                    "every= cannot be used with columns of regressors: give a frame of regressors "
                    "at the aggregated times."
                )
            regressors = Regressors.from_columns(columns, options)
        if options.every is not None:
            times, values, notes = resample(times, values, options, tz)
            remarks += notes
        observed = int(np.sum(np.isfinite(values)))
        if observed < MIN_VALUES:
            raise ValueError(
                f"{value_name} must have at least {MIN_VALUES} values; got "
                f"{counted(observed, 'value')} in {counted(len(values), 'row')}."
            )
        count = int(np.flatnonzero(np.isfinite(values))[-1]) + 1
        if count < len(values):
            rows = counted(len(values) - count, "row at the end has", "rows at the end have")
            remarks.append(f"{rows} no value: forecast too")
            times, values = times[:count], values[:count]
        if observed < count:
            remarks.append(f"{counted(count - observed, 'missing value')} left out of the fit")
        calendar = infer_calendar(times, tz, time_name)
        remarks += calendar.remarks
        return cls(name, time_name, value_name, values, calendar, tuple(remarks), regressors)

    @property
    def times(self) -> np.ndarray:
        """Times, (n,)."""
        return self.calendar.times

    @property
    def observed(self) -> np.ndarray:
        """Mask of the values that are not missing, (n,)."""
        return np.isfinite(self.values)

    def on_grid(self) -> np.ndarray:
        """Values at each step of the calendar, NaN in gaps."""
        steps = self.calendar.steps()
        grid = f"{self.time_name}, {self.calendar.description},"
        SizeLimit.of_environment().require_steps(steps[-1], len(steps), grid)
        values = np.full(steps[-1] + 1, np.nan)
        values[steps] = self.values
        return values

    def with_all_steps(self) -> Series:
        """The series with a row for each step of a regular calendar, NaN in gaps."""
        if not self.calendar.regular:
            return self
        calendar = replace(self.calendar, times=self.calendar.grid(0))
        return replace(self, values=self.on_grid(), calendar=calendar)

    def with_remarks(self, *remarks: str) -> Series:
        """The series with further remarks."""
        return replace(self, remarks=(*self.remarks, *remarks))

    def last(self, count: int) -> Series:
        """The last `count` observed values, with missing values between them."""
        start = int(np.flatnonzero(self.observed)[-count])
        calendar = replace(self.calendar, times=self.times[start:])
        remark = f"only the last {count:,} of {int(self.observed.sum()):,} values are fitted"
        recent = replace(self, values=self.values[start:], calendar=calendar)
        return recent.with_remarks(remark)

    def extended(self, values: ArrayLike, times: Any = None) -> Series:
        """The series continued by new values.

        Args:
            values: New values, (m,), NaN where missing.
            times: Times of the new values, (m,); if None, the next times of the calendar.

        Raises:
            ValueError: If no value is finite, or the times do not continue the calendar.
        """
        values = np.atleast_1d(np.asarray(values, float))
        name, calendar = self.time_name, self.calendar
        if values.ndim != 1 or not np.any(np.isfinite(values)):
            raise ValueError(f"update needs new values of {self.value_name}; got {values}.")
        if times is None:
            new_times = calendar.future(len(values))
        else:
            new_times = parse_times(np.atleast_1d(times), name)
        if len(new_times) != len(values) or new_times.dtype.kind != self.times.dtype.kind:
            raise ValueError(
                "update: each new value needs a time of the same type as the series, "
                f"{self.times.dtype}; got {len(values)} values and {len(new_times)} times, "
                f"{new_times.dtype}."
            )
        if np.any(np.append(self.times[-1:], new_times[:-1]) >= new_times):
            last = calendar.labels(self.times[-1:])[0]
            raise ValueError(f"update: the new times must be increasing and come after {last}.")
        count = int(np.flatnonzero(np.isfinite(values))[-1]) + 1
        joined_times = np.append(self.times, new_times[:count].astype(self.times.dtype))
        extended = infer_calendar(joined_times, calendar.tz, name)
        if not extended.continues(calendar):
            raise ValueError(
                f"update: the times are {calendar.description}; with the new times they would be "
                f"{extended.description}. Forecast the longer series instead."
            )
        # Keep the unit of positions: the new times may have changed a mean or median step.
        extended = replace(extended, every=calendar.every, step=calendar.step)
        joined_values = np.append(self.values, values[:count])
        longer = replace(self, values=joined_values, calendar=extended)
        missing = int(np.sum(~np.isfinite(values[:count])))
        if missing:
            remark = f"{counted(missing, 'missing value')} among the new values left out"
            return longer.with_remarks(remark)
        return longer

    def until(self, count: int) -> Series:
        """The series up to the last observed value of the first `count` times, without remarks."""
        end = int(np.flatnonzero(self.observed[:count])[-1]) + 1
        calendar = replace(self.calendar, times=self.times[:end], remarks=())
        return replace(self, values=self.values[:end], calendar=calendar, remarks=())


def read_values(columns: SeriesColumns, options: ReadOptions) -> tuple[np.ndarray, tuple[str, ...]]:
    """Values of the cells, (n,), or ones to count them, and remarks."""
    if options.by == "count":
        return count_cells(columns.cells), ()
    return read_numbers(
        columns.cells, columns.value_name, options.decimal, columns.points_may_group
    )


def read_rows(
    columns: SeriesColumns, options: ReadOptions
) -> tuple[np.ndarray, np.ndarray, str | None, list[str]]:
    """Sorted times and their values, (n,) each, before aggregation; time zone and remarks.

    Raises:
        ValueError: If a cell cannot be read, or only one of every= and by= is given.
    """
    if (options.every is None) != (options.by is None):
        raise ValueError(
            "every= (--every) and by= (--by) must be given together, as a period and 'sum', "
            f"'mean', 'last' or 'count'; got every={options.every!r} and by={options.by!r}."
        )
    values, value_remarks = read_values(columns, options)
    times, tz, time_remarks = read_times(columns.times, columns.time_name, options, columns.zones)
    remarks = [*columns.remarks, *value_remarks, *time_remarks]
    order = np.argsort(times, kind="stable")
    if not np.array_equal(order, np.arange(len(order))):
        times, values = times[order], values[order]
        remarks.append("the times were not in order and have been sorted")
    return times, values, tz, remarks
