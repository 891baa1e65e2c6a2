"""Titles, notes, totals and double headers around the table of a file.

A remark reports each row that is left out, and each header that is joined.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from bayeskern.core.formatting import counted
from bayeskern.series.cells import AmbiguousError, is_missing, read_numbers
from bayeskern.series.dates.times import parse_times

# First cell of a row that sums up the rows above it.
TOTAL_WORDS = {
    "total", "totals", "grand total", "sum", "subtotal", "average", "avg", "mean", "summe",
    "gesamt", "insgesamt", "durchschnitt",
}  # fmt: skip
Rows = list[list[Any]]


class TableRows(NamedTuple):
    """Rows of a table, the header first.

    Attributes:
        rows: The header and the rows below it; cells are text or typed values.
        above: Number of rows above the header.
        remarks: Remarks on rows that were left out or joined.
    """

    rows: Rows
    above: int
    remarks: tuple[str, ...]


def trim(rows: Rows, skip_rows: int | None) -> TableRows:
    """Leave out titles, notes and empty rows around a table.

    A title is a single cell above a header of several columns. A note is a single text below the
    table.

    Args:
        rows: All rows, with None or "" for empty cells.
        skip_rows: Number of rows to skip above the header; None to find titles.
    """
    start, end, remarks = skip_rows or 0, len(rows), ()
    filled = [_filled(row) for row in rows]
    while start < end and not filled[start]:
        start += 1
    while start < end and not filled[end - 1]:
        end -= 1
    widths = Counter(len(cells) for cells in filled[start:end] if cells)
    if not widths or widths.most_common(1)[0][0] < 2:
        return TableRows(rows[start:end], start, remarks)
    header = start
    while header < end and (not filled[header] or filled[header] == [0]):
        header += 1
    titles = [str(rows[i][0]) for i in range(start, header) if filled[i]]
    if skip_rows is None and titles and header < end and _is_header(rows[header]):
        start = header
        remarks += (_left_out("first", "title", titles),)
    last = end
    while last > start and (not filled[last - 1] or _is_note(rows[last - 1], filled[last - 1])):
        last -= 1
    notes = [str(rows[i][0]) for i in range(last, end) if filled[i]]
    if notes:
        remarks += (_left_out("last", "note", notes),)
    return TableRows(rows[start:last], start, remarks)


def join_header(table: TableRows) -> TableRows:
    """Join two header rows, such as groups above names or units below names."""
    rows = table.rows
    if len(rows) < 3 or len(rows[1]) != len(rows[0]) or not _filled(rows[1]):
        return table
    # Column names are not data. Groups in the first row may be years, but in fewer columns than a
    # row of data. The second row is tested first: its first cell often decides, and a table may
    # have thousands of columns.
    if any(map(_is_data, rows[1])) or not _data_columns(rows[0]) < _data_columns(rows[2]):
        return table
    top = [_text(cell) for cell in rows[0]]
    names = []
    for column, lower in enumerate(_text(cell) for cell in rows[1]):
        # A group is written above its first column only.
        if not top[column] and column and lower:
            top[column] = top[column - 1]
        names.append(" ".join(dict.fromkeys(part for part in (top[column], lower) if part)))
    example = next((name for name in names if " " in name), names[-1])
    remark = f"the first two rows are the header, joined as in {example!r}"
    return table._replace(rows=[names, *rows[2:]], remarks=(*table.remarks, remark))


def drop_totals(table: TableRows) -> TableRows:
    """Leave out rows such as "Total" at the end."""
    rows, words = table.rows, []
    while len(rows) > 2:
        filled = _filled(rows[-1])
        column, *others = filled or [0]
        word = _text(rows[-1][column])
        is_once = all(column >= len(row) or _text(row[column]) != word for row in rows[:-1])
        is_word = word.lower().rstrip(":").strip() in TOTAL_WORDS
        if not is_word or not is_once or not all(_is_number(rows[-1][i]) for i in others):
            break
        words.insert(0, word)
        rows = rows[:-1]
    if not words:
        return table
    return table._replace(rows=rows, remarks=(*table.remarks, _left_out("last", "total", words)))


def _filled(row: Sequence[Any]) -> list[int]:
    """Columns of a row that are not empty."""
    return [i for i, cell in enumerate(row) if cell is not None and cell != ""]


def _text(cell: Any) -> str:
    return "" if cell is None else str(cell).strip()


def _left_out(place: str, kind: str, texts: Sequence[str]) -> str:
    """Remark such as "the first row, 'Sales', is a title and is left out"."""
    text = texts[0] if len(texts[0]) <= 40 else f"{texts[0][:37]}..."
    if len(texts) == 1:
        return f"the {place} row, {text!r}, is a {kind} and is left out"
    return f"the {place} {counted(len(texts), 'row')}, from {text!r}, are {kind}s and are left out"


def _is_header(row: Sequence[Any]) -> bool:
    """True for a row of several cells with a name among them."""
    columns = _filled(row)
    return len(columns) > 1 and len(_data_columns(row)) < len(columns)


def _is_note(row: Sequence[Any], filled: Sequence[int]) -> bool:
    """True for a row with a text in its first cell only."""
    return list(filled) == [0] and isinstance(row[0], str) and not _data_columns(row)


def _data_columns(row: Sequence[Any]) -> set[int]:
    """Columns of a row that hold a number or a date."""
    return {i for i, cell in enumerate(row) if _is_data(cell)}


def _is_data(cell: Any) -> bool:
    """True for a number or a date."""
    # Patterns are tried first, because the readers take milliseconds.
    if isinstance(cell, str):
        if not re.search(r"\d", cell):
            return False
        if re.fullmatch(r"\s*[+-]?\d+([.,]\d+)?\s*", cell, re.ASCII):
            return True
    return cell is not None and (_is_number(cell) or is_readable(parse_times, [cell]))


def _is_number(cell: Any) -> bool:
    """True for a number in any notation, but not for a word for a missing value."""
    import pandas as pd  # slow to import

    if is_missing(pd.Series([cell], dtype=object)).all():
        return False
    return any(is_readable(read_numbers, [cell], "cell", mark, False) for mark in ".,")


def is_readable(reader: Callable, *arguments: Any) -> bool:
    """True if a reader accepts the arguments, even if they are ambiguous."""
    try:
        reader(*arguments)
    except AmbiguousError:
        return True
    except (ValueError, TypeError, OverflowError):
        return False
    return True
