"""The columns of a file, and the header above them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

WANTED = "wanted a header and at least 3 rows of a time and a value"


@dataclass(frozen=True)
class Table:
    """Columns by name.

    Attributes:
        columns: The cells of each, as text or as what they are.
        header: The line of names, where it might be a row of data; None where it cannot.
        points_may_group: Whether 1.234 may be a thousand, since commas part no columns.
        remarks: What was done to read it.
    """

    columns: Mapping[str, Sequence[Any]]
    header: str | None = None
    points_may_group: bool = False
    remarks: tuple[str, ...] = field(default=())


def with_header(path, rows: Sequence[Sequence[Any]], **fields) -> Table:
    """The table whose first row has the names of its columns.

    Raises:
        ValueError: If a row has more or fewer cells than the header, or a name is there twice.
    """
    if len(rows) < 2:
        what = "a header but no rows" if rows else "no rows"
        raise ValueError(f"{path} has {what}; {WANTED}.")
    header, *body = rows
    names = [str(name).strip() for name in header]
    for number, row in enumerate(body, start=1):
        if len(row) != len(names):
            raise ValueError(
                f"{path}, row {number}: {len(row)} cells, but the header has {len(names)}."
            )
    if len(set(names)) < len(names):
        raise ValueError(f"{path} has two columns of the same name: {', '.join(names)}.")
    columns = dict(zip(names, map(list, zip(*body, strict=True)), strict=True))
    return Table(columns, **fields)
