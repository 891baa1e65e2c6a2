"""Cells of a table as numbers, in the notation of their column."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

GROUP_MARKS = r"['\u2019 \u00a0\u202f]"


def _notation(decimal: str, group: str) -> re.Pattern[str]:
    """Pattern of a number with a decimal mark and one consistent thousands separator."""
    group = rf"(?P<g>{re.escape(group)}|{GROUP_MARKS})"
    whole = rf"(?:\d+|[1-9]\d{{0,2}}{group}\d{{3}}(?:(?P=g)\d{{3}})*)"
    decimal = re.escape(decimal)
    return re.compile(
        rf"(?:{whole}(?:{decimal}\d*)?|{decimal}\d+)(?:[eE][+-]?\d+)?", flags=re.ASCII
    )


# Decimal mark -> pattern of a number.
NOTATIONS = {".": _notation(".", ","), ",": _notation(",", ".")}


class AmbiguousError(ValueError):
    """Cells that can be read in two ways."""


def read_numbers(
    cells: Any, name: str, decimal: str | None, points_may_group: bool
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Read the cells of a column as numbers.

    Text may hold currencies, per cent signs, brackets for negative values, decimal marks and
    thousands separators, as long as the column can be read in one way only.

    Args:
        cells: Numbers or text, (n,).
        name: Name of the column, for messages.
        decimal: The decimal mark, "." or ","; None to infer it.
        points_may_group: True if 1.234 may also mean 1234.

    Returns:
        Numbers, (n,), NaN where missing, and remarks on how text was read.

    Raises:
        ValueError: A cell is not a number or is ambiguous; the message names the first such row.
    """
    if decimal not in (None, *NOTATIONS):
        raise ValueError(f"decimal must be '.' or ','; got {decimal!r}.")
    require_scalars(cells, name)
    numbers, remarks = np.asarray(cells), ()
    if numbers.dtype.kind not in "iuf":
        import pandas as pd  # slow to import

        cells = pd.Series(list(cells), dtype=object)
        missing = is_missing(cells)
        text = cells.map(lambda cell: isinstance(cell, str)) & ~missing
        if text.any():
            plain, remarks = _plain_text(cells[text], name, decimal, points_may_group)
            cells = cells.mask(text, plain)
        # Mask complex numbers, which pandas.to_numeric accepts.
        real = cells.mask(missing | cells.map(np.iscomplexobj))
        try:
            numbers = np.asarray(pd.to_numeric(real, errors="coerce"), float)
        except OverflowError:
            raise ValueError(f"{name} has a value beyond 1e308; write smaller numbers.") from None
        _require_numbers(missing | ~np.isnan(numbers), cells, name)
    if np.isinf(numbers).any():
        raise ValueError(f"{name}, row {np.isinf(numbers).argmax() + 1}: the value is infinite.")
    return numbers.astype(float), remarks


