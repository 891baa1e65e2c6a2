"""Time zones: the zone of aware times, and conversion between local time and UTC."""

from __future__ import annotations

import re
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

__all__ = ["has_offset", "to_utc", "to_wall", "zone_of"]


def zone_of(times: Any) -> str | None:
    """IANA name of the time zone shared by all datetimes, or None."""
    if isinstance(times, np.ndarray) and times.dtype != object:
        return None
    zones = {getattr(time, "tzinfo", None) for time in times}
    # The name is `key` in zoneinfo, and `zone` in pytz, which pandas used up to version 2.
    names = {getattr(zone, "key", None) or getattr(zone, "zone", None) for zone in zones}
    return names.pop() if len(names) == 1 else None


def has_offset(times: Any) -> bool:
    """True if the first time, text or datetime, has an offset from UTC other than 0."""
    first = next(iter(times), None)
    if isinstance(first, str):
        return re.search(r"\d[T ]\d.*[+-](?!00:?00)\d\d:?\d\d$", first.strip()) is not None
    return bool(getattr(first, "utcoffset", lambda: None)())


def to_wall(utc: np.ndarray, tz: str) -> np.ndarray:
    """Convert naive UTC to naive local times in a zone."""
    import pandas as pd  # slow to import

    return pd.DatetimeIndex(utc, tz="UTC").tz_convert(ZoneInfo(tz)).tz_localize(None).to_numpy()


def to_utc(wall: np.ndarray, tz: str) -> np.ndarray:
    """Convert naive local times in a zone to naive UTC.

    An ambiguous time is the earlier of its two meanings; a nonexistent time is shifted forward by
    the length of the gap.
    """
    import pandas as pd  # slow to import

    is_first = np.ones(len(wall), bool)
    # pandas shifts a nonexistent time to the edge of the gap only. Subtracting the UTC offset
    # before the gap shifts it by the length of the gap: with a gap from 2:00 to 3:00, 2:30 minus
    # the offset before 2:00 is the UTC of 3:30.
    aware = pd.DatetimeIndex(wall).tz_localize(
        ZoneInfo(tz), ambiguous=is_first, nonexistent="shift_backward"
    )
    return wall - (aware.tz_localize(None) - aware.tz_convert(None)).to_numpy()
