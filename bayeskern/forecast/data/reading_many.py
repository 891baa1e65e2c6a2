"""Many series, as rows of one frame or file, or in a mapping or a list."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayeskern.forecast.data.cells import AmbiguousError, read_numbers
from bayeskern.forecast.data.columns import Selection, choose_columns, require_column
from bayeskern.forecast.data.files import read_table
from bayeskern.forecast.data.reading import columns_of, read_series, require_source
from bayeskern.forecast.data.series import Notation, Series, remarks_on_times
from bayeskern.forecast.data.times import parse_times


class SeriesReaders(NamedTuple):
    """Names of many series, with functions that read them, in the order of the input.

    Attributes:
        ids: Name of each series.
        reads: A function without arguments for each series, which reads it.
        id_name: Column of the names.
        time_name: Column of the times.
        backend: Kind of the frame, "pandas" or "polars" or their module.
        remarks: Decisions made while reading the file or the frame.
    """

    ids: list[Any]
    reads: Sequence[Callable[[], Series]]
    id_name: str
    time_name: str
    backend: Any
    remarks: tuple[str, ...]


def read_many(
    series: Any, id: str | None, selection: Selection, notation: Notation
) -> SeriesReaders:
    """Find the series in the input of `forecast_many`.

    Raises ValueError if the input as a whole cannot be read.
    """
    is_file = isinstance(series, str | Path)
    if not is_file and selection[3:] != (None, None):
        raise ValueError("sheet= and encoding= are for files, and these series are none.")
    if is_file or hasattr(series, "columns"):
        if is_file:
            table = read_table(require_source(series), selection.sheet, selection.encoding)
            columns, remarks, backend = dict(table.columns), table.remarks, "pandas"
            notation = notation._replace(points_may_group=table.points_may_group)
        else:
            import narwhals as nw  # slow to import

            columns, remarks = columns_of(series), ()
            backend = nw.get_native_namespace(series)
        readers = _from_columns(columns, id, selection, notation)
        readers = readers._replace(backend=backend, remarks=(*remarks, *readers.remarks))
    else:
        if id is not None or selection != Selection():
            raise ValueError("id=, time=, value= and regressors= name columns: this is no frame.")
        named = series if isinstance(series, Mapping) else dict(enumerate(series))
        reads = [partial(read_series, source, **notation.options()) for source in named.values()]
        readers = SeriesReaders([*named], reads, "id", "time", "pandas", ())
    if not readers.ids:
        raise ValueError("there is no series to forecast.")
    return readers


def _from_columns(
    columns: dict[str, Any], id: str | None, selection: Selection, notation: Notation
) -> SeriesReaders:
    """Series in the rows of a table, with a column of their names."""
    if id is None:
        raise ValueError(f"which column names the series? id= one of {', '.join(columns)}.")
    require_column("id", id, list(columns))
    names = columns[id]
    others = {name: cells for name, cells in columns.items() if name != id}
    columns, time, value = choose_columns(others, selection)
    times, values, remarks = columns[time], columns[value], ()
    # Columns are read as a whole, since one series may determine the notation of the others. If
    # that fails, each series is read by itself, and only the series with the wrong cell fails.
    try:
        values, remarks = read_numbers(values, value, notation.decimal, notation.points_may_group)
    except ValueError as error:
        if isinstance(error, AmbiguousError):
            raise
    if any(isinstance(cell, str) for cell in times[:1]):
        remarks += remarks_on_times(times, time)
        try:
            times = parse_times(times, time, notation.date_format)
        except ValueError as error:
            if isinstance(error, AmbiguousError):
                raise
    rows: dict[Any, list[int]] = {}
    for row, name in enumerate(names):
        if name is None or name != name:
            raise ValueError(f"{id}, row {row + 1}: no name, so that its series is not known.")
        rows.setdefault(name, []).append(row)
    reads = [
        partial(
            Series.of,
            str(name),
            time,
            value,
            _rows(times, own),
            _rows(values, own),
            notation,
            {column: _rows(columns[column], own) for column in selection.regressors},
        )
        for name, own in rows.items()
    ]
    return SeriesReaders([*rows], reads, id, time, "pandas", remarks)


def _rows(cells: Any, rows: list[int]) -> Any:
    return cells[rows] if isinstance(cells, np.ndarray) else [cells[row] for row in rows]
