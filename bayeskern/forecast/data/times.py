"""Times as sortable arrays, read from text, dates, datetimes, periods and numbers.

pandas parses ISO 8601. The functions here find the form in which a column is written
(`date_forms`) and the row that does not fit.
"""

from __future__ import annotations

import datetime as dt
import numbers
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from bayeskern.forecast.data.cells import AmbiguousError, is_missing
from bayeskern.forecast.data.date_forms import FORMS, HOURS_OF_DIGITS, form_of, iso_date

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["epoch_unit", "is_dated_by_digits", "parse_times"]

ACCEPTED_TIMES = (
    "dates as in 2020-01-31, 31.01.2020, Jan 2020, 2020Q1 or 2020-W05, or numbers; --date-format "
    "names another form"
)


def parse_times(values: Any, name: str = "time", date_format: str | None = None) -> np.ndarray:
    """Read times as an array of datetime64 (seconds or finer), int64 or float64.

    Times with an offset or a zone become naive UTC; `zones.zone_of` returns the zone. Periods
    become their start. Digits such as 20200131 and 202001 are dates, other digits integers.
    Numbers in the range of Unix epochs become dates; `epoch_unit` returns their unit.

    Args:
        values: Dates, datetimes, periods, text or numbers, (n,).
        name: Name of the column, for messages.
        date_format: Form of the text, such as "%d/%m/%Y"; None for the forms of `date_forms`.

    Raises:
        ValueError: With the row, counted from 1, of a time that is missing or cannot be read.
    """
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name}: came shape {array.shape}, wanted one dimension")
    if array.dtype.kind not in "MiufOUT" or (array.dtype.kind in "OUT" and len(array) == 0):
        raise ValueError(
            f"{name}: came {array.dtype} of shape {array.shape}, wanted {ACCEPTED_TIMES}"
        )
    if date_format is not None and array.dtype.kind in "iu":
        array = array.astype(str)
    if array.dtype.kind in "OUT":
        array = _parse_objects(array, name, date_format)
    _require_present(np.isfinite(array), name)
    if array.dtype.kind == "M":
        return _in_coarsest_unit(array)
    unit = epoch_unit(array)
    if unit is not None:
        _refuse_hours_of_digits(array, name)
        return _in_coarsest_unit(array.astype(np.int64).astype(f"M8[{unit}]"))
    fits = array.dtype.kind != "f" and array.max(initial=0) <= np.iinfo(np.int64).max
    return array.astype(np.int64 if fits else np.float64)


def epoch_unit(values: Any) -> str | None:
    """Unit of numbers, or of text of digits, that are times since 1970: s, ms, us or ns."""
    array = np.asarray(values)
    if array.dtype.kind in "OU" and len(array) and re.fullmatch(r"\d{10,19}", str(array[0])):
        try:
            array = np.array([int(value) for value in array])
        except (ValueError, TypeError, OverflowError):
            return None
    if array.dtype.kind not in "iuf" or len(array) == 0 or not np.all(array == np.round(array)):
        return None
    for unit, scale in {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}.items():
        # Seconds since 1970 have ten digits from 2001 to 2286.
        if np.all((array >= 10**9 * scale) & (array < 10**10 * scale)):
            return unit
    return None


def _refuse_hours_of_digits(seconds: np.ndarray, name: str) -> None:
    """Raise AmbiguousError for numbers that may be seconds since 1970, or hours: 2019011321."""
    texts = [str(int(second)) for second in seconds]
    if all(HOURS_OF_DIGITS.fullmatch(text) for text in texts):
        since = np.datetime64(int(seconds[0]), "s")
        raise AmbiguousError(
            f"{name}, row 1: {texts[0]} may be {since}, in seconds since 1970, or an hour as in "
            "YYYYMMDDHH (--date-format %Y%m%d%H). Say which, or write ISO dates."
        )


def is_dated_by_digits(integers: np.ndarray) -> bool:
    """True if all integers could be dates written as YYYYMM or YYYYMMDD."""
    texts, dates = [str(integer) for integer in integers], (FORMS["yyyymmdd"], FORMS["yyyymm"])
    return any(all(form.fullmatch(text) for text in texts) for form in dates)


