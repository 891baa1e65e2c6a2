"""Columns that are known beside a series: those of a table, dates of events, holidays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bayeskern.core import extras
from bayeskern.forecast.data.calendar import Calendar
from bayeskern.forecast.data.cells import read_numbers
from bayeskern.forecast.data.times import parse_times


@dataclass(frozen=True, eq=False)
class Regressors:
    """Columns of numbers at times, (m,), of which some may lie after the series.

    Attributes:
        times: Sorted, naive UTC where there is a zone.
        columns: Name -> values (m,), NaN where missing.
    """

    times: np.ndarray
    columns: dict[str, np.ndarray]

    @classmethod
    def of(
        cls, times, columns: Mapping[str, Sequence], time_name: str, date_format=None, decimal=None
    ) -> Regressors:
        """Read them from cells, as those of a series. Raises ValueError as it does."""
        times = parse_times(times, time_name, date_format)
        if len(np.unique(times)) < len(times):
            raise ValueError(f"{time_name} of the regressors has a time twice; wanted each once.")
        order = np.argsort(times, kind="stable")
        numbers = {n: read_numbers(cells, n, decimal).values for n, cells in columns.items()}
        return cls(times[order], {name: values[order] for name, values in numbers.items()})


def known_at(
    regressors: Regressors, times: np.ndarray, count: int, calendar: Calendar
) -> dict[str, np.ndarray]:
    """The columns at times of a series, of which the first `count` have values.

    Raises:
        ValueError: If one has no value at such a time, naming the first.
    """
    if regressors.times.dtype.kind != times.dtype.kind:
        raise ValueError("the regressors are at dates and the series at numbers, or the reverse.")
    place = np.searchsorted(regressors.times, times).clip(max=len(regressors.times) - 1)
    there = regressors.times[place] == times
    found = {}
    for name, values in regressors.columns.items():
        found[name] = np.where(there, values[place], np.nan)
        missing = ~np.isfinite(found[name])
        if missing.any():
            first = int(np.argmax(missing))
            where = "the future" if first >= count else "the series"
            label = calendar.labels(times[[first]])[0]
            raise ValueError(
                f"{name} has no value at {label}, in {where}: a regressor needs one at each time "
                "of the series and of the forecast. Give it, or take a shorter horizon."
            )
    return found


def on_dates(events: Mapping, times: np.ndarray, calendar: Calendar) -> dict[str, np.ndarray]:
    """A column for each event, 1 at the times whose day, week or month has one of its dates.

    events: name -> dates.
    """
    found = {}
    for name, dates in events.items():
        dates = np.atleast_1d(np.asarray(dates, object))
        days = parse_times(dates, str(name)).astype("M8[D]")
        on = np.isin(*_periods(times, days, calendar)).astype(float)
        if not on.any():
            raise ValueError(f"no date of {name} is one of the series or of the forecast.")
        found[str(name)] = on
    return found


def _periods(times: np.ndarray, days: np.ndarray, calendar: Calendar):
    """The periods of times, and those of days: numbers of days, of weeks or of months."""
    if calendar.kind == "number":
        raise ValueError("holidays and events are for dates, and these times are numbers.")
    wall = calendar.wall(times)
    if "month" in calendar.kind:
        every = int(calendar.every)
        first = int(wall[0].astype("M8[M]").astype(int))
        return tuple((t.astype("M8[M]").astype(int) - first) // every for t in (wall, days))
    if calendar.kind == "day":
        every, first = int(calendar.every), wall[0].astype("M8[D]").astype(int)
        return tuple((t.astype("M8[D]").astype(int) - first) // every for t in (wall, days))
    return wall.astype("M8[D]"), days


def holiday_columns(
    country: str, window: tuple[int, int], times: np.ndarray, count: int, calendar: Calendar
) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    """A column for each public holiday that the series has seen, and for days around it.

    window: How many days before and after have an effect of their own, as in (1, 0). The names of
    those that lie in the future only, of whose effect nothing is known, come second.

    Raises:
        ValueError: For an unknown country and for times longer than weeks.
    """
    with extras.needed_for("holidays=", package="holidays", extra="holidays"):
        import holidays
    long = calendar.kind == "number" or "month" in calendar.kind
    if long or (calendar.kind == "day" and calendar.every > 7):
        raise ValueError(f"holidays= is for days and weeks, and this is {calendar.description}.")
    before, after = window
    wall = calendar.wall(times)
    years = range(*(wall[[0, -1]].astype("M8[Y]").astype(int) + np.array([1969, 1972])))
    try:
        found = holidays.country_holidays(country, years=list(years))
    except (NotImplementedError, KeyError, TypeError):
        raise ValueError(
            f"holidays={country!r} is no country that is known; wanted a code such as 'DE' or 'US'."
        ) from None
    dates: dict[str, list] = {}
    for date, names in sorted(found.items()):
        for name in names.split("; "):
            for shift in range(-before, after + 1):
                label = f"{name} {shift:+d} d" if shift else name
                day = np.datetime64(date, "D") + np.timedelta64(shift, "D")
                dates.setdefault(label, []).append(day)
    columns, unseen = {}, []
    for name, days in dates.items():
        on = np.isin(*_periods(times, np.array(days), calendar)).astype(float)
        seen = int(on[:count].sum())
        # One that is on all the time, as in every week of a short series, is the level of it.
        if 0 < seen < count:
            columns[name] = on
        elif seen == 0 and on.any():
            unseen.append(name)
    if not columns:
        raise ValueError(f"no holiday of {country} falls on a day of the series.")
    return columns, tuple(unseen)