def require_scalars(cells: Any, name: str) -> None:
    """Raise ValueError with the first cell that holds several values, and its row."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind != "O":
        return
    for row, cell in enumerate(cells):
        if isinstance(cell, list | tuple | dict | set | np.ndarray):
            raise ValueError(
                f"{name}, row {row + 1}: {cell!r} holds several values; write one value to each "
                "cell."
            )


def count_cells(cells: Any) -> np.ndarray:
    """1 for each cell with a content of any kind, NaN for missing ones: (n,)."""
    import pandas as pd  # slow to import

    return np.where(is_missing(pd.Series(list(cells), dtype=object)), np.nan, 1.0)


def is_missing(cells: pd.Series) -> pd.Series:
    """Mask of the cells that are empty or hold a word for a missing value."""
    words = {
        "", "na", "n/a", "<na>", "#n/a", "nan", "nat", "null", "none", ".", "-", "--", "\u2013",
        "\u2014",
    }  # fmt: skip
    return cells.isna() | cells.astype(str).str.strip().str.lower().isin(words)


def _plain_text(
    cells: pd.Series, name: str, decimal: str | None, points_may_group: bool
) -> tuple[pd.Series, tuple[str, ...]]:
    """Text cells in the number format of Python, such as "-1234.5", and remarks."""
    currency = r"[$\u20ac\u00a3\u00a5\u20b9]|USD|EUR|GBP|CHF|JPY"
    # In accounts, (1,022) means -1022.
    pattern = (
        rf"^(?P<open>\()?\s*(?P<sign>[+\-\u2212])?\s*(?P<before>{currency})?\s*"
        r"(?P<inner>[+\-\u2212])?"
        r"(?P<digits>[\d.,'\u2019 \u00a0\u202f]*[\d.,](?:[eE][+-]?\d+)?)"
        rf"\s*(?P<percent>%)?\s*(?P<after>{currency})?\s*(?P<close>\))?$"
    )
    text = cells.str.strip()
    infinite = text.str.lower().isin(["inf", "+inf", "-inf", "infinity", "-infinity"])
    parts = text[~infinite].str.extract(pattern).fillna("")
    bracket = parts["open"] != ""
    unreadable = (parts["digits"] == "") | (bracket != (parts["close"] != ""))
    digits, percent = parts["digits"].str.strip(), parts["percent"] != ""
    _require_numbers(~unreadable, cells, name)
    if percent.any() and not percent.all():
        row, other = percent.idxmax(), (~percent).idxmax()
        raise ValueError(
            f"{name}: row {row + 1} is {cells[row]!r} and row {other + 1} {cells[other]!r}; write "
            "per cent in all rows or in none."
        )
    currencies = {*parts["before"], *parts["after"]} - {""}
    if len(currencies) > 1:
        raise ValueError(
            f"{name} has values in {' and '.join(sorted(currencies))}; convert to one."
        )
    if decimal is None:
        # With these currencies, and in brackets, a comma separates thousands: amounts have two
        # decimals or none. In euros it may be a decimal mark: a litre costs 1,859 EUR.
        without_decimal_commas = {"$", "\u00a3", "\u00a5", "\u20b9", "USD", "GBP", "JPY"}
        commas_group = bool(without_decimal_commas & currencies) or bool(bracket.any())
        decimal = _decimal_mark(digits, cells, name, points_may_group, commas_group)
    _require_numbers(digits.str.fullmatch(NOTATIONS[decimal]).astype(bool), cells, name)
    group = "," if decimal == "." else "."
    plain = digits.str.replace(rf"{re.escape(group)}|{GROUP_MARKS}", "", regex=True)
    plain = plain.str.replace(decimal, ".", regex=False)
    minus = ["-", "\u2212"]
    negative = bracket | parts["sign"].isin(minus) | parts["inner"].isin(minus)
    plain = plain.mask(negative, "-" + plain).astype(object)
    remarks = (f"{name} is in per cent",) if percent.any() else ()
    return plain.reindex(cells.index).fillna(cells), remarks


def _decimal_mark(
    digits: pd.Series, cells: pd.Series, name: str, points_may_group: bool, commas_group: bool
) -> str:
    """Decimal mark with which all cells can be read; commas_group: commas separate thousands.

    Raises AmbiguousError if both marks fit and the readings differ.
    """
    fits = {mark: digits.str.fullmatch(form).astype(bool) for mark, form in NOTATIONS.items()}
    if not all(fit.all() for fit in fits.values()):
        # If neither mark fits all cells, the caller's error names a cell that differs from the
        # majority.
        return max(fits, key=lambda mark: (fits[mark].all(), fits[mark].sum()))
    commas = digits.str.contains(",", regex=False).astype(bool)
    points = digits.str.contains(".", regex=False).astype(bool)
    if commas.any() and commas_group:
        return "."
    if commas.any() or (points.any() and points_may_group):
        row = (commas | points).idxmax()
        decimals, thousands = (re.sub("[.,]", by, str(digits[row])) for by in (".", ""))
        raise AmbiguousError(
            f"{name}, row {row + 1}: {cells[row]!r} may be {decimals} or {thousands}. Name the "
            "decimal mark: --decimal . or --decimal , (decimal= of read_series)."
        )
    return "."


def _require_numbers(readable: pd.Series, cells: pd.Series, name: str) -> None:
    """Raise ValueError with the first cell that is not a number, and its row."""
    if not readable.all():
        row = cast("int", readable.idxmin())
        raise ValueError(
            f"{name}, row {row + 1}: {str(cells[row])!r} is not a number, or differs in notation "
            "from the other cells. Write all cells as in 1234.5, and leave missing cells empty."
        )
