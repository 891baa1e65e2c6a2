"""Reading times: text, dates, datetimes and numbers into sortable arrays; time zones."""

import datetime as dt
import difflib
import operator
import re
import zoneinfo
from typing import Any

import numpy as np

__all__ = ["localize", "parse_times", "to_utc", "zone_of"]

_WANTED = "an ISO date or time (2020-01-31, 2020-01-31T05:00), a quarter (2020Q1) or a number"


def zone_of(values: Any) -> str | None:
    """The IANA name of the zone that all of `values` (aware datetimes) share, else None."""
    if isinstance(values, np.ndarray) and values.dtype != object:
        return None
    zones = {getattr(getattr(value, "tzinfo", None), "key", None) for value in values}
    return zones.pop() if len(zones) == 1 else None


def parse_times(values: Any, name: str = "time") -> np.ndarray:
    """Dates, datetimes, text or numbers -> (n,) datetime64 (seconds or finer), int64 or float64.

    Times with an offset or a zone come out as naive UTC; `zone_of` tells the zone. Text: ISO
    dates and times, quarters ("2020Q1", its start), 31/01/2020 where the column shows which
    number is the day, digits (20200131 and 202001 are dates, others integers) and decimals.
    Raises ValueError with the row, counted from 1, of what is missing or cannot be read.
    """
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name}: came shape {array.shape}, wanted one dimension")
    if array.dtype.kind not in "MiufOUT" or (array.dtype.kind in "OUT" and len(array) == 0):
        raise ValueError(f"{name}: came {array.dtype} of shape {array.shape}, wanted {_WANTED}")
    if array.dtype.kind in "OUT":
        array = _parse_objects(array, name)
    missing = ~np.isfinite(array)
    if missing.any():
        raise ValueError(f"{name}, row {missing.argmax() + 1}: no time; drop the row or fill it in")
    if array.dtype.kind == "M":
        return _fine(array)
    return array.astype(np.float64 if array.dtype.kind == "f" else np.int64)


def _fine(times: np.ndarray) -> np.ndarray:
    """datetime64 in seconds, or in the coarsest finer unit that is exact."""
    for unit in ("s", "ms", "us"):
        if (times.astype(f"M8[{unit}]") == times).all():
            return times.astype(f"M8[{unit}]")
    return times.astype("M8[ns]")


def _parse_objects(array: np.ndarray, name: str) -> np.ndarray:
    families = (str, dt.date, np.datetime64, (int, float, np.integer, np.floating))
    family = None
    for row, value in enumerate(array, start=1):
        found = next((f for f in families if isinstance(value, f)), None)
        # NaN and NaT differ from themselves
        if value is None or (found and (operator.ne(value, value) or value == "")):
            raise ValueError(f"{name}, row {row}: no time; drop the row or fill it in")
        family = family or found
        if found is None or found is not family or isinstance(value, (bool, np.bool_)):
            raise _unreadable(name, row, value)
    if family is str:
        return _parse_text([str(value).strip() for value in array], name)
    if family is dt.date:
        return _from_datetimes(list(array), name)
    return np.array(list(array))


def _parse_text(texts: list[str], name: str) -> np.ndarray:
    first = texts[0]
    if re.fullmatch(r"(1[6-9]|2[01])\d{4}(\d{2})?", first) and _try(_iso, _dashed(first)):
        width = len(first)  # longer digits would be read as something else
        return _each(texts, lambda t: _iso(_dashed(t) if len(t) == width else "no"), name)
    if re.fullmatch(r"[+-]?\d+", first):
        return np.array(_rows(texts, int, name), np.int64)
    if re.fullmatch(r"[+-]?(\d+\.\d*|\.\d+)([eE][+-]?\d+)?", first):
        return np.array(_rows(texts, float, name))
    if re.fullmatch(r"\d{4}-?[Qq][1-4]", first):
        return _each(texts, _quarter, name)
    if re.match(r"\d{1,2}/\d{1,2}/\d{4}\b", first):
        return _parse_slashes(texts, name)
    return _each(texts, _iso, name)


