"""How people write dates, and what each form is in ISO 8601.

A form is a pattern and what its match is in ISO 8601. Only text that fits exactly is read; that 31
February is no date, pandas finds afterwards. English names of months; years of two digits are 1969
to 2068, as in POSIX.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from bayeskern.forecast.data.cells import AmbiguousError

MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
NAME = rf"(?P<name>{'|'.join(MONTHS)}|{'|'.join(month[:3] for month in MONTHS)}|sept)\.?"
YEAR, SHORT = r"(?P<y>\d{4})", r"(?P<y>\d{4}|'?\d\d)"
MONTH, DAY = r"(?P<m>\d{1,2})", r"(?P<d>\d{1,2})"
CLOCK = (
    r"(?:(?:T|,?\s+)(?P<hour>\d{1,2})(?::(?P<minute>\d\d)(?::(?P<second>\d\d(?:[.,]\d+)?))?)?"
    r"\s*(?P<half>[ap]\.?m\.?)?\s*(?P<offset>Z|[+-]\d\d(?::?\d\d)?)?)?"
)

Form = tuple[re.Pattern, Callable[[re.Match], str]]


def _form(pattern: str, iso: Callable[[re.Match], str]) -> Form:
    return re.compile(pattern, re.ASCII | re.IGNORECASE), iso


def _date(match: re.Match) -> str:
    """The date, or the month, and the time of day of a match."""
    parts = match.groupdict()
    year = parts["y"].lstrip("'")
    if len(year) == 2:
        year = f"{'20' if int(year) < 69 else '19'}{year}"
    if parts.get("name"):
        name = parts["name"].lower()
        month = next(i for i, known in enumerate(MONTHS, start=1) if known.startswith(name[:3]))
    else:
        month = int(parts["m"])
    iso = f"{year}-{month:02}"
    if parts.get("d") is None:
        return iso
    return f"{iso}-{int(parts['d']):02}{_clock(parts)}"


def _clock(parts: dict) -> str:
    if parts.get("hour") is None:
        return ""
    hour, half = int(parts["hour"]), (parts.get("half") or "").lower()[:1]
    if half:
        if not 1 <= hour <= 12:
            return "T99"  # no time of day, as pandas will find
        hour = hour % 12 + 12 * (half == "p")
    second = (parts["second"] or "00").replace(",", ".")
    offset = (parts.get("offset") or "").upper()
    return f"T{hour:02}:{parts['minute'] or '00'}:{second}{offset}"


def _quarter(match: re.Match) -> str:
    return f"{match['y']}-{3 * int(match['q']) - 2:02}"


def _week(match: re.Match) -> str:
    return f"{match['y']}-W{match['w']}-{match['d'] or 1}"


# Digits that are read as a date rather than as an integer.
DIGITS = (
    _form(r"(?P<y>1[6-9]\d\d|2[01]\d\d)(?P<m>0[1-9]|1[0-2])(?P<d>0[1-9]|[12]\d|3[01])", _date),
    _form(r"(?P<y>1[6-9]\d\d|2[01]\d\d)(?P<m>0[1-9]|1[0-2])", _date),
)
# 20190113213000, and 201901132130; ten digits may be seconds since 1970 as well.
TIMES_BY_DIGITS = _form(
    DIGITS[0][0].pattern + r"(?P<hour>[01]\d|2[0-3])(?P<minute>[0-5]\d)(?P<second>[0-5]\d)?", _date
)
HOURS_BY_DIGITS = re.compile(DIGITS[0][0].pattern + r"([01]\d|2[0-3])", re.ASCII)
ISO = _form(rf"{YEAR}-(?P<m>\d\d)(?:-(?P<d>\d\d){CLOCK})?", _date)
WEEK = _form(r"(?P<y>\d{4})-?W(?P<w>\d\d)(?:-?(?P<d>[1-7]))?", _week)
FORMS = (
    *DIGITS,
    TIMES_BY_DIGITS,
    ISO,
    WEEK,
    _form(r"(?P<y>\d{4})[-/ ]?Q(?P<q>[1-4])", _quarter),
    _form(r"Q(?P<q>[1-4])[-/ ]?(?P<y>\d{4})", _quarter),
    _form(r"(?P<y>\d{4})[- ]?M(?P<m>0?[1-9]|1[0-2])", _date),
    _form(rf"{YEAR}/{MONTH}(?:/{DAY}{CLOCK})?", _date),
    _form(rf"{YEAR}\.{MONTH}\.{DAY}{CLOCK}", _date),
    # Points stand between day, month and year, in this order, wherever they are used.
    _form(rf"{DAY}\.{MONTH}\.{SHORT}{CLOCK}", _date),
    _form(rf"{DAY}[- /]{NAME}[- /,]+{SHORT}{CLOCK}", _date),
    _form(rf"{NAME} {DAY},? {YEAR}{CLOCK}", _date),
    _form(rf"{NAME}[- /,]*{YEAR}", _date),
    # "Jan 19" may be a day.
    _form(rf"{NAME}(?:[-/]'?| ?')(?P<y>\d\d)", _date),
    _form(rf"{YEAR}[- /]{NAME}(?:[- /]{DAY})?", _date),
    _form(rf"{MONTH}/{YEAR}", _date),
)
# Day and month in an order that only the column can tell.
EITHER = _form(rf"(?P<a>\d{{1,2}})(?P<mark>[-/])(?P<b>\d{{1,2}})(?P=mark){SHORT}{CLOCK}", _date)
DAY_FIRST, MONTH_FIRST = (
    _form(EITHER[0].pattern.replace("<a>", f"<{a}>").replace("<b>", f"<{b}>"), _date)
    for a, b in (("d", "m"), ("m", "d"))
)


def form_of(texts: Sequence[str], name: str) -> Form | None:
    """The form that a column is written in, told by its first row; None if it is in none.

    Raises:
        AmbiguousError: If day and month may be either, naming both readings.
    """
    for form in FORMS:
        if form[0].fullmatch(texts[0]):
            return form
    if not EITHER[0].fullmatch(texts[0]):
        return None
    found = [match for match in map(EITHER[0].fullmatch, texts) if match]
    if any(int(match["a"]) > 12 for match in found):
        return DAY_FIRST
    if any(int(match["b"]) > 12 for match in found):
        return MONTH_FIRST
    mark, year = found[0]["mark"], "%Y" if len(found[0]["y"]) == 4 else "%y"
    readings = [
        f"{form[1](form[0].fullmatch(texts[0]))[:10]} (--date-format {written}{year})"
        for form, written in (
            (DAY_FIRST, f"%d{mark}%m{mark}"),
            (MONTH_FIRST, f"%m{mark}%d{mark}"),
        )
    ]
    raise AmbiguousError(
        f"{name}, row 1: {texts[0]!r} may be {' or '.join(readings)}, and no row tells. Say which, "
        "or write ISO dates (2020-01-31)."
    )
