"""Reading a series from a data set's name, a file, a data frame, a series or an array.

`files` makes columns out of files; all else is shared.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bayeskern import datasets
from bayeskern.forecast.data.cells import read_numbers
from bayeskern.forecast.data.files import Table, read_table
from bayeskern.forecast.data.files.parts_of_time import joined
from bayeskern.forecast.data.regressors import Regressors
from bayeskern.forecast.data.series import Series
from bayeskern.forecast.data.times import parse_times

# Stands for the index of a frame among the names of its columns.
TIMES = "the index of the frame"
# What people call the time column, in order of preference.
TIME_NAMES = (
    "time", "date", "datetime", "timestamp", "ds", "day", "week", "month", "quarter", "year", "t",
)  # fmt: skip


def read_series(
    source,
    times=None,
    time: str | None = None,
    value: str | None = None,
    *,
    regressors=None,
    every: str | None = None,
    by: str | None = None,
    date_format: str | None = None,
    decimal: str | None = None,
    sheet: str | None = None,
    encoding: str | None = None,
) -> Series:
    """Read a series, for `forecast`, `backtest`, `anomalies` and `search_kernel`.

    Their first argument is either the result or, where no option is needed, the source itself.
    Unambiguous input is read; ambiguous input is refused with both readings.

    Args:
        source: The name of a data set; the path of a file (CSV and its like, Excel, Parquet, JSON,
            gzipped or not); a pandas or polars frame or series; or an array, shape (n,), NaN where
            a value is missing.
        times: One for each value, for sources that have none.
        time: The column of times of a file or a frame; guessed if None, where year and month, year
            and quarter, or date and time of day may stand in two columns.
        value: The column of values; needed if there are several.
        regressors: Variables known for the future too: names of columns of the file or frame, in
            rows whose value is missing; or a frame with a time column of its own. `forecast` takes
            such a frame too, names only where it reads the source itself.
        every: The period of which each value shall be one: "hour", "day", "week", "month",
            "quarter" or "year"; None for the times as they are.
        by: How values of shorter periods make one: "sum", "mean" or "last".
        date_format: How times are written, such as "%d/%m/%Y", where they do not tell.
        decimal: The mark before decimals, "." or ",", where numbers do not tell.
        sheet: The sheet of a workbook; needed if several hold data.
        encoding: The encoding of a file of text; UTF-8 if it is that, else Windows-1252.

    Returns:
        The series, with remarks on what was done to read it.

    Raises:
        ValueError: For what cannot be read, naming the column and the row.

    Examples:
        ```python
        series = bk.read_series("sales.xlsx", sheet="2024", value="units")
        bk.forecast(series, 12)
        ```
    """
    notation = {"date_format": date_format, "decimal": decimal, "every": every, "by": by}
    if hasattr(regressors, "columns"):
        files = {"sheet": sheet, "encoding": encoding}
        series = read_series(source, times, time, value, **files, **notation)
        if series.regressors is not None:
            raise ValueError(
                f"this series has regressors already ({', '.join(series.regressors.columns)}): "
                "give all of them at once."
            )
        beside = _regressors(regressors, series.time_name, date_format, decimal)
        return replace(series, regressors=beside)
    beside = (regressors,) if isinstance(regressors, str) else tuple(regressors or ())
    if isinstance(source, Series):
        asked = {"times": times, "time": time, "value": value, "regressors": beside or None}
        asked |= {"sheet": sheet, "encoding": encoding, **notation}
        ignored = [f"{name}=" for name, option in asked.items() if option is not None]
        if ignored:
            raise ValueError(
                f"this series is read already: pass {', '.join(ignored)} to read_series, with the "
                "source."
            )
        return source
    is_name = isinstance(source, str | Path)
    has_columns = is_name or hasattr(source, "columns")
    if has_columns and times is not None:
        raise ValueError("times= is for arrays; name the column of times with time=.")
    if not has_columns and (time is not None or value is not None or beside):
        raise ValueError(
            "time=, value= and names of regressors are for columns, but this series has none; use "
            "times=, and a frame of regressors."
        )
    is_file = is_name and str(source) not in datasets.names()
    if not is_file and (sheet is not None or encoding is not None):
        raise ValueError("sheet= and encoding= are for files, and this series is none.")
    if is_name:
        return _from_name(source, time, value, beside, sheet, encoding, notation)
    if has_columns:
        return _from_frame(source, time, value, beside, notation)
    return _from_values(source, times, notation)


def _from_name(source: str | Path, time, value, beside, sheet, encoding, notation) -> Series:
    if str(source) in datasets.names():
        data = datasets.load(str(source))
        columns = {data.time_name: data.times, data.value_name: data.values}
        time, value = choose_columns(list(columns), time, value, beside)
        return _from_columns(data.name, columns, time, value, beside, **notation)
    path = require_source(source)
    name = path.name.removesuffix(".gz").rsplit(".", 1)[0] or path.name
    table = read_table(path, sheet, encoding)
    return _from_table(path, name, table, time, value, beside, notation)


def require_source(source: str | Path) -> Path:
    """The path of a file. Raises ValueError, naming the data sets, if there is none."""
    path = Path(source)
    if not path.is_file():
        hint = _did_you_mean(str(source), datasets.names())
        raise ValueError(
            f"{str(source)!r} is neither a file nor a data set.{hint} "
            f"The data sets are {', '.join(datasets.names())}."
        )
    return path


def _from_table(path: Path, name: str, table: Table, time, value, beside, notation) -> Series:
    columns, remarks = dict(table.columns), table.remarks
    if next(iter(columns)) == "" and len(columns) > 1:
        # Other programs write row numbers, or an index of times, in a column without a name.
        index = columns.pop("")
        if time is None and not any(known.lower() in TIME_NAMES for known in columns):
            columns = {"time": index, **columns}
    if len(columns) == 1:
        columns, remarks, time = _with_steps(columns, remarks, time)
    elif time is None:
        columns, time = joined(columns)
    time, value = choose_columns(list(columns), time, value, beside)
    if table.header is not None and _is_row(columns, time, value, notation["date_format"]):
        raise ValueError(
            f"{path} has no header: its first line is {table.header}. "
            f"Put one such as {_example(table.header)} before it."
        )
    options = {"points_may_group": table.points_may_group, "remarks": remarks, **notation}
    return _from_columns(name, columns, time, value, beside, **options)


def _with_steps(columns: dict, remarks: tuple[str, ...], time: str | None):
    """A column alone with numbers for its times."""
    (name, cells), *_ = columns.items()
    if time is not None:
        raise ValueError(f"there is one column only, {name!r}; time={time!r} is none beside it.")
    steps = "step" if name != "step" else "number"
    remark = f"there is one column only: its times are the numbers 0 to {len(cells) - 1}"
    return {steps: np.arange(len(cells)), name: cells}, (*remarks, remark), steps


def _example(header: str) -> str:
    delimiter = next((mark for mark in ";\t|," if mark in header), None)
    return f'"time{delimiter}value"' if delimiter else '"value"'


def _is_row(columns: Mapping, time: str, value: str, date_format: str | None) -> bool:
    """Whether the names of both columns could be one more row of them."""
    if not any(_is_read(read_numbers, [value], value, mark) for mark in ".,"):
        return False
    cells = columns[time]
    if isinstance(cells, np.ndarray):
        return True
    return _is_read(parse_times, [time, *map(str, cells)], time, date_format)


def _is_read(reader, *arguments) -> bool:
    try:
        reader(*arguments)
    except ValueError:
        return False
    return True


def columns_of(frame) -> dict[str, list]:
    """The columns of a pandas or polars frame, by name."""
    import narwhals as nw  # slow to import

    table = nw.from_native(frame, eager_only=True)
    return {str(name): table.get_column(name).to_list() for name in table.columns}


def _from_frame(frame, time: str | None, value: str | None, beside, notation) -> Series:
    columns = columns_of(frame)
    index = getattr(frame, "index", None)
    if index is not None and _is_time(index, list(columns), time, value):
        _, value = choose_columns([*columns, TIMES], TIMES, value, beside)
        time, own = str(index.name or "time"), {name: columns[name] for name in beside}
        return series_of(value, time, value, index, columns[value], regressors=own, **notation)
    if time is None:
        columns, time = joined(columns)
    time, value = choose_columns(list(columns), time, value, beside)
    return _from_columns(value, columns, time, value, beside, **notation)


def _regressors(frame, time_name: str, date_format, decimal) -> Regressors:
    """Those of a frame with times of its own, in its index or in a column."""
    columns, index = columns_of(frame), getattr(frame, "index", None)
    time = time_name if time_name in columns else None
    if time is None and index is not None and _is_time(index, list(columns), None, None):
        times, name = index, str(index.name or "time")
    else:
        name = _choose_time(list(columns), time)
        times = columns.pop(name)
    return Regressors.of(times, columns, name, date_format, decimal)


def _is_time(index, names: list[str], time: str | None, value: str | None) -> bool:
    """Whether the index of a pandas frame holds the times, rather than one of the columns."""
    if time is not None:
        return time not in names and time == index.name
    if index.dtype.kind == "M" or type(index).__name__ == "PeriodIndex":
        return True
    if any(name.lower() in TIME_NAMES for name in names if name != value):
        return False
    # Numbers without a name are what is left of row numbers when rows are chosen or sorted.
    return index.name is not None or index.dtype.kind not in "iuf" or len(names) == 1


def _from_values(source, times, notation) -> Series:
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
    return series_of(name, time_name, name, times, values, **notation)


def _from_columns(
    name: str, columns: Mapping, time: str, value: str, beside: Sequence[str], **options
) -> Series:
    own = {column: columns[column] for column in beside}
    return series_of(name, time, value, columns[time], columns[value], regressors=own, **options)


def series_of(
    name: str, time: str, value: str, times, cells, *, decimal: str | None,
    points_may_group: bool = False, remarks: tuple[str, ...] = (), regressors: Mapping = {},
    **options,
) -> Series:  # fmt: skip
    numbers = read_numbers(cells, value, decimal, points_may_group)
    remarks = (*remarks, *numbers.remarks)
    # In the notation of the file, as the values.
    options["regressors"] = {
        column: read_numbers(own, column, decimal, points_may_group).values
        for column, own in regressors.items()
    }
    return Series.of(name, time, value, times, numbers.values, remarks=remarks, **options)


# -- which column is which -------------------------------------------------------------------------


def choose_columns(
    names: list[str], time: str | None, value: str | None, beside: Sequence[str] = ()
) -> tuple[str, str]:
    """The column of times and that of values, as asked for or as guessed among the others."""
    for name in beside:
        require_column("regressors", name, names)
    names = [name for name in names if name not in beside]
    if value is not None:
        require_column("value", value, names)
    time = _choose_time([name for name in names if name != value], time)
    return time, _choose_value([name for name in names if name != time], value)


def _choose_time(names: list[str], time: str | None) -> str:
    if time is not None:
        return require_column("time", time, names)
    if not names:
        raise ValueError("there is no column of times beside the values.")
    by_lower = {name.lower(): name for name in names}
    return next((by_lower[name] for name in TIME_NAMES if name in by_lower), names[0])


def _choose_value(names: list[str], value: str | None) -> str:
    if value is not None:
        return require_column("value", value, names)
    if not names:
        raise ValueError("there is one column only; wanted one of times and one of values.")
    if len(names) > 1:
        raise ValueError(
            f"which column holds the values? There are {', '.join(names)}; "
            "name it by value= or --value."
        )
    return names[0]


def require_column(argument: str, name: str, names: list[str]) -> str:
    if name in names:
        return name
    hint = _did_you_mean(name, names)
    raise ValueError(f"no {argument} column {name!r}.{hint} The columns are {', '.join(names)}.")


def _did_you_mean(word: str, options: Sequence[str]) -> str:
    nearest = difflib.get_close_matches(word, options, n=1)
    return f" Did you mean {nearest[0]!r}?" if nearest else ""
