"""Times as sortable arrays, read from text, dates, datetimes, periods and numbers.

pandas parses ISO 8601. The functions in this module find the format of a column (`date_forms`) and
the first row that does not have it.
"""

from __future__ import annotations

import datetime as dt
import numbers
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bayeskern.series.cells import AmbiguousError, is_missing, require_scalars
from bayeskern.series.dates.date_forms import (
    FORMS,
    HOURS_OF_DIGITS,
    first_wrong_weekday,
    form_of,
    iso_date,
    split_weekday,
)
from bayeskern.series.dates.point_months import read_point_months, texts_of_decimals
from bayeskern.series.read_options import ReadOptions
from bayeskern.series.zones import (
    has_offset,
    is_aware,
    local_to_utc,
    require_zone,
    zone_of,
)

ACCEPTED_TIMES = (
    "dates as in 2020-01-31, 31.01.2020, Jan 2020, 2020Q1 or 2020-W05, or numbers; --date-format "
    "sets another format"
)
# Value of `date_format` for numbers that look like dates, such as 1993.12.
NUMBER_FORMAT = "number"


class LocatedTimes(NamedTuple):
    """Times as `parse_times` returns them, with their zone and remarks on guesses."""

    times: np.ndarray
    tz: str | None
    remarks: tuple[str, ...]


def read_times(
    values: Any, name: str, options: ReadOptions, zones: Sequence[str] | None = None
) -> LocatedTimes:
    """Read times that a user has written; local times with a known zone become UTC.

    Decimals may be months here: 1993.01 to 1993.12, or 1.1993 from 01.1993.

    Args:
        values: Times that `parse_times` accepts, (n,).
        name: Name of the column, for messages.
        options: Date format and time zone.
        zones: Time zone of each row; None for the zone of the options.

    Raises:
        ValueError: As in `parse_times`, or for local times that clocks skip.
    """
    require_scalars(values, name)
    tz, unit = zone_of(values), epoch_unit(values)
    times, remarks = read_written_times(values, name, options.date_format)
    if options.timezone is None and zones is None:
        if unit is not None:
            prefix = {"s": "", "ms": "milli", "us": "micro", "ns": "nano"}[unit]
            remarks += (f"{name} is read as times since 1970, in {prefix}seconds, UTC",)
        elif tz is None and has_offset(values):
            remarks += ("times with an offset are shown in UTC: for local times, --timezone",)
        return LocatedTimes(times, tz, remarks)
    if times.dtype.kind != "M":
        raise ValueError(f"timezone= (--timezone) needs dates; {name} holds numbers.")
    by_row = require_zone(options.timezone) if zones is None else zones
    if unit is None and not is_aware(values):
        times = parse_times(local_to_utc(times, by_row, name))
    distinct = {by_row} if isinstance(by_row, str) else {*by_row}
    if len(distinct) > 1:
        remarks += (f"{name} has {len(distinct)} time zones and is shown in UTC",)
        return LocatedTimes(times, None, remarks)
    return LocatedTimes(times, distinct.pop(), remarks)


