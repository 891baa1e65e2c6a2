"""Read a series from the name of a data set, a file, a data frame, a series or an array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeskern import datasets
from bayeskern.forecast.data.cells import read_numbers
from bayeskern.forecast.data.columns import (
    TIME_NAMES,
    Selection,
    choose_columns,
    choose_time,
    did_you_mean,
)
from bayeskern.forecast.data.files import DELIMITERS, read_table
from bayeskern.forecast.data.regressors import Regressors
from bayeskern.forecast.data.series import Notation, Series
from bayeskern.forecast.data.times import parse_times

if TYPE_CHECKING:
    import pandas as pd

# Key of the index of a frame among its columns.
INDEX_COLUMN = "the index of the frame"


def read_series(
    source: Any,
    times: Any = None,
    time: str | None = None,
    value: str | None = None,
    *,
    regressors: Any = None,
    every: str | None = None,
    by: str | None = None,
    date_format: str | None = None,
    decimal: str | None = None,
    sheet: str | None = None,
    encoding: str | None = None,
) -> Series:
    """Read a series, for `forecast`, `backtest`, `anomalies` and `search_kernel`.

    These functions take the result or, where no option is needed, the source itself. Ambiguous
    input is refused, and the error names both readings.

    Args:
        source: The name of a data set; the path of a file (CSV or similar text, Excel, Parquet,
            JSON, gzipped or not); a pandas or polars frame or series; or an array, shape (n,), NaN
            for missing values.
        times: Times of the values, (n,), for sources without times.
        time: Time column of a file or a frame. None guesses it, and joins year and month, year and
            quarter, or date and time of day if they are separate columns.
        value: Value column; required if there are several.
        regressors: Variables known for the future too: names of columns of the file or frame, whose
            last rows have no value of the series; or a frame with a time column of its own.
        every: Aggregate to one value per "hour", "day", "week", "month", "quarter" or "year"; None
            keeps the times.
        by: How values are aggregated: "sum", "mean" or "last".
        date_format: Form of the times, such as "%d/%m/%Y", if the times are ambiguous.
        decimal: Decimal mark, "." or ",", if the numbers are ambiguous.
        sheet: Sheet of a workbook; required if several hold data.
        encoding: Encoding of a text file; by default UTF-8, or else Windows-1252.

    Returns:
        The series, with remarks on how it was read.

    Raises:
        ValueError: If the source cannot be read, naming the column and the row.

    Examples:
        ```python
        series = bk.read_series("sales.xlsx", sheet="2024", value="units")
        bk.forecast(series, 12)
        ```
    """
    notation = Notation(date_format, decimal, every, by)
    if hasattr(regressors, "columns"):
        files = {"sheet": sheet, "encoding": encoding}
        series = read_series(source, times, time, value, **files, **notation.options())
        if series.regressors is not None:
            raise ValueError(
                f"this series has regressors already ({', '.join(series.regressors.columns)}): "
                "give all of them at once."
            )
        return replace(series, regressors=_from_frame(regressors, series.time_name, notation))
    names = (regressors,) if isinstance(regressors, str) else tuple(regressors or ())
    selection = Selection(time, value, names, sheet, encoding)
    if isinstance(source, Series):
        options = {"times": times, **selection._asdict(), **notation.options()}
        options["regressors"] = names or None
        ignored = [f"{name}=" for name, option in options.items() if option is not None]
        if ignored:
            raise ValueError(
                f"this series is read already: pass {', '.join(ignored)} to read_series, with the "
                "source."
            )
        return source
    is_path = isinstance(source, str | Path)
    is_file = is_path and str(source) not in datasets.names()
    has_columns = is_path or hasattr(source, "columns")
    if has_columns and times is not None:
        raise ValueError("times= is for arrays; name the column of times with time=.")
    if not has_columns and (time is not None or value is not None or names):
        raise ValueError(
            "time=, value= and names of regressors are for columns, but this series has none; use "
            "times=, and a frame of regressors."
        )
    if not is_file and (sheet is not None or encoding is not None):
        raise ValueError("sheet= and encoding= are for files, and this series is none.")
    if is_file:
        return _from_file(require_source(source), selection, notation)
    if not has_columns:
        return _from_values(source, times, notation)
    if is_path:
        data = datasets.load(str(source))
        name, columns = data.name, {data.time_name: data.times, data.value_name: data.values}
    else:
        name, columns = None, columns_of(source)
        index = getattr(source, "index", None)
        if index is not None and _holds_times(index, list(columns), time, value):
            columns, time = columns | {INDEX_COLUMN: index}, INDEX_COLUMN
    columns, time, value = choose_columns(columns, selection._replace(time=time))
    time_name = str(columns[time].name or "time") if time == INDEX_COLUMN else time
    chosen = {name: columns[name] for name in names}
    return Series.of(
        name or value, time_name, value, columns[time], columns[value], notation, chosen
    )


def require_source(source: str | Path) -> Path:
    """Path of an existing file. Raises ValueError, naming the data sets, if there is none."""
    path = Path(source)
    if not path.is_file():
        raise ValueError(
            f"{str(source)!r} is neither a file nor a data set."
            f"{did_you_mean(str(source), datasets.names())} "
            f"The data sets are {', '.join(datasets.names())}."
        )
    return path


def columns_of(frame: Any) -> dict[str, list[Any]]:
    """Columns of a pandas or polars frame by name."""
    import narwhals as nw  # slow to import

    table = nw.from_native(frame, eager_only=True)
    return {str(name): table.get_column(name).to_list() for name in table.columns}


def _from_file(path: Path, selection: Selection, notation: Notation) -> Series:
    table = read_table(path, selection.sheet, selection.encoding)
    columns, remarks, time = dict(table.columns), table.remarks, selection.time
    if next(iter(columns)) == "" and len(columns) > 1:
        # Other programs write row numbers, or an index of times, in a column without a name.
        index = columns.pop("")
        if time is None and not any(name.lower() in TIME_NAMES for name in columns):
            columns = {"time": index, **columns}
    if len(columns) == 1:
        (name, cells), *_ = columns.items()
        if time is not None:
            raise ValueError(
                f"there is one column only, {name!r}; time={time!r} is none beside it."
            )
        time = "step" if name != "step" else "number"
        columns = {time: np.arange(len(cells)), name: cells}
        last = len(cells) - 1
        remarks = (*remarks, f"there is one column only: its times are the numbers 0 to {last}")
    columns, time, value = choose_columns(columns, selection._replace(time=time))
    if table.header is not None and _is_row_of_data(columns[time], time, value, notation):
        delimiter = next((mark for mark in DELIMITERS if mark in table.header), None)
        example = f'"time{delimiter}value"' if delimiter else '"value"'
        raise ValueError(
            f"{path} has no header: its first line is {table.header}. Put one such as {example} "
            "before it."
        )
    return Series.of(
        path.name.removesuffix(".gz").rsplit(".", 1)[0] or path.name,
        time,
        value,
        columns[time],
        columns[value],
        notation._replace(points_may_group=table.points_may_group),
        {name: columns[name] for name in selection.regressors},
        remarks,
    )


def _is_row_of_data(times: Sequence[Any], time: str, value: str, notation: Notation) -> bool:
    """True if the names of the time and value columns could be another row of them."""
    if not any(_is_readable(read_numbers, [value], value, mark) for mark in ".,"):
        return False
    if isinstance(times, np.ndarray):
        return True
    return _is_readable(parse_times, [time, *map(str, times)], time, notation.date_format)


def _is_readable(reader: Callable, *arguments: Any) -> bool:
    try:
        reader(*arguments)
    except ValueError:
        return False
    return True


def _from_frame(frame: Any, time_name: str, notation: Notation) -> Regressors:
    """Regressors of a frame, with times in its index or in a column."""
    columns, index = columns_of(frame), getattr(frame, "index", None)
    time = time_name if time_name in columns else None
    if time is None and index is not None and _holds_times(index, list(columns), None, None):
        times, name = index, str(index.name or "time")
    else:
        name = choose_time(list(columns), time)
        times = columns.pop(name)
    return Regressors.of(times, columns, name, notation.date_format, notation.decimal)


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
    # An unnamed index of numbers holds the row numbers left over from a selection or a sort.
    return index.name is not None or index.dtype.kind not in "iuf" or len(names) == 1


def _from_values(source: Any, times: Any, notation: Notation) -> Series:
    import pandas as pd  # slow to import

    if np.ndim(source) != 1:
        raise ValueError(f"series must be one-dimensional, got shape {np.shape(source)}.")
    name = getattr(source, "name", None)
    name = "value" if name is None or name == "" else str(name)
    values = pd.Series(source)
    time_name = "time" if times is not None else str(values.index.name or "time")
    times = values.index if times is None else times
    if len(times) != len(values):
        raise ValueError(f"times has {len(times)} entries but the series has {len(values)} values.")
    return Series.of(name, time_name, name, times, values, notation)
