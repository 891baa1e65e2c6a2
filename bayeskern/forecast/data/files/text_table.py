"""Tables of text, as they come out of spreadsheets and programs: CSV and its like."""

from __future__ import annotations

import codecs
import csv
import io
import re
from pathlib import Path

from bayeskern.core.formatting import counted
from bayeskern.forecast.data.files.columns import Table, with_header

# What splits lines. Commas come last: where lines are split by another, they stand in names and
# decimals.
DELIMITERS = ";\t|,"
MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
COMMENT = "#"


def read_text(path: Path, content: bytes, encoding: str | None) -> Table:
    """The columns of a file of text, whose cells stay text."""
    text, remarks = _decoded(path, content, encoding)
    lines = [line for line in text.splitlines(keepends=True) if line.strip()]
    there = [line for line in lines if not line.lstrip().startswith(COMMENT)]
    if len(there) < len(lines):
        remarks += (f"{counted(len(lines) - len(there), 'comment line')} left out",)
    delimiter = _delimiter(there[0]) if there else ","
    try:
        rows = list(csv.reader(io.StringIO("".join(there)), delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise ValueError(
            f"{path} is not a CSV file: {error}. Is a quotation mark left open?"
        ) from None
    rows = [row for row in ([cell.strip() for cell in row] for row in rows) if any(row)]
    header = delimiter.join(rows[0]) if rows else None
    by_semicolons = delimiter == ";" and len(rows) > 0 and len(rows[0]) > 1
    return with_header(path, rows, header=header, points_may_group=by_semicolons, remarks=remarks)


def _decoded(path: Path, content: bytes, encoding: str | None) -> tuple[str, tuple[str, ...]]:
    """The text, and a remark where its encoding had to be guessed."""
    marked = next((name for mark, name in MARKS.items() if content.startswith(mark)), None)
    guess = encoding or marked or "utf-8"
    try:
        text = content.decode(guess)
    except LookupError:
        raise ValueError(f"encoding={encoding!r} is not known; wanted utf-8, cp1252, ...") from None
    except UnicodeDecodeError as error:
        if encoding or marked:
            raise ValueError(f"{path} is not text in {guess}: {error}.") from None
        # Bytes that no text has: Windows-1252 would take most of them.
        if re.search(rb"[\x00-\x08\x0e-\x1f]", content):
            raise ValueError(
                f"{path} is no table: neither text nor Excel, Parquet or JSON. If it is text, name "
                "its encoding by --encoding."
            ) from None
        text = content.decode("cp1252", errors="replace")
        return text, ("read as Windows-1252, since it is not UTF-8: --encoding names another",)
    if "\x00" in text:
        raise ValueError(
            f"{path} is no table: neither text nor Excel, Parquet or JSON. If it is text, name its "
            "encoding by --encoding."
        )
    return text, ()


def _delimiter(header: str) -> str:
    """The one that the header has most of, outside quotes."""
    unquoted = re.sub(r'"[^"]*"', "", header)
    return max(DELIMITERS, key=unquoted.count)
