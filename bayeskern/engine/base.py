"""Interface of processes in time: log joint density, and predictions at each draw."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from copy import copy
from typing import Any, Self

import numpy as np

from bayeskern.core.threads import one_blas_thread, side_by_side
from bayeskern.engine.predictive import JointPredictive

Moments = tuple[np.ndarray, np.ndarray]


class ConditionedProcess(ABC):
    """Posterior of y(x) = f(x) + e given data, at fixed hyperparameters.

    Attributes:
        noise: Variance of e for new values.
    """

    noise: float

    @property
    @abstractmethod
    def log_density(self) -> float:
        """Log joint density of the data and the hyperparameters."""

    @abstractmethod
    def moments(self, x_new: np.ndarray) -> Moments:
        """Means and variances of f at x_new (m,): (m,) each."""

    @abstractmethod
    def joint(self, x_new: np.ndarray) -> Moments:
        """Mean (m,) and covariance (m, m) of f at x_new (m,)."""

    @abstractmethod
    def elements(self, x_new: np.ndarray, values: Sequence[np.ndarray]) -> Moments:
        """Joint moments of the elements of f at x_new (m,).

        The elements are f without effects, the k coefficients of the linear effects, and the
        non-linear effects at given values of their regressors.

        Args:
            x_new: Times, (m,).
            values: Standardised values of the regressor of each non-linear effect, (q_i,).

        Returns:
            Mean (p,) and covariance (p, p), with p = m + k + sum_i q_i.
        """

    @abstractmethod
    def loo(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean, variance and log density of each value given all others: (n,) each."""

    @abstractmethod
    def components(
        self, x_new: np.ndarray, level: str, merged: Sequence[str] = ()
    ) -> dict[str, Moments]:
        """Means and variances of every component at x_new (m,), centred: (m,) each.

        The average of a component over the data is subtracted from it and added to the component
        `level`, to which the components `merged` are added as they are. Effects are not centred:
        they are differences from the absence of an effect.
        """

    @abstractmethod
    def change(self, name: str, ends: np.ndarray) -> tuple[float, float]:
        """Mean and variance of the change of a component between two times (2,)."""

    @abstractmethod
    def coefficients(self) -> Moments:
        """Means and variances of the coefficients of linear effects: (k,) each."""


