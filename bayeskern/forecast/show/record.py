"""Facts, times and numbers as plain values, for JSON and experiment trackers."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayeskern.series.series import Series


def series_facts(series: Series) -> dict[str, Any]:
    """Facts about a series."""
    first, last = times_as_text(series, series.times[[0, -1]])
    return {
        "name": series.name,
        "values": series.value_name,
        "times": series.time_name,
        "frequency": series.calendar.description,
        "time_zone": series.calendar.tz,
        "count": int(series.observed.sum()),
        "first": first,
        "last": last,
    }


def times_as_text(series: Series, times: np.ndarray) -> list[Any]:
    """Times as ISO 8601 text, with the offset in a time zone; numbers as numbers."""
    calendar = series.calendar
    if calendar.kind == "number":
        return times.tolist()
    if calendar.tz is None:
        return calendar.labels(times)
    return [time.isoformat() for time in calendar.index(times, series.time_name)]


def finite(metrics: dict[str, float]) -> dict[str, float]:
    """Finite metrics, because trackers reject None."""
    return {name: value for name, value in metrics.items() if np.isfinite(value)}


def plain(value: Any) -> Any:
    """Nested dictionaries, lists and scalars without NumPy; None if not finite."""
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
