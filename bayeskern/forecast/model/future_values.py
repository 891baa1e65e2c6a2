"""Future values of regressors and events: numbers, draws or distributions.

Uncertain values become joint draws, with a row for each draw and a column for each time.
"""

from __future__ import annotations

import datetime as dt
import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from bayeskern.core.formatting import counted
from bayeskern.prediction.mixture import Quantiles
from bayeskern.series.calendar import Calendar
from bayeskern.series.dates.times import parse_times
from bayeskern.series.regressors import contain_dates, days_of
from bayeskern.series.series import Series
from bayeskern.series.zones import to_utc

ACCEPTED = (
    "a number, one number for each time, a pandas Series indexed by time, draws of shape (S, {m}), "
    "a distribution, or a forecast of the regressor"
)


@runtime_checkable
class RegressorForecast(Protocol):
    """A forecast of a regressor: known values, and joint draws at future times."""

    series: Series

    @property
    def mean(self) -> np.ndarray:
        """Means at the future times, (horizon,)."""
        ...

    @property
    def times(self) -> np.ndarray:
        """Future times, (horizon,)."""
        ...

    def sample(self, n: int = 1, seed: int = 0) -> np.ndarray:
        """Joint draws, (n, horizon)."""
        ...


def table_of(regressors: Any) -> tuple[Any, dict[str, RegressorForecast]]:
    """Frame of regressors from a dict, with means for forecasts; and the forecasts.

    Regressors in any other form are returned unchanged.

    Args:
        regressors: Name -> pandas Series indexed by time, or forecast of the regressor; or any
            other form that `forecast` takes.

    Raises:
        ValueError: A value of the dict is neither a pandas Series nor a forecast.
    """
    if not isinstance(regressors, Mapping):
        return regressors, {}
    import pandas as pd  # slow to import

    columns, forecasts = {}, {}
    for name, value in regressors.items():
        if isinstance(value, RegressorForecast):
            times = np.append(value.series.times, value.times)
            index = value.series.calendar.index(times, "time")
            columns[name] = pd.Series(np.append(value.series.values, value.mean), index)
            forecasts[name] = value
        elif hasattr(value, "reindex") and np.ndim(value) == 1:
            if not value.index.is_unique:
                raise ValueError(f"the index of {name} has repeated times; give each time once.")
            columns[name] = pd.Series(value)
        else:
            raise ValueError(
                f"regressors: {name} must be a pandas Series indexed by time, past and future, or "
                f"a forecast of the regressor; got {type(value).__name__}."
            )
    return pd.DataFrame(columns).rename_axis("time"), forecasts


# Number of joint draws of a distribution or a forecast.
DISTRIBUTION_DRAWS = 400
# Maximum number of draws of an array.
MAX_ARRAY_DRAWS = 1_000


