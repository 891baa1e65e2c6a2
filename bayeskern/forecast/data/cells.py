"""Cells of a table as numbers, in the notation of the column."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

MISSING = {
    "", "na", "n/a", "<na>", "#n/a", "nan", "nat", "null", "none", ".", "-", "--", "\u2013",
    "\u2014",
}  # fmt: skip
CURRENCIES = r"[$\u20ac\u00a3\u00a5\u20b9]|USD|EUR|GBP|CHF|JPY"
# Where commas part thousands, and money has two decimals or none; fuel costs 1,859 EUR a litre.
COMMAS_GROUP = {"$", "\u00a3", "\u00a5", "\u20b9", "USD", "GBP", "JPY"}
# A number with what people write around it: (1,022) is negative, as in accounts.
CELL = re.compile(
    rf"(?P<open>\()?\s*(?P<sign>[+\-\u2212])?\s*(?P<before>{CURRENCIES})?\s*(?P<inner>[+\-\u2212])?"
    r"(?P<digits>[\d.,'\u2019 \u00a0\u202f]*[\d.,](?:[eE][+-]?\d+)?)"
    rf"\s*(?P<percent>%)?\s*(?P<after>{CURRENCIES})?\s*(?P<close>\))?"
)
GROUP = r"['\u2019 \u00a0\u202f]"
EXPONENT = r"(?:[eE][+-]?\d+)?"


def _notation(decimal: str, group: str) -> re.Pattern:
    """Digits with this mark before decimals and, all of them alike, that one between thousands."""
    decimal = re.escape(decimal)
    whole = rf"(?:\d+|[1-9]\d{{0,2}}(?P<g>{re.escape(group)}|{GROUP})\d{{3}}(?:(?P=g)\d{{3}})*)"
    return re.compile(rf"(?:{whole}(?:{decimal}\d*)?|{decimal}\d+){EXPONENT}", re.ASCII)


# By the mark before decimals.
NOTATIONS = {".": _notation(".", ","), ",": _notation(",", ".")}


class AmbiguousError(ValueError):
    """Cells that can be read in two ways."""


class Numbers(NamedTuple):
    """A column as numbers, (n,), NaN where one is missing, and what was made of its text."""

    values: np.ndarray
    remarks: tuple[str, ...] = ()


def read_numbers(
    cells, name: str, decimal: str | None = None, points_may_group: bool = False
) -> Numbers:
    """Numbers out of the cells of a column.

    Args:
        cells: Numbers, or text with currencies, per cent signs, brackets for what is negative, and
            marks before decimals and between thousands, as long as all cells can be read in one way
            only.
        name: The column, for messages.
        decimal: The mark before decimals, "." or ",", where that is known.
        points_may_group: Whether 1.234 may be a thousand as well.

    Raises:
        ValueError: For the first cell that is no number, with its row, or that may be two.
    """
    if decimal not in (None, *NOTATIONS):
        raise ValueError(f"decimal={decimal!r} is no mark before decimals; wanted '.' or ','.")
    numbers, remarks = np.asarray(cells), ()
    if numbers.dtype.kind not in "iuf":
        import pandas as pd  # slow to import

        cells = pd.Series(list(cells), dtype=object)
        missing = is_missing(cells)
        text = cells.map(lambda cell: isinstance(cell, str)) & ~missing
        if text.any():
            plain, remarks = _plain(cells[text], name, decimal, points_may_group)
            cells = cells.mask(text, plain)
        # pandas takes a complex number for a number.
        real = cells.mask(missing | cells.map(np.iscomplexobj))
        numbers = pd.to_numeric(real, errors="coerce").to_numpy(float)
        unreadable = np.isnan(numbers) & ~missing.to_numpy()
        if unreadable.any():
            row = int(unreadable.argmax())
            raise _no_number(name, row, cells[row])
    if np.isinf(numbers).any():
        raise ValueError(f"{name}, row {np.isinf(numbers).argmax() + 1}: the value is infinite.")
    return Numbers(numbers.astype(float), remarks)


def is_missing(cells):
    """Which cells of a pandas series hold nothing, or a word for it."""
    return cells.isna() | cells.astype(str).str.strip().str.lower().isin(MISSING)


def _plain(cells, name: str, decimal: str | None, points_may_group: bool):
    """Text of a pandas series as Python writes numbers, and remarks."""
    matches = cells.map(lambda cell: CELL.fullmatch(cell.strip()))
    words = cells.str.strip().str.lower().isin({"inf", "+inf", "-inf", "infinity", "-infinity"})
    for row, match in matches[~words].items():
        if match is None or (match["open"] is None) != (match["close"] is None):
            raise _no_number(name, row, cells[row])
    found = matches[~words]
    # As objects, since the patterns are those of Python and not of Arrow.
    digits = found.map(lambda match: match["digits"].strip()).astype(object)
    percent = found.map(lambda match: match["percent"] is not None)
    if percent.any() and not percent.all():
        row, other = percent.idxmax(), (~percent).idxmax()
        raise ValueError(
            f"{name}: row {row + 1} is {cells[row]!r} and row {other + 1} {cells[other]!r}; wanted "
            "per cent in all rows or in none."
        )
    currencies = {m for match in found for m in (match["before"], match["after"]) if m}
    if len(currencies) > 1:
        raise ValueError(f"{name} has values in {' and '.join(sorted(currencies))}; wanted one.")
    # Three digits of such money, or in accounts, are thousands.
    commas_group = bool(currencies & COMMAS_GROUP) or any(match["open"] for match in found)
    mark = decimal or _decimal(digits, cells, name, points_may_group, commas_group)
    for row, text in digits.items():
        if not NOTATIONS[mark].fullmatch(text):
            raise _no_number(name, row, cells[row])
    group = "," if mark == "." else "."
    plain = digits.str.replace(rf"{re.escape(group)}|{GROUP}", "", regex=True)
    plain = plain.str.replace(mark, ".", regex=False)
    negative = found.map(lambda m: bool(m["open"]) or {m["sign"], m["inner"]} & {"-", "\u2212"})
    plain = plain.mask(negative.astype(bool), "-" + plain).astype(object)
    remarks = (f"{name} is in per cent",) if percent.any() else ()
    return plain.reindex(cells.index).fillna(cells), remarks


def _decimal(digits, cells, name: str, points_may_group: bool, commas_group: bool) -> str:
    """The mark before decimals that lets all cells be read."""
    fits = {mark: digits.str.fullmatch(form) for mark, form in NOTATIONS.items()}
    if not all(fit.all() for fit in fits.values()):
        # The row that most others do not fit is the one to blame.
        return max(fits, key=lambda mark: (fits[mark].all(), fits[mark].sum()))
    commas = digits.str.contains(",", regex=False)
    points = digits.str.contains(".", regex=False)
    if commas.any() and commas_group:
        return "."
    if commas.any() or (points.any() and points_may_group):
        row = (commas | points).idxmax()
        decimals, thousands = (re.sub("[.,]", by, digits[row]) for by in (".", ""))
        raise AmbiguousError(
            f"{name}, row {row + 1}: {cells[row]!r} may be {decimals} or {thousands}, and no row "
            "tells. Say which mark stands before decimals: --decimal . or --decimal , "
            "(decimal= of read_series)."
        )
    return "."


def _no_number(name: str, row: int, cell) -> ValueError:
    return ValueError(
        f"{name}, row {row + 1}: {str(cell)!r} is not a number, or not in the notation of the "
        "others. Write all of them as in 1234.5; leave the cell empty if the value is missing."
    )
