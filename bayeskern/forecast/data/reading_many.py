"""Many series, as rows of one frame or file, or in a mapping or a list."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayeskern.core import validation
from bayeskern.core.formatting import printable_errors
from bayeskern.forecast.data.cells import AmbiguousError, count_cells, read_numbers
from bayeskern.forecast.data.columns import NIXTLA_ID, ReadOptions, choose_columns, split_zones
from bayeskern.forecast.data.files import Table, read_table
from bayeskern.forecast.data.reading import columns_of, read_series, require_source
from bayeskern.forecast.data.series import Series
from bayeskern.forecast.data.times import read_times, read_written_times
from bayeskern.forecast.data.zones import aware, is_aware


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
    if not is_file and {options.sheet, options.encoding, options.skip_rows} != {None}:
        raise ValueError("sheet=, encoding= and skip_rows= can only be used with files.")
    if is_file:
        path = require_source(series)
        table = read_table(path, options.sheet, options.encoding, options.skip_rows)
        readers = _from_table(table, id, options)
    elif hasattr(series, "columns"):
        import narwhals as nw  # slow to import

        readers = _from_table(Table(columns_of(series)), id, options)
        readers = readers._replace(backend=nw.get_native_namespace(series))
    else:
        if id is not None or options[:3] != ReadOptions()[:3]:
            raise ValueError(
                "id=, time=, value= and regressors= name columns of a frame or a file; the series "
                f"are in a {type(series).__name__}."
            )
        named = series if isinstance(series, Mapping) else dict(enumerate(series))
        names = ("every", "by", "date_format", "decimal", "timezone")
        notation = {name: getattr(options, name) for name in names}
        functions = [partial(read_series, source, **notation) for source in named.values()]
        readers = SeriesReaders([*named], functions, "id", "time", "pandas", ())
    if not readers.ids:
        raise ValueError("there is no series to forecast.")
    return readers


def _from_table(table: Table, id: str | None, options: ReadOptions) -> SeriesReaders:
    """Readers of the series in the rows of a table; column `id` or unique_id names the series."""
    if id is None and NIXTLA_ID in table.columns:
        id = NIXTLA_ID
    id = validation.one_of("id", id, table.columns)
    names, points_may_group = table.columns[id], table.points_may_group
    others = {name: cells for name, cells in table.columns.items() if name != id}
    others, zones, notes = split_zones(others, options)
    columns, time, value = choose_columns(others, options)
    times, values, remarks = columns[time], columns[value], table.remarks + notes
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
    # Local times are located by series: in each, the second of two equal times is the later one.
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
    rows: dict[Any, list[int]] = {}
    for row, name in enumerate(names):
        if name is None or name != name:
            raise ValueError(f"{id}, row {row + 1}: the name of the series is missing.")
        rows.setdefault(name, []).append(row)
    functions = [
        partial(
            Series.of,
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


def _take(cells: Any, rows: list[int]) -> Any:
    """Cells of an array or a list at the given rows."""
    return cells[rows] if isinstance(cells, np.ndarray) else [cells[row] for row in rows]
