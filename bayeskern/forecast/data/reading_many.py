"""Many series as they come: below one another in a frame or a file, in a dict or a list."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayeskern.forecast.data.cells import AmbiguousError, Numbers, read_numbers
from bayeskern.forecast.data.files import read_table
from bayeskern.forecast.data.files.parts_of_time import joined
from bayeskern.forecast.data.reading import (
    choose_columns,
    columns_of,
    read_series,
    require_column,
    require_source,
    series_of,
)
from bayeskern.forecast.data.series import remarks_on_times
from bayeskern.forecast.data.times import parse_times


class Many(NamedTuple):
    """Many series that have yet to be read, in the order in which they came.

    ids: what names each; reads: functions without arguments, which read them; id_name, time_name:
    the columns of names and times; backend: the kind of frame that came, "pandas" or "polars";
    remarks: what was done to read the file or the frame.
    """

    ids: list
    reads: list[Callable]
    id_name: str
    time_name: str
    backend: Any
    remarks: tuple[str, ...]


def read_many(series, id, time, value, regressors, sheet, encoding, notation: dict) -> Many:
    """Find the series of what `forecast_many` takes.

    notation: further arguments of `series_of`. Raises ValueError if it cannot be read at all.
    """
    is_file = isinstance(series, str | Path)
    if not is_file and (sheet is not None or encoding is not None):
        raise ValueError("sheet= and encoding= are for files, and these series are none.")
    if is_file or hasattr(series, "columns"):
        table = read_table(require_source(series), sheet, encoding) if is_file else None
        columns = columns_of(series) if table is None else dict(table.columns)
        group = table is not None and table.points_may_group
        ids, reads, time_name, remarks = _long(
            columns, id, time, value, regressors, notation, group
        )
        id_name, backend = id, _backend(series)
        remarks = (*(table.remarks if table is not None else ()), *remarks)
    else:
        if any(name is not None for name in (id, time, value)) or regressors:
            raise ValueError("id=, time=, value= and regressors= name columns: this is no frame.")
        named = series if isinstance(series, Mapping) else dict(enumerate(series))
        ids, id_name, time_name, backend, remarks = [*named], "id", "time", "pandas", ()
        reads = [partial(read_series, one, **notation) for one in named.values()]
    if not ids:
        raise ValueError("there is no series to forecast.")
    return Many(ids, reads, id_name, time_name, backend, remarks)


def _long(columns: dict, id: str | None, time, value, beside, notation, group: bool):
    """Names, readers, the column of times and remarks, of series below one another."""
    if id is None:
        raise ValueError(f"which column names the series? id= one of {', '.join(columns)}.")
    require_column("id", id, list(columns))
    names = columns[id]
    columns = {name: cells for name, cells in columns.items() if name != id}
    if time is None:
        columns, time = joined(columns)
    time, value = choose_columns(list(columns), time, value, beside)
    # Together, since one series may tell how the others are written.
    numbers = _together(
        partial(read_numbers, columns[value], value, notation["decimal"], group),
        Numbers(columns[value]),
    )
    times, remarks = columns[time], numbers.remarks
    if any(isinstance(cell, str) for cell in times[:1]):
        remarks += remarks_on_times(times, time)
        times = _together(partial(parse_times, times, time, notation["date_format"]), times)
    rows: dict[Any, list[int]] = {}
    for row, name in enumerate(names):
        rows.setdefault(None if name is None or name != name else name, []).append(row)
    if None in rows:
        row = rows[None][0] + 1
        raise ValueError(f"{id}, row {row}: no name, so that its series is not known.")
    reads = []
    for name, own in rows.items():
        cells = _rows(times, own), _rows(numbers.values, own)
        options = {"regressors": {column: _rows(columns[column], own) for column in beside}}
        options |= {"points_may_group": group, **notation}
        reads.append(partial(series_of, str(name), time, value, *cells, **options))
    return [*rows], reads, time, remarks


def _together(read: Callable, otherwise):
    """A column as it is read; otherwise where a row cannot be, as the series that has it will say.

    Raises AmbiguousError, which is the affair of all.
    """
    try:
        return read()
    except AmbiguousError:
        raise
    except ValueError:
        return otherwise


def _rows(cells, rows: list[int]):
    """Some of the cells of a column."""
    return cells[rows] if isinstance(cells, np.ndarray) else [cells[row] for row in rows]


def _backend(series):
    """The kind of frame that came."""
    if isinstance(series, str | Path):
        return "pandas"
    import narwhals as nw  # slow to import

    return nw.get_native_namespace(series)
