"""Many series from the rows of one frame or file, a mapping or a list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayeskern.core import validation
from bayeskern.core.formatting import printable_errors
from bayeskern.series.cells import AmbiguousError, count_cells, read_numbers
from bayeskern.series.columns import (
    NIXTLA_ID,
    choose_columns,
    choose_time,
    split_zones,
)
from bayeskern.series.dates.times import read_times, read_written_times
from bayeskern.series.files.tables import Table
from bayeskern.series.read_options import ReadOptions
from bayeskern.series.reading import (
    INDEX_COLUMN,
    read_file,
    read_series,
    time_label,
    with_index_of_times,
)
from bayeskern.series.series import Series
from bayeskern.series.zones import aware, is_aware


class SeriesReaders(NamedTuple):
    """Names of many series, with functions that read them, in the order of the input.

    Attributes:
        ids: Name of each series.
        functions: Function () -> Series for each series.
        id_name: Column of the names.
        time_name: Column of the times.
        backend: "pandas", "polars", or the module of the frame library.
        remarks: Decisions made while reading the file or the frame.
    """

    ids: list[Any]
    functions: Sequence[Callable[[], Series]]
    id_name: str
    time_name: str
    backend: Any
    remarks: tuple[str, ...]


@printable_errors()
def read_many(series: Any, id: str | None, options: ReadOptions) -> SeriesReaders:
    """Readers of the series in the input of `forecast_many`.

    Raises ValueError for an error that concerns all series, such as a missing column.
    """
    is_file = isinstance(series, str | Path)
    if not is_file and (unused := options.given("files")):
        raise ValueError(f"{'=, '.join(unused)}= can only be used with files.")
    if is_file:
        readers = _from_table(read_file(series, options), id, options)
    elif hasattr(series, "columns"):
        import narwhals as nw  # slow to import

        readers = _from_table(Table(with_index_of_times(series, options)), id, options)
        readers = readers._replace(backend=nw.get_native_namespace(series))
    else:
        if id is not None or options.given("columns"):
            raise ValueError(
                "id=, time=, value= and regressors= name columns of a frame or a file; the series "
                f"are in a {type(series).__name__}."
            )
        named = series if isinstance(series, Mapping) else dict(enumerate(series))
        functions = [partial(read_series, source, **options.given()) for source in named.values()]
        readers = SeriesReaders([*named], functions, "id", "time", "pandas", ())
    if not readers.ids:
        raise ValueError("there is no series to forecast.")
    return readers


def _from_table(table: Table, id: str | None, options: ReadOptions) -> SeriesReaders:
    """Readers of the series in the rows of a table.

    The column `id`, or by default unique_id, names the series.
    """
    if id is None and NIXTLA_ID in table.columns:
        id = NIXTLA_ID
    if id is None and options.value is None:
        return _from_wide_table(table, options)
    id = validation.one_of("id", id, table.columns)
    names, points_may_group = table.columns[id], table.points_may_group
    known_time = INDEX_COLUMN if INDEX_COLUMN in table.columns else options.time
    others = {name: cells for name, cells in table.columns.items() if name != id}
    others, zones, notes = split_zones(others, options)
    columns, time, value = choose_columns(others, replace(options, time=known_time))
    times, values, remarks = columns[time], columns[value], table.remarks + notes
    time = time_label(time, times)
    # Columns are read as a whole, because one series may determine the notation of the others. If
    # that fails, each series is read separately, so that only series with a wrong cell fail.
    try:
        if options.by == "count":
            values = count_cells(values)
        values, notes = read_numbers(values, value, options.decimal, points_may_group)
        remarks += notes
    except AmbiguousError:
        raise
    except ValueError:
        pass
    # Local times become UTC series by series: of two equal times of one series, the second is the
    # later one.
    is_local = (zones or options.timezone) and not is_aware(times)
    if any(isinstance(cell, str | float) for cell in times[:1]):
        try:
            if is_local:
                times, notes = read_written_times(times, time, options.date_format)
                remarks += notes
            elif zones is None:
                times, tz, notes = read_times(times, time, options)
                times = times if tz is None else aware(times, tz)
                remarks += notes
        except AmbiguousError:
            raise
        except ValueError:
            pass
    missing = next((row for row, name in enumerate(names) if name is None or name != name), None)
    if missing is not None:
        raise ValueError(f"{id}, row {missing + 1}: the name of the series is missing.")
    rows = _rows_by_name(names)
    functions = [
        partial(
            Series.from_columns,
            str(name),
            time,
            value,
            _take(times, series_rows),
            _take(values, series_rows),
            options,
            {column: _take(columns[column], series_rows) for column in options.regressors},
            points_may_group,
            (),
            zones if zones is None else _take(zones, series_rows),
        )
        for name, series_rows in rows.items()
    ]
    return SeriesReaders([*rows], functions, id, time, "pandas", remarks)


def _from_wide_table(table: Table, options: ReadOptions) -> SeriesReaders:
    """Readers of the series of a table with a series in each column but the time.

    Raises ValueError if a column does not hold numbers; it may hold names of series.
    """
    known_time = INDEX_COLUMN if INDEX_COLUMN in table.columns else options.time
    columns, zones, notes = split_zones(table.columns, options)
    time = choose_time(list(columns), known_time)
    named = {name: cells for name, cells in columns.items() if name != time}
    for name, cells in named.items():
        try:
            read_numbers(cells, name, options.decimal, table.points_may_group)
        except AmbiguousError:
            raise
        except ValueError:
            raise ValueError(
                f"{name} does not hold numbers, so it is not a series. If there is a row for "
                "each value of each series, id= (--id) must name the column of their names, one of "
                f"{', '.join(table.columns)}."
            ) from None
    times = columns[time]
    label = time_label(time, times)
    functions = [
        partial(
            Series.from_columns, name, label, name, times, cells, options, {},
            table.points_may_group, (), zones,
        )
        for name, cells in named.items()
    ]  # fmt: skip
    remarks = (*table.remarks, *notes, f"each column besides {label} is a series")
    return SeriesReaders([*named], functions, "series", label, "pandas", remarks)


class TablesByName(NamedTuple):
    """Rows of each series of a file or a frame.

    Attributes:
        rows: Name of the series as text -> cells by column name.
        points_may_group: True if 1.234 may also mean 1234.
        remarks: Decisions made while reading the file.
    """

    rows: dict[str, dict[str, Any]]
    points_may_group: bool
    remarks: tuple[str, ...]


def tables_by_name(source: Any, id: str, options: ReadOptions) -> TablesByName:
    """Rows of each series of a file or a frame.

    Args:
        source: The file or the frame.
        id: Column that names the series.
        options: How a file is read.

    Raises:
        ValueError: If the source cannot be read, or there is no column `id`.
    """
    if isinstance(source, str | Path):
        table = read_file(source, options)
    else:
        table = Table(with_index_of_times(source, options))
    names = map(str, table.columns[validation.one_of("id", id, table.columns)])
    columns = {name: cells for name, cells in table.columns.items() if name != id}
    rows = {
        name: {column: _take(cells, series_rows) for column, cells in columns.items()}
        for name, series_rows in _rows_by_name(names).items()
    }
    return TablesByName(rows, table.points_may_group, table.remarks)


def _rows_by_name[Name](names: Iterable[Name]) -> dict[Name, list[int]]:
    """Rows of each series, from the name in each row."""
    rows: dict[Name, list[int]] = {}
    for row, name in enumerate(names):
        rows.setdefault(name, []).append(row)
    return rows


def _take(cells: Any, rows: list[int]) -> Any:
    """Cells of an array or a list at the given rows."""
    return cells[rows] if isinstance(cells, np.ndarray) else [cells[row] for row in rows]
