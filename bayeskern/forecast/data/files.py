"""Tables in files: CSV and similar text, Excel, Parquet and JSON, each optionally gzipped.

The content determines the type of a file, because file names are often wrong.
"""

from __future__ import annotations

import codecs
import csv
import datetime as dt
import gzip
import io
import json
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from bayeskern.core import extras
from bayeskern.core.formatting import counted

# In order of preference. Commas come last, because they also occur in names and decimals.
DELIMITERS = ";\t|,"
# First bytes, in lower case, of file types that hold no table, and the name of each type.
NOT_TABLES = {
    b"%pdf": "a PDF",
    b"\xd0\xcf\x11\xe0": "an Excel 97 spreadsheet (.xls)",
    b"{\\rtf": "a word processor document (RTF)",
    b"<!doctype html": "a web page",
    b"<html": "a web page",
    b"<?xml": "XML",
    b"\x89png": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"sqlite format 3": "an SQLite database",
    b"\x89hdf": "HDF5 or NetCDF",
    b"cdf": "NetCDF",
    b"\x80\x04\x95": "a Python pickle",
}
BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


@dataclass(frozen=True)
class Table:
    """Columns by name.

    Attributes:
        columns: The cells of each column, as text or as typed values.
        header: The first row as text, to check that it is not a row of data; None if the format
            always names its columns.
        points_may_group: True if a point may separate thousands (1.234 for 1234), as in
            semicolon-separated text.
        remarks: Decisions made while reading.
    """

    columns: dict[str, Any]
    header: str | None = None
    points_may_group: bool = False
    remarks: tuple[str, ...] = ()


def read_table(path: Path, sheet: str | None = None, encoding: str | None = None) -> Table:
    """Read the columns of a file.

    Args:
        path: The file.
        sheet: The sheet of a workbook; required if several sheets hold data.
        encoding: Encoding of text; by default UTF-8 or, if the text is not UTF-8, Windows-1252.

    Raises:
        ValueError: If the file holds no table, or its type is not supported; the message names the
            type.
    """
    content = path.read_bytes()
    if content.startswith(b"\x1f\x8b"):
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{path} is a gzip file that cannot be unpacked: {error}.") from None
    head = content[:64].lstrip().lower()
    for start, kind in NOT_TABLES.items():
        if head.startswith(start):
            raise ValueError(f"{path} looks like {kind}: save its table as .xlsx or CSV.")
    if content.startswith(b"PK\x03\x04"):
        return _read_workbook(path, content, sheet)
    if sheet is not None:
        raise ValueError(f"sheet={sheet!r} is for Excel workbooks, and {path} is not one.")
    if content.startswith(b"PAR1"):
        return _read_parquet(path, content)
    if head[:1] in (b"{", b"["):
        return _read_json(path, content)
    return _read_text(path, content, encoding)


def _with_header(path: Path, rows: Sequence[Sequence[Any]], **fields: Any) -> Table:
    """Table whose first row names its columns.

    Raises ValueError if rows differ in length from the header or a name occurs twice.
    """
    if len(rows) < 2:
        problem = "a header but no rows" if rows else "no rows"
        raise ValueError(
            f"{path} has {problem}; it must have a header and at least 3 rows of a time and a "
            "value."
        )
    header, *body = rows
    names = [str(name).strip() for name in header]
    for number, row in enumerate(body, start=1):
        if len(row) != len(names):
            raise ValueError(
                f"{path}, row {number}: {len(row)} cells, but the header has {len(names)}."
            )
    if len(set(names)) < len(names):
        raise ValueError(f"{path} has two columns of the same name: {', '.join(names)}.")
    return Table(dict(zip(names, map(list, zip(*body, strict=True)), strict=True)), **fields)


# -- text ------------------------------------------------------------------------------------------


