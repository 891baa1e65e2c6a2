"""Reading times: text, dates, datetimes, periods and numbers into sortable arrays.

pandas reads ISO 8601 and holds what it reads; what stands here is what pandas leaves open: which
of several forms a column is written in, and which row does not fit. A new form of text is one more
line of `FORMS`.
"""

from __future__ import annotations

import datetime as dt
import numbers
import re
from typing import Any

import numpy as np

from bayeskern.forecast.cells import is_missing

__all__ = ["is_dated_by_digits", "parse_times"]

WANTED = "an ISO date or time (2020-01-31, 2020-01-31T05:00), a quarter (2020Q1) or a number"

YEAR, MONTH, DAY = r"(1[6-9]\d\d|2[01]\d\d)", r"(0[1-9]|1[0-2])", r"(0[1-9]|[12]\d|3[01])"
# Digits that are read as a date rather than as an integer, and the same date in ISO 8601.
DIGITS = {YEAR + MONTH + DAY: r"\1-\2-\3", YEAR + MONTH: r"\1-\2"}
NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
ISO = r"\d{4}-\d\d(-\d\d([Tt ]\d\d.*)?)?"
# How text writes a time -> what that is in ISO 8601. The first row decides for all.
FORMS = {
    **DIGITS,
    r"(\d{4})-?[Qq]([1-4])": lambda match: f"{match[1]}-{3 * int(match[2]) - 2:02}",
    # pandas wants T and Z in capitals, and a point before fractions of a second.
    ISO: lambda match: match[0].upper().replace(",", "."),
}
# The order of day and month is that of the column.
SLASHES = r"(\d{1,2})/(\d{1,2})/(\d{4})(\b.*)?"
OFFSET = re.compile(r".*\d[T ]\d.*(Z|[+-]\d\d(:?\d\d)?)")


def parse_times(values: Any, name: str = "time") -> np.ndarray:
    """Dates, datetimes, periods, text or numbers -> (n,) datetime64 (s or finer), int64 or float64.

    Times with an offset or a zone come out as naive UTC; `zones.zone_of` tells the zone. Periods
    come out as their start. Text may hold ISO dates and times, quarters ("2020Q1"), 31/01/2020
    where the column shows which number is the day, digits (20200131 and 202001 are dates, others
    integers) and decimals. Raises ValueError with the row, counted from 1, of what is missing or
    cannot be read.
    """
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name}: came shape {array.shape}, wanted one dimension")
    if array.dtype.kind not in "MiufOUT" or (array.dtype.kind in "OUT" and len(array) == 0):
        raise ValueError(f"{name}: came {array.dtype} of shape {array.shape}, wanted {WANTED}")
    if array.dtype.kind in "OUT":
        array = _parse_objects(array, name)
    _require_times(np.isfinite(array), name)
    if array.dtype.kind == "M":
        return _in_coarsest_unit(array)
    fits = array.dtype.kind != "f" and array.max(initial=0) <= np.iinfo(np.int64).max
    return array.astype(np.int64 if fits else np.float64)


def is_dated_by_digits(integers: np.ndarray) -> bool:
    """Whether all integers could be dates written as YYYYMM or YYYYMMDD."""
    texts = [str(integer) for integer in integers]
    return any(all(re.fullmatch(form, text) for text in texts) for form in DIGITS)


def _in_coarsest_unit(times: np.ndarray) -> np.ndarray:
    """datetime64 in seconds, or in the coarsest finer unit that is exact."""
    for unit in ("s", "ms", "us"):
        if (times.astype(f"M8[{unit}]") == times).all():
            return times.astype(f"M8[{unit}]")
    return times.astype("M8[ns]")


