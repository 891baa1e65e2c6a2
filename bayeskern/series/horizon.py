"""Forecast horizons as users write them: 12, "90 days", "until 2025-12"."""

from __future__ import annotations

import re

import numpy as np

from bayeskern.core import validation
from bayeskern.series.calendar import Calendar
from bayeskern.series.cells import AmbiguousError
from bayeskern.series.dates.date_forms import form_of, iso_date

# Unit -> its number of months.
MONTHS = {"month": 1, "quarter": 3, "year": 12}


def steps_ahead(horizon: int | str, calendar: Calendar, most: int) -> int:
    """Number of steps of a horizon.

    Args:
        horizon: A number of steps; a duration, "90 days", for all steps within the duration; or an
            end, "until 2025-12", for all steps up to the end of a year, quarter, month or day.
        calendar: The time axis of the series.
        most: Largest number of steps allowed. A longer duration or a later end gives `most + 1`.

    Raises:
        ValueError: If the horizon cannot be read or contains no step.
    """
    text = horizon.strip().lower() if isinstance(horizon, str) else ""
    number = re.fullmatch(r"(\d+)(?:\s*steps?)?", text)
    if number or not isinstance(horizon, str):
        return validation.positive_integer(int(number[1]) if number else horizon, "horizon")
    duration = re.fullmatch(r"(\d+)\s*(minute|hour|day|week|month|quarter|year)s?", text)
    until = re.fullmatch(r"until\s+(\S.*)", text)
    if duration and calendar.kind != "number":
        count, unit = int(duration[1]), duration[2]
        if unit in MONTHS and "month" in calendar.kind:
            steps = count * MONTHS[unit] // int(calendar.every)
        else:
            steps = _steps_until(_end_of_duration(count, unit, calendar), calendar, most)
    elif until:
        steps = _steps_until(_end_of_period(until[1], calendar), calendar, most)
    else:
        duration_hint = "" if calendar.kind == "number" else ', a duration such as "90 days"'
        raise ValueError(
            f'horizon must be a number of steps{duration_hint}, or an end such as "until '
            f'{calendar.labels(calendar.future(9)[-1:])[0]}"; got {horizon!r}.'
        )
    if steps == 0:
        last = calendar.labels(calendar.times[-1:])[0]
        raise ValueError(
            f"horizon={horizon!r} contains no step: the series ends at {last} and is "
            f"{calendar.description}."
        )
    return min(steps, most + 1)


def _steps_until(end: np.datetime64 | float, calendar: Calendar, most: int) -> int:
    """Number of future times up to an end, at most `most + 1`."""
    count = 1
    while count <= most and calendar.wall(calendar.future(count)[-1:])[0] <= end:
        count *= 2
    return int(np.sum(calendar.wall(calendar.future(min(count, most + 1))) <= end))


def _end_of_duration(count: int, unit: str, calendar: Calendar) -> np.datetime64:
    """The last time plus a duration, in local time."""
    import pandas as pd  # slow to import

    if unit in MONTHS:
        count, unit = count * MONTHS[unit], "month"
    last = pd.Timestamp(calendar.wall(calendar.times[-1:])[0])
    try:
        offset = pd.DateOffset(**{f"{unit}s": count})  # pyright: ignore[reportArgumentType]
        return (last + offset).to_datetime64()
    except (OverflowError, ValueError):
        raise ValueError("horizon exceeds the range of dates; take a shorter one.") from None


def _end_of_period(text: str, calendar: Calendar) -> np.datetime64 | float:
    """The end of a year, quarter, month or day; on an axis of numbers, the number itself."""
    import pandas as pd  # slow to import

    try:
        if calendar.kind == "number":
            return float(text)
        form = form_of([text], "horizon")
        if form is None and not re.fullmatch(r"\d{4}", text):
            raise ValueError
        iso = text if form is None else iso_date(form, text)
        period = pd.Period(iso, freq="Q" if "q" in text else None)
        assert isinstance(period, pd.Period)  # NaT has no written form
        return period.end_time.to_datetime64()
    except AmbiguousError:
        raise
    except ValueError:
        accepted = "a number" if calendar.kind == "number" else "a date, such as 2025-12-31"
        raise ValueError(f"horizon: until must be followed by {accepted}; got {text!r}.") from None