@dataclass(frozen=True, eq=False)
class FutureTimes:
    """Times at which regressors are required, and their name in messages.

    Attributes:
        calendar: Calendar of the series.
        times: The times, (m,).
        name: Name of the times, such as "the 12 future times".
        seed: Seed of the draws.
        indicators: Names of events, and of regressors of zeros and ones.
        count: Number of draws, if it is known.
    """

    calendar: Calendar
    times: np.ndarray
    name: str
    seed: int = 0
    indicators: tuple[str, ...] = ()
    count: int | None = None

    def read(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Joint draws of all regressors by name, (S, m) each, or (1, m) if known.

        NaN marks times that a series indexed by time, or a forecast, does not cover.

        Args:
            values: Values by name, in the forms of `Forecast.scenario`.

        Raises:
            ValueError: A value has another length or shape, is not a finite number, or two arrays
                of draws have different numbers of draws.
        """
        plain = {name: self._array(name, value) for name, value in values.items()}
        sizes = {name: len(a) for name, a in plain.items() if a is not None and len(a) > 1}
        count = self.count or max(sizes.values(), default=DISTRIBUTION_DRAWS)
        for name, size in sizes.items():
            if size != count:
                other = next((key for key in sizes if sizes[key] == count), "this scenario")
                raise ValueError(
                    f"{name} has {size} draws and {other} has {count}: joint draws need the same "
                    "number, row by row."
                )
        rows = np.arange(count)
        if count > MAX_ARRAY_DRAWS:
            rows = np.linspace(0, count - 1, MAX_ARRAY_DRAWS).astype(int)
        draws = {}
        for i, (name, value) in enumerate(values.items()):
            array = plain[name]
            if array is None:
                array = self._sampled(name, value, len(rows), self.seed + i)
            elif len(array) > 1:
                array = array[rows]
            draws[name] = np.asarray(array, float)
        return draws

    def require_complete(self, draws: Mapping[str, np.ndarray]) -> None:
        """Raise ValueError for the first NaN in draws (S, m) by name."""
        for name, array in draws.items():
            missing = np.isnan(array).any(axis=0)
            if missing.any():
                label = self.calendar.labels(self.times[[int(missing.argmax())]])[0]
                raise ValueError(
                    f"{name} has no value at {label}: give it at each of {self.name}, to "
                    f"{self.calendar.labels(self.times[-1:])[0]}."
                )

    def _array(self, name: str, value: Any) -> np.ndarray | None:
        """Numbers as (1, m) or (S, m); None for a distribution or a forecast."""
        if _is_random(value):
            return None
        if hasattr(value, "index") and hasattr(value, "reindex"):
            by_time = self._by_time(name, value)
            if by_time is not None:
                return by_time
        if _holds_dates(value):
            return self._on_dates(name, value)
        m = len(self.times)
        try:
            array = np.asarray(value)
            if array.dtype.kind not in "biuf" and not _are_numbers(array):
                raise TypeError
            array = array.astype(float)
        except (TypeError, ValueError):
            kind = type(value).__name__
            raise ValueError(
                f"{name} must be {ACCEPTED.format(m=m)}; got a {kind} that is not numeric."
            ) from None
        if array.ndim == 0:
            array = np.full((1, m), array)
        elif array.ndim == 1:
            self._require_length(name, len(array))
            array = array[None]
        elif array.ndim == 2 and array.shape[1] in (1, m) and len(array) > 0:
            array = np.broadcast_to(array, (len(array), m))
        else:
            raise ValueError(f"{name} must be {ACCEPTED.format(m=m)}; got shape {array.shape}.")
        self._require_finite(name, array)
        return array

    def _require_length(self, name: str, length: int) -> None:
        m = len(self.times)
        if length != m:
            first, last = self.calendar.labels(self.times[[0, -1]])
            comparison = "longer" if length > m else "shorter"
            raise ValueError(
                f"{name} has {counted(length, 'value')}, {comparison} than {self.name} ({m}, "
                f"{first} to {last}): give one number for each, or a pandas Series indexed by time."
            )

    def _require_finite(self, name: str, array: np.ndarray) -> None:
        bad = ~np.isfinite(array)
        if bad.any():
            row, column = np.argwhere(bad)[0]
            label = self.calendar.labels(self.times[[column]])[0]
            raise ValueError(
                f"{name} must be finite at each of {self.name}; the value at {label} is "
                f"{array[row, column]:g}."
            )

    def _by_time(self, name: str, value: Any) -> np.ndarray | None:
        """Values of a pandas Series at the times, (1, m); None for row numbers as index."""
        if np.ndim(value) != 1:
            raise ValueError(
                f"{name} must be {ACCEPTED.format(m=len(self.times))}; got a "
                "frame: choose a column."
            )
        index, dated = value.index, self.calendar.kind != "number"
        is_dated = index.dtype.kind in "MO" or type(index).__name__ == "PeriodIndex"
        if is_dated != dated or (not dated and not np.isin(self.times, index).any()):
            if is_dated:
                raise ValueError(
                    f"{name} is indexed by dates, and the times of the series are numbers."
                )
            return None
        times = parse_times(index, f"the index of {name}")
        if self.calendar.tz is not None and getattr(index, "tz", None) is None:
            times = to_utc(times, self.calendar.tz)
        if len(np.unique(times)) < len(times):
            raise ValueError(f"the index of {name} has repeated times; give each time once.")
        cells = value.to_numpy(float, na_value=np.nan)
        order = np.argsort(times, kind="stable")
        times, cells = times[order], cells[order]
        rows, is_covered = self._rows_in(times)
        self._require_finite(name, np.where(is_covered, cells[rows], 0.0)[None])
        return np.where(is_covered, cells[rows], np.nan)[None]

    def _rows_in(self, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Row of each time among sorted times, and a mask of the times found there, (m,) each."""
        rows = np.searchsorted(times, self.times).clip(max=len(times) - 1)
        return rows, times[rows] == self.times

    def _on_dates(self, name: str, dates: Any) -> np.ndarray:
        """Indicator of the times that contain the dates, (1, m)."""
        if name not in self.indicators:
            raise ValueError(
                f"{name} takes numbers; dates are for events and for regressors of zeros and ones."
            )
        if np.size(dates) == 0:
            return np.zeros((1, len(self.times)))
        days = days_of(dates, name)
        # Periods of the calendar start at its first time.
        times = np.append(self.calendar.times[:1], self.times)
        for day in days:
            if not contain_dates(times, np.array([day]), self.calendar)[1:].any():
                first, last = self.calendar.labels(self.times[[0, -1]])
                raise ValueError(
                    f"{name}: {day} is not one of {self.name}, which run from {first} to {last}."
                )
        return contain_dates(times, days, self.calendar)[None, 1:]

    def _sampled(self, name: str, value: Any, count: int, seed: int) -> np.ndarray:
        """Joint draws of a distribution or a forecast, (count, m)."""
        if isinstance(value, RegressorForecast):
            return self._of_forecast(name, value, count, seed)
        m = len(self.times)
        try:
            draws = _drawn(value, count, m, seed)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{name}: the distribution must have one value, or one for each of {self.name}: "
                f"{error}"
            ) from error
        if draws.shape != (count, m):
            raise ValueError(
                f"{name}: the distribution must have one value, or one for each of {self.name}; "
                f"{count} draws have shape {draws.shape}, not {(count, m)}."
            )
        self._require_finite(name, draws)
        return draws

    def _of_forecast(
        self, name: str, forecast: RegressorForecast, count: int, seed: int
    ) -> np.ndarray:
        """Known values and joint draws of a forecast, NaN at times that it does not cover."""
        series = forecast.series
        if series.times.dtype.kind != self.times.dtype.kind:
            raise ValueError(
                f"{name}: the times of its forecast and of the series must both be dates or both "
                "be numbers."
            )
        draws = np.full((count, len(self.times)), np.nan)
        history = np.broadcast_to(series.values, (count, len(series.values)))
        paths = forecast.sample(count, seed)
        for times, values in ((series.times, history), (forecast.times, paths)):
            rows, is_covered = self._rows_in(times)
            draws[:, is_covered] = values[:, rows[is_covered]]
        return draws


