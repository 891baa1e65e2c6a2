"""Workbooks of Excel: the sheet that holds the table, and the table on it."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise
from pathlib import Path
from zipfile import BadZipFile

from bayeskern.core import extras
from bayeskern.forecast.data.files.columns import Table, with_header


def read_workbook(path: Path, content, sheet: str | None) -> Table:
    """The table on a sheet of a workbook, whose cells are what they are in Excel.

    Raises:
        ValueError: If several sheets hold data and none is named, or if there are several tables.
    """
    import pandas as pd  # slow to import

    try:
        with extras.needed_for(f"{path}, a workbook of Excel,", package="openpyxl", extra="excel"):
            sheets = pd.read_excel(content, sheet_name=None, header=None, dtype=object)
    except (ValueError, KeyError, BadZipFile) as error:
        raise ValueError(f"{path} is a zip file, and no workbook of Excel: {error}.") from None
    filled = {name: cells for name, cells in sheets.items() if cells.notna().any(axis=None)}
    if sheet is None and len(filled) > 1:
        raise ValueError(
            f"{path}: which sheet? {', '.join(filled)} hold data; name one by sheet= or --sheet."
        )
    if not filled:
        raise ValueError(f"{path} has no cells that hold anything.")
    name = next(iter(filled)) if sheet is None else sheet
    if name not in filled:
        raise ValueError(f"{path} has no sheet {name!r} with data; there are {', '.join(filled)}.")
    cells = filled[name]
    for axis, kind in ((1, "rows"), (0, "columns")):
        _require_one_table(path, name, cells.notna().any(axis=axis).to_numpy(), kind)
    cells = cells.dropna(how="all").dropna(how="all", axis=1)
    rows = [[_cell(value) for value in row] for row in cells.itertuples(index=False)]
    if any(value is None for value in rows[0]):
        raise ValueError(
            f"{path}, sheet {name}: its first row, {_shown(rows[0])}, does not name all columns. "
            "Leave no title above the table, and name each column."
        )
    return with_header(path, rows, header=_shown(rows[0]))


def _require_one_table(path: Path, sheet: str, filled, kind: str) -> None:
    """Refuse rows, or columns, that are empty between others: two tables."""
    there = [i for i, has in enumerate(filled) if has]
    for before, after in pairwise(there):
        if after > before + 1:
            raise ValueError(
                f"{path}, sheet {sheet} has two tables, or more: {kind} {before + 2} to {after} "
                "are empty between them. Keep one of them on the sheet."
                if after > before + 2
                else f"{path}, sheet {sheet} has two tables, or more: {kind[:-1]} {after} is empty "
                "between them. Keep one of them on the sheet."
            )


def _cell(value):
    """None for an empty cell; dates as those of Python."""
    if value is None or value != value:
        return None
    return value.to_pydatetime() if hasattr(value, "to_pydatetime") else value


def _shown(row) -> str:
    return ", ".join(
        "" if v is None else v.date().isoformat() if isinstance(v, dt.datetime) else str(v)
        for v in row
    )
