"""Linear effects of what is known beside a series, and of its future: prices, holidays, events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from bayeskern.forecast.data.regressors import holiday_columns, known_at, on_dates
from bayeskern.forecast.data.series import Series
from bayeskern.gp.prior import positive_definite
from bayeskern.kernels import Kernel

# The component of all of them.
HOLIDAYS = "holidays"
# How near two positions are that are one, in steps.
SAME = 1e-6


@dataclass(frozen=True, eq=False)
class Effects:
    """sum_j b_j z_j + sum_i g_i(z_i) at the positions of a calendar, for a series standardised.

    b_j ~ N(0, 1), and g_i is a Gaussian process with a kernel of its own. A column of zeros and
    ones is taken as it is, so that its effect is what it does while it is 1; another one is
    standardised over the values that are fitted, so that its effect is the difference from its
    average. At positions that are not known there is none.

    Attributes:
        columns: What each is called, those with an effect b_j first.
        components: The component that each belongs to: its own, or that of all holidays.
        units: What z_j is of a unit of column j: (k,).
        at: Sorted positions, (m,).
        Z: (m, k).
        step: The step of the calendar.
        kernels: The kernels of the last columns.
        unseen: Holidays of the future that the series has not seen.
        switches: Which columns are zeros and ones: (k,).
    """

    columns: tuple[str, ...]
    components: tuple[str, ...]
    units: np.ndarray
    at: np.ndarray
    Z: np.ndarray
    step: float
    kernels: tuple[Kernel, ...] = ()
    unseen: tuple[str, ...] = ()
    switches: tuple[bool, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.components))

    @property
    def linear(self) -> int:
        """How many columns have an effect b_j."""
        return len(self.columns) - len(self.kernels)

    def on_events(self, x) -> np.ndarray:
        """Which of times x (n,) have an event or a holiday: (n,)."""
        columns, known = self._columns_at(x)
        return known & (columns[:, np.array(self.switches, bool)] != 0.0).any(axis=1)

    def rows(self, x) -> np.ndarray:
        """The columns with an effect b_j at x (n,): (n, linear)."""
        return self._columns_at(x)[0][:, : self.linear]

    def _columns_at(self, x) -> tuple[np.ndarray, np.ndarray]:
        """All columns at x (n,), 0 where they are not known: (n, k); and where they are, (n,)."""
        x = np.asarray(x)
        place = np.searchsorted(self.at, x - SAME * self.step).clip(max=len(self.at) - 1)
        known = np.abs(self.at[place] - x) <= 2.0 * SAME * self.step
        return np.where(known[:, None], self.Z[place], 0.0), known

    def covariance(self, x, x_new, name: str | None = None) -> np.ndarray:
        (rows, known), (new_rows, new_known) = self._columns_at(x), self._columns_at(x_new)
        pick = self._pick(name)
        K = rows[:, pick] @ new_rows[:, pick].T
        for j, _ in self._curves(name):
            curve = _gram(self, j, rows[:, j].tobytes(), new_rows[:, j].tobytes())
            K = K + known[:, None] * curve * new_known
        return K

    def variance(self, x_new, name: str | None = None) -> np.ndarray:
        rows, known = self._columns_at(x_new)
        variance = np.sum(np.square(rows[:, self._pick(name)]), axis=1)
        for j, kernel in self._curves(name):
            variance = variance + known * np.asarray(kernel.diag(rows[:, [j]]))
        return variance

    def _pick(self, name: str | None) -> list[int]:
        """The columns with an effect b_j of one component, or of all."""
        return [j for j in range(self.linear) if name in (None, self.components[j])]

    def _curves(self, name: str | None) -> list[tuple[int, Kernel]]:
        """The others, with their kernels."""
        others = zip(range(self.linear, len(self.columns)), self.kernels, strict=True)
        return [(j, kernel) for j, kernel in others if name in (None, self.components[j])]


@lru_cache(maxsize=16)
def _gram(effects: Effects, j: int, z: bytes, z_new: bytes) -> np.ndarray:
    # The same at all draws of the hyperparameters of the trend and the seasons.
    kernel = effects.kernels[j - effects.linear]
    return np.asarray(kernel(np.frombuffer(z)[:, None], np.frombuffer(z_new)[:, None]))


def effects_of(
    series: Series,
    horizon: int,
    holidays: str | None = None,
    window: tuple[int, int] = (0, 0),
    events: Mapping | None = None,
    kernels: Mapping[str, Kernel] | None = None,
) -> Effects | None:
    """The effects of the regressors of a series, of holidays and events; None if there are none.

    kernels: of the regressors whose effect is a function with a kernel, by their names.

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
    kernels = _kernels(kernels or {}, series)
    if not columns:
        return None
    # Those with kernels are the last.
    order = sorted(columns, key=lambda name: name in kernels)
    places = dict(zip(columns, components, strict=True))
    columns, components = {n: columns[n] for n in order}, [places[n] for n in order]
    Z, units, switches = [], [], []
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
        switches.append(switch)
    x = calendar.positions(times)
    names = tuple(columns), tuple(components)
    ordered = tuple(kernels[name] for name in columns if name in kernels)
    Z = np.stack(Z, axis=1)
    step = calendar.step
    return Effects(*names, np.array(units), x, Z, step, ordered, unseen, tuple(switches))


def _kernels(kernels: Mapping[str, Kernel], series: Series) -> dict[str, Kernel]:
    """Kernels of regressors. Raises ValueError for an unknown regressor or a free kernel."""
    known = {} if series.regressors is None else series.regressors.columns
    for name, kernel in kernels.items():
        if name not in known:
            raise ValueError(
                f"StructuralModel(effect_kernels=...): {name!r} is no regressor; they are "
                f"{', '.join(known) or 'none'}."
            )
        positive_definite(kernel).require_concrete()
    return dict(kernels)
