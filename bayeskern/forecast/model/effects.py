"""Effects of regressors, holidays and events, known for the series and its future."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from bayeskern.core import validation
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
        linear, curves = self._parts(name)
        K = rows[:, linear] @ new_rows[:, linear].T
        for j in curves:
            curve = _gram(self, j, rows[:, j].tobytes(), new_rows[:, j].tobytes())
            K = K + known[:, None] * curve * new_known
        return K

    def variance(self, x_new: np.ndarray, name: str | None = None) -> np.ndarray:
        """Prior variance of a component, or of all, at x_new (m,): (m,)."""
        rows, known = self._columns_at(x_new)
        linear, curves = self._parts(name)
        variance = np.sum(np.square(rows[:, linear]), axis=1)
        for j in curves:
            variance = variance + known * np.asarray(self._kernel(j).diag(rows[:, [j]]))
        return variance

    def _parts(self, name: str | None) -> tuple[list[int], list[int]]:
        """Columns of one component, or of all, with a linear effect and with a kernel."""
        own = [j for j, component in enumerate(self.components) if name in (None, component)]
        return [j for j in own if j < self.linear], [j for j in own if j >= self.linear]

    def _kernel(self, j: int) -> Kernel:
        """Kernel of column j."""
        return self.kernels[j - self.linear]


@lru_cache(maxsize=16)
def _gram(effects: Effects, j: int, z: bytes, z_new: bytes) -> np.ndarray:
    # It does not depend on the hyperparameters of the trend and the seasons.
    kernel = effects._kernel(j)
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
    columns: dict[str, np.ndarray] = {}
    dated: dict[str, np.ndarray] = {}
    days: dict[str, np.ndarray] = {}
    unseen: tuple[str, ...] = ()
    if series.regressors is not None:
        columns = known_at(series.regressors, times, count, calendar)
    if events is not None:
        dated = on_dates(events, times, calendar)
    if holidays is not None:
        days, unseen = holiday_columns(holidays, window, times, count, calendar)
    component_of = {name: name for name in (*columns, *dated)} | dict.fromkeys(days, "holidays")
    names = [*columns, *dated, *days, *(["holidays"] if days else [])]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"{twice} is the name of two effects; rename one of them.")
    kernels = kernels or {}
    for name, kernel in kernels.items():
        validation.one_of("effect_kernels", name, columns)
        positive_definite(kernel).require_concrete()
    columns |= dated | days
    if not columns:
        return None
    # Columns with kernels come last.
    order = sorted(columns, key=lambda name: name in kernels)
    rows = np.stack([columns[name] for name in order])
    past = rows[:, :count]
    constant = np.flatnonzero(np.ptp(past, axis=1) == 0.0)
    if len(constant):
        raise ValueError(
            f"{order[constant[0]]} is {past[constant[0], 0]:g} at all times of the series, which "
            "cannot show its effect: leave it out."
        )
    switches = ((rows == 0.0) | (rows == 1.0)).all(axis=1)
    center = np.where(switches, 0.0, past.mean(axis=1))
    size = np.where(switches, 1.0, past.std(axis=1))
    return Effects(
        columns=tuple(order),
        components=tuple(component_of[name] for name in order),
        units=1.0 / size,
        at=calendar.positions(times),
        Z=np.ascontiguousarray((rows.T - center) / size),
        step=calendar.step,
        kernels=tuple(kernels[name] for name in order if name in kernels),
        unseen=unseen,
        switches=tuple(switches.tolist()),
    )