def _read_text(path: Path, content: bytes, encoding: str | None) -> Table:
    """Columns of delimited text; cells stay text."""
    text, remarks = _decoded(path, content, encoding)
    lines = [line for line in text.splitlines(keepends=True) if line.strip()]
    data_lines = [line for line in lines if not line.lstrip().startswith("#")]
    if len(data_lines) < len(lines):
        remarks += (f"{counted(len(lines) - len(data_lines), 'comment line')} left out",)
    # The most frequent delimiter of the header, outside quotes.
    unquoted = re.sub(r'"[^"]*"', "", data_lines[0] if data_lines else ",")
    delimiter = max(DELIMITERS, key=unquoted.count)
    try:
        rows = list(csv.reader(io.StringIO("".join(data_lines)), delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise ValueError(
            f"{path} is not a CSV file: {error}. Is a quotation mark left open?"
        ) from None
    rows = [row for row in ([cell.strip() for cell in row] for row in rows) if any(row)]
    return _with_header(
        path,
        rows,
        header=delimiter.join(rows[0]) if rows else None,
        points_may_group=delimiter == ";" and len(rows) > 0 and len(rows[0]) > 1,
        remarks=remarks,
    )


def _decoded(path: Path, content: bytes, encoding: str | None) -> tuple[str, tuple[str, ...]]:
    """Text, with a remark if its encoding had to be guessed."""
    marked = next((e for mark, e in BYTE_ORDER_MARKS.items() if content.startswith(mark)), None)
    try:
        text, remarks = content.decode(encoding or marked or "utf-8"), ()
    except LookupError:
        raise ValueError(
            f"encoding must be a known encoding, such as utf-8 or cp1252; got {encoding!r}."
        ) from None
    except UnicodeDecodeError as error:
        if encoding or marked:
            raise ValueError(f"{path} is not text in {encoding or marked}: {error}.") from None
        text = content.decode("cp1252", errors="replace")
        remarks = (
            "read as Windows-1252, because it is not UTF-8; use --encoding for another encoding",
        )
    # Text has no control characters, but Windows-1252 would decode most of them.
    if re.search(r"[\x00-\x08\x0e-\x1f]" if remarks else "\x00", text):
        raise ValueError(
            f"{path} is not a table: neither text nor Excel, Parquet or JSON. If it is text, give "
            "its encoding (--encoding)."
        )
    return text, remarks


# -- JSON ------------------------------------------------------------------------------------------


def _read_json(path: Path, content: bytes) -> Table:
    """Columns of a JSON file.

    The file holds a list of records, one record per line, an object of lists by column name, or an
    object of values by time. If exactly one value of an object is a list of records, this list is
    read.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is JSON that is not in UTF-8: {error}.") from None
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        try:
            data = [json.loads(line) for line in text.splitlines() if line.strip()]
        except json.JSONDecodeError:
            raise ValueError(f"{path} is not JSON: {error}.") from None
    if isinstance(data, dict):
        tables = [value for value in data.values() if _is_records(value)]
        data = tables[0] if len(tables) == 1 else data
    columns: dict[str, Any] = data if isinstance(data, dict) else {}
    if _is_records(data):
        names = dict.fromkeys(name for record in data for name in record)
        columns = {name: [record.get(name) for record in data] for name in names}
    elif not any(isinstance(cell, list) for cell in columns.values()):
        columns = {"time": list(columns), "value": list(columns.values())}
    lengths = {len(cells) if isinstance(cells, list) else -1 for cells in columns.values()}
    cells = [cell for column in columns.values() for cell in column]
    if len(lengths) != 1 or not cells or any(isinstance(cell, list | dict) for cell in cells):
        raise ValueError(
            f'{path} holds no table: write a list of records ([{{"month": "2020-01", "sales": 3}}, '
            '...]), one record per line, columns ({"month": [...], "sales": [...]}) or values by '
            'time ({"2020-01": 3, ...}).'
        )
    return Table(columns)


def _is_records(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, dict) for v in value)


# -- Parquet and Excel -----------------------------------------------------------------------------


def _read_parquet(path: Path, content: bytes) -> Table:
    import pandas as pd  # slow to import

    try:
        with extras.needed_for(f"{path}, a Parquet file,", package="pyarrow", extra="parquet"):
            frame = pd.read_parquet(io.BytesIO(content))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is Parquet that cannot be read: {error}.") from None
    # An unnamed index of integers holds row numbers, left from a selection or a join.
    if frame.index.name is not None or frame.index.dtype.kind not in "iu":
        frame = frame.reset_index()
    return Table({str(name): list(frame[name]) for name in frame.columns})


def _read_workbook(path: Path, content: bytes, sheet: str | None) -> Table:
    """The only table on a sheet of an Excel workbook; cells keep their types.

    Raises ValueError if `sheet` is None and several sheets hold data, if `sheet` names no sheet
    with data, or if the sheet holds several tables.
    """
    import pandas as pd  # slow to import

    try:
        with extras.needed_for(f"{path}, an Excel workbook,", package="openpyxl", extra="excel"):
            sheets = pd.read_excel(io.BytesIO(content), sheet_name=None, header=None, dtype=object)
    except (ValueError, KeyError, BadZipFile) as error:
        raise ValueError(f"{path} is a zip file, but not an Excel workbook: {error}.") from None
    filled = {name: cells for name, cells in sheets.items() if cells.notna().to_numpy().any()}
    name = next(iter(filled)) if sheet is None and len(filled) == 1 else sheet
    if name not in filled:
        raise ValueError(
            f"{path}: sheet= or --sheet must be one of the sheets with data "
            f"({', '.join(map(str, filled)) or 'none has any'}); got {sheet!r}."
        )
    cells = filled[name]
    # An empty row or column between others separates two tables.
    for axis, kind in ((1, "row"), (0, "column")):
        used = cells.notna().to_numpy().any(axis=axis).nonzero()[0]
        gaps = np.flatnonzero(np.diff(used) > 1)
        if len(gaps):
            raise ValueError(
                f"{path}, sheet {name} has two tables, or more: {kind} {used[gaps[0]] + 2} is "
                "empty. Keep one table on the sheet."
            )
    cells = cells.dropna(how="all").dropna(how="all", axis=1)
    rows = [[None if pd.isna(cell) else cell for cell in row] for row in cells.to_numpy(object)]
    header = ", ".join(_cell_text(cell) for cell in rows[0])
    if any(cell is None for cell in rows[0]):
        raise ValueError(
            f"{path}, sheet {name}: its first row, {header}, does not name all columns. "
            "Leave no title above the table, and name each column."
        )
    return _with_header(path, rows, header=header)


def _cell_text(cell: Any) -> str:
    if cell is None:
        return ""
    return cell.date().isoformat() if isinstance(cell, dt.datetime) else str(cell)
