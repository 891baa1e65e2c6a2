"""Reading a series: a data set's name, a CSV file, a data frame, a series or an array."""

from __future__ import annotations

import csv
import difflib
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bayeskern import datasets
from bayeskern.core.formatting import counted
from bayeskern.forecast.calendar import Calendar, read_calendar
from bayeskern.forecast.times import parse_times, zone_of

# Fewer values than this cannot show a level, a change and a spread.
FEWEST = 3
# What people call the time column, in order of preference.
TIME_NAMES = (
    "time", "date", "datetime", "timestamp", "ds", "day", "week", "month", "quarter", "year", "t",
)  # fmt: skip
MISSING = {"", "na", "n/a", "<na>", "nan", "nat", "null", "none", "."}
# Numbers with a comma for a point, and those of them in which it may part thousands instead.
DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")

# The column without a name that other programs write before the rest.
ROW_NUMBER = "row number"


@dataclass(frozen=True, eq=False)
class Series:
    """Values at sorted times, NaN where missing; the last one is not."""

    name: str
    time_name: str
    value_name: str
    values: np.ndarray
    calendar: Calendar
    remarks: tuple[str, ...]

    @property
    def times(self) -> np.ndarray:
        return self.calendar.times

    @property
    def observed(self) -> np.ndarray:
        return np.isfinite(self.values)

    def on_grid(self) -> np.ndarray:
        """The values at each step of the calendar, NaN in its gaps."""
        steps = self.calendar.steps()
        values = np.full(steps[-1] + 1, np.nan)
        values[steps] = self.values
        return values

    def until(self, count: int) -> Series:
        """The series up to the last value among the first `count` times, its frequency known."""
        last = int(np.flatnonzero(self.observed[:count])[-1]) + 1
        calendar = replace(self.calendar, times=self.times[:last], remarks=())
        return replace(self, values=self.values[:last], calendar=calendar, remarks=())


def read_series(source, times=None, time: str | None = None, value: str | None = None) -> Series:
    """Read a series from a data set's name, a CSV path, a frame, a series or an array.

    times: one for each value, for sources that have none. time, value: the columns to use; they
    are guessed where there is only one choice. Raises ValueError naming the column and the row.
    """
    if isinstance(source, Series):
        return source
    has_columns = isinstance(source, str | Path) or hasattr(source, "columns")
    if has_columns and times is not None:
        raise ValueError("times= is for arrays; name the column of times with time=.")
    if not has_columns and (time is not None or value is not None):
        raise ValueError("time= and value= name columns, but this series has none; use times=.")
    if isinstance(source, str | Path):
        return _from_name(source, time, value)
    return _from_frame(source, time, value) if has_columns else _from_values(source, times)


