"""Reading times: text, dates, datetimes, periods and numbers into sortable arrays.

pandas reads ISO 8601 and holds what it reads; what stands here is what pandas leaves open: which
of several forms a column is written in (`date_forms.FORMS`), and which row does not fit.
"""

from __future__ import annotations

import datetime as dt
import numbers
import re
from typing import Any

import numpy as np

from bayeskern.forecast.data.cells import AmbiguousError, is_missing
from bayeskern.forecast.data.date_forms import DIGITS, HOURS_BY_DIGITS, ISO, WEEK, form_of

__all__ = ["epoch_unit", "is_dated_by_digits", "parse_times"]

WANTED = (
    "dates as in 2020-01-31, 31.01.2020, Jan 2020, 2020Q1 or 2020-W05, or numbers; --date-format "
    "names another form"
)
NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
OFFSET = re.compile(r".*\d[T ]\d.*(Z|[+-]\d\d(:?\d\d)?)")
# Seconds since 1970 are ten digits from 2001 to 2286; what is finer has three digits more.
FIRST_EPOCH, LAST_EPOCH = 10**9, 10**10
EPOCHS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def parse_times(values: Any, name: str = "time", date_format: str | None = None) -> np.ndarray:
    """Dates, datetimes, periods, text or numbers -> (n,) datetime64 (s or finer), int64 or float64.

    Times with an offset or a zone come out as naive UTC; `zones.zone_of` tells the zone. Periods
    come out as their start. Text may hold dates in any form of `date_forms`, digits (20200131 and
    202001 are dates, others integers) and decimals; in the form `date_format` ("%d/%m/%Y") if that
    is given. Numbers that are Unix epochs are dates; `epoch_unit` tells. Raises ValueError with the
    row, counted from 1, of what is missing or cannot be read.
    """
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name}: came shape {array.shape}, wanted one dimension")
    if array.dtype.kind not in "MiufOUT" or (array.dtype.kind in "OUT" and len(array) == 0):
        raise ValueError(f"{name}: came {array.dtype} of shape {array.shape}, wanted {WANTED}")
    if date_format is not None and array.dtype.kind in "iu":
        array = array.astype(str)
    if array.dtype.kind in "OUT":
        array = _parse_objects(array, name, date_format)
    _require_times(np.isfinite(array), name)
    if array.dtype.kind == "M":
        return _in_coarsest_unit(array)
    unit = epoch_unit(array)
    if unit is not None:
        _require_no_hours(array, name)
        return _in_coarsest_unit(array.astype(np.int64).astype(f"M8[{unit}]"))
    fits = array.dtype.kind != "f" and array.max(initial=0) <= np.iinfo(np.int64).max
    return array.astype(np.int64 if fits else np.float64)


def epoch_unit(values: Any) -> str | None:
    """s, ms, us or ns, if numbers, or text of them, are times since 1970 in that unit."""
    array = np.asarray(values)
    if array.dtype.kind in "OU" and len(array) and re.fullmatch(r"\d{10,19}", str(array[0])):
        try:
            array = np.array([int(value) for value in array])
        except (ValueError, TypeError, OverflowError):
            return None
    if array.dtype.kind not in "iuf" or len(array) == 0 or not np.all(array == np.round(array)):
        return None
    for unit, scale in EPOCHS.items():
        if np.all((array >= FIRST_EPOCH * scale) & (array < LAST_EPOCH * scale)):
            return unit
    return None


def _require_no_hours(seconds: np.ndarray, name: str) -> None:
    """Refuse numbers that are seconds since 1970, and hours as in 2019011321 too."""
    texts = [str(int(second)) for second in seconds]
    if all(HOURS_BY_DIGITS.fullmatch(text) for text in texts):
        since = np.datetime64(int(seconds[0]), "s")
        raise AmbiguousError(
            f"{name}, row 1: {texts[0]} may be {since}, in seconds since 1970, or an hour as in "
            "YYYYMMDDHH (--date-format %Y%m%d%H). Say which, or write ISO dates."
        )


def is_dated_by_digits(integers: np.ndarray) -> bool:
    """Whether all integers could be dates written as YYYYMM or YYYYMMDD."""
    texts = [str(integer) for integer in integers]
    return any(all(form.fullmatch(text) for text in texts) for form, _ in DIGITS)


def _in_coarsest_unit(times: np.ndarray) -> np.ndarray:
    """datetime64 in seconds, or in the coarsest finer unit that is exact."""
    for unit in ("s", "ms", "us"):
        if (times.astype(f"M8[{unit}]") == times).all():
            return times.astype(f"M8[{unit}]")
    return times.astype("M8[ns]")


def _parse_objects(array: np.ndarray, name: str, date_format: str | None) -> np.ndarray:
    import pandas as pd  # slow to import

    _require_times(~is_missing(pd.Series(array, dtype=object)), name)
    values = [value.strip() if isinstance(value, str) else value for value in array]
    families = [_family(value) for value in values]
    _require_readable([f is not None and f is families[0] for f in families], values, name)
    if families[0] is numbers.Real:
        return np.array(values)
    if families[0] is str:
        return _parse_text(values, name, date_format)
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


def _parse_text(texts: list[str], name: str, date_format: str | None) -> np.ndarray:
    import pandas as pd  # slow to import

    if date_format is not None:
        times = _by_format(texts, date_format)
        _require_readable(times.notna(), texts, name, f"wanted {date_format}")
        return times.tz_localize(None).to_numpy()
    form = form_of(texts, name)
    if form is None and re.fullmatch(NUMBER, texts[0], re.ASCII):
        _require_readable(
            [re.fullmatch(NUMBER, t, re.ASCII) is not None for t in texts], texts, name
        )
        return pd.to_numeric(np.array(texts, object), errors="coerce")
    pattern, iso = form or ISO
    matches = [pattern.fullmatch(text) for text in texts]
    _require_readable([match is not None for match in matches], texts, name)
    in_iso = [iso(match) for match in matches]
    times = _by_format(in_iso, "%G-W%V-%u" if pattern is WEEK[0] else "ISO8601")
    _require_readable(times.notna(), texts, name)
    _require_alike([OFFSET.fullmatch(text) is not None for text in in_iso], texts, name)
    return times.tz_localize(None).to_numpy()


def _by_format(texts: list[str], date_format: str):
    """A pandas index of times in UTC, NaT for what is not in the format."""
    import pandas as pd  # slow to import

    try:
        return pd.to_datetime(texts, format=date_format, utc=True, errors="coerce")
    except ValueError as error:
        raise ValueError(
            f"date_format={date_format!r} is no format of dates, such as %d.%m.%Y: {error}."
        ) from None


def _require_times(there, name: str) -> None:
    if not np.all(there):
        raise ValueError(f"{name}, row {_first_row(there)}: no time; drop the row or fill it in")


def _require_readable(readable, values, name: str, wanted: str = f"wanted {WANTED}") -> None:
    if not np.all(readable):
        row = _first_row(readable)
        value = str(values[row - 1])
        raise ValueError(f"{name}, row {row}: cannot read {value!r}; {wanted}")


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
