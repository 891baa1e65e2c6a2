"""Forecast horizons as users write them: 12, "90 days", "until 2025-12"."""

from __future__ import annotations

import re

import numpy as np

from bayeskern.core import validation
from bayeskern.forecast.data.calendar import Calendar
from bayeskern.forecast.data.date_forms import form_of, iso_date


def steps_ahead(horizon: int | str, calendar: Calendar, most: int) -> int:
    """Number of steps of a horizon.

    Args:
        horizon: A number of steps; a duration, "90 days", for all steps within it; or an end,
            "until 2025-12", for all steps up to the end of that year, quarter, month or day.
        calendar: The time axis of the series.
        most: Largest number of steps allowed; for a longer horizon `most + 1` is returned.

    Raises:
        ValueError: For other horizons, and for horizons shorter than a step.
    """
    if not isinstance(horizon, str):
        return validation.positive_integer(horizon, "horizon")
    text = horizon.strip()
    wanted = 'a number of steps, a time such as "90 days", or "until 2025-12"'
    if match := re.fullmatch(r"(\d+)(?:\s*steps?)?", text, re.IGNORECASE):
        return validation.positive_integer(int(match[1]), "horizon")
    units = r"(\d+)\s*(minute|hour|day|week|month|quarter|year)s?"
    if match := re.fullmatch(units, text, re.IGNORECASE):
        count, unit = int(match[1]), match[2].lower()
        months = {"month": 1, "quarter": 3, "year": 12}
        if calendar.kind == "number":
            raise ValueError(f"horizon={horizon!r}, but these times are numbers; wanted {wanted}.")
        if unit in months and "month" in calendar.kind:
            steps = count * months[unit] // int(calendar.every)
        else:
            steps = _steps_until(_end_of_duration(count, unit, text, calendar), calendar, most)
    elif match := re.fullmatch(r"until\s+(\S.*)", text, re.IGNORECASE):
        steps = _steps_until(_end_of_period(match[1], calendar), calendar, most)
    else:
        raise ValueError(f"horizon={horizon!r}: wanted {wanted}.")
    if steps == 0:
        last = calendar.labels(calendar.times[-1:])[0]
        raise ValueError(
            f"horizon={horizon!r} has no step in it: the series ends at {last}, and is "
            f"{calendar.description}."
        )
    return min(steps, most + 1)


def _steps_until(end: np.datetime64 | float, calendar: Calendar, most: int) -> int:
    """Number of future times up to an end, at most `most + 1`."""
    count = 1
    while count <= most and calendar.wall(calendar.future(count)[-1:])[0] <= end:
        count *= 2
    return int(np.sum(calendar.wall(calendar.future(min(count, most + 1))) <= end))


def _end_of_duration(count: int, unit: str, text: str, calendar: Calendar) -> np.datetime64:
    """The last time plus a duration, by the clocks of the zone."""
    import pandas as pd  # slow to import

    if unit == "quarter":
        count, unit = 3 * count, "month"
    last = pd.Timestamp(calendar.wall(calendar.times[-1:])[0])
    try:
        offset = pd.DateOffset(**{f"{unit}s": count})  # pyright: ignore[reportArgumentType]
        return (last + offset).to_datetime64()
    except (OverflowError, ValueError):
        raise ValueError(f"horizon: {text} are beyond the range of dates; take less.") from None


def _end_of_period(text: str, calendar: Calendar) -> np.datetime64 | float:
    """The end of a year, quarter, month or day; on an axis of numbers, the number itself."""
    import pandas as pd  # slow to import

    if calendar.kind == "number":
        try:
            return float(text)
        except ValueError:
            raise ValueError(
                f"horizon: until {text!r}, but the times of this series are numbers."
            ) from None
    form = form_of([text], "horizon")
    iso = iso_date(form, text) if form is not None else text
    try:
        period = pd.Period(iso, freq="Q" if "q" in text.lower() else None)
    except ValueError:
        period = pd.NaT
    is_year = re.fullmatch(r"\d{4}", text) is not None
    if not isinstance(period, pd.Period) or (form is None and not is_year):
        raise ValueError(f"horizon: until {text!r} is no date; write it as in until 2025-12-31.")
    return period.end_time.to_datetime64()