def _from_name(source, time, value) -> Series:
    if str(source) in datasets.names():
        data = datasets.load(str(source))
        _named("time", time or data.time_name, [data.time_name])
        _named("value", value or data.value_name, [data.value_name])
        return build(data.name, data.time_name, data.value_name, data.times, data.values)
    path = Path(source)
    if not path.is_file():
        near = difflib.get_close_matches(str(source), datasets.names(), n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(
            f"{str(source)!r} is neither a file nor a data set.{hint} "
            f"The data sets are {', '.join(datasets.names())}."
        )
    return _from_csv(path, time, value)


def _from_csv(path: Path, time, value) -> Series:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            sample = file.read(4096)
            file.seek(0)
            delimiter = _delimiter(sample)
            rows = [row for row in csv.reader(file, delimiter=delimiter)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} is not a CSV file in UTF-8: {error}.") from None
    rows = [row for row in rows if any(cell.strip() for cell in row)]
    if len(rows) < 2:
        raise ValueError(
            f"{path} has {'no rows' if not rows else 'a header but no rows'}; wanted a header and "
            f"at least {FEWEST} rows of a time and a value."
        )
    header, *rows = rows
    header = [name.strip() for name in header]
    if header[0] == "":
        others = time is not None or any(name.lower() in TIME_NAMES for name in header)
        header[0] = ROW_NUMBER if others else "time"
    if len(set(header)) < len(header):
        raise ValueError(f"{path} has two columns of the same name: {', '.join(header)}.")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(header):
            raise ValueError(
                f"{path}, row {number}: {len(row)} cells, but the header has {len(header)}."
            )
    cells = [[cell.strip() for cell in column] for column in zip(*rows, strict=True)]
    columns = dict(zip(header, cells, strict=True))
    time, value = _columns([name for name in header if name != ROW_NUMBER], time, value)
    if _is_data(columns, time, value):
        raise ValueError(
            f"{path} has no header: its first line is {delimiter.join(header)}. "
            f'Put one such as "time{delimiter}value" before it.'
        )
    cells = _with_points(columns[value]) if delimiter == ";" else columns[value]
    return build(path.stem, time, value, columns[time], _numbers(cells, value))


def _delimiter(sample: str) -> str:
    """The one that the header has most of, outside quotes.

    Commas come last: where lines are split by another, they stand in names and decimals.
    """
    lines = (line for line in sample.splitlines() if line.strip())
    line = re.sub(r'"[^"]*"', "", next(lines, ""))
    return max(";\t,", key=line.count)


def _is_data(columns: dict[str, list[str]], time: str, value: str) -> bool:
    """Whether the names of both columns could be one more row of them."""
    try:
        parse_times([time, *columns[time]])
        _numbers(_with_points([value]), value)
    except ValueError:
        return False
    return True


def _with_points(cells: list[str]) -> list[str]:
    """Decimal commas as points, where some cell shows that they part no thousands."""
    commas = [cell for cell in cells if DECIMAL_COMMA.fullmatch(cell)]
    with_points = any("." in cell for cell in cells if cell not in MISSING)
    if with_points or all(THOUSANDS.fullmatch(cell) for cell in commas):
        return cells
    return [cell.replace(",", ".") if DECIMAL_COMMA.fullmatch(cell) else cell for cell in cells]


def _from_frame(frame, time, value) -> Series:
    import narwhals as nw

    table = nw.from_native(frame, eager_only=True)
    columns = {str(name): table.get_column(name).to_list() for name in table.columns}
    index = getattr(frame, "index", None)
    if index is not None and _index_is_time(index, list(columns), time, value):
        times, time_name = _plain_times(index), str(index.name or "time")
        value = _value_column(list(columns), value)
    else:
        time_name, value = _columns(list(columns), time, value)
        times = _plain_times(columns[time_name])
    return build(value, time_name, value, times, _numbers(columns[value], value))


def _index_is_time(index, names: list[str], time, value) -> bool:
    """Whether the index of a pandas frame holds the times, rather than one of the columns."""
    if time is not None:
        return time not in names and time == index.name
    if type(index).__name__ in ("DatetimeIndex", "PeriodIndex"):
        return True
    if any(name.lower() in TIME_NAMES for name in names if name != value):
        return False
    # Numbers without a name are what is left of row numbers when rows are chosen or sorted.
    return index.name is not None or index.dtype.kind not in "iuf" or len(names) == 1


def _from_values(source, times) -> Series:
    name = getattr(source, "name", None)
    name = "value" if name is None or name == "" else str(name)
    # Lists and tuples have a method of this name.
    index = None if callable(getattr(source, "index", None)) else getattr(source, "index", None)
    values = np.asarray(source.to_list() if hasattr(source, "to_list") else source)
    if values.ndim != 1:
        raise ValueError(f"series must be one-dimensional, got shape {values.shape}.")
    time_name = "time"
    if times is None and index is not None:
        times, time_name = index, str(index.name or "time")
    times = _plain_times(np.arange(len(values)) if times is None else times)
    if len(times) != len(values):
        raise ValueError(f"times has {len(times)} entries but the series has {len(values)} values.")
    return build(name, time_name, name, times, _numbers(values, name))


def _plain_times(times):
    """The times of pandas as Python and NumPy know them; periods by their start."""
    if type(times).__name__ == "PeriodIndex":
        times = times.to_timestamp()
    if type(times).__name__ == "DatetimeIndex":
        return times.to_numpy() if times.tz is None else list(times.to_pydatetime())
    if hasattr(times, "dtype"):
        return times
    return [t.to_timestamp() if type(t).__name__ == "Period" else t for t in times]


def build(name, time_name, value_name, times, values, tz=None) -> Series:
    """Sort, drop what is missing at the end, read the calendar; say what was done."""
    remarks = []
    values = np.asarray(values, float)
    if not np.any(np.isfinite(values)):
        what = "is empty" if len(values) == 0 else f"has {len(values)} rows but no value"
        raise ValueError(f"{value_name}: the series {what}; wanted at least {FEWEST} numbers.")
    tz = tz or zone_of(times)
    if tz is None and _has_offset(times):
        remarks.append("times with an offset are shown in UTC: give datetimes of a time zone")
    times = parse_times(times, time_name)
    order = np.argsort(times, kind="stable")
    if not np.array_equal(order, np.arange(len(order))):
        times, values = times[order], values[order]
        remarks.append("the times were not in order and have been sorted")
    last = int(np.flatnonzero(np.isfinite(values))[-1]) + 1
    if last < len(values):
        rows = "row at the end has" if len(values) - last == 1 else "rows at the end have"
        remarks.append(f"{len(values) - last} {rows} no value: forecast too")
        times, values = times[:last], values[:last]
    missing = int(np.sum(~np.isfinite(values)))
    if missing:
        remarks.append(f"{missing} missing value{'s' * (missing > 1)} left out of the fit")
    if len(values) - missing < FEWEST:
        raise ValueError(
            f"{value_name} has {counted(len(values) - missing, 'value')}; wanted at least {FEWEST}."
        )
    calendar = read_calendar(times, tz, time_name)
    remarks += calendar.remarks
    return Series(name, time_name, value_name, values, calendar, tuple(remarks))


def _has_offset(times) -> bool:
    first = next(iter(times), None)
    if isinstance(first, str):
        return re.search(r"\d[T ]\d.*[+-](?!00:?00)\d\d:?\d\d$", first.strip()) is not None
    return bool(getattr(first, "utcoffset", lambda: None)())


def _columns(names: list[str], time: str | None, value: str | None) -> tuple[str, str]:
    """The column of times and that of values, as wanted or as guessed."""
    if value is not None:
        _named("value", value, names)
    time = _time_column([name for name in names if name != value], time)
    return time, _value_column([name for name in names if name != time], value)


def _time_column(names: list[str], wanted: str | None) -> str:
    if wanted is not None:
        return _named("time", wanted, names)
    if not names:
        raise ValueError("there is no column of times beside the values.")
    by_name = {name.lower(): name for name in names}
    return next((by_name[n] for n in TIME_NAMES if n in by_name), names[0])


def _value_column(names: list[str], wanted: str | None) -> str:
    if wanted is not None:
        return _named("value", wanted, names)
    if not names:
        raise ValueError("there is one column only; wanted one of times and one of values.")
    if len(names) > 1:
        listed = ", ".join(names)
        raise ValueError(
            f"which column holds the values? There are {listed}; name it by value= or --value."
        )
    return names[0]


def _named(argument: str, wanted: str, names: list[str]) -> str:
    if wanted in names:
        return wanted
    near = difflib.get_close_matches(wanted, names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"no {argument} column {wanted!r}.{hint} The columns are {', '.join(names)}.")


def _numbers(cells, name: str) -> np.ndarray:
    """Numbers, with NaN for what is missing. Raises ValueError with the row of anything else."""
    values = np.full(len(cells), np.nan)
    for i, cell in enumerate(cells):
        # pandas has missing values of its own, which print as <NA> and NaT
        if cell is None or str(cell).strip().lower() in MISSING:
            continue
        try:
            values[i] = float(cell)
        except (TypeError, ValueError):
            raise ValueError(
                f"{name}, row {i + 1}: {str(cell)!r} is not a number. "
                "Write it as in 1234.5, with a point and no thousands separator; "
                "leave the cell empty if the value is missing."
            ) from None
        if np.isinf(values[i]):
            raise ValueError(f"{name}, row {i + 1}: the value is infinite.")
    return values
