"""Reading a series from a data set's name, a CSV file, a data frame, a series or an array.

A reader of a new format returns its columns by name, as text or as they are; all else is shared.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from bayeskern import datasets
from bayeskern.forecast.cells import parse_numbers
from bayeskern.forecast.csv_file import read_csv
from bayeskern.forecast.series import Series
from bayeskern.forecast.times import parse_times

# What people call the time column, in order of preference.
TIME_NAMES = (
    "time", "date", "datetime", "timestamp", "ds", "day", "week", "month", "quarter", "year", "t",
)  # fmt: skip


def read_series(source, times=None, time: str | None = None, value: str | None = None) -> Series:
    """Read a series from a data set's name, a CSV path, a frame, a series or an array.

    times: one for each value, for sources that have none. time, value: the columns to use; they
    are guessed where there is only one choice. Raises ValueError naming the column and the row.
    """
    if isinstance(source, Series):
        return source
    is_name = isinstance(source, str | Path)
    has_columns = is_name or hasattr(source, "columns")
    if has_columns and times is not None:
        raise ValueError("times= is for arrays; name the column of times with time=.")
    if not has_columns and (time is not None or value is not None):
        raise ValueError("time= and value= name columns, but this series has none; use times=.")
    if is_name:
        return _from_name(source, time, value)
    return _from_frame(source, time, value) if has_columns else _from_values(source, times)


def _from_name(source: str | Path, time: str | None, value: str | None) -> Series:
    if str(source) in datasets.names():
        data = datasets.load(str(source))
        columns = {data.time_name: data.times, data.value_name: data.values}
        return _from_columns(data.name, columns, *_choose(list(columns), time, value))
    path = Path(source)
    if not path.is_file():
        hint = _did_you_mean(str(source), datasets.names())
        raise ValueError(
            f"{str(source)!r} is neither a file nor a data set.{hint} "
            f"The data sets are {', '.join(datasets.names())}."
        )
    return _from_csv(path, time, value)


def _from_csv(path: Path, time: str | None, value: str | None) -> Series:
    frame, delimiter = read_csv(path)
    if frame.columns[0] == "":
        # Other programs write row numbers, or an index of times, in a column without a name.
        if time is not None or any(name.lower() in TIME_NAMES for name in frame.columns):
            frame = frame.drop(columns="")
        else:
            frame = frame.rename(columns={"": "time"})
    time, value = _choose(list(frame), time, value)
    if _is_row(frame, time, value):
        raise ValueError(
            f"{path} has no header: its first line is {delimiter.join(frame)}. "
            f'Put one such as "time{delimiter}value" before it.'
        )
    return _from_columns(path.stem, frame, time, value)


def _is_row(frame, time: str, value: str) -> bool:
    """Whether the names of both columns could be one more row of them."""
    try:
        parse_times([time, *frame[time]])
        parse_numbers([value.replace(",", ".")], value)
    except ValueError:
        return False
    return True


def _from_frame(frame, time: str | None, value: str | None) -> Series:
    import narwhals as nw  # slow to import

    table = nw.from_native(frame, eager_only=True)
    columns = {str(name): table.get_column(name).to_list() for name in table.columns}
    index = getattr(frame, "index", None)
    if index is None or not _is_time(index, list(columns), time, value):
        time, value = _choose(list(columns), time, value)
        return _from_columns(value, columns, time, value)
    value = _choose_value(list(columns), value)
    numbers = parse_numbers(columns[value], value)
    return Series.of(value, str(index.name or "time"), value, index, numbers)


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


def _from_values(source, times) -> Series:
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
    return Series.of(name, time_name, name, times, parse_numbers(values, name))


def _from_columns(name: str, columns: Mapping, time: str, value: str) -> Series:
    return Series.of(name, time, value, columns[time], parse_numbers(columns[value], value))


# -- which column is which -------------------------------------------------------------------------


def _choose(names: list[str], time: str | None, value: str | None) -> tuple[str, str]:
    """The column of times and that of values, as asked for or as guessed."""
    if value is not None:
        _require_column("value", value, names)
    time = _choose_time([name for name in names if name != value], time)
    return time, _choose_value([name for name in names if name != time], value)


def _choose_time(names: list[str], time: str | None) -> str:
    if time is not None:
        return _require_column("time", time, names)
    if not names:
        raise ValueError("there is no column of times beside the values.")
    by_lower = {name.lower(): name for name in names}
    return next((by_lower[name] for name in TIME_NAMES if name in by_lower), names[0])


def _choose_value(names: list[str], value: str | None) -> str:
    if value is not None:
        return _require_column("value", value, names)
    if not names:
        raise ValueError("there is one column only; wanted one of times and one of values.")
    if len(names) > 1:
        raise ValueError(
            f"which column holds the values? There are {', '.join(names)}; "
            "name it by value= or --value."
        )
    return names[0]


def _require_column(argument: str, name: str, names: list[str]) -> str:
    if name in names:
        return name
    hint = _did_you_mean(name, names)
    raise ValueError(f"no {argument} column {name!r}.{hint} The columns are {', '.join(names)}.")


def _did_you_mean(word: str, options: Sequence[str]) -> str:
    nearest = difflib.get_close_matches(word, options, n=1)
    return f" Did you mean {nearest[0]!r}?" if nearest else ""