class LogMarginal(ABC):
    """Log marginal likelihood of a process in time, plus the log prior, at unconstrained z (d,).

    `DenseLogMarginal` uses covariances, `SteadyLogMarginal` a filter.

    Attributes:
        x: Times, (n,).
        y: Values, (n,).
        names: Names of the d hyperparameters.
        component_names: Names of the additive components other than effects.
        middle: Prior median of z, (d,).
        prior_sd: Prior sd of z, (d,); 1 where it is unknown.
        noise_factors: Factors of the noise variance of the values, (n,).
        effects: Effects of regressors and events; None without effects.
    """

    x: np.ndarray
    y: np.ndarray
    names: tuple[str, ...]
    component_names: tuple[str, ...]
    middle: np.ndarray
    prior_sd: np.ndarray
    noise_factors: np.ndarray
    effects: Any

    @abstractmethod
    def values(self, z: np.ndarray) -> dict[str, np.ndarray]:
        """Hyperparameters by name, for z (..., d)."""

    @abstractmethod
    def given(self, x: np.ndarray, y: np.ndarray) -> Self:
        """Copy with other data: values y (n,) at times x (n,)."""

    def with_effects(self, effects: Any) -> Self:
        """Copy with other effects, which must be the same at the times of the data."""
        # What is cached for the times of the data stays valid.
        clone = copy(self)
        clone.effects = effects
        return clone

    @abstractmethod
    def log_density(self, z: np.ndarray) -> float:
        """Log density at z (d,); -inf where it cannot be computed."""

    @abstractmethod
    def value_and_gradient(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """Log density at z (d,) and its gradient; -inf and zeros if it is not finite."""

    @abstractmethod
    def conditioned(self, z: np.ndarray) -> ConditionedProcess:
        """Posterior of the process given the data, at z (d,)."""

    @abstractmethod
    def rolling(
        self, z: np.ndarray, counts: Sequence[int], next_counts: Sequence[int]
    ) -> list[Moments]:
        """Rolling-origin predictions at z (d,): moments of the values after each origin.

        Args:
            z: Hyperparameters, (d,).
            counts: Number of known values at each origin.
            next_counts: Number of values predicted from each origin.

        Returns:
            Means and variances of the predicted values, a pair for each origin.
        """

    def threads(self) -> AbstractContextManager:
        """Context with one BLAS thread: small matrices gain nothing from more threads."""
        return one_blas_thread()

    def _at_each(self, z: Iterable[np.ndarray], function: Callable) -> Any:
        """Stack the arrays that `function` returns for posteriors at z (S, d)."""
        # Overflow gives NaN, or the log density -inf, and needs no warning.
        with self.threads(), np.errstate(all="ignore"):
            results = side_by_side(
                lambda row: function(self.conditioned(row)), list(z), len(self.y)
            )
        return tuple(np.array(part) for part in zip(*results, strict=True))

    def moments(self, z: np.ndarray, x_new: np.ndarray) -> Moments:
        """Means and variances of new values at x_new (m,), for z (S, d): (S, m) each."""

        def with_noise(process: ConditionedProcess) -> Moments:
            mean, variance = process.moments(x_new)
            return mean, variance + process.noise

        return self._at_each(z, with_noise)

    def predictive(self, z: np.ndarray, x_new: np.ndarray) -> JointPredictive:
        """Log density for z (S, d), and joint distribution at sorted times x_new (m,).

        The joint distribution of new values is left out if it is not normal.
        """
        densities, *moments = self._joint_at_each(z, x_new)
        densities = np.where(np.isfinite(densities), densities, -np.inf)
        return JointPredictive(densities, x_new, *moments)

    def _joint_at_each(self, z: np.ndarray, x_new: np.ndarray) -> Sequence[np.ndarray]:
        """Arrays of a `JointPredictive`, but for the times, at each z (S, d)."""
        return self._at_each(
            z, lambda process: (process.log_density, *process.joint(x_new), process.noise)
        )

    def joint(self, z: np.ndarray, x_new: np.ndarray) -> Moments:
        """Mean (m,) and covariance (m, m) of new values at x_new (m,), for z (d,)."""
        with self.threads():
            process = self.conditioned(z)
            mean, covariance = process.joint(x_new)
        return mean, covariance + process.noise * np.eye(len(x_new))

    def elements(self, z: np.ndarray, x_new: np.ndarray, values: Sequence[np.ndarray]) -> Moments:
        """Mean (p,) and covariance (p, p) of the elements of new values, for z (d,).

        As in `ConditionedProcess.elements`; the first m elements include the noise.
        """
        with self.threads(), np.errstate(all="ignore"):
            process = self.conditioned(z)
            mean, covariance = process.elements(x_new, values)
        times = np.arange(len(x_new))
        covariance[times, times] += process.noise
        return mean, covariance

    def loo(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Leave-one-out mean, variance and log density, for z (S, d): (S, n)."""
        return self._at_each(z, lambda process: process.loo())

    def components(
        self, z: np.ndarray, x_new: np.ndarray, level: str, merged: Sequence[str] = ()
    ) -> dict[str, Moments]:
        """Means and variances of every component at x_new (m,), centred: (S, m) each."""
        with self.threads():
            parts = side_by_side(
                lambda row: self.conditioned(row).components(x_new, level, merged),
                list(z),
                len(self.y),
            )
        moments = {}
        for name in parts[0]:
            means, variances = zip(*(part[name] for part in parts), strict=True)
            moments[name] = np.array(means), np.array(variances)
        return moments

    def changes(self, z: np.ndarray, name: str, ends: np.ndarray) -> Moments:
        """Mean and variance of a component's change between `ends`, for z (S, d): (S,)."""
        return self._at_each(z, lambda process: process.change(name, ends))

    def coefficients(self, z: np.ndarray) -> Moments:
        """Means and variances of k coefficients of linear effects, for z (S, d): (S, k)."""
        return self._at_each(z, lambda process: process.coefficients())
