"""Time zones: the zone of aware times, and conversion between local time and UTC."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, available_timezones

import numpy as np

from bayeskern.core.formatting import suggestion

if TYPE_CHECKING:
    import pandas as pd


def zone_of(times: Any) -> str | None:
    """IANA name of the time zone shared by all datetimes, or None."""
    if isinstance(times, np.ndarray) and times.dtype != object:
        return None
    zones = {getattr(time, "tzinfo", None) for time in times}
    # The name is `key` in zoneinfo, and `zone` in pytz, which pandas used up to version 2.
    names = {getattr(zone, "key", None) or getattr(zone, "zone", None) for zone in zones}
    return names.pop() if len(names) == 1 else None


def is_aware(times: Any) -> bool:
    """True if the first time, text or datetime, has an offset from UTC."""
    first = next(iter(times), None)
    if isinstance(first, str):
        return re.search(r"\d[T ]\d.*([zZ]|[+-]\d\d(:?\d\d)?)$", first.strip()) is not None
    return getattr(first, "tzinfo", None) is not None


def has_offset(times: Any) -> bool:
    """True if the first time, text or datetime, has an offset from UTC other than 0."""
    first = next(iter(times), None)
    if isinstance(first, str):
        return re.search(r"\d[T ]\d.*[+-](?!00:?00)\d\d:?\d\d$", first.strip()) is not None
    return bool(getattr(first, "utcoffset", lambda: None)())


def is_zone(name: Any) -> bool:
    """True for the name of a time zone, such as "Europe/Berlin" or "UTC"."""
    try:
        return ZoneInfo(name) is not None
    except (TypeError, ValueError, KeyError, OSError):
        return False


def require_zone(name: Any) -> str:
    """The name of a time zone. Raises ValueError for another text."""
    if not is_zone(name):
        raise ValueError(
            "timezone= (--timezone) must be a time zone, such as 'Europe/Berlin' or 'UTC', or a "
            f"column of time zones; got {name!r}.{suggestion(name, available_timezones())}"
        )
    return name


def local_to_utc(wall: np.ndarray, zones: str | Iterable[str], name: str) -> np.ndarray:
    """Convert written local times to naive UTC.

    Where clocks go back, the first of two equal times is the earlier one.

    Args:
        wall: Local times, (n,), in the order of the rows.
        zones: The time zone, or one for each row.
        name: Name of the times, for messages.

    Raises:
        ValueError: If clocks skip a time other than midnight; the message names its row.
    """
    import pandas as pd  # slow to import

    by_row = np.array([zones] * len(wall) if isinstance(zones, str) else [*zones])
    utc = wall.astype("M8[ns]")
    for tz in np.unique(by_row):
        rows = np.flatnonzero(by_row == tz)
        is_descending = len(rows) > 0 and wall[rows[0]] > wall[rows[-1]]
        repeated = pd.Index(wall[rows]).duplicated(keep="last" if is_descending else "first")
        utc[rows] = to_utc(wall[rows], str(tz), ~repeated)
        is_skipped = to_wall(utc[rows], str(tz)) != wall[rows]
        # Days begin at 1:00 where clocks skip midnight.
        is_skipped &= wall[rows] != wall[rows].astype("M8[D]")
        if is_skipped.any():
            row = rows[is_skipped.argmax()]
            raise ValueError(
                f"{name}, row {row + 1}: {wall[row]} does not exist in {tz}, whose clocks skip it. "
                "Are the times in UTC, or in another zone?"
            )
    return utc


def aware(utc: np.ndarray, tz: str) -> pd.DatetimeIndex:
    """Naive UTC as local times with their zone."""
    import pandas as pd  # slow to import

    return pd.DatetimeIndex(utc, tz="UTC").tz_convert(ZoneInfo(tz))


def to_wall(utc: np.ndarray, tz: str) -> np.ndarray:
    """Convert naive UTC to naive local times in a zone."""
    return aware(utc, tz).tz_localize(None).to_numpy()


def to_utc(wall: np.ndarray, tz: str, is_first: np.ndarray | None = None) -> np.ndarray:
    """Convert naive local times in a zone to naive UTC.

    An ambiguous time is the earlier of its two meanings, unless `is_first` is False; a nonexistent
    time is shifted forward by the length of the gap.
    """
    import pandas as pd  # slow to import

    is_first = np.ones(len(wall), bool) if is_first is None else is_first
    # pandas shifts a nonexistent time to the edge of the gap only. Subtracting the UTC offset
    # before the gap shifts it by the length of the gap: with a gap from 2:00 to 3:00, 2:30 minus
    # the offset before 2:00 is the UTC of 3:30.
    aware = pd.DatetimeIndex(wall).tz_localize(
        ZoneInfo(tz), ambiguous=is_first, nonexistent="shift_backward"
    )
    return wall - (aware.tz_localize(None) - aware.tz_convert(None)).to_numpy()
