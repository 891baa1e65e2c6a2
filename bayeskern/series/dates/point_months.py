"""Months written with a point, such as 12.1993 and 1993.12.

A column is read as months, not as decimals, if they are in regular steps of at most a year, or if a
month has a leading zero (01.1993). A column that may be months or decimals, or months in two ways,
is refused. A program that takes such months for numbers drops the last zero: 1993.1 is October
beside 1993.01, and January beside 1993.2. Yearly values at 1993.5 are in the middle of the year.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bayeskern.series.cells import AmbiguousError

_YEAR = r"(?:1[6-9]|2[01])\d\d"
MONTH_FIRST = re.compile(rf"(?P<m>\d\d?)\.(?P<y>{_YEAR})", re.ASCII)
YEAR_FIRST = re.compile(rf"(?P<y>{_YEAR})\.(?P<m>\d\d?)", re.ASCII)
# Minimum share of rows that are months; the other rows are reported as mistakes.
MIN_MONTHS = 0.75


class PointMonths(NamedTuple):
    """Reading of a column that may hold months with a point.

    Attributes:
        iso: Months in ISO 8601, such as "1993-12", and "" for a row that is not a month, (n,). None
            for numbers.
        remark: The reading in words, with an example.
    """

    iso: list[str] | None
    remark: str


def read_point_months(texts: Sequence[str], name: str) -> PointMonths | None:
    """Read a column of months with a point; None if it is something else.

    Args:
        texts: The rows, as written.
        name: Name of the column, for messages.

    Raises:
        AmbiguousError: If a row may be two different months, or a month or a decimal.
    """
    patterns = (MONTH_FIRST, YEAR_FIRST)
    pattern = next((p for p in patterns if texts and p.fullmatch(texts[0])), None)
    matches = [pattern.fullmatch(text) for text in texts] if pattern else []
    parts = [match["m"] for match in matches if match]
    if not parts or len(parts) < len(texts):
        return None
    is_year_first = pattern is YEAR_FIRST
    years = np.array([int(match["y"]) for match in matches if match])
    readings = _readings(parts, not is_year_first)
    if not is_year_first and any(part[0] == "0" for part in parts):
        return _point_months(texts, name, years, readings[0])
    if is_year_first and set(parts) == {"5"}:
        remark = f"{name} is read as numbers ({texts[0]} is the middle of {years[0]}); for May, "
        return PointMonths(None, f"{remark}--date-format %Y.%m")
    # No month is 0.
    if is_year_first and "0" in parts:
        return None
    shares = [np.mean((months >= 1) & (months <= 12)) for months in readings]
    likely = [m for m, share in zip(readings, shares, strict=True) if share >= MIN_MONTHS]
    # 12.2000 and 13.2000 are numbers in steps of 1.
    if not likely or (not is_year_first and max(shares) < 1.0 and len(set(years)) == 1):
        return None
    regular = [months for months in likely if _is_regular(years, months)]
    # One month per year, or one digit in all rows, may also be a decimal.
    are_months = not is_year_first or (len(set(parts)) > 1 and any(len(part) > 1 for part in parts))
    if len(regular) == 1 and are_months:
        return _point_months(texts, name, years, regular[0])
    # The first row with different months, else the first row.
    row = int(np.argmax(np.any([months != likely[0] for months in likely], axis=0)))
    choices = dict.fromkeys(f"the month {years[row]}-{m[row]:02}" for m in likely)
    order = "%Y.%m" if is_year_first else "%m.%Y"
    raise AmbiguousError(
        f"{name}, row {row + 1}: {texts[row]!r} may be {' or '.join(choices)} (--date-format "
        f"{order} takes months as written) or the number {float(texts[row]):.10g} (--date-format "
        "number). Give the format, or write ISO months (2020-01)."
    )


def texts_of_decimals(numbers: np.ndarray) -> list[str]:
    """Text of numbers that may be months with a point, or else an empty list.

    Numbers lose their trailing zeros. The text of 12.201 is 12.2010; that of 1993.1 stays 1993.1,
    and the whole column decides its month.
    """
    if len(numbers) == 0 or not np.isfinite(numbers).all() or (numbers < 1.0).any():
        return []
    if (numbers >= 1600.0).all():
        texts = [f"{number:.10g}" for number in numbers]
        return texts if any("." in text for text in texts) else []
    texts = [f"{number:.4f}" for number in numbers]
    is_exact = np.allclose([float(text) for text in texts], numbers, rtol=0.0, atol=1e-9)
    return texts if is_exact and any(text[-1] != "0" for text in texts) else []


def _readings(parts: Sequence[str], is_month_first: bool) -> list[np.ndarray]:
    """Possible months, (n,) each: as written, and with "1" as October."""
    months = np.array([int(part) for part in parts])
    single = {part for part in parts if len(part) == 1}
    double = {part for part in parts if len(part) == 2}
    readings = []
    # As written, without leading zeros, only January to September have one digit.
    if is_month_first or not single or all(part[0] != "0" for part in double):
        readings.append(months)
    if not is_month_first and single == {"1"} and "10" not in double:
        readings.append(np.where([len(part) == 1 for part in parts], 10, months))
    return readings


def _is_regular(years: np.ndarray, months: np.ndarray) -> bool:
    """True for distinct months in equal steps of at most a year, with few gaps."""
    valid = (months >= 1) & (months <= 12)
    positions = np.sort(12 * years[valid] + months[valid])
    gaps = np.diff(positions)
    if len(gaps) == 0 or not gaps.all():
        return False
    sizes, frequencies = np.unique(gaps, return_counts=True)
    step = sizes[frequencies.argmax()]
    return bool(step <= 12 and np.gcd.reduce(gaps) == step and 2 * frequencies.max() >= len(gaps))


def _point_months(
    texts: Sequence[str], name: str, years: np.ndarray, months: np.ndarray
) -> PointMonths:
    """Months in ISO 8601 with a remark."""
    iso = [
        f"{year}-{month:02}" if 1 <= month <= 12 else ""
        for year, month in zip(years, months, strict=True)
    ]
    # October is the best example, because it may have lost its zero.
    row = int(np.argmax(months == 10))
    remark = (
        f"{name} is read as months ({texts[row]} is {iso[row]}); for numbers, --date-format number"
    )
    return PointMonths(iso, remark)
