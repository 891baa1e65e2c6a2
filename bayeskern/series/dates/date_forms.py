"""Written forms of dates, and their conversion to ISO 8601.

Only text that matches a form exactly is read; pandas then rejects dates such as 31 February. Names
of months and weekdays are English. Years of two digits are 1969 to 2068, as in POSIX. The module
`point_months` reads months with a point (12.1993, 1993.12), which may be decimals.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence

from bayeskern.series.cells import AmbiguousError

MONTH_NAMES = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
WEEKDAY_NAMES = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WEEKDAY = rf"(?:{'|'.join(WEEKDAY_NAMES)}|tues|thurs?|{'|'.join(n[:3] for n in WEEKDAY_NAMES)})"
# "Tuesday, 01 January 2013" and "2013-01-01 (Tue)".
WEEKDAY_BESIDE_DATE = re.compile(
    rf"(?P<before>{_WEEKDAY})\.?,?\s+(?P<after_it>.+)|"
    rf"(?P<before_it>.+?),?\s+\(?(?P<after>{_WEEKDAY})\.?\)?",
    re.IGNORECASE,
)
# Parts of dates by name, for the patterns below.
DATE_PARTS = {
    "name": rf"(?P<name>{'|'.join(MONTH_NAMES)}|{'|'.join(n[:3] for n in MONTH_NAMES)}|sept)\.?",
    "year": r"(?P<y>\d{4})",
    "short": r"(?P<y>\d{4}|'?\d\d)",
    "month": r"(?P<m>\d{1,2})",
    "day": r"(?P<d>\d{1,2})",
    "clock": (
        r"(?:(?:T|,?\s+)(?P<hour>\d{1,2})(?::(?P<minute>\d\d)(?::(?P<second>\d\d(?:[.,]\d+)?))?)?"
        r"\s*(?P<half>[ap]\.?m\.?)?\s*(?P<offset>Z|[+-]\d\d(?::?\d\d)?)?)?"
    ),
    # Digits that are read as a date rather than as an integer: 20190113 and 201901.
    "yyyymmdd": (r"(?P<y>1[6-9]\d\d|2[01]\d\d)(?P<m>0[1-9]|1[0-2])(?P<d>0[1-9]|[12]\d|3[01])"),
    "yyyymm": r"(?P<y>1[6-9]\d\d|2[01]\d\d)(?P<m>0[1-9]|1[0-2])",
    "hh": r"(?P<hour>[01]\d|2[0-3])",
}


def _form(template: str) -> re.Pattern[str]:
    return re.compile(template.format(**DATE_PARTS), re.ASCII | re.IGNORECASE)


# Ten digits, which may also be seconds since 1970.
HOURS_OF_DIGITS = _form("{yyyymmdd}{hh}")
FORMS = {
    "yyyymmdd": _form("{yyyymmdd}"),
    "yyyymm": _form("{yyyymm}"),
    "digits with a time": _form(r"{yyyymmdd}{hh}(?P<minute>[0-5]\d)(?P<second>[0-5]\d)?"),
    # A month has two digits (2020-01), unless a day follows (2020-1-31).
    "ISO date": _form(r"{year}-(?P<m>\d{{1,2}})(?:(?<=-\d\d)|(?=-))(?:-(?P<d>\d{{1,2}}){clock})?"),
    "ISO week": _form(r"{year}-?W(?P<w>\d\d)(?:-?(?P<d>[1-7]))?"),
    "2020Q1": _form("{year}[-/ ]?Q(?P<q>[1-4])"),
    "Q1 2020": _form("Q(?P<q>[1-4])[-/ ]?{year}"),
    "2020M01": _form("{year}[- ]?M(?P<m>0?[1-9]|1[0-2])"),
    "2020/1/31": _form("{year}/{month}(?:/{day}{clock})?"),
    "2020.1.31": _form(r"{year}\.{month}\.{day}{clock}"),
    # With points, the usual order is day, month, year.
    "31.1.2020": _form(r"{day}\.{month}\.{short}{clock}"),
    "31 Jan 2020": _form("{day}[- /]{name}[- /,]+{short}{clock}"),
    "Jan 31, 2020": _form("{name} {day},? {year}{clock}"),
    "Jan 2020": _form("{name}[- /,]*{year}"),
    # "Jan-20" and "Jan '20" are a month and a year; "Jan 20" may be a day and is not accepted.
    "Jan-20": _form(r"{name}(?:[-/]'?| ?')(?P<y>\d\d)"),
    "2020 Jan 31": _form("{year}[- /]{name}(?:[- /]{day})?"),
    "1/2020": _form("{month}[-/]{year}"),
}


def form_of(
    texts: Sequence[str], name: str, weekdays: Sequence[int | None] = ()
) -> re.Pattern[str] | None:
    """Written form of a column of dates, from its first row; None for an unknown form.

    Args:
        texts: Dates without weekdays.
        name: Name of the column, for messages.
        weekdays: Weekday written beside each date, from 0 for Monday; None where there is none.

    Raises:
        AmbiguousError: If day and month may be interchanged; the message names both readings.
    """
    for form in FORMS.values():
        if form.fullmatch(texts[0]):
            return form
    # The whole column, not only the first row, decides the order of day and month.
    day_first = _form(r"{day}(?P<mark>[-/]){month}(?P=mark){short}{clock}")
    month_first = _form(r"{month}(?P<mark>[-/]){day}(?P=mark){short}{clock}")
    first = day_first.fullmatch(texts[0])
    if first is None:
        return None
    matches = [match for match in map(day_first.fullmatch, texts) if match]
    if any(int(match["d"]) > 12 for match in matches):
        return day_first
    if any(int(match["m"]) > 12 for match in matches):
        return month_first
    forms = (day_first, month_first)
    by_form = [[iso_date(form, text) for text in texts] for form in forms]
    row = next((i for i, (a, b) in enumerate(zip(*by_form, strict=True)) if a != b), None)
    if row is None:
        return day_first
    if any(weekday is not None for weekday in weekdays):
        wrong = [first_wrong_weekday(iso, weekdays) for iso in by_form]
        if wrong.count(None) == 1:
            return forms[wrong.index(None)]
    mark, year = first["mark"], "%Y" if len(first["y"]) == 4 else "%y"
    orders = (f"%d{mark}%m{mark}{year}", f"%m{mark}%d{mark}{year}")
    readings = " or ".join(
        f"{iso[row][:10]} (--date-format {order})"
        for order, iso in zip(orders, by_form, strict=True)
    )
    raise AmbiguousError(
        f"{name}, row {row + 1}: {texts[row]!r} may be {readings}. Give the format, or write ISO "
        "dates (2020-01-31)."
    )


def split_weekday(text: str) -> tuple[str, int | None]:
    """Date without its weekday, and the weekday from 0 for Monday, or None."""
    # The time of the match is quadratic in the length of the text.
    match = WEEKDAY_BESIDE_DATE.fullmatch(text) if len(text) < 80 else None
    if match is None:
        return text, None
    word = (match["before"] or match["after"])[:3].lower()
    weekday = next(i for i, full in enumerate(WEEKDAY_NAMES) if full.startswith(word))
    return match["after_it"] or match["before_it"], weekday


def first_wrong_weekday(iso: Sequence[str], weekdays: Sequence[int | None]) -> int | None:
    """First row whose date does not fall on its weekday; None if all agree."""
    for row, (text, weekday) in enumerate(zip(iso, weekdays, strict=True)):
        if weekday is not None:
            try:
                date = dt.date.fromisoformat(text[:10])
            except ValueError:  # not a date: reported by the parser
                continue
            if date.weekday() != weekday:
                return row
    return None


def iso_date(form: re.Pattern[str], text: str) -> str:
    """Convert text of a written form to ISO 8601: a month, a date, or a date and time.

    Returns "" if the text does not match the form.
    """
    match = form.fullmatch(text)
    if match is None:
        return ""
    parts = match.groupdict()
    year = parts["y"].lstrip("'")
    if len(year) == 2:
        year = f"{'20' if int(year) < 69 else '19'}{year}"
    if "q" in parts:
        return f"{year}-{3 * int(parts['q']) - 2:02}"
    if "w" in parts:
        return _day_of_week(int(year), int(parts["w"]), int(parts["d"] or 1))
    if parts.get("name"):
        name = parts["name"].lower()
        month = next(i for i, full in enumerate(MONTH_NAMES, 1) if full.startswith(name[:3]))
    else:
        month = int(parts["m"])
    if parts.get("d") is None:
        return f"{year}-{month:02}"
    return f"{year}-{month:02}-{int(parts['d']):02}{_clock(parts)}"


def _day_of_week(year: int, week: int, day: int) -> str:
    """Date of a day of an ISO week; empty if the year has no such week."""
    # Before Python 3.13 strptime reads week 53 of a year with 52 weeks as week 1 of the next.
    try:
        return dt.date.fromisocalendar(year, week, day).isoformat()
    except ValueError:
        return ""


def _clock(parts: dict[str, str | None]) -> str:
    """Time of day in ISO 8601, with its offset; empty if the date has none."""
    if parts.get("hour") is None:
        return ""
    hour, half = int(parts["hour"] or 0), (parts.get("half") or "").lower()[:1]
    if half:
        if not 1 <= hour <= 12:
            return "T99"  # rejected by pandas
        hour = hour % 12 + 12 * (half == "p")
    second = (parts["second"] or "00").replace(",", ".")
    offset = (parts.get("offset") or "").upper()
    return f"T{hour:02}:{parts['minute'] or '00'}:{second}{offset}"
