"""How far ahead, as people say it: 12, "90 days", "until 2025-12"."""

from __future__ import annotations

import re

import numpy as np

from bayeskern.core import validation
from bayeskern.forecast.data.calendar import Calendar
from bayeskern.forecast.data.date_forms import form_of

SPAN = re.compile(r"(\d+)\s*(minute|hour|day|week|month|quarter|year)s?", re.IGNORECASE)
MONTHS = {"month": 1, "quarter": 3, "year": 12}
STEPS = re.compile(r"(\d+)(?:\s*steps?)?", re.IGNORECASE)
UNTIL = re.compile(r"until\s+(\S.*)", re.IGNORECASE)
WANTED = 'wanted a number of steps, a time such as "90 days", or "until 2025-12"'


def steps_ahead(horizon: int | str, calendar: Calendar, most: int) -> int:
    """The number of steps that a horizon is.

    Args:
        horizon: A number of steps; a time, "90 days", for all steps within it; or "until 2025-12",
            for all steps up to the end of that year, quarter, month or day.
        calendar: The time axis, which goes on from its last time.
        most: As many steps as anyone may ask for; for more, one more than that is returned.

    Raises:
        ValueError: For what is none of these, or has not one step in it.
    """
    if not isinstance(horizon, str):
        return validation.positive_integer(horizon, "horizon")
    text = horizon.strip()
    if match := STEPS.fullmatch(text):
        return validation.positive_integer(int(match[1]), "horizon")
    span, until = SPAN.fullmatch(text), UNTIL.fullmatch(text)
    if span is None and until is None:
        raise ValueError(f"horizon={horizon!r}: {WANTED}.")
    if span is not None and calendar.kind == "number":
        raise ValueError(f"horizon={horizon!r}, but these times are numbers; {WANTED}.")
    if span is not None and span[2].lower() in MONTHS and "month" in calendar.kind:
        # By months, whatever their length.
        steps = int(span[1]) * MONTHS[span[2].lower()] // int(calendar.every)
    else:
        end = _after(calendar, span) if span is not None else _end_of(until[1], calendar)
        steps = _count(calendar, end, most)
    if steps == 0:
        last = calendar.labels(calendar.times[-1:])[0]
        raise ValueError(
            f"horizon={horizon!r} has no step in it: the series ends at {last}, and is "
            f"{calendar.description}."
        )
    return min(steps, most + 1)


def _count(calendar: Calendar, end, most: int) -> int:
    """How many of the next times are not after the end."""
    count = 1
    while count <= most and calendar.wall(calendar.future(count)[-1:])[0] <= end:
        count *= 2
    return int(np.sum(calendar.wall(calendar.future(min(count, most + 1))) <= end))


def _after(calendar: Calendar, span: re.Match) -> np.datetime64:
    """So much time after the last time, by the clocks of its zone."""
    import pandas as pd  # slow to import

    count, unit = int(span[1]), span[2].lower()
    if unit == "quarter":
        count, unit = 3 * count, "month"
    last = pd.Timestamp(calendar.wall(calendar.times[-1:])[0])
    try:
        return (last + pd.DateOffset(**{f"{unit}s": count})).to_datetime64()
    except (OverflowError, ValueError):
        raise ValueError(f"horizon: {span[0]} go beyond what dates can hold; take less.") from None


def _end_of(text: str, calendar: Calendar):
    """The end of a year, quarter, month or day; of numbers, the number itself."""
    import pandas as pd  # slow to import

    if calendar.kind == "number":
        try:
            return float(text)
        except ValueError:
            raise ValueError(
                f"horizon: until {text!r}, but the times of this series are numbers."
            ) from None
    form = form_of([text], "horizon")
    iso = form[1](form[0].fullmatch(text)) if form is not None else text
    try:
        period = pd.Period(iso, freq="Q" if "q" in text.lower() else None)
    except ValueError:
        period = None
    if period is None or (form is None and not re.fullmatch(r"\d{4}", text)):
        raise ValueError(f"horizon: until {text!r} is no date; write it as in until 2025-12-31.")
    return period.end_time.to_datetime64()
