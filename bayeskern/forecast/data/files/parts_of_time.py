"""Times whose parts stand in columns of their own, such as year and month."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

# Columns that hold a time by themselves.
WHOLE = {"date", "datetime", "timestamp", "ds"}
# Parts that make a time together, and how.
PARTS = {
    ("year", "month", "day"): "{}-{}-{}",
    ("year", "month"): "{}-{}",
    ("year", "quarter"): "{}Q{}",
    ("year", "week"): "{}-W{}",
}
CLOCK = r"\d{1,2}:\d\d.*"


def joined(columns: Mapping[str, Sequence[Any]]) -> tuple[dict[str, Sequence[Any]], str | None]:
    """The columns with one of times in place of its parts, and its name; None if there are none."""
    names = {name.lower(): name for name in columns}
    if not WHOLE & set(names):
        for parts, pattern in PARTS.items():
            if set(parts) <= set(names):
                own = [names[part] for part in parts]
                cells = zip(*(columns[name] for name in own), strict=True)
                return _replaced(columns, own, [_join(pattern, row) for row in cells])
    if {"date", "time"} <= set(names):
        own = [names["date"], names["time"]]
        days, clocks = ([_text(cell) for cell in columns[name]] for name in own)
        if all(re.fullmatch(CLOCK, clock) for clock in clocks):
            times = [f"{d.split(' ')[0]} {c}" for d, c in zip(days, clocks, strict=True)]
            return _replaced(columns, own, times)
    return dict(columns), None


def _replaced(columns: Mapping, own: Sequence[str], times: list[str]):
    """Without the parts, and with the times under the name of the last of them."""
    rest = {name: cells for name, cells in columns.items() if name not in own}
    return {own[-1]: times, **rest}, own[-1]


def _join(pattern: str, row: Sequence[Any]) -> str:
    """One time as text: "2019-01", or "" if a part is missing."""
    year, *others = map(_text, row)
    if not (year and all(others)):
        return ""
    if len(others) == 1 and others[0].isalpha():
        return f"{others[0]} {year}"
    others = [re.sub(r"^[qwm](?=\d)", "", part.lower()) for part in others]
    width = 1 if "Q" in pattern else 2
    return pattern.format(year, *(part.zfill(width) for part in others))


def _text(cell) -> str:
    text = "" if cell is None or cell != cell else str(cell).strip()
    return text.removesuffix(".0")
