"""Many series from the rows of one frame or file, a mapping or a list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bayeskern.core import validation
from bayeskern.core.formatting import printable_errors
from bayeskern.series.cells import AmbiguousError, read_numbers
from bayeskern.series.columns import (
    INDEX_COLUMN,
    NIXTLA_ID,
    SeriesColumns,
    choose_columns,
    choose_time,
    split_zones,
    take,
    time_label,
)
from bayeskern.series.dates.times import read_times, read_written_times
from bayeskern.series.files.tables import Table
from bayeskern.series.read_options import ReadOptions
from bayeskern.series.reading import read_series, table_of
from bayeskern.series.series import Series, read_values
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
    if is_file or hasattr(series, "columns"):
        import narwhals as nw  # slow to import

        readers = _from_table(table_of(series, options), id, options)
        if not is_file:
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
    names = table.columns[id]
    others = {name: cells for name, cells in table.columns.items() if name != id}
    columns = choose_columns(replace(table, columns=others), options)
    times, values, remarks = columns.times, columns.cells, columns.remarks
    # Columns are read as a whole, because one series may determine the notation of the others. If
    # that fails, each series is read separately, so that only series with a wrong cell fail.
    try:
        values, notes = read_values(columns, options)
        remarks += notes
    except AmbiguousError:
        raise
    except ValueError:
        pass
    # Local times become UTC series by series: of two equal times of one series, the second is the
    # later one.
    is_local = (columns.zones or options.timezone) and not is_aware(times)
    if any(isinstance(cell, str | float) for cell in times[:1]):
        try:
            if is_local:
                times, notes = read_written_times(times, columns.time_name, options.date_format)
                remarks += notes
            elif columns.zones is None:
                times, tz, notes = read_times(times, columns.time_name, options)
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
    columns = replace(columns, times=times, cells=values, remarks=())
    functions = [
        partial(Series.from_columns, str(name), columns.at(series_rows), options)
        for name, series_rows in rows.items()
    ]
    return SeriesReaders([*rows], functions, id, columns.time_name, "pandas", remarks)


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
    functions = []
    for name, cells in named.items():
        series = SeriesColumns(label, times, name, cells, {}, zones, table.points_may_group)
        functions.append(partial(Series.from_columns, name, series, options))
    remarks = (*table.remarks, *notes, f"each column besides {label} is a series")
    return SeriesReaders([*named], functions, "series", label, "pandas", remarks)


def tables_by_name(
    source: Any, id: str, options: ReadOptions
) -> tuple[dict[str, Table], tuple[str, ...]]:
    """Table of each series of a file or a frame, by its name as text.

    Args:
        source: The file or the frame.
        id: Column that names the series.
        options: How a file is read.

    Returns:
        The tables, and decisions made while reading the file.

    Raises:
        ValueError: If the source cannot be read, or there is no column `id`.
    """
    table = table_of(source, options)
    names = map(str, table.columns[validation.one_of("id", id, table.columns)])
    columns = {name: cells for name, cells in table.columns.items() if name != id}
    whole = replace(table, columns=columns, remarks=())
    return {
        name: replace(whole, columns={column: take(c, rows) for column, c in columns.items()})
        for name, rows in _rows_by_name(names).items()
    }, table.remarks


def _rows_by_name[Name](names: Iterable[Name]) -> dict[Name, list[int]]:
    """Rows of each series, from the name in each row."""
    rows: dict[Name, list[int]] = {}
    for row, name in enumerate(names):
        rows.setdefault(name, []).append(row)
    return rows
