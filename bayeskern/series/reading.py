"""Read a series from the name of a data set, a file, a data frame, a series or an array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeskern import datasets
from bayeskern.core.formatting import printable_errors, suggestion
from bayeskern.series.cells import read_numbers
from bayeskern.series.columns import (
    INDEX_COLUMN,
    TIME_NAMES,
    SeriesColumns,
    choose_columns,
    choose_time,
    split_id,
    time_label,
)
from bayeskern.series.dates.times import parse_times
from bayeskern.series.files.layout import is_readable
from bayeskern.series.files.tables import DELIMITERS, Table, read_table
from bayeskern.series.read_options import INFERRED, ReadOptions
from bayeskern.series.regressors import Regressors
from bayeskern.series.series import Series

if TYPE_CHECKING:
    import pandas as pd


@printable_errors()
def read_series(
    source: Any,
    times: Any = None,
    time: str | None = None,
    value: str | None = None,
    *,
    regressors: Any = None,
    **options: Any,
) -> Series:
    """Read a series, for `forecast`, `backtest`, `anomalies` and `search_kernel`.

    These functions take the result or, if no option is needed, the source itself. Ambiguous input
    raises an error that names both readings.

    Args:
        source: The name of a data set; the path of a file (CSV or similar text, Excel, Parquet,
            JSON, gzipped or not); a pandas or polars frame or series; or an array, shape (n,), NaN
            for missing values.
        times: Times of the values, (n,), for sources without times.
        time: Time column of a file or a frame; guessed by default.
        value: Value column; required if there are several.
        regressors: Variables with known future values: column names of the file or frame, whose
            last rows have an empty value of the series; or a separate frame with a time column.
        **options: The other fields of
            [`ReadOptions`][bayeskern.series.read_options.ReadOptions].

    Returns:
        The series, with remarks on how it was read.

    Raises:
        ValueError: If the source cannot be read; the message names the column and the row.

    Examples:
        ```python
        series = bk.read_series("sales.xlsx", sheet="2024", value="units")
        bk.forecast(series, 12)
        ```
    """
    frame, names = None, (regressors,) if isinstance(regressors, str) else regressors
    if hasattr(regressors, "columns"):
        frame, names = regressors, ()
    reading = ReadOptions(time=time, value=value, regressors=tuple(names or ()), **options)
    series = _read(source, times, reading)
    if frame is None:
        return series
    if series.regressors is not None:
        raise ValueError(
            f"this series has regressors already ({', '.join(series.regressors.columns)}); pass "
            "all regressors at once."
        )
    if reading.timezone is not None:
        reading = replace(reading, timezone=series.calendar.tz or "UTC")
    return replace(series, regressors=regressors_of(frame, series.time_name, reading))


def _read(source: Any, times: Any, options: ReadOptions) -> Series:
    """Series of any source, with the regressors named in the options."""
    if isinstance(source, Series):
        _refuse({"times": times, **options.given()}, "Pass it to read_series, with the source.")
        return source
    time, is_path = options.time, isinstance(source, str | Path)
    if is_path and str(source) not in datasets.names():
        _refuse({"times": times}, "Name a column of times with time=.")
        path, table = Path(source), table_of(source, options)
        if not options.counts_rows:
            table, time = _with_times(table, time)
        name = path.name.removesuffix(".gz").rsplit(".", 1)[0] or path.name
    elif is_path or hasattr(source, "columns"):
        hint = "Only files have sheets and encodings; name a column of times with time=."
        _refuse({"times": times, **options.given("files")}, hint)
        if is_path:
            data = datasets.load(str(source))
            columns = {data.time_name: data.times, data.value_name: data.values}
            name, table = data.name, Table(columns)
        else:
            name, table = None, table_of(source, options)
    else:
        hint = "An array has no columns: use times= and a frame of regressors."
        _refuse(options.given("columns", "files"), hint)
        name, table = None, _from_values(source, times, options.counts_rows)
    others, id = split_id(table.columns, options)
    columns = choose_columns(replace(table, columns=others), replace(options, time=time))
    if table.header is not None and _is_row_of_data(columns, options):
        delimiter = next((mark for mark in DELIMITERS if mark in table.header), None)
        example = f'"time{delimiter}value"' if delimiter else '"value"'
        raise ValueError(
            f"{source} has no header: its first line is {table.header}. Put a header such as "
            f"{example} before it."
        )
    return Series.from_columns(id or name or columns.value_name, columns, options)


def _refuse(options: Mapping[str, Any], hint: str) -> None:
    """Raise ValueError if one of the options is set."""
    unused = [f"{name}=" for name, value in options.items() if value is not None]
    if unused:
        raise ValueError(f"{', '.join(unused)} cannot be used with this series. {hint}")


def table_of(source: Any, options: ReadOptions) -> Table:
    """Table of a file or a frame.

    Raises:
        ValueError: If there is no such file, with a list of the data sets; or as in `read_table`.
    """
    if not isinstance(source, str | Path):
        return Table(with_index_of_times(source, options))
    path = Path(source)
    if not path.is_file():
        raise ValueError(
            f"{str(source)!r} is neither a file nor a data set."
            f"{suggestion(source, datasets.names())} The data sets are "
            f"{', '.join(datasets.names())}."
        )
    return read_table(path, options)


def columns_of(frame: Any) -> dict[str, list[Any]]:
    """Columns of a pandas or polars frame by name."""
    import narwhals as nw  # slow to import

    table = nw.from_native(frame, eager_only=True)
    return {str(name): table.get_column(name).to_list() for name in table.columns}


def with_index_of_times(frame: Any, options: ReadOptions) -> dict[str, Any]:
    """Columns of a frame by name; the index under `INDEX_COLUMN` if it holds the times."""
    columns, index = columns_of(frame), getattr(frame, "index", None)
    if index is None or not _holds_times(index, list(columns), options.time, options.value):
        return columns
    return columns | {INDEX_COLUMN: index}


def _with_times(table: Table, time: str | None) -> tuple[Table, str | None]:
    """Table of a file with a column of times, and the name of this column if it is known."""
    columns = dict(table.columns)
    if next(iter(columns)) == "" and len(columns) > 1:
        # Other programs write row numbers, or an index of times, in a column without a name.
        index = columns.pop("")
        if time is None and not any(name.lower() in TIME_NAMES for name in columns):
            columns = {"time": index, **columns}
    if len(columns) > 1 or time is not None:
        return replace(table, columns=columns), time
    (name, cells), *_ = columns.items()
    time = "step" if name != "step" else "number"
    columns = {time: np.arange(len(cells)), name: cells}
    remark = f"there is one column only: its times are the numbers 0 to {len(cells) - 1}"
    return replace(table, columns=columns, remarks=(*table.remarks, remark)), time


def _is_row_of_data(columns: SeriesColumns, options: ReadOptions) -> bool:
    """True if the names of the time and value columns could be a row of data."""
    times, time, value = columns.times, columns.time_name, columns.value_name
    is_number = any(is_readable(read_numbers, [value], value, mark, False) for mark in ".,")
    if not is_number and not options.counts_rows:
        return False
    if isinstance(times, np.ndarray):
        return True
    return is_readable(parse_times, [time, *map(str, times)], time, options.date_format)


def regressors_of(frame: Any, time_name: str, options: ReadOptions = INFERRED) -> Regressors:
    """Regressors of a frame, with times in its index or in a column."""
    columns = with_index_of_times(frame, INFERRED)
    known = (name for name in (time_name, INDEX_COLUMN) if name in columns)
    time = choose_time(list(columns), next(known, None))
    times = columns.pop(time)
    columns.pop(INDEX_COLUMN, None)
    table = SeriesColumns(time_label(time, times), times, regressors=columns)
    return Regressors.from_columns(table, options)


def _holds_times(
    index: pd.Index, names: Sequence[str], time: str | None, value: str | None
) -> bool:
    """True if the index of a pandas frame holds the times, rather than one of its columns."""
    if time is not None:
        return time not in names and time == index.name
    if index.dtype.kind == "M" or type(index).__name__ == "PeriodIndex":
        return True
    if any(name.lower() in TIME_NAMES for name in names if name != value):
        return False
    # An unnamed index of numbers holds row numbers, left from a selection or a sort.
    return index.name is not None or index.dtype.kind not in "iuf" or len(names) == 1


def _from_values(source: Any, times: Any, counts_rows: bool) -> Table:
    """Values of an array or a series, with their times under `INDEX_COLUMN`.

    counts_rows: The values of an array without times are the times of events.
    """
    import pandas as pd  # slow to import

    if np.ndim(source) != 1:
        raise ValueError(f"series must be one-dimensional, got shape {np.shape(source)}.")
    name = getattr(source, "name", None)
    values = pd.Series(source)
    if counts_rows and times is None and values.dtype.kind not in "iuf":
        return Table({INDEX_COLUMN: values.to_numpy() if values.dtype.kind == "M" else [*values]})
    times = values.index if times is None else times
    if len(times) != len(values):
        raise ValueError(f"times has {len(times)} entries, and the series {len(values)} values.")
    return Table({INDEX_COLUMN: times, "value" if name in (None, "") else str(name): values})
