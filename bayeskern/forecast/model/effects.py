"""Effects of regressors, holidays and events, known for the series and its future."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from bayeskern.forecast.data.regressors import holiday_columns, known_at, on_dates
from bayeskern.forecast.data.series import Series
from bayeskern.gp.prior import positive_definite
from bayeskern.kernels import Kernel


@dataclass(frozen=True, eq=False)
class Effects:
    """sum_j b_j z_j + sum_i g_i(z_i) at the positions of a calendar, for a standardised series.

    b_j ~ N(0, 1), and each g_i is a Gaussian process with its own kernel. A column of zeros and
    ones is not standardised: its effect is the change while it is 1. Any other column is
    standardised over the fitted values: its effect is a difference from the average. At positions
    without regressors there is no effect.

    Attributes:
        columns: Names of the columns, columns with a linear effect b_j first.
        components: Component of each column: its own name, or "holidays" for all holidays.
        units: Change of z_j for one unit of column j: (k,).
        at: Sorted positions, (m,).
        Z: Values of all columns there, (m, k).
        step: Step of the calendar.
        kernels: Kernels of the last columns.
        unseen: Holidays that occur only in the future.
        switches: True for columns of zeros and ones: (k,).
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
        """Names of the components."""
        return tuple(dict.fromkeys(self.components))

    @property
    def linear(self) -> int:
        """Number of columns with a linear effect b_j."""
        return len(self.columns) - len(self.kernels)

    def on_events(self, x: np.ndarray) -> np.ndarray:
        """True at times x (n,) with an event or a holiday: (n,)."""
        columns, known = self._columns_at(x)
        return known & (columns[:, np.array(self.switches, bool)] != 0.0).any(axis=1)

    def rows(self, x: np.ndarray) -> np.ndarray:
        """Columns with a linear effect at x (n,): (n, linear)."""
        return self._columns_at(x)[0][:, : self.linear]

    def _columns_at(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All columns at x (n,), 0 where they are unknown: (n, k); and a mask of known times."""
        x, tol = np.asarray(x), 1e-6 * self.step
        place = np.searchsorted(self.at, x - tol).clip(max=len(self.at) - 1)
        known = np.abs(self.at[place] - x) <= 2.0 * tol
        return np.where(known[:, None], self.Z[place], 0.0), known

    def covariance(self, x: np.ndarray, x_new: np.ndarray, name: str | None = None) -> np.ndarray:
        """Prior covariance of a component, or of all, at x (n,) and x_new (m,): (n, m)."""
        (rows, known), (new_rows, new_known) = self._columns_at(x), self._columns_at(x_new)
        pick = self._pick(name)
        K = rows[:, pick] @ new_rows[:, pick].T
        for j, _ in self._curves(name):
            curve = _gram(self, j, rows[:, j].tobytes(), new_rows[:, j].tobytes())
            K = K + known[:, None] * curve * new_known
        return K

    def variance(self, x_new: np.ndarray, name: str | None = None) -> np.ndarray:
        """Prior variance of a component, or of all, at x_new (m,): (m,)."""
        rows, known = self._columns_at(x_new)
        variance = np.sum(np.square(rows[:, self._pick(name)]), axis=1)
        for j, kernel in self._curves(name):
            variance = variance + known * np.asarray(kernel.diag(rows[:, [j]]))
        return variance

    def _pick(self, name: str | None) -> list[int]:
        """Columns with a linear effect of one component, or of all."""
        return [j for j in range(self.linear) if name in (None, self.components[j])]

    def _curves(self, name: str | None) -> list[tuple[int, Kernel]]:
        """Columns with a kernel, of one component or of all, with their kernels."""
        others = zip(range(self.linear, len(self.columns)), self.kernels, strict=True)
        return [(j, kernel) for j, kernel in others if name in (None, self.components[j])]


@lru_cache(maxsize=16)
def _gram(effects: Effects, j: int, z: bytes, z_new: bytes) -> np.ndarray:
    # It does not depend on the hyperparameters of the trend and the seasons.
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
    """Effects of regressors, holidays and events; None if there are none.

    Args:
        series: The series, with its regressors.
        horizon: Number of steps to forecast.
        holidays: Code of a country.
        window: Days before and after each holiday with effects of their own.
        events: Name -> dates.
        kernels: Name of a regressor -> kernel of its non-linear effect.

    Raises:
        ValueError: A regressor has no value at a time of the series or of the forecast, or is
            constant over the series; two effects have one name; the country is unknown; or the
            times have no holidays.
    """
    calendar, count = series.calendar, int(series.observed.sum())
    times = np.append(series.times[series.observed], calendar.future(horizon))
    # Columns, and the component that they form together if they do.
    sources: list[tuple[dict[str, np.ndarray], str | None]] = []
    unseen: tuple[str, ...] = ()
    if series.regressors is not None:
        sources.append((known_at(series.regressors, times, count, calendar), None))
    if events is not None:
        sources.append((on_dates(events, times, calendar), None))
    if holidays is not None:
        of_holidays, unseen = holiday_columns(holidays, window, times, count, calendar)
        sources.append((of_holidays, "holidays"))
    columns: dict[str, np.ndarray] = {}
    component_of: dict[str, str] = {}
    for source, component in sources:
        twice = [*(columns.keys() & source), *({component} & {*component_of.values()})]
        if twice:
            raise ValueError(f"{twice[0]} is the name of two effects; rename one of them.")
        columns |= source
        component_of |= {name: component or name for name in source}
    kernels = _kernels(kernels or {}, series)
    if not columns:
        return None
    # Columns with kernels come last.
    columns = {name: columns[name] for name in sorted(columns, key=lambda name: name in kernels)}
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
    return Effects(
        columns=tuple(columns),
        components=tuple(component_of[name] for name in columns),
        units=np.array(units),
        at=calendar.positions(times),
        Z=np.stack(Z, axis=1),
        step=calendar.step,
        kernels=tuple(kernels[name] for name in columns if name in kernels),
        unseen=unseen,
        switches=tuple(switches),
    )


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
