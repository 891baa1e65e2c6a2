"""Tables in CSV and similar text, Excel, Parquet and JSON files.

Each file may be gzipped. The content determines the type of a file, because file names are often
wrong.
"""

from __future__ import annotations

import codecs
import csv
import datetime as dt
import io
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bayeskern.core import extras, validation
from bayeskern.core.formatting import counted
from bayeskern.series.files.contents import (
    SizeLimit,
    read_content,
    read_parquet,
    read_sheets,
    require_cells,
)
from bayeskern.series.files.layout import drop_totals, join_header, trim
from bayeskern.series.read_options import INFERRED, ReadOptions

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


def read_table(path: Path, options: ReadOptions = INFERRED) -> Table:
    """Read the columns of a file.

    Args:
        path: The file.
        options: Sheet, encoding and number of rows to skip.

    Raises:
        ValueError: If the file holds no table, or its type is not supported; the message names the
            type.
    """
    sheet, skip_rows = options.sheet, options.skip_rows
    if skip_rows is not None:
        validation.positive_integer(skip_rows, "skip_rows", least=0)
    limit = SizeLimit.of_environment()
    content = read_content(path, limit)
    head = content[:64].lstrip().lower()
    for start, kind in NOT_TABLES.items():
        if head.startswith(start):
            raise ValueError(f"{path} looks like {kind}: save its table as .xlsx or CSV.")
    if content.startswith(b"PK\x03\x04"):
        return _read_workbook(path, content, limit, options)
    if sheet is not None:
        raise ValueError(f"sheet={sheet!r} is for Excel workbooks, and {path} is not one.")
    is_json = head[:1] in (b"{", b"[")
    if skip_rows is not None and (is_json or content.startswith(b"PAR1")):
        raise ValueError(f"skip_rows={skip_rows} is for text files and sheets; {path} is neither.")
    if content.startswith(b"PAR1"):
        with extras.needed_for(f"{path}, a Parquet file,", package="pyarrow", extra="parquet"):
            return Table(read_parquet(path, content, limit))
    if is_json:
        require_cells(path, content, b",:[{", limit)
        return _read_json(path, content)
    require_cells(path, content, DELIMITERS.encode(), limit)
    return _read_text(path, content, options)


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
    names = ["" if name is None else str(name).strip() for name in header]
    for number, row in enumerate(body, start=1):
        if len(row) != len(names):
            hint = " Skip lines above the header with --skip-rows." if number == 1 else ""
            raise ValueError(
                f"{path}, row {number}: {len(row)} cells, but the header has {len(names)}.{hint}"
            )
    if len(set(names)) < len(names):
        raise ValueError(f"{path} has two columns of the same name: {', '.join(names)}.")
    return Table(dict(zip(names, map(list, zip(*body, strict=True)), strict=True)), **fields)


# -- text ------------------------------------------------------------------------------------------