def read_written_times(
    values: Any, name: str, date_format: str | None = None
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Times as in `parse_times`, but with decimals such as 1993.12 as months.

    Returns the times and remarks on such months.
    """
    texts: list[str] = []
    if isinstance(next(iter(values), None), str):
        texts = [str(value).strip() for value in values]
    elif date_format != NUMBER_FORMAT and np.asarray(values).dtype.kind == "f":
        texts = texts_of_decimals(np.asarray(values))
        values = values if date_format is None else texts or values
    months = read_point_months(texts, name) if date_format is None else None
    if months is None:
        return parse_times(values, name, date_format), ()
    if months.iso is not None:
        # A row that is not a month keeps its text, for the error message.
        values = [iso or text for iso, text in zip(months.iso, texts, strict=True)]
    return parse_times(values, name, date_format), (months.remark,)


def parse_times(values: Any, name: str = "time", date_format: str | None = None) -> np.ndarray:
    """Read times as an array of datetime64 (seconds or finer), int64 or float64.

    Times with an offset or a zone become naive UTC; `zones.zone_of` returns the zone. A period
    becomes its start. Text of digits such as 20200131 and 202001 is a date, other digits are
    integers. Numbers in the range of Unix epochs become dates; `epoch_unit` returns their unit.

    Args:
        values: Dates, datetimes, periods, text or numbers, (n,).
        name: Name of the column, for messages.
        date_format: Format of the text, such as "%d/%m/%Y", or "number" for numbers; None for the
            formats of `date_forms`.

    Raises:
        ValueError: A time is missing or cannot be read; the message names its row, counted from 1.
    """
    require_scalars(values, name)
    array = np.asarray(values)
    is_object = array.dtype.kind in "OUT"
    if array.ndim != 1 or array.dtype.kind not in "MiufOUT" or (is_object and len(array) == 0):
        raise ValueError(
            f"{name} must be a column of {ACCEPTED_TIMES}; got {array.dtype} of shape "
            f"{array.shape}."
        )
    if is_object or (date_format not in (None, NUMBER_FORMAT) and array.dtype.kind in "iu"):
        array = _parse_objects(array if is_object else array.astype(str), name, date_format)
    _require(
        np.isfinite(array), array, name, lambda _: "the time is missing; drop the row or fill it in"
    )
    unit = epoch_unit(array)
    if unit is not None:
        _refuse_hours_of_digits(array, name)
        array = array.astype(np.int64).astype(f"M8[{unit}]")
    if array.dtype.kind == "M":
        # Differences between times outside these years overflow.
        years = array.astype("M8[Y]").astype(np.int64) + 1970
        outside = "{} is not in the years 1 to 9999; check the time, or drop the row".format
        _require((years >= 1) & (years <= 9999), array, name, outside)
        # The coarsest unit that is exact.
        units = (f"M8[{unit}]" for unit in ("s", "ms", "us", "ns"))
        return array.astype(next(unit for unit in units if (array.astype(unit) == array).all()))
    fits_int64 = array.dtype.kind != "f" and array.max(initial=0) <= np.iinfo(np.int64).max
    return array.astype(np.int64 if fits_int64 else np.float64)


def epoch_unit(values: Any) -> str | None:
    """Unit of times since 1970: "s", "ms", "us" or "ns"; None for other times."""
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
        if np.all((array >= 10**9 * scale) & (array < min(10**10 * scale, 2**63))):
            return unit
    return None


def _refuse_hours_of_digits(seconds: np.ndarray, name: str) -> None:
    """Raise AmbiguousError if all numbers may be epochs or hours, as 2019011321."""
    texts = [str(int(second)) for second in seconds]
    if all(HOURS_OF_DIGITS.fullmatch(text) for text in texts):
        as_epoch = np.datetime64(int(seconds[0]), "s")
        raise AmbiguousError(
            f"{name}, row 1: {texts[0]} may be {as_epoch}, in seconds since 1970, or an hour as in "
            "YYYYMMDDHH (--date-format %Y%m%d%H). Give the format, or write ISO dates."
        )


def is_dated_by_digits(integers: np.ndarray) -> bool:
    """True if all integers could be dates written as YYYYMM or YYYYMMDD."""
    texts, dates = [str(integer) for integer in integers], (FORMS["yyyymmdd"], FORMS["yyyymm"])
    return any(all(form.fullmatch(text) for text in texts) for form in dates)


def _parse_objects(array: np.ndarray, name: str, date_format: str | None) -> np.ndarray:
    """Text or Python objects as datetime64 or numbers."""
    import pandas as pd  # slow to import

    present = ~np.asarray(is_missing(pd.Series(array, dtype=object)))
    _require(present, array, name, lambda _: "the time is missing; drop the row or fill it in")
    values = [value.strip() if isinstance(value, str) else value for value in array]
    dates = (dt.date, np.datetime64, pd.Period)
    # A column holds one kind of value. Booleans, which Python counts as numbers, are refused.
    kinds = (str, dates, numbers.Real)
    kind = next((k for k in kinds if isinstance(values[0], k)), ())
    fits = [isinstance(v, kind) and not isinstance(v, bool | np.bool_) for v in values]
    _require(fits, values, name, _unreadable)
    if kind is numbers.Real:
        try:
            numeric = np.array(values)
            # Integers beyond 64 bits.
            return numeric.astype(float) if numeric.dtype.kind == "O" else numeric
        except OverflowError:
            raise ValueError(f"{name} has a time beyond 1e308; write smaller numbers.") from None
    if kind is str:
        return _parse_text(values, name, date_format)
    values = [value.to_timestamp() if isinstance(value, pd.Period) else value for value in values]
    _require_alike([getattr(v, "tzinfo", None) is not None for v in values], values, name)
    try:
        return pd.to_datetime(values, utc=True).tz_localize(None).to_numpy()
    except pd.errors.OutOfBoundsDatetime:
        # pandas 2 converts to nanoseconds, which end in 2262.
        stamps = [pd.Timestamp(value) for value in values]
        return np.array([stamp.to_datetime64() for stamp in stamps])


def _parse_text(texts: list[str], name: str, date_format: str | None) -> np.ndarray:
    """Text as datetime64 or numbers."""
    import pandas as pd  # slow to import

    iso: Sequence[str] | None = texts
    if date_format is None:
        months = read_point_months(texts, name)
        iso = months.iso if months else _iso_dates(texts, name)
    if iso is None or date_format == NUMBER_FORMAT:
        # A month (01.93) or an integer (007) may have a leading zero, a decimal may not.
        number = re.compile(r"[+-]?(\d+\.?|(0|[1-9]\d*)?\.\d+)([eE][+-]?\d+)?", re.ASCII)
        _require([bool(number.fullmatch(text)) for text in texts], texts, name, _unreadable)
        return np.asarray(pd.to_numeric(np.array(texts, object), errors="coerce"))
    try:
        times = pd.to_datetime(iso, format=date_format or "ISO8601", utc=True, errors="coerce")
    except ValueError as error:
        raise ValueError(
            f"date_format must be a date format, such as %d.%m.%Y, or number; got "
            f"{date_format!r}: {error}."
        ) from None
    accepted = date_format or ACCEPTED_TIMES
    _require(times.notna(), texts, name, lambda text: f"cannot read {text!r}; write {accepted}")
    if date_format is None:
        offset = re.compile(r".*\d[T ]\d.*(Z|[+-]\d\d(:?\d\d)?)")
        _require_alike([offset.fullmatch(text) is not None for text in iso], texts, name)
    return times.tz_localize(None).to_numpy()


def _iso_dates(texts: list[str], name: str) -> list[str] | None:
    """Dates in ISO 8601, "" if unreadable; None if the first row is a number."""
    dates: Sequence[str] = texts
    weekdays: Sequence[int | None] = ()
    if split_weekday(texts[0])[1] is not None:
        dates, weekdays = zip(*map(split_weekday, texts), strict=True)
    form = form_of(dates, name, weekdays)
    if form is None and re.fullmatch(r"[+-]?[\d.]+([eE][+-]?\d+)?", texts[0], re.ASCII):
        return None
    form = form or FORMS["ISO date"]
    iso = [iso_date(form, date) for date in dates]
    row = first_wrong_weekday(iso, weekdays) if weekdays else None
    if row is not None:
        weekday = dt.date.fromisoformat(iso[row][:10]).strftime("%A")
        raise ValueError(
            f"{name}, row {row + 1}: {texts[row]!r} is a {weekday}; correct the date or the "
            "weekday."
        )
    return iso


def _unreadable(value: str) -> str:
    """Message for a time that cannot be read."""
    return f"cannot read {value!r}; write {ACCEPTED_TIMES}"


def _require_alike(aware: Sequence[bool], values: Sequence, name: str) -> None:
    """Raise ValueError if only some times have an offset or a zone."""
    article = "no" if aware[0] else "an"
    problem = "{!r} has {} offset or zone, unlike row 1; give one in all rows or in none".format
    _require(np.equal(aware, aware[0]), values, name, lambda value: problem(value, article))


def _require(
    valid: ArrayLike, values: Sequence | np.ndarray, name: str, problem: Callable[[str], str]
) -> None:
    """Raise ValueError for the first invalid value, with its row and its problem."""
    if not np.all(valid):
        row = int(np.argmin(valid))
        raise ValueError(f"{name}, row {row + 1}: {problem(str(values[row]))}.")
