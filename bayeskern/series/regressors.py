"""Variables with known future values: table columns, events, public holidays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeskern.core import extras
from bayeskern.series.calendar import Calendar
from bayeskern.series.cells import AmbiguousError, read_numbers
from bayeskern.series.columns import SeriesColumns
from bayeskern.series.dates.times import parse_times, read_times
from bayeskern.series.files.tables import read_table
from bayeskern.series.read_options import ReadOptions

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Regressors:
    """Columns of numbers that may continue after the end of the series.

    Attributes:
        times: Sorted times, (m,), naive UTC if there is a time zone.
        columns: Values by name, (m,) each, NaN where missing.
    """

    times: np.ndarray
    columns: dict[str, np.ndarray]

    @classmethod
    def from_columns(cls, columns: SeriesColumns, options: ReadOptions) -> Regressors:
        """Read regressors from cells.

        Args:
            columns: Cells of the regressors and their times.
            options: Notation of the times and the cells.

        Raises:
            ValueError: If a cell cannot be read or a time is repeated.
        """
        time_name, points_may_group = columns.time_name, columns.points_may_group
        times = read_times(columns.times, time_name, options, columns.zones).times
        if len(np.unique(times)) < len(times):
            raise ValueError(
                f"{time_name} of the regressors has repeated times; give each time once."
            )
        order, values = np.argsort(times, kind="stable"), {}
        for name, cells in columns.regressors.items():
            values[name] = read_numbers(cells, name, options.decimal, points_may_group)[0][order]
        return cls(times[order], values)

    def covers(self, times: np.ndarray) -> np.ndarray:
        """True at times (n,) at which all columns have a value: (n,)."""
        return self._at(times).notna().all(axis=1).to_numpy()

    def at(self, times: np.ndarray) -> dict[str, np.ndarray]:
        """Values at given times by name, (m,) each, NaN where there are none."""
        table = self._at(times)
        return {str(name): table[name].to_numpy() for name in table}

    def _at(self, times: np.ndarray) -> pd.DataFrame:
        """Values at given times, a row for each time."""
        import pandas as pd  # slow to import

        return pd.DataFrame(self.columns, self.times).reindex(times)


def known_at(
    regressors: Regressors, times: np.ndarray, count: int, calendar: Calendar
) -> dict[str, np.ndarray]:
    """Values of the regressors at given times.

    Args:
        regressors: The regressors.
        times: Times of the series and of the forecast, (m,).
        count: Number of times that belong to the series.
        calendar: Calendar of the series, for messages.

    Raises:
        ValueError: If a regressor has no value at a time; the message names the first such time.
    """
    if regressors.times.dtype.kind != times.dtype.kind:
        raise ValueError(
            "the times of the regressors and of the series must both be dates or both be numbers."
        )
    columns = regressors.at(times)
    name = next((name for name in columns if np.isnan(columns[name]).any()), None)
    if name is not None:
        first = int(np.isnan(columns[name]).argmax())
        where = "the future" if first >= count else "the series"
        raise ValueError(
            f"{name} has no value at {calendar.labels(times[[first]])[0]}, in {where}: a regressor "
            "needs a value at each time of the series and of the forecast. Add the value, or take "
            "a shorter horizon."
        )
    return columns


def days_of(dates: Any, name: str) -> np.ndarray:
    """Days, (n,), of one date or several in a form of `parse_times`."""
    return parse_times(np.atleast_1d(np.asarray(dates, object)), name).astype("M8[D]")


def on_dates(
    events: Mapping[str, Any], times: np.ndarray, calendar: Calendar
) -> dict[str, np.ndarray]:
    """Indicator of each event by name.

    It is 1 at times whose day, week or month contains a date of the event. Raises ValueError for an
    event outside the times.
    """
    columns = {}
    for name, dates in events.items():
        columns[str(name)] = contain_dates(times, days_of(dates, str(name)), calendar)
        if not columns[str(name)].any():
            raise ValueError(f"no date of {name} falls on a time of the series or of the forecast.")
    return columns


def contain_dates(times: np.ndarray, days: np.ndarray, calendar: Calendar) -> np.ndarray:
    """Indicator of the times whose period (day, week, month) contains one of the days."""
    if calendar.kind == "number":
        raise ValueError("holidays and events need dates; the times of the series are numbers.")
    wall = calendar.wall(times)
    unit = "M8[M]" if "month" in calendar.kind else "M8[D]"
    if calendar.kind not in ("month", "business month", "day"):
        return np.isin(wall.astype(unit), days).astype(float)
    # Numbers of the periods of the calendar, from 0 at the first time.
    first, every = wall[0].astype(unit).astype(int), int(calendar.every)
    periods, event_periods = ((t.astype(unit).astype(int) - first) // every for t in (wall, days))
    return np.isin(periods, event_periods).astype(float)


def read_events(path: str | Path) -> dict[str, np.ndarray]:
    """Dates of events by name, from a file with columns name and date.

    Raises:
        ValueError: If a column is missing, a name is empty, or a date cannot be read.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"events must be a file with columns name and date; {path} is not a file.")
    columns = {name.lower(): cells for name, cells in read_table(path).columns.items()}
    if not {"name", "date"} <= columns.keys():
        raise ValueError(
            f"{path}: a file of events must have columns name and date; got {', '.join(columns)}."
        )
    names = [str(name).strip() for name in columns["name"]]
    if not all(names):
        raise ValueError(f"{path}, row {names.index('') + 1}: the event has no name.")
    try:
        dates = read_times(columns["date"], f"{path}, date", ReadOptions()).times
    except AmbiguousError as error:
        reason = str(error).partition(". Give")[0].replace(" (--date-format", " (as in")
        raise ValueError(f"{reason}. Write the dates of events as 2020-01-31.") from None
    if dates.dtype.kind != "M":
        raise ValueError(f"{path}, date: events need dates, as in 2020-01-31; got numbers.")
    return {name: dates[np.equal(names, name)] for name in dict.fromkeys(names)}


