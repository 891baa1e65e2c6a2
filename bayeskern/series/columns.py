"""Time column and value column of a table, named by the user or guessed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bayeskern.core import validation
from bayeskern.series.files.tables import Table
from bayeskern.series.read_options import ReadOptions
from bayeskern.series.zones import is_zone, require_zone

# Common names of the time column, in order of preference.
TIME_NAMES = (
    "time", "date", "datetime", "timestamp", "ds", "day", "week", "month", "quarter", "year", "t",
)  # fmt: skip
# Names of columns in Nixtla's libraries (statsforecast, utilsforecast, mlforecast).
NIXTLA_ID, NIXTLA_TIME, NIXTLA_VALUE = "unique_id", "ds", "y"
# Common names of a column of time zones.
ZONE_NAMES = ("timezone", "time_zone", "time zone", "tz")
# Name of the values if the rows of an event log are counted.
COUNT_NAME = "count"
# Columns that together hold a time, if no column holds a date.
PARTS_OF_TIME = [("year", "month", "day"), ("year", "month"), ("year", "quarter"), ("year", "week")]
# Name of the column for an index, or for times passed separately.
INDEX_COLUMN = "the index of the frame"


@dataclass(frozen=True, eq=False)
class SeriesColumns:
    """Cells of a series, or of regressors alone, in a table of n rows.

    Attributes:
        time_name: Name of the times.
        times: Times that `parse_times` accepts, (n,).
        value_name: Name of the values.
        cells: Values that `read_numbers` accepts, (n,).
        regressors: Cells of each regressor by name, (n,) each.
        zones: Time zone of each row, (n,); None for the zone of the options.
        points_may_group: True if 1.234 may also mean 1234.
        remarks: Decisions made while reading.
    """

    time_name: str
    times: Any
    value_name: str = ""
    cells: Any = ()
    regressors: dict[str, Any] = field(default_factory=dict)
    zones: list[str] | None = None
    points_may_group: bool = False
    remarks: tuple[str, ...] = ()

    def at(self, rows: list[int]) -> SeriesColumns:
        """The columns at given rows."""
        return replace(
            self,
            times=take(self.times, rows),
            cells=take(self.cells, rows),
            regressors={name: take(cells, rows) for name, cells in self.regressors.items()},
            zones=self.zones and take(self.zones, rows),
        )


def take(cells: Any, rows: list[int]) -> Any:
    """Cells of an array or a list at given rows."""
    return cells[rows] if isinstance(cells, np.ndarray) else [cells[row] for row in rows]


def choose_columns(table: Table, options: ReadOptions) -> SeriesColumns:
    """Choose the columns of times, of values and of time zones of a table.

    Args:
        table: The table; its column `INDEX_COLUMN` holds the times.
        options: Columns named by the user. Without a time column, guess it, and join parts of a
            time in several columns, such as year and month. Without a value column, take the only
            column besides times and regressors; or y if the times are in ds; or a new column of
            ones to count rows.

    Raises:
        ValueError: If a named column is missing, or several columns may hold the values.
    """
    columns, zones, remarks = split_zones(table.columns, options)
    time, value = options.time, options.value
    if INDEX_COLUMN in columns and time not in columns:
        time = INDEX_COLUMN
    if time is None:
        columns, time = _join_parts_of_time(columns)
    for name in options.regressors:
        validation.one_of("regressors", name, columns)
    names = [name for name in columns if name not in options.regressors]
    if value is not None:
        validation.one_of("value", value, names)
    time = choose_time([name for name in names if name != value], time)
    if options.counts_rows:
        columns[COUNT_NAME], value = [1.0] * len(columns[time]), COUNT_NAME
    others = [name for name in names if name != time] if value is None else [value]
    if time == NIXTLA_TIME and NIXTLA_VALUE in others:
        others = [NIXTLA_VALUE]
    if len(others) != 1:
        raise ValueError(
            f"value= (--value) must name the column of values; besides the times, {time}, there "
            f"are {', '.join(others) or 'no columns'}. To count rows: --by count."
        )
    return SeriesColumns(
        time_label(time, columns[time]),
        columns[time],
        others[0],
        columns[others[0]],
        {name: columns[name] for name in options.regressors},
        zones,
        table.points_may_group,
        (*table.remarks, *remarks),
    )


def time_label(time: str, times: Any) -> str:
    """Name of the times: the name of their column, or of the index."""
    return str(getattr(times, "name", None) or "time") if time == INDEX_COLUMN else time


def split_id(columns: Mapping[str, Any], options: ReadOptions) -> tuple[dict[str, Any], str | None]:
    """Separate the column unique_id from the columns of one series.

    The column stays if an option names it.

    Returns:
        The other columns, and the name of the series; None without such a column.

    Raises:
        ValueError: If the column names several series.
    """
    columns = dict(columns)
    if NIXTLA_ID not in columns or NIXTLA_ID in (options.time, options.value, *options.regressors):
        return columns, None
    names = list(dict.fromkeys(map(str, columns.pop(NIXTLA_ID))))
    if len(names) > 1:
        raise ValueError(
            f"{NIXTLA_ID} names {len(names)} series ({names[0]}, {names[1]}, ...): use "
            "forecast_many (bayeskern forecast-many), or select the rows of one series."
        )
    return columns, next(iter(names), None)


def split_zones(
    columns: Mapping[str, Any], options: ReadOptions
) -> tuple[dict[str, Any], list[str] | None, tuple[str, ...]]:
    """Separate a column of time zones, named by `options.timezone` or by a usual name.

    Returns:
        The other columns, the time zone of each row, if there is such a column, and remarks.

    Raises:
        ValueError: If a named column holds something else.
    """
    columns = dict(columns)
    named = {options.time, options.value, *options.regressors}
    usual = (name for name in columns if name.lower() in ZONE_NAMES and name not in named)
    name = options.timezone if options.timezone in columns else next(usual, None)
    if name is None or options.timezone not in (None, name):
        return columns, None, ()
    zones = [str(cell).strip() for cell in columns[name]]
    if options.timezone is None and not all(map(is_zone, {*zones})):
        return columns, None, ()
    for zone in {*zones}:
        require_zone(zone)
    del columns[name]
    return columns, zones, (f"the times are local times of the zones in {name}",)


def choose_time(names: Sequence[str], time: str | None) -> str:
    """Name of the time column: `time`, else one with a usual name, else the first."""
    if time is not None:
        return validation.one_of("time", time, names)
    if not names:
        raise ValueError("the table has no column of times besides the values.")
    by_lower = {name.lower(): name for name in names}
    return next((by_lower[name] for name in TIME_NAMES if name in by_lower), names[0])


def _join_parts_of_time(columns: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """Join columns such as year and month, or date and time, into one time column.

    Returns:
        The columns, and the name of the joined column; None if no columns were joined.
    """
    names = {name.lower(): name for name in columns}
    is_dated = bool({"date", "datetime", "timestamp", "ds"} & names.keys())
    joinable = [("date", "time")] if is_dated else PARTS_OF_TIME
    parts = next((parts for parts in joinable if set(parts) <= names.keys()), ())
    rows = [tuple(map(_text, row)) for row in zip(*(columns[names[p]] for p in parts), strict=True)]
    if parts == ("date", "time") and not all(re.match(r"\d{1,2}:\d\d", row[1]) for row in rows):
        parts = ()
    if not parts:
        return columns, None
    last = names[parts[-1]]
    others = {name: cells for name, cells in columns.items() if name.lower() not in parts}
    return {last: [_join(parts[-1], row) for row in rows], **others}, last


def _join(unit: str, row: Sequence[str]) -> str:
    """Join the parts of a time, such as "2019-01"; "" if a part is missing.

    unit: Name of the last part.
    """
    if not all(row):
        return ""
    if unit == "time":
        return f"{row[0].split(' ')[0]} {row[1]}"
    year, *others = row
    if len(others) == 1 and others[0].isalpha():
        return f"{others[0]} {year}"
    mark, width = {"quarter": ("Q", 1), "week": ("W", 2)}.get(unit, ("", 2))
    others = [re.sub(r"^[qwm](?=\d)", "", part.lower()).zfill(width) for part in others]
    return "-".join([year, *(mark + part for part in others)])


def _text(cell: Any) -> str:
    """Cell as text: "" if missing, "3" for 3.0."""
    text = "" if cell is None or cell != cell else str(cell).strip()
    return text.removesuffix(".0")