def _is_random(value: Any) -> bool:
    """True for a distribution of SciPy or NumPyro, a prediction or a forecast."""
    return hasattr(value, "rvs") or (hasattr(value, "sample") and not hasattr(value, "__array__"))


def _are_numbers(array: np.ndarray) -> bool:
    """True if all objects of an array are numbers."""
    return array.dtype.kind == "O" and all(isinstance(v, numbers.Real) for v in array.flat)


def _holds_dates(value: Any) -> bool:
    """True for dates and for an empty list."""
    array = np.atleast_1d(np.asarray(value, object))
    if array.ndim != 1:
        return False
    if getattr(getattr(value, "dtype", None), "kind", "") == "M" or len(array) == 0:
        return True
    return isinstance(array[0], str | dt.date | np.datetime64)


def _drawn(value: Any, count: int, m: int, seed: int) -> np.ndarray:
    """Draws of a distribution, (count, m) if its shape matches the times.

    Draws of a univariate distribution with a quantile function are a Latin hypercube: each of
    `count` equally likely intervals has one draw at each time (McKay, Beckman and Conover, 1979).
    """
    rng = np.random.default_rng(seed)
    if isinstance(value, Quantiles):
        return np.asarray(value.sample(count, seed=seed))
    if hasattr(value, "batch_shape"):
        import jax  # slow to import

        shape = (count,) if value.batch_shape or value.event_shape else (count, m)
        return np.asarray(value.sample(jax.random.key(seed), shape))
    quantile = getattr(value, "ppf", None) or getattr(value, "icdf", None)
    if quantile is not None:
        strata = rng.random((count, m)).argsort(axis=0)
        return np.asarray(quantile((strata + rng.random((count, m))) / count))
    return np.reshape(value.rvs(size=count, random_state=rng), (count, -1))
