"""A table out of a file of any kind.

What a file is says its content, since names of files are often wrong. A new kind is one more line
of `KINDS`, or of `NO_TABLES` if it is none that holds a table.
"""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path

from bayeskern.core import extras
from bayeskern.forecast.data.files.columns import Table
from bayeskern.forecast.data.files.json_table import read_json
from bayeskern.forecast.data.files.text_table import read_text
from bayeskern.forecast.data.files.workbook import read_workbook

# The first bytes of what people take for a table, what it is, and what to do about it.
NO_TABLES = {
    b"%PDF": ("a PDF", "copy its table into a spreadsheet"),
    b"\xd0\xcf\x11\xe0": ("a spreadsheet of Excel 97 (.xls)", "save it as .xlsx or CSV"),
    b"{\\rtf": ("a text of a word processor", "save it as CSV"),
    b"<!doctype html": ("a web page", "save the data behind it, not the page"),
    b"<html": ("a web page", "save the data behind it, not the page"),
    b"<?xml": ("XML", "save it as CSV"),
    b"\x89png": ("a picture", "wanted the numbers themselves"),
    b"\xff\xd8\xff": ("a picture", "wanted the numbers themselves"),
    b"sqlite format 3": ("a database of SQLite", "export the table as CSV"),
    b"\x89hdf": ("HDF5 or NetCDF", "read it by xarray and pass a series"),
    b"cdf": ("NetCDF", "read it by xarray and pass a series"),
    b"\x80\x04\x95": ("a pickle of Python", "save it as CSV or Parquet"),
}


def read_table(path: Path, sheet: str | None = None, encoding: str | None = None) -> Table:
    """The columns of a file: CSV and its like, Excel, Parquet, JSON, each gzipped too.

    Args:
        path: The file.
        sheet: The sheet of a workbook; needed if several hold data.
        encoding: The encoding of text; UTF-8 if it is that, else Windows-1252.

    Raises:
        ValueError: If it is none of these, saying what it looks like, or holds no table.
    """
    content = path.read_bytes()
    if content.startswith(b"\x1f\x8b"):
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{path} is a gzip file that cannot be unpacked: {error}.") from None
    head = content[:64].lstrip().lower()
    for start, (what, advice) in NO_TABLES.items():
        if head.startswith(start.lower()):
            raise ValueError(f"{path} looks like {what}: {advice}.")
    is_workbook = content.startswith(b"PK\x03\x04")
    if sheet is not None and not is_workbook:
        raise ValueError(f"sheet={sheet!r} is for workbooks of Excel, and {path} is none.")
    if is_workbook:
        return read_workbook(path, io.BytesIO(content), sheet)
    if content.startswith(b"PAR1"):
        return _read_parquet(path, content)
    if head[:1] in (b"{", b"["):
        return read_json(path, content)
    return read_text(path, content, encoding)


def _read_parquet(path: Path, content: bytes) -> Table:
    import pandas as pd  # slow to import

    try:
        with extras.needed_for(f"{path}, a Parquet file,", package="pyarrow", extra="parquet"):
            frame = pd.read_parquet(io.BytesIO(content))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is Parquet that cannot be read: {error}.") from None
    # Numbers without a name are what is left of row numbers when rows are chosen or joined.
    if frame.index.name is not None or frame.index.dtype.kind not in "iu":
        frame = frame.reset_index()
    return Table({str(name): list(frame[name]) for name in frame.columns})
