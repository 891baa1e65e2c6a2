"""New values of a series from a file or a frame, which may repeat earlier values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayeskern.core.formatting import counted, printable_errors
from bayeskern.series.cells import count_cells, read_numbers
from bayeskern.series.columns import NIXTLA_ID, choose_columns, split_zones
from bayeskern.series.dates.times import parse_times, read_times
from bayeskern.series.read_options import INFERRED, ReadOptions
from bayeskern.series.reading import INDEX_COLUMN, read_file, with_index_of_times
from bayeskern.series.resample import resample
from bayeskern.series.series import Series
from bayeskern.series.zones import to_utc, to_wall


class LaterValues(NamedTuple):
    """Values after the end of a series.

    Attributes:
        times: Their times, (m,); None for the next times of the calendar.
        values: The values, (m,), NaN where missing.
        remarks: Decisions made while reading.
    """

    times: np.ndarray | None
    values: Any
    remarks: tuple[str, ...] = ()


class NoNewValuesError(ValueError):
    """A source has no value after the end of the series."""


@printable_errors()
def new_values(source: Any, series: Series, options: ReadOptions = INFERRED) -> LaterValues:
    """Values of a source after the end of a series.

    Args:
        source: Path of a file, a frame, or a pandas series with times as its index. Plain values,
            and results of this function, are returned unchanged.
        series: The series that the values continue.
        options: How the source is read; None for the names and the notation of the series.

    Raises:
        ValueError: A column is missing, or a cell cannot be read.
    """
    if isinstance(source, LaterValues):
        return source
    if isinstance(source, str | Path):
        table = read_file(source, options)
        return values_after(series, table.columns, options, table.points_may_group, table.remarks)
    if hasattr(source, "columns"):
        return values_after(series, with_index_of_times(source, options), options)
    index = getattr(source, "index", None)
    if index is None or callable(index) or index.dtype.kind not in "MO":
        return LaterValues(None, source)
    columns = {INDEX_COLUMN: index, series.value_name: list(source)}
    return values_after(series, columns, replace(options, time=INDEX_COLUMN))


def values_after(
    series: Series,
    columns: Mapping[str, Any],
    options: ReadOptions = INFERRED,
    points_may_group: bool = False,
    remarks: tuple[str, ...] = (),
) -> LaterValues:
    """Values of a table after the end of a series.

    Args:
        series: The series.
        columns: Cells by column name.
        options: Names and notation of the columns; None for the names of the series.
        points_may_group: True if 1.234 may also mean 1234.
        remarks: Earlier remarks.

    Raises:
        ValueError: As in `new_values`.
    """
    columns = {name: cells for name, cells in columns.items() if name != NIXTLA_ID}
    time, value = options.time, options.value
    if time is None:
        known = (series.time_name, INDEX_COLUMN)
        time = next((name for name in known if name in columns), None)
    if value is None and series.value_name in columns:
        value = series.value_name
    tz = series.calendar.tz
    # Local times are in the zone of the series.
    options = replace(options, time=time, value=value, timezone=options.timezone or tz)
    columns, zones, notes = split_zones(columns, options)
    columns, time, value = choose_columns(columns, options)
    remarks += notes
    if options.by == "count":
        values, notes = count_cells(columns[value]), ()
    else:
        values, notes = read_numbers(columns[value], value, options.decimal, points_may_group)
    times, _, time_remarks = read_times(columns[time], time, options, zones)
    if times.dtype.kind != series.times.dtype.kind:
        kind = "dates" if series.times.dtype.kind == "M" else "numbers"
        raise ValueError(f"{time}: the times of the series are {kind}; got {times.dtype}.")
    order = np.argsort(times, kind="stable")
    times, values = times[order], values[order]
    remarks = (*remarks, *notes, *time_remarks)
    if options.every is not None and options.by is not None:
        wall = times if tz is None else to_wall(times, tz)
        wall, values, notes = resample(wall, values, options.every, options.by)
        times = parse_times(wall if tz is None else to_utc(wall, tz))
        remarks += notes
    later = times > series.times[-1]
    if not np.any(later & np.isfinite(values)):
        last = series.calendar.labels(series.times[-1:])[0]
        raise NoNewValuesError(f"there is no value of {series.value_name} after {last}.")
    if options.every is None:
        remarks += _revised(series, times[~later], values[~later])
    return LaterValues(times[later], values[later], remarks)


def _revised(series: Series, times: np.ndarray, values: np.ndarray) -> tuple[str, ...]:
    """Remark if values at earlier times differ from the values of the series."""
    # The fitted series may start later, or lack values.
    known = dict(zip(series.times.tolist(), series.values.tolist(), strict=True))
    pairs = zip(times.astype(series.times.dtype).tolist(), values.tolist(), strict=True)
    pairs = [(known[time], value) for time, value in pairs if time in known]
    old, new = np.array(pairs).reshape(-1, 2).T
    changed = int(np.sum(~np.isclose(old, new, rtol=1e-9, atol=0.0, equal_nan=True)))
    if not changed:
        return ()
    return (
        f"{counted(changed, 'earlier value differs', 'earlier values differ')} from the fitted "
        "values: forecast the longer series to use them",
    )
