"""Reading a series: a data set's name, a CSV file, a data frame, a series or an array."""

from __future__ import annotations

import csv
import difflib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bayeskern import datasets
from bayeskern.forecast.calendar import Calendar, read_calendar
from bayeskern.forecast.times import parse_times, zone_of

# Fewer values than this cannot show a level, a change and a spread.
FEWEST = 3
# What people call the time column, in order of preference.
TIME_NAMES = (
    "time", "date", "datetime", "timestamp", "ds", "day", "week", "month", "quarter", "year", "t",
)  # fmt: skip
MISSING = {"", "na", "n/a", "nan", "null", "none", "."}


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

    def until(self, count: int) -> Series:
        """The first `count` times, as if the rest had not happened yet."""
        values, times = self.values[:count], self.times[:count]
        return build(self.name, self.time_name, self.value_name, times, values, self.calendar.tz)


def read_series(source, times=None, time: str | None = None, value: str | None = None) -> Series:
    """Read a series from a data set's name, a CSV path, a frame, a series or an array.

    times: one for each value, for sources that have none. time, value: the columns to use; they
    are guessed where there is only one choice. Raises ValueError naming the column and the row.
    """
    if isinstance(source, Series):
        return source
    if isinstance(source, str | Path):
        return _from_name(source, time, value)
    if hasattr(source, "columns"):
        return _from_frame(source, time, value)
    return _from_values(source, times)


def _from_name(source, time, value) -> Series:
    if str(source) in datasets.names():
        data = datasets.load(str(source))
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
            rows = [row for row in csv.reader(file, delimiter=_delimiter(sample)) if any(row)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} is not a CSV file in UTF-8: {error}.") from None
    if len(rows) < 2:
        raise ValueError(
            f"{path} has {'no rows' if not rows else 'a header but no rows'}; wanted a header and "
            f"at least {FEWEST} rows of a time and a value."
        )
    header, *rows = rows
    header = [name.strip() for name in header]
    if len(set(header)) < len(header):
        raise ValueError(f"{path} has two columns of the same name: {', '.join(header)}.")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(header):
            raise ValueError(
                f"{path}, row {number}: {len(row)} cells, but the header has {len(header)}."
            )
    columns = dict(
        zip(header, ([cell.strip() for cell in c] for c in zip(*rows, strict=True)), strict=True)
    )
    time = _time_column(header, time)
    value = _value_column([name for name in header if name != time], value)
    values = _numbers(columns[value], value)
    return build(path.stem, time, value, columns[time], values)


def _delimiter(sample: str) -> str:
    line = sample.splitlines()[0] if sample.strip() else ""
    return max(",;\t", key=line.count)


def _from_frame(frame, time, value) -> Series:
    import narwhals as nw

    table = nw.from_native(frame, eager_only=True)
    names = list(table.columns)
    index = getattr(frame, "index", None)
    if time is None and index is not None and _is_dated(index):
        times, time_name = _index_times(index), index.name or "time"
    else:
        time_name = _time_column(names, time)
        column = table[time_name]
        times = list(column.to_list()) if column.dtype != nw.String else column.to_list()
    value = _value_column([name for name in names if name != time_name], value)
    return build(value, time_name, value, times, _numbers(table[value].to_list(), value))


def _from_values(source, times) -> Series:
    name = getattr(source, "name", None) or "value"
    index = getattr(source, "index", None)
    if times is None and index is not None and not callable(index) and _is_dated(index):
        times = _index_times(index)
    values = source.to_list() if hasattr(source, "to_list") else source
    values = np.asarray(values)
    if values.ndim != 1:
        raise ValueError(f"series must be one-dimensional, got shape {values.shape}.")
    time_name = (getattr(index, "name", None) if not callable(index) else None) or "time"
    if times is None:
        times = np.arange(len(values)) if len(values) else []
    if len(times) != len(values):
        raise ValueError(f"times has {len(times)} entries but the series has {len(values)} values.")
    return build(str(name), str(time_name), str(name), times, _numbers(values, str(name)))


def _is_dated(index) -> bool:
    """A pandas index of dates, periods or numbers other than the running row number."""
    return type(index).__name__ not in ("RangeIndex", "builtin_function_or_method")


def _index_times(index):
    if hasattr(index, "to_timestamp"):
        index = index.to_timestamp()
    return list(index.to_pydatetime()) if hasattr(index, "to_pydatetime") else index.to_list()


def build(name, time_name, value_name, times, values, tz=None) -> Series:
    """Sort, drop what is missing at the end, read the calendar; say what was done."""
    remarks = []
    values = np.asarray(values, float)
    if not np.any(np.isfinite(values)):
        what = "is empty" if len(values) == 0 else f"has {len(values)} rows but no value"
        raise ValueError(f"{value_name}: the series {what}; wanted at least {FEWEST} numbers.")
    tz = tz or zone_of(times)
    times = parse_times(times, time_name)
    order = np.argsort(times, kind="stable")
    if not np.array_equal(order, np.arange(len(order))):
        times, values = times[order], values[order]
        remarks.append("the times were not in order and have been sorted")
    last = int(np.flatnonzero(np.isfinite(values))[-1]) + 1
    if last < len(values):
        remarks.append(
            f"{len(values) - last} rows at the end have no value; the forecast starts before them"
        )
        times, values = times[:last], values[:last]
    missing = int(np.sum(~np.isfinite(values)))
    if missing:
        remarks.append(f"{missing} missing value{'s' * (missing > 1)} left out of the fit")
    if len(values) - missing < FEWEST:
        raise ValueError(
            f"{value_name} has {len(values) - missing} values; wanted at least {FEWEST}."
        )
    calendar = read_calendar(times, tz, time_name)
    remarks += calendar.remarks
    return Series(name, time_name, value_name, values, calendar, tuple(remarks))


def _time_column(names: list[str], wanted: str | None) -> str:
    if wanted is not None:
        return _named("time", wanted, names)
    by_name = {name.lower(): name for name in names}
    found = next((by_name[n] for n in TIME_NAMES if n in by_name), None)
    if found is None:
        return names[0]
    return found


def _value_column(names: list[str], wanted: str | None) -> str:
    if wanted is not None:
        return _named("value", wanted, names)
    if len(names) != 1:
        listed = ", ".join(names) or "none beside the time"
        raise ValueError(f"which column holds the values? There are {listed}; say value=NAME.")
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
        if cell is None or (isinstance(cell, str) and cell.lower() in MISSING):
            continue
        try:
            values[i] = float(cell)
        except (TypeError, ValueError):
            raise ValueError(
                f"{name}, row {i + 1}: {str(cell)!r} is not a number. "
                "Leave the cell empty if the value is missing."
            ) from None
        if np.isinf(values[i]):
            raise ValueError(f"{name}, row {i + 1}: the value is infinite.")
    return values