def _read_text(path: Path, content: bytes, options: ReadOptions) -> Table:
    """Columns of delimited text; cells stay text."""
    text, remarks = _decoded(path, content, options.encoding)
    skip_rows = options.skip_rows
    # `splitlines` would also split at form feeds and other characters inside a cell.
    lines = re.split(r"\r\n|\r|\n", text)[skip_rows or 0 :]
    lines = [f"{line}\n" for line in lines if line.strip()]
    data_lines = [line for line in lines if not line.lstrip().startswith("#")]
    if len(data_lines) < len(lines):
        remarks += (f"{counted(len(lines) - len(data_lines), 'comment line')} left out",)
    delimiter = _delimiter_of(data_lines)
    try:
        rows = list(csv.reader(io.StringIO("".join(data_lines)), delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise ValueError(
            f"{path} is not a CSV file: {error}. Is a quotation mark left open?"
        ) from None
    rows = [row for row in ([cell.strip() for cell in row] for row in rows) if any(row)]
    # `skip_rows` lines have been skipped above.
    table = drop_totals(join_header(trim(rows, None if skip_rows is None else 0)))
    rows = table.rows
    return _with_header(
        path,
        rows,
        header=delimiter.join(rows[0]) if rows else None,
        points_may_group=delimiter == ";" and len(rows) > 0 and len(rows[0]) > 1,
        remarks=remarks + table.remarks,
    )


def _delimiter_of(lines: Sequence[str]) -> str:
    """Most frequent delimiter of the header, or of the lines below a title.

    Text in quotes does not count.
    """
    if not lines:
        return ","
    unquoted = [re.sub(r'"[^"]*"', "", line) for line in lines[:1000]]
    delimiter = max(DELIMITERS, key=unquoted[0].count)

    def share(mark: str) -> float:
        """Share of the lines below the first with the typical number of delimiters."""
        counts = Counter(line.count(mark) for line in unquoted[1:])
        (typical, count), *_ = counts.most_common(1) or [(0, 0)]
        return count / len(unquoted) if typical > 0 else 0.0

    # Another delimiter must occur beside a letter in some line: "3,5" may be a number.
    others = [
        mark
        for mark in DELIMITERS
        if re.search(rf"[^\W\d]\{mark}|\{mark}[^\W\d]", "".join(unquoted[1:9]))
    ]
    best = max(others, key=share, default=delimiter)
    return best if share(best) > share(delimiter) else delimiter


def _decoded(path: Path, content: bytes, encoding: str | None) -> tuple[str, tuple[str, ...]]:
    """Text, with a remark if its encoding had to be guessed."""
    marked = next((e for mark, e in BYTE_ORDER_MARKS.items() if content.startswith(mark)), None)
    try:
        text, remarks = content.decode(encoding or marked or "utf-8"), ()
        text.encode()  # A few encodings give lone surrogates.
    except (LookupError, UnicodeEncodeError):
        raise ValueError(
            f"encoding must be a known encoding, such as utf-8 or cp1252; got {encoding!r}."
        ) from None
    except UnicodeError as error:
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
        data = _parse_json(text)
    except (ValueError, RecursionError) as error:
        try:
            data = [_parse_json(line) for line in text.splitlines() if line.strip()]
        except (ValueError, RecursionError):
            raise ValueError(f"{path} is JSON that cannot be read: {error}.") from None
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


def _parse_json(text: str) -> Any:
    """Data of JSON text; ValueError if a name occurs twice, or text is not Unicode."""
    data = json.loads(text, object_pairs_hook=_object)
    # Escapes of lone surrogates.
    if re.search(r"\\u[dD][89a-fA-F]", text):
        json.dumps(data, ensure_ascii=False).encode()
    return data


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        (name, count), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"{name!r} occurs {count} times in one object")
    return fields


def _is_records(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, dict) for v in value)


# -- Excel -----------------------------------------------------------------------------------------


def _read_workbook(path: Path, content: bytes, limit: SizeLimit, options: ReadOptions) -> Table:
    """The only table on a sheet of an Excel workbook; cells keep their types.

    Raises ValueError if `options.sheet` is None and several sheets hold data, if it names no sheet
    with data, or if the sheet holds several tables.
    """
    with extras.needed_for(f"{path}, an Excel workbook,", package="openpyxl", extra="excel"):
        filled = read_sheets(path, content, limit)
    sheet = options.sheet
    name = next(iter(filled)) if sheet is None and len(filled) == 1 else sheet
    if name not in filled:
        raise ValueError(
            f"{path}: sheet= or --sheet must be one of the sheets with data "
            f"({', '.join(map(str, filled)) or 'none has any'}); got {sheet!r}."
        )
    rows = filled[name]
    # The table starts at the first column with a cell.
    first = min(i for row in rows for i, cell in enumerate(row) if cell is not None)
    table = trim([row[first:] for row in rows], options.skip_rows)
    is_used = np.array([[cell is not None for cell in row] for row in table.rows])
    # An empty row or column between others separates two tables.
    for axis, kind, before in ((1, "row", table.above), (0, "column", first)):
        used = is_used.any(axis=axis).nonzero()[0]
        gaps = np.flatnonzero(np.diff(used) > 1)
        if len(gaps):
            raise ValueError(
                f"{path}, sheet {name} has two tables, or more: {kind} "
                f"{before + used[gaps[0]] + 2} is empty. Keep one table on the sheet."
            )
    columns = is_used.any(axis=0).nonzero()[0]
    table = table._replace(rows=[[row[i] for i in columns] for row in table.rows])
    table = drop_totals(join_header(table))
    rows = table.rows
    header = ", ".join(_cell_text(cell) for cell in rows[0])
    if any(cell is None for cell in rows[0][1:]):
        raise ValueError(
            f"{path}, sheet {name}: its first row, {header}, does not name all columns. "
            "Name each column, or skip the rows above the header (--skip-rows)."
        )
    return _with_header(path, rows, header=header, remarks=table.remarks)


def _cell_text(cell: Any) -> str:
    if cell is None:
        return ""
    return cell.date().isoformat() if isinstance(cell, dt.datetime) else str(cell)