def _parse_objects(array: np.ndarray, name: str) -> np.ndarray:
    import pandas as pd  # slow to import

    _require_times(~is_missing(pd.Series(array, dtype=object)), name)
    values = [value.strip() if isinstance(value, str) else value for value in array]
    families = [_family(value) for value in values]
    _require_readable([f is not None and f is families[0] for f in families], values, name)
    if families[0] is numbers.Real:
        return np.array(values)
    if families[0] is str:
        return _parse_text(values, name)
    dates = [value.to_timestamp() if isinstance(value, pd.Period) else value for value in values]
    _require_alike([getattr(date, "tzinfo", None) is not None for date in dates], dates, name)
    return pd.to_datetime(dates, utc=True).tz_localize(None).to_numpy()


def _family(value: Any) -> type | None:
    """What can stand together in one column; None for what is no time at all."""
    import pandas as pd  # slow to import

    if isinstance(value, bool | np.bool_):
        return None
    if isinstance(value, np.datetime64 | pd.Period):
        return dt.date
    return next((t for t in (str, dt.date, numbers.Real) if isinstance(value, t)), None)


def _parse_text(texts: list[str], name: str) -> np.ndarray:
    import pandas as pd  # slow to import

    form, iso = _form(texts, name)
    matches = [_match(form, text) for text in texts]
    _require_readable([match is not None for match in matches], texts, name)
    if iso is None:
        return pd.to_numeric(np.array(texts, object), errors="coerce")
    in_iso = [iso(match) if callable(iso) else match.expand(iso) for match in matches]
    times = pd.to_datetime(in_iso, format="ISO8601", utc=True, errors="coerce")
    _require_readable(times.notna(), texts, name)
    _require_alike([OFFSET.fullmatch(text) is not None for text in in_iso], texts, name)
    return times.tz_localize(None).to_numpy()


def _form(texts: list[str], name: str) -> tuple:
    """The form that a column is written in, told by its first row, and what that is in ISO 8601.

    None in place of the latter for numbers.
    """
    for form, iso in FORMS.items():
        if _match(form, texts[0]):
            return form, iso
    if _match(NUMBER, texts[0]):
        return NUMBER, None
    if _match(SLASHES, texts[0]):
        return SLASHES, _slashes_in_iso(texts, name)
    return ISO, FORMS[ISO]


def _match(form: str, text: str) -> re.Match | None:
    return re.fullmatch(form, text, re.ASCII)


def _slashes_in_iso(texts: list[str], name: str):
    """Day and month in the order that some row gives away: pandas would guess it row by row."""
    parts = [match for match in (_match(SLASHES, text) for text in texts) if match]
    day_first = any(int(part[1]) > 12 for part in parts)
    if not day_first and all(int(part[2]) <= 12 for part in parts):
        raise ValueError(
            f"{name}, row 1: {texts[0]!r} may be day/month or month/day, and no row tells; "
            "wanted ISO dates (2020-01-31)"
        )
    day, month = (1, 2) if day_first else (2, 1)
    return lambda part: f"{part[3]}-{part[month]:0>2}-{part[day]:0>2}{part[4] or ''}"


def _require_times(there, name: str) -> None:
    if not np.all(there):
        raise ValueError(f"{name}, row {_first_row(there)}: no time; drop the row or fill it in")


def _require_readable(readable, values, name: str) -> None:
    if not np.all(readable):
        row = _first_row(readable)
        value = str(values[row - 1])
        raise ValueError(f"{name}, row {row}: cannot read {value!r}; wanted {WANTED}")


def _require_alike(aware: list[bool], values, name: str) -> None:
    """Refuse times where some have an offset or a zone and others have none."""
    alike = np.equal(aware, aware[0])
    if not np.all(alike):
        row = _first_row(alike)
        raise ValueError(
            f"{name}, row {row}: {str(values[row - 1])!r} has {'an' if aware[row - 1] else 'no'} "
            "offset or zone, unlike row 1; wanted all with one or all without"
        )


def _first_row(fine) -> int:
    """The first row that is not fine, counted from 1."""
    return int(np.argmin(fine)) + 1