def _parse_slashes(texts: list[str], name: str) -> np.ndarray:
    """Day and month in the order that some row of the column gives away."""

    def split(text: str) -> tuple[int, int, str, str]:
        a, b, year, rest = re.fullmatch(r"(\d{1,2})/(\d{1,2})/(\d{4})(.*)", text).groups()
        return int(a), int(b), year, rest

    parts = _rows(texts, split, name)
    day_first, month_first = any(p[0] > 12 for p in parts), any(p[1] > 12 for p in parts)
    if not day_first and not month_first:
        raise ValueError(
            f"{name}, row 1: {texts[0]!r} may be day/month or month/day, and no row tells; "
            "wanted ISO dates (2020-01-31)"
        )
    order = (1, 0) if day_first else (0, 1)
    iso = [f"{p[2]}-{p[order[0]]:02}-{p[order[1]]:02}{p[3]}" for p in parts]
    return _each(iso, _iso, name, texts)


def _quarter(text: str) -> dt.datetime:
    year, quarter = re.fullmatch(r"(\d{4})-?[Qq]([1-4])", text).groups()
    return dt.datetime(int(year), 3 * int(quarter) - 2, 1)


def _iso(text: str) -> dt.datetime:
    if re.fullmatch(r"\d{4}-\d{2}", text):
        text += "-01"
    if not re.match(r"\d{4}-\d{2}-\d{2}([T ]|$)", text):  # fromisoformat takes 2020-W05 too
        raise ValueError(text)
    return dt.datetime.fromisoformat(text)


def _dashed(text: str) -> str:
    return "-".join(filter(None, (text[:4], text[4:6], text[6:])))


def _try(parse, text: str) -> Any:
    try:
        return parse(text)
    except (ValueError, AttributeError):  # AttributeError: no match, so no groups
        return None


def _rows(texts: list[str], parse, name: str, shown: list[str] | None = None) -> list:
    parsed = [_try(parse, text) for text in texts]
    for row, value in enumerate(parsed, start=1):
        if value is None:
            raise _unreadable(name, row, (shown or texts)[row - 1])
    return parsed


def _each(texts: list[str], parse, name: str, shown: list[str] | None = None) -> np.ndarray:
    return _from_datetimes(_rows(texts, parse, name, shown), name)


def _from_datetimes(values: list, name: str) -> np.ndarray:
    aware = [getattr(value, "tzinfo", None) is not None for value in values]
    if any(aware) and not all(aware):
        row = aware.index(not aware[0]) + 1
        raise ValueError(
            f"{name}, row {row}: {str(values[row - 1])!r} has {'an' if aware[row - 1] else 'no'} "
            "offset or zone, unlike row 1; wanted all with one or all without"
        )
    if any(aware):
        values = [value.astimezone(dt.UTC).replace(tzinfo=None) for value in values]
    return np.array(values, "M8[us]")


def _unreadable(name: str, row: int, value: Any) -> ValueError:
    return ValueError(f"{name}, row {row}: cannot read {str(value)!r}; wanted {_WANTED}")


def localize(times_utc: np.ndarray, tz: str) -> np.ndarray:
    """Naive UTC -> the naive wall clock of zone `tz`. Raises ValueError for an unknown zone."""
    times, zone = _fine(times_utc), _zone(tz)
    return times + _offsets(times, lambda t: t.replace(tzinfo=dt.UTC).astimezone(zone))


def to_utc(wall: np.ndarray, tz: str) -> np.ndarray:
    """The naive wall clock of zone `tz` -> naive UTC. Raises ValueError for an unknown zone.

    A time that clocks show twice is the first one; one that they skip moves forward by the skip.
    """
    wall, zone = _fine(wall), _zone(tz)
    return wall - _offsets(wall, lambda t: t.replace(tzinfo=zone, fold=0))


def _offsets(times: np.ndarray, aware) -> np.ndarray:
    epoch = dt.datetime(1970, 1, 1)
    seconds = times.astype("M8[s]").astype(np.int64)
    offsets = [aware(epoch + dt.timedelta(seconds=int(s))).utcoffset() for s in seconds]
    return np.array([round(offset.total_seconds()) for offset in offsets], "m8[s]")


def _zone(tz: str) -> zoneinfo.ZoneInfo:
    try:
        return zoneinfo.ZoneInfo(tz)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError, TypeError) as error:
        known = zoneinfo.available_timezones()
        near = difflib.get_close_matches(str(tz), known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "for example 'Europe/Berlin'"
        if not known:
            hint = "no zones are installed here: install the package tzdata"
        raise ValueError(f"tz: no time zone {tz!r}, wanted an IANA name; {hint}") from error
