"""Effects of regressors, holidays and events, known for the series and its future."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import block_diag

from bayeskern.core import validation
from bayeskern.gp.prior import positive_definite
from bayeskern.kernels import Kernel
from bayeskern.series.calendar import Calendar
from bayeskern.series.regressors import holiday_columns, known_at, on_dates
from bayeskern.series.series import Series


class EffectSources(NamedTuple):
    """Sources of the indicator columns of events and holidays.

    Attributes:
        events: Name -> dates.
        holidays: Code of a country.
        window: Numbers of days before and after each holiday with effects of their own.
    """

    events: Mapping[str, Any] | None = None
    holidays: str | None = None
    window: tuple[int, int] = (0, 0)

    def columns(
        self, times: np.ndarray, count: int, calendar: Calendar
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], tuple[str, ...]]:
        """Indicators of events and of holidays by name, and names of unseen holidays.

        Args:
            times: Times of the series and of the forecast, (m,).
            count: Number of times that belong to the series.
            calendar: Calendar of the series.
        """
        events = on_dates(self.events or {}, times, calendar)
        if self.holidays is None:
            return events, {}, ()
        return events, *holiday_columns(self.holidays, self.window, times, count, calendar)


@dataclass(frozen=True, eq=False)
class Effects:
    """Additive effects of regressors, holidays and events on a standardised series.

    The effects sum to sum_j b_j z_j + sum_i g_i(z_i), with b_j ~ N(0, 1) and a Gaussian process g_i
    with its own kernel. A column z of zeros and ones is not standardised: its effect is the change
    while it is 1. Any other column is standardised over the fitted values: its effect is a
    difference from the average. At positions without regressors, the effect is 0.

    Attributes:
        columns: Names of the columns, (k,); columns with a linear effect b_j come first.
        components: Component of each column: its own name, or "holidays" for all holidays.
        units: Change of z_j for one unit of column j, (k,).
        positions: Sorted positions in the calendar, (m,).
        Z: Values of all columns at these positions, (m, k).
        step: Step of the calendar.
        kernels: Kernels of the last columns, the effects g_i.
        unseen: Holidays that occur only in the future.
        is_indicator: True for columns of zeros and ones, (k,).
        center: Value of each column at which z is 0, (k,); 0 for all columns if empty.
        draws: Joint draws of the columns at the forecast positions, the last ones, (S, horizon, k).
            `Z` holds their means. None if no column is uncertain.
        sources: Sources of the indicator columns.
    """

    columns: tuple[str, ...]
    components: tuple[str, ...]
    units: np.ndarray
    positions: np.ndarray
    Z: np.ndarray
    step: float
    kernels: tuple[Kernel, ...] = ()
    unseen: tuple[str, ...] = ()
    is_indicator: tuple[bool, ...] = ()
    center: np.ndarray = field(default_factory=lambda: np.zeros(0))
    draws: np.ndarray | None = None
    sources: EffectSources | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the components."""
        return tuple(dict.fromkeys(self.components))

    @property
    def linear(self) -> int:
        """Number of columns with a linear effect b_j."""
        return len(self.columns) - len(self.kernels)

    @property
    def linear_components(self) -> tuple[str, ...]:
        """Component of each column with a linear effect."""
        return self.components[: self.linear]

    def on_events(self, x: np.ndarray) -> np.ndarray:
        """True at times x (n,) at which an indicator column is 1, as for an event: (n,)."""
        columns, known = self._columns_at(x)
        return known & (columns[:, np.array(self.is_indicator, bool)] != 0.0).any(axis=1)

    def rows(self, x: np.ndarray) -> np.ndarray:
        """Values of the columns with a linear effect at x (n,): (n, linear)."""
        return self._columns_at(x)[0][:, : self.linear]

    # -- values of the columns -----------------------------------------------------------------

    def values_at(self, x: np.ndarray) -> np.ndarray:
        """Values of all columns in their own units at x (n,), NaN where unknown: (n, k)."""
        columns, known = self._columns_at(x)
        return np.where(known[:, None], self.in_units(columns), np.nan)

    def in_units(self, Z: np.ndarray) -> np.ndarray:
        """Standardised columns (..., k) in their own units."""
        return Z / self.units + self._center

    @property
    def indicators(self) -> tuple[str, ...]:
        """Names of the columns of zeros and ones."""
        pairs = zip(self.columns, self.is_indicator, strict=True)
        return tuple(name for name, is_indicator in pairs if is_indicator)

    @property
    def uncertain(self) -> np.ndarray:
        """True for columns that are uncertain in the future: (k,)."""
        if self.draws is None:
            return np.zeros(len(self.columns), bool)
        return np.ptp(self.draws, axis=0).any(axis=0)

    @property
    def _center(self) -> np.ndarray:
        return self.center if len(self.center) else np.zeros(len(self.columns))

    def continued(self, positions: np.ndarray, values: np.ndarray, horizon: int) -> Effects:
        """Copy with other values from the first of `positions` on.

        Args:
            positions: Sorted positions of the new values, (m,); the last `horizon` are forecast.
            values: Values of all columns in their own units, (S, m, k). S > 1 are joint draws,
                which may differ at the forecast positions only.
            horizon: Number of steps to forecast.
        """
        Z_new = (values - self._center) * self.units
        draws = Z_new[:, -horizon:] if np.ptp(Z_new, axis=0).any() else None
        kept = self.positions < positions[0] - 1e-6 * self.step
        return replace(
            self,
            positions=np.append(self.positions[kept], positions),
            Z=np.ascontiguousarray(np.vstack([self.Z[kept], Z_new.mean(axis=0)])),
            draws=None if draws is None else np.ascontiguousarray(draws),
        )

    def per_sd(self) -> np.ndarray:
        """Change of each linear z_j for one sd of its column, (linear,).

        NaN for indicators.
        """
        is_indicator = np.array(self.is_indicator, bool)[: self.linear]
        return np.where(is_indicator, np.nan, 1.0)

    def per_tenth(self) -> np.ndarray:
        """Change of each linear z_j for 10 % of the mean of its column, (linear,).

        NaN for indicators, and for columns with values that are not positive.
        """
        values = self.in_units(self.Z)
        is_level = (values > 0.0).all(axis=0) & ~np.array(self.is_indicator, bool)
        return np.where(is_level, 0.1 * self._center * self.units, np.nan)[: self.linear]

    def _columns_at(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All columns at x (n,), 0 where unknown: (n, k); and a mask of known times, (n,)."""
        x, tol = np.asarray(x), 1e-6 * self.step
        rows = np.searchsorted(self.positions, x - tol).clip(max=len(self.positions) - 1)
        known = np.abs(self.positions[rows] - x) <= 2.0 * tol
        return np.where(known[:, None], self.Z[rows], 0.0), known

    def covariance(self, x: np.ndarray, x_new: np.ndarray, name: str | None = None) -> np.ndarray:
        """Prior covariance of a component, or of all, at x (n,) and x_new (m,): (n, m)."""
        (rows, known), (new_rows, new_known) = self._columns_at(x), self._columns_at(x_new)
        linear, nonlinear = self._column_indices(name)
        K = rows[:, linear] @ new_rows[:, linear].T
        for j in nonlinear:
            gram = _gram(self, j, rows[:, j].tobytes(), new_rows[:, j].tobytes())
            K = K + known[:, None] * gram * new_known
        return K

    def variance(self, x_new: np.ndarray, name: str | None = None) -> np.ndarray:
        """Prior variance of a component, or of all, at x_new (m,): (m,)."""
        rows, known = self._columns_at(x_new)
        linear, nonlinear = self._column_indices(name)
        variance = np.sum(np.square(rows[:, linear]), axis=1)
        for j in nonlinear:
            variance = variance + known * np.asarray(self._kernel(j).diag(rows[:, [j]]))
        return variance

    # -- elements: coefficients, and non-linear effects at given values ------------------------

    def element_covariance(self, x: np.ndarray, values: Sequence[np.ndarray]) -> np.ndarray:
        """Prior covariance of all effects at x (n,) with their elements.

        The elements are the coefficients b_j, and each g_i at `values` (q_i,) of its column. The
        shape is (n, linear + sum_i q_i).
        """
        rows, known = self._columns_at(x)
        blocks = [rows[:, : self.linear]]
        for j, points in enumerate(values, self.linear):
            blocks.append(known[:, None] * _gram(self, j, rows[:, j].tobytes(), points.tobytes()))
        return np.hstack(blocks)

    def element_prior(self, values: Sequence[np.ndarray]) -> np.ndarray:
        """Prior covariance of the elements: (linear + sum_i q_i, linear + sum_i q_i)."""
        grams = (
            _gram(self, j, points.tobytes(), points.tobytes())
            for j, points in enumerate(values, self.linear)
        )
        return np.asarray(block_diag(np.eye(self.linear), *grams))

    def _column_indices(self, name: str | None) -> tuple[list[int], list[int]]:
        """Indices of the linear and of the kernel columns of a component; of all if None."""
        indices = [j for j, component in enumerate(self.components) if name in (None, component)]
        return [j for j in indices if j < self.linear], [j for j in indices if j >= self.linear]

    def _kernel(self, j: int) -> Kernel:
        """Kernel of column j."""
        return self.kernels[j - self.linear]


@lru_cache(maxsize=16)
def _gram(effects: Effects, j: int, z: bytes, z_new: bytes) -> np.ndarray:
    # Cached: the Gram matrix of an effect does not depend on the other hyperparameters.
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
        window: Numbers of days before and after each holiday with effects of their own.
        events: Name -> dates.
        kernels: Name of a regressor -> kernel of its non-linear effect.

    Raises:
        ValueError: A regressor is missing at a time of the series or of the forecast, or constant
            over the series; two effects have the same name; the country is unknown; or no holiday
            falls on the times.
    """
    calendar, count = series.calendar, int(series.observed.sum())
    # Effects are also known at missing values whose regressors are known.
    gaps = series.times[~series.observed]
    if series.regressors is not None:
        gaps = gaps[series.regressors.covers(gaps)]
    times = np.concatenate([series.times[series.observed], gaps, calendar.future(horizon)])
    columns: dict[str, np.ndarray] = {}
    if series.regressors is not None:
        columns = known_at(series.regressors, times, count, calendar)
    sources = EffectSources(events, holidays, window)
    event_indicators, holiday_indicators, unseen = sources.columns(times, count, calendar)
    component_of = {name: name for name in (*columns, *event_indicators)}
    component_of |= dict.fromkeys(holiday_indicators, "holidays")
    names = [
        *columns,
        *event_indicators,
        *holiday_indicators,
        *(["holidays"] if holiday_indicators else []),
    ]
    duplicate = next((name for name in names if names.count(name) > 1), None)
    if duplicate is not None:
        raise ValueError(f"{duplicate} is the name of two effects; rename one of them.")
    kernels = kernels or {}
    for name, kernel in kernels.items():
        validation.one_of("effect_kernels", name, columns)
        positive_definite(kernel).require_concrete()
    columns |= event_indicators | holiday_indicators
    if not columns:
        return None
    # Columns with kernels come last.
    order = sorted(columns, key=lambda name: name in kernels)
    rows = np.stack([columns[name] for name in order])
    past = rows[:, :count]
    constant = np.flatnonzero(np.ptp(past, axis=1) == 0.0)
    if len(constant):
        raise ValueError(
            f"{order[constant[0]]} is {past[constant[0], 0]:g} throughout the series, so its "
            "effect cannot be estimated; leave it out."
        )
    is_indicator = ((rows == 0.0) | (rows == 1.0)).all(axis=1)
    center = np.where(is_indicator, 0.0, past.mean(axis=1))
    size = np.where(is_indicator, 1.0, past.std(axis=1))
    positions = calendar.positions(times)
    sorted_rows = np.argsort(positions)
    return Effects(
        columns=tuple(order),
        components=tuple(component_of[name] for name in order),
        units=1.0 / size,
        positions=positions[sorted_rows],
        Z=np.ascontiguousarray((rows.T[sorted_rows] - center) / size),
        step=calendar.step,
        kernels=tuple(kernels[name] for name in order if name in kernels),
        unseen=unseen,
        is_indicator=tuple(is_indicator.tolist()),
        center=center,
        sources=sources,
    )