def _in_coarsest_unit(times: np.ndarray) -> np.ndarray:
    """datetime64 in seconds, or in the coarsest finer unit that is exact."""
    for unit in ("s", "ms", "us"):
        if (times.astype(f"M8[{unit}]") == times).all():
            return times.astype(f"M8[{unit}]")
    return times.astype("M8[ns]")


def _parse_objects(array: np.ndarray, name: str, date_format: str | None) -> np.ndarray:
    """Text or Python objects as datetime64 or numbers."""
    import pandas as pd  # slow to import

    _require_present(~np.asarray(is_missing(pd.Series(array, dtype=object))), name)
    values = [value.strip() if isinstance(value, str) else value for value in array]

    def family(value: Any) -> type | None:
        """Kind of value that one column may hold; None for values that are no times."""
        if isinstance(value, bool | np.bool_):
            return None
        if isinstance(value, np.datetime64 | pd.Period):
            return dt.date
        return next((t for t in (str, dt.date, numbers.Real) if isinstance(value, t)), None)

    families = [family(value) for value in values]
    _require_readable([f is not None and f is families[0] for f in families], values, name)
    if families[0] is numbers.Real:
        return np.array(values)
    if families[0] is str:
        return _parse_text(values, name, date_format)
    dates = [value.to_timestamp() if isinstance(value, pd.Period) else value for value in values]
    _require_alike([getattr(date, "tzinfo", None) is not None for date in dates], dates, name)
    return pd.to_datetime(dates, utc=True).tz_localize(None).to_numpy()


def _parse_text(texts: list[str], name: str, date_format: str | None) -> np.ndarray:
    """Text as datetime64 or numbers."""
    if date_format is not None:
        times = _parse_format(texts, date_format)
        _require_readable(times.notna(), texts, name, date_format)
        return times.tz_localize(None).to_numpy()
    form = form_of(texts, name)
    number = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
    if form is None and number.fullmatch(texts[0]):
        import pandas as pd  # slow to import

        _require_readable([number.fullmatch(text) is not None for text in texts], texts, name)
        return np.asarray(pd.to_numeric(np.array(texts, object), errors="coerce"))
    form = form or FORMS["ISO date"]
    iso = [iso_date(form, text) for text in texts]
    times = _parse_format(iso, "%G-W%V-%u" if form is FORMS["ISO week"] else "ISO8601")
    _require_readable(times.notna(), texts, name)
    offset = re.compile(r".*\d[T ]\d.*(Z|[+-]\d\d(:?\d\d)?)")
    _require_alike([offset.fullmatch(text) is not None for text in iso], texts, name)
    return times.tz_localize(None).to_numpy()


def _parse_format(texts: list[str], date_format: str) -> pd.DatetimeIndex:
    """Times in UTC, NaT for text that does not have the format."""
    import pandas as pd  # slow to import

    try:
        return pd.to_datetime(texts, format=date_format, utc=True, errors="coerce")
    except ValueError as error:
        raise ValueError(
            f"date_format={date_format!r} is no format of dates, such as %d.%m.%Y: {error}."
        ) from None


def _require_present(present: ArrayLike, name: str) -> None:
    if not np.all(present):
        row = int(np.argmin(present)) + 1
        raise ValueError(f"{name}, row {row}: no time; drop the row or fill it in")


def _require_readable(
    readable: ArrayLike, values: Sequence, name: str, wanted: str = ACCEPTED_TIMES
) -> None:
    if not np.all(readable):
        row = int(np.argmin(readable))
        value = str(values[row])
        raise ValueError(f"{name}, row {row + 1}: cannot read {value!r}; wanted {wanted}")


def _require_alike(aware: Sequence[bool], values: Sequence, name: str) -> None:
    """Raise ValueError if some times have an offset or a zone and others have none."""
    alike = np.equal(aware, aware[0])
    if not np.all(alike):
        row = int(np.argmin(alike))
        raise ValueError(
            f"{name}, row {row + 1}: {str(values[row])!r} has {'an' if aware[row] else 'no'} "
            "offset or zone, unlike row 1; wanted all with one or all without"
        )
