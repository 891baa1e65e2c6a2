"""Linear effects of what is known beside a series, and of its future: prices, holidays, events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bayeskern.forecast.regressors import holiday_columns, known_at, on_dates
from bayeskern.forecast.series import Series

# The component of all of them.
HOLIDAYS = "holidays"
# How near two positions are that are one, in steps.
SAME = 1e-6


@dataclass(frozen=True, eq=False)
class Effects:
    """sum_j b_j z_j at the positions of a calendar, b_j ~ N(0, 1), for a series standardised.

    A column of zeros and ones is taken as it is, so that its effect is what it does while it is 1;
    another one is standardised over the values that are fitted, so that its effect is the
    difference from its average. At positions that are not known there is none.

    Attributes:
        columns: What each is called.
        components: The component that each belongs to: its own, or that of all holidays.
        units: What z_j is of a unit of column j: (k,).
        at: Sorted positions, (m,).
        Z: (m, k).
        step: The step of the calendar.
        unseen: Holidays of the future that the series has not seen.
    """

    columns: tuple[str, ...]
    components: tuple[str, ...]
    units: np.ndarray
    at: np.ndarray
    Z: np.ndarray
    step: float
    unseen: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.components))

    def rows(self, x) -> np.ndarray:
        x = np.asarray(x)
        place = np.searchsorted(self.at, x - SAME * self.step).clip(max=len(self.at) - 1)
        known = np.abs(self.at[place] - x) <= 2.0 * SAME * self.step
        return np.where(known[:, None], self.Z[place], 0.0)

    def covariance(self, x, x_new, name: str | None = None) -> np.ndarray:
        pick = self._pick(name)
        return self.rows(x)[:, pick] @ self.rows(x_new)[:, pick].T

    def variance(self, x_new, name: str | None = None) -> np.ndarray:
        return np.sum(np.square(self.rows(x_new)[:, self._pick(name)]), axis=1)

    def _pick(self, name: str | None):
        if name is None:
            return slice(None)
        return [j for j, component in enumerate(self.components) if component == name]


def effects_of(
    series: Series,
    horizon: int,
    holidays: str | None = None,
    window: tuple[int, int] = (0, 0),
    events: Mapping | None = None,
) -> Effects | None:
    """The effects of the regressors of a series, of holidays and events; None if there are none.

    Raises:
        ValueError: If a regressor has no value at a time of the series or of the forecast, naming
            the first such time, or shows nothing since it is the same at all of the series; if two
            have one name; for a country that is not known, and times that have no holidays.
    """
    calendar, count = series.calendar, int(series.observed.sum())
    times = np.append(series.times[series.observed], calendar.future(horizon))
    # Columns, and the component that they make up together if they do.
    sources, unseen = [], ()
    if series.regressors is not None:
        sources.append((known_at(series.regressors, times, count, calendar), None))
    if events is not None:
        sources.append((on_dates(events, times, calendar), None))
    if holidays is not None:
        found, unseen = holiday_columns(holidays, window, times, count, calendar)
        sources.append((found, HOLIDAYS))
    columns: dict[str, np.ndarray] = {}
    components: list[str] = []
    for source, component in sources:
        twice = [*(columns.keys() & source), *({component} & {*components})]
        if twice:
            raise ValueError(f"{twice[0]} names two effects; wanted another name for one of them.")
        columns |= source
        components += [component or name for name in source]
    if not columns:
        return None
    Z, units = [], []
    for name, values in columns.items():
        own = values[:count]
        if np.ptp(own) == 0.0:
            raise ValueError(
                f"{name} is {own[0]:g} at all times of the series, which cannot show its effect: "
                "leave it out."
            )
        switch = set(np.unique(values)) <= {0.0, 1.0}
        center, size = (0.0, 1.0) if switch else (float(np.mean(own)), float(np.std(own)))
        Z.append((values - center) / size)
        units.append(1.0 / size)
    x = calendar.positions(times)
    names = tuple(columns), tuple(components)
    return Effects(*names, np.array(units), x, np.stack(Z, axis=1), calendar.step, unseen)