def holiday_columns(
    country: str, window: tuple[int, int], times: np.ndarray, count: int, calendar: Calendar
) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    """Indicators of the public holidays of a country, and of days around them.

    Args:
        country: Code of the country, such as "DE".
        window: Numbers of days before and after a holiday with effects of their own.
        times: Times of the series and of the forecast, (m,).
        count: Number of times that belong to the series.
        calendar: Calendar of the series.

    Returns:
        Indicators by name, (m,) each, and the names of holidays that occur only in the future.

    Raises:
        ValueError: If the country is unknown, a step is longer than a week, or no holiday falls
            on the series.
    """
    with extras.needed_for("holidays=", package="holidays", extra="holidays"):
        import holidays
    is_unsuited = calendar.kind == "number" or "month" in calendar.kind
    if is_unsuited or (calendar.kind == "day" and calendar.every > 7):
        raise ValueError(
            "holidays= needs dates at most a week apart; the times of the series are "
            f"{calendar.description}."
        )
    first, last = calendar.wall(times)[[0, -1]].astype("M8[Y]").astype(int) + 1970
    try:
        names_by_date = holidays.country_holidays(country, years=range(first - 1, last + 2))
    except (NotImplementedError, KeyError, TypeError):
        raise ValueError(
            f"holidays must be the code of a country, such as 'DE' or 'US'; got {country!r}."
        ) from None
    dates: dict[str, list[np.datetime64]] = {}
    for date, names in sorted(names_by_date.items()):
        for name, shift in product(names.split("; "), range(-window[0], window[1] + 1)):
            label = f"{name} {shift:+d} d" if shift else name
            day = np.datetime64(date, "D") + np.timedelta64(shift, "D")
            dates.setdefault(label, []).append(day)
    columns, future_only = {}, []
    for name, days in dates.items():
        indicator = contain_dates(times, np.array(days), calendar)
        occurrences = int(indicator[:count].sum())
        # An indicator that is 1 throughout a short series cannot be told apart from the level.
        if 0 < occurrences < count:
            columns[name] = indicator
        elif occurrences == 0 and indicator.any():
            future_only.append(name)
    if not columns:
        raise ValueError(f"no holiday of {country} falls on a day of the series.")
    return columns, tuple(future_only)
