"""Tables in JSON: records, columns, lines of records, or values by time."""

from __future__ import annotations

import json
from pathlib import Path

from bayeskern.forecast.data.files.columns import Table

WANTED = (
    'wanted a list of records, [{"month": "2020-01", "sales": 3}, ...], one record a line, '
    'columns, {"month": [...], "sales": [...]}, or values by time, {"2020-01": 3, ...}'
)


def read_json(path: Path, content: bytes) -> Table:
    """The columns of a JSON file. A table that is the only one inside an object is taken."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is JSON that is not in UTF-8: {error}.") from None
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        found = _lines(text)
        if found is None:
            raise ValueError(f"{path} is not JSON: {error}.") from None
    if isinstance(found, dict):
        tables = [value for value in found.values() if _is_records(value)]
        found = tables[0] if len(tables) == 1 else found
    if _is_records(found):
        names = dict.fromkeys(name for record in found for name in record)
        columns = {name: [record.get(name) for record in found] for name in names}
    elif isinstance(found, dict) and found and not any(map(_is_nested, found.values())):
        columns = {"time": list(found), "value": list(found.values())}
    elif isinstance(found, dict) and found and _are_columns([*found.values()]):
        columns = found
    else:
        raise ValueError(f"{path} holds no table: {WANTED}.")
    nested = [name for name, cells in columns.items() if any(map(_is_nested, cells))]
    if nested:
        raise ValueError(f"{path}: {nested[0]} holds lists or objects in its cells; {WANTED}.")
    return Table(columns)


def _lines(text: str) -> list | None:
    """One record on each line; None if it is something else."""
    try:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except json.JSONDecodeError:
        return None


def _is_nested(value) -> bool:
    return isinstance(value, list | dict)


def _is_records(value) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, dict) for v in value)


def _are_columns(values: list) -> bool:
    return all(isinstance(v, list) for v in values) and len({len(v) for v in values}) == 1
