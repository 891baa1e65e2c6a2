"""The time column and the value column of a table, as named by the user or as guessed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

# Common names of the time column, in order of preference.
TIME_NAMES = (
    "time", "date", "datetime", "timestamp", "ds", "day", "week", "month", "quarter", "year", "t",
)  # fmt: skip


class Selection(NamedTuple):
    """Columns, sheet and encoding named by the user, None where they are to be guessed.

    Attributes:
        time: Time column.
        value: Value column.
        regressors: Columns of regressors.
        sheet: Sheet of a workbook.
        encoding: Encoding of a text file.
    """

    time: str | None = None
    value: str | None = None
    regressors: Sequence[str] = ()
    sheet: str | None = None
    encoding: str | None = None


def choose_columns(
    columns: Mapping[str, Any], selection: Selection
) -> tuple[dict[str, Any], str, str]:
    """Choose the time column and the value column of a table.

    Args:
        columns: Cells by column name.
        selection: Columns named by the user. Without a time column, it is guessed, and parts of a
            time in several columns, such as year and month, are joined. Without a value column, it
            is the only one besides times and regressors.

    Returns:
        The columns, the name of the time column and the name of the value column.

    Raises:
        ValueError: If a named column is missing or the value column is not unique.
    """
    time, value, regressors = selection[:3]
    if time is None:
        columns, time = _join_parts_of_time(columns)
    for name in regressors:
        require_column("regressors", name, list(columns))
    names = [name for name in columns if name not in regressors]
    if value is not None:
        require_column("value", value, names)
    time = choose_time([name for name in names if name != value], time)
    if value is None:
        others = [name for name in names if name != time]
        if not others:
            raise ValueError("there is one column only; wanted one of times and one of values.")
        if len(others) > 1:
            raise ValueError(
                f"which column holds the values? There are {', '.join(others)}; "
                "name it by value= or --value."
            )
        value = others[0]
    return dict(columns), time, value


def choose_time(names: Sequence[str], time: str | None) -> str:
    """Name of the time column: as given, or by its usual names, or the first column."""
    if time is not None:
        return require_column("time", time, names)
    if not names:
        raise ValueError("there is no column of times beside the values.")
    by_lower = {name.lower(): name for name in names}
    return next((by_lower[name] for name in TIME_NAMES if name in by_lower), names[0])


def require_column(argument: str, name: str, names: Sequence[str]) -> str:
    """Return the name of a column that exists. Raises ValueError otherwise."""
    if name in names:
        return name
    raise ValueError(
        f"no {argument} column {name!r}.{did_you_mean(name, names)} "
        f"The columns are {', '.join(names)}."
    )


def did_you_mean(word: str, options: Sequence[str]) -> str:
    """A hint at the most similar option, or an empty string."""
    nearest = get_close_matches(word, options, n=1)
    return f" Did you mean {nearest[0]!r}?" if nearest else ""


def _join_parts_of_time(
    columns: Mapping[str, Any],
) -> tuple[dict[str, Any], str | None]:
    """Join columns such as year and month, or date and time of day, into one time column.

    Returns:
        The columns, and the name of the joined column; None if no columns were joined.
    """
    joined_as = {
        ("year", "month", "day"): "{}-{}-{}",
        ("year", "month"): "{}-{}",
        ("year", "quarter"): "{}Q{}",
        ("year", "week"): "{}-W{}",
    }
    names = {name.lower(): name for name in columns}
    parts, times = [], []
    if not {"date", "datetime", "timestamp", "ds"} & names.keys():
        for lower, pattern in joined_as.items():
            if not parts and set(lower) <= names.keys():
                parts = [names[part] for part in lower]
                rows = zip(*(columns[name] for name in parts), strict=True)
                times = [_join(pattern, [_text(cell) for cell in row]) for row in rows]
    if not parts and {"date", "time"} <= names.keys():
        days, clocks = ([_text(c) for c in columns[names[name]]] for name in ("date", "time"))
        if all(re.fullmatch(r"\d{1,2}:\d\d.*", clock) for clock in clocks):
            parts = [names["date"], names["time"]]
            times = [f"{d.split(' ')[0]} {c}" for d, c in zip(days, clocks, strict=True)]
    if not parts:
        return dict(columns), None
    others = {name: cells for name, cells in columns.items() if name not in parts}
    return {parts[-1]: times, **others}, parts[-1]


def _join(pattern: str, row: list[str]) -> str:
    """One time as text, such as "2019-01"; "" if a part is missing."""
    if not all(row):
        return ""
    year, *others = row
    if len(others) == 1 and others[0].isalpha():
        return f"{others[0]} {year}"
    others = [re.sub(r"^[qwm](?=\d)", "", part.lower()) for part in others]
    width = 1 if "Q" in pattern else 2
    return pattern.format(year, *(part.zfill(width) for part in others))


def _text(cell: Any) -> str:
    text = "" if cell is None or cell != cell else str(cell).strip()
    return text.removesuffix(".0")
