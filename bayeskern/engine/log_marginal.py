"""Log joint density of a Gaussian process in time and its gradient, in NumPy.

For a few hundred values the whole search for a mode takes less time than JAX needs to compile its
first step (`benchmarks/engines.py`). This module therefore repeats the log density of
`linalg.dense` in NumPy, with hand-written derivatives.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol, Self

import numpy as np
from scipy.linalg import block_diag, get_blas_funcs

from bayeskern.core.constants import LOG_2PI
from bayeskern.engine.base import ConditionedProcess, LogMarginal, Moments
from bayeskern.engine.prior import Gradient, ProcessPrior
from bayeskern.kernels.pairs import Pairs
from bayeskern.linalg import lapack

(_syr,) = get_blas_funcs(("syr",), dtype=np.float64)


class LinearEffects(Protocol):
    """Effects: sum_j b_j z_j(x) with b_j ~ N(0, 1) and k known z_j, and processes."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the components."""
        ...

    @property
    def linear_components(self) -> tuple[str, ...]:
        """Component of each z_j, (k,)."""
        ...

    def rows(self, x: np.ndarray) -> np.ndarray:
        """z(x) at x (n,): (n, k)."""
        ...

    def covariance(self, x: np.ndarray, x_new: np.ndarray, name: str | None = None) -> np.ndarray:
        """Prior covariance of a component, or of their sum if name is None: (n, m)."""
        ...

    def variance(self, x_new: np.ndarray, name: str | None = None) -> np.ndarray:
        """Prior variance of a component, or of their sum if name is None: (m,)."""
        ...

    def element_covariance(self, x: np.ndarray, values: Sequence[np.ndarray]) -> np.ndarray:
        """Prior covariance of the effects at x (n,) with their elements: (n, k + sum_i q_i).

        The elements are the coefficients and the processes at `values`, (q_i,) each.
        """
        ...

    def element_prior(self, values: Sequence[np.ndarray]) -> np.ndarray:
        """Prior covariance of the elements: (k + sum_i q_i, k + sum_i q_i)."""
        ...


class DenseLogMarginal(LogMarginal):
    """log p(y, hyperparameters) of a Gaussian process in time, at unconstrained z (d,).

    Args:
        prior: The process and its hyperparameters.
        x: Times, (n,).
        y: Values, (n,).
        effects: Linear effects, added to the process as further components.

    Attributes:
        noise_factors: Factors of the noise variance of the values, (n,).
        averaged: Mask of the values over which components are centred, (n,).
    """

    def __init__(
        self,
        prior: ProcessPrior,
        x: np.ndarray,
        y: np.ndarray,
        effects: LinearEffects | None = None,
    ):
        self.prior, self.effects = prior, effects
        self.names, self.component_names = prior.names, prior.component_names
        self.middle, self.prior_sd = prior.middle, prior.prior_sd
        self.x, self.y = x, y
        self.noise_factors, self._constant = np.ones(len(y)), 0.0
        self.averaged = np.ones(len(y), bool)

    def values(self, z: np.ndarray) -> dict[str, np.ndarray]:
        return self.prior.values(z)

    @cached_property
    def _pairs(self) -> Pairs:
        return _pairs_among(self.x.tobytes())

    @cached_property
    def _effects_covariance(self) -> np.ndarray | float:
        return 0.0 if self.effects is None else self.effects.covariance(self.x, self.x)

    def given(self, x: np.ndarray, y: np.ndarray) -> Self:
        return type(self)(self.prior, x, y, self.effects)

    @property
    def noise_state(self) -> tuple[np.ndarray, float]:
        """Noise factors (n,), and the constant that is added to the log density."""
        return self.noise_factors, self._constant

    def with_noise_factors(self, noise_factors: np.ndarray, constant: float) -> Self:
        """Copy with noise factors (n,) and a constant added to the log density."""
        clone = copy(self)
        clone.noise_factors, clone._constant = noise_factors, constant
        return clone

    def with_average_over(self, averaged: np.ndarray) -> Self:
        """Copy whose components are centred over some of the values, a mask (n,)."""
        clone = copy(self)
        clone.averaged = averaged
        return clone

    # -- log density -------------------------------------------------------------------------------

    def log_density(self, z: np.ndarray) -> float:
        # Overflow gives the value -inf, and needs no warning.
        with np.errstate(all="ignore"):
            return self._factored(z)[0]

    def value_and_gradient(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        with np.errstate(all="ignore"):
            return self._value_and_gradient(z)

    def _value_and_gradient(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """Log joint density and gradient: Rasmussen and Williams (2006), eqs. 5.8, 5.9."""
        value, factor, weights, gradient = self._factored(z)
        if factor is None or weights is None:
            return value, np.zeros(len(z))
        # d log p / d theta = 1/2 tr((a a' - K^-1) dK / d theta) with a = K^-1 y. Since dK / d theta
        # is symmetric, A holds the upper triangle of a a' - K^-1, doubled off the diagonal.
        triangle = lapack.inverse_triangle(factor, overwrite=True)
        triangle *= _minus_doubled(len(triangle))
        A = _syr(2.0, weights, a=triangle, lower=1, overwrite_a=True).T
        A.ravel()[:: len(A) + 1] -= np.square(weights)
        return value, gradient(A, float(np.diag(A) @ self.noise_factors))

    def _factored(
        self, z: np.ndarray
    ) -> tuple[float, np.ndarray | None, np.ndarray | None, Gradient]:
        """Log joint density, Cholesky factor of K, K^-1 y, and `Gradient` at z."""
        K, gradient = self._covariance(z)
        factor = lapack.cholesky(K)
        if not np.isfinite(factor[-1, -1]):
            return -np.inf, None, None, gradient
        weights = lapack.solve(factor, self.y)
        return self._log_joint(z, factor, float(self.y @ weights)), factor, weights, gradient

    def _log_joint(self, z: np.ndarray, factor: np.ndarray, quadratic: float) -> float:
        """Log joint density at z, from the Cholesky factor of K and y' K^-1 y."""
        value = -0.5 * (quadratic + len(self.y) * LOG_2PI) - np.log(np.diag(factor)).sum()
        return float(value) + self.prior.log_density(z) + self._constant

    def _covariance(self, z: np.ndarray) -> tuple[np.ndarray, Gradient]:
        """K (n, n), the covariance of y, and `Gradient` at z."""
        K, gradient = self.prior.covariance(z, self._pairs)
        # A new array, since `gradient` may need the matrix of the kernel.
        K = self._pairs.spread(K) + self._effects_covariance
        K.ravel()[:: len(K) + 1] += self.prior.noise(z) * self.noise_factors
        return K, gradient

    # -- predictions -------------------------------------------------------------------------------

    def conditioned(self, z: np.ndarray) -> ConditionedSeries:
        factor = lapack.cholesky(self._covariance(z)[0])
        weights = lapack.solve_lower(factor, self.y)
        return ConditionedSeries(self, factor, weights, self.y, z, self.prior.noise(z))

    def _joint_at_each(self, z: np.ndarray, x_new: np.ndarray) -> Sequence[np.ndarray]:
        # One factor serves the data and the new values, which have a noise factor of 1.
        n, m = len(self.y), len(x_new)
        together = self.given(np.append(self.x, x_new), np.append(self.y, np.zeros(m)))
        factors = np.append(self.noise_factors, np.ones(m))
        together = together.with_noise_factors(factors, self._constant)

        def joint(process: ConditionedSeries) -> tuple[float, np.ndarray, np.ndarray, float]:
            weights, factor = process.weights[:n], process.factor[:n, :n]
            density = self._log_joint(process.z, factor, float(weights @ weights))
            mean, root = process.after(n, m)
            return density, mean, root @ root.T - process.noise * np.eye(m), process.noise

        return together._at_each(z, joint)

    def rolling(
        self, z: np.ndarray, counts: Sequence[int], next_counts: Sequence[int]
    ) -> list[Moments]:
        # One factor serves all origins.
        with self.threads(), np.errstate(all="ignore"):
            process = self.conditioned(z)
        pairs = []
        for n, k in zip(counts, next_counts, strict=True):
            means, root = process.after(n, k)
            # Predicted values have a noise factor of 1.
            excess = process.noise * (self.noise_factors[n : n + k] - 1.0)
            pairs.append((means, np.sum(np.square(root), axis=1) - excess))
        return pairs


# Cached, since all models of a series and all draws of a model use the same times.
@lru_cache(maxsize=4)
def _pairs_among(x: bytes) -> Pairs:
    return Pairs.among(np.frombuffer(x))


@lru_cache(maxsize=4)
def _pairs_between(x: bytes, x_new: bytes) -> Pairs:
    return Pairs.between(np.frombuffer(x), np.frombuffer(x_new))


@dataclass(frozen=True, eq=False)
class ConditionedSeries(ConditionedProcess):
    """Posterior of a process given Gaussian values y (n,): the data, or pseudo-data.

    Attributes:
        series: The process and its data.
        factor: L, the Cholesky factor of the covariance of y.
        weights: L^-1 y.
        y: The values.
        z: Unconstrained hyperparameters of the process.
        noise: Variance of the noise of new values.
    """

    series: DenseLogMarginal
    factor: np.ndarray
    weights: np.ndarray
    y: np.ndarray
    z: np.ndarray
    noise: float

    @property
    def log_density(self) -> float:
        quadratic = float(self.weights @ self.weights)
        return self.series._log_joint(self.z, self.factor, quadratic)

    def after(self, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Mean (k,) of the values after the first n, and a root R (k, k) of their covariance R R'.

        They are predicted from the first n values, noise included. With K = L L' and a = L^-1 y,
        the mean is L[n:, :n] a[:n], and R = L[n:, n:].
        """
        rows = self.factor[n : n + k]
        return rows[:, :n] @ self.weights[:n], np.tril(rows[:, n : n + k])

    def _covariance(self, pairs: Pairs) -> np.ndarray:
        """Prior covariance at the pairs, without effects."""
        return pairs.spread(self.series.prior.covariance(self.z, pairs)[0])

    def _components(self, pairs: Pairs) -> dict[str, np.ndarray]:
        """Prior covariance of each component at the pairs, without effects."""
        return self.series.prior.components(self.z, pairs)

    def _cross(self, x_new: np.ndarray) -> np.ndarray:
        """Prior covariance of the data with x_new (m,), effects included: (n, m)."""
        x, effects = self.series.x, self.series.effects
        cross = self._covariance(_pairs_between(x.tobytes(), x_new.tobytes()))
        return cross if effects is None else cross + effects.covariance(x, x_new)

    def _project(self, cross: np.ndarray) -> Moments:
        """L^-1 cross for covariances `cross` with the data (n, m), and mean (m,)."""
        half = lapack.solve_lower(self.factor, cross)
        return half, self.weights @ half

    def _moments(self, cross: np.ndarray, prior_variance: np.ndarray | float) -> Moments:
        """Posterior means and variances (m,), from covariances with the data (n, m)."""
        half, mean = self._project(cross)
        return mean, np.maximum(prior_variance - np.sum(np.square(half), axis=0), 0.0)

    def moments(self, x_new: np.ndarray) -> Moments:
        effects, prior = self.series.effects, self._covariance(Pairs(x_new, x_new))
        prior = prior if effects is None else prior + effects.variance(x_new)
        return self._moments(self._cross(x_new), prior)

    def joint(self, x_new: np.ndarray) -> Moments:
        effects, prior = self.series.effects, self._covariance(_pairs_among(x_new.tobytes()))
        prior = prior if effects is None else prior + effects.covariance(x_new, x_new)
        half, mean = self._project(self._cross(x_new))
        return mean, prior - half.T @ half

    def elements(self, x_new: np.ndarray, values: Sequence[np.ndarray]) -> Moments:
        x, effects = self.series.x, self.series.effects
        cross = self._covariance(_pairs_between(x.tobytes(), x_new.tobytes()))
        prior = self._covariance(_pairs_among(x_new.tobytes()))
        if effects is not None:
            cross = np.hstack([cross, effects.element_covariance(x, values)])
            prior = block_diag(prior, effects.element_prior(values))
        half, mean = self._project(cross)
        return mean, prior - half.T @ half

    def precision(self) -> Moments:
        """K^-1 (n, n) and K^-1 y (n,), with K the covariance of y."""
        return lapack.inverse(self.factor.copy(order="F")), lapack.solve(self.factor, self.y)

    def _loo(self) -> Moments:
        """Mean and variance of each value given all others: (n,) each.

        Rasmussen and Williams (2006), equations 5.10 to 5.12.
        """
        inverse, weighted = self.precision()
        variance = 1.0 / np.diag(inverse)
        return self.y - weighted * variance, variance

    def loo(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        mean, variance = self._loo()
        density = -0.5 * (np.log(variance) + LOG_2PI + np.square(self.y - mean) / variance)
        return mean, variance, density

    def change(self, name: str, ends: np.ndarray) -> tuple[float, float]:
        cross = np.diff(self._components(Pairs.between(self.series.x, ends))[name])
        prior = self._components(Pairs.among(ends))[name]
        mean, variance = self._moments(cross, prior[0, 0] + prior[1, 1] - 2.0 * prior[0, 1])
        return mean[0], variance[0]

    def components(
        self, x_new: np.ndarray, level: str, merged: Sequence[str] = ()
    ) -> dict[str, Moments]:
        series, n, m = self.series, len(self.y), len(x_new)
        shares = series.averaged / series.averaged.sum()
        new_variances = self._components(Pairs(x_new, x_new))
        new_covariances = self._components(_pairs_between(series.x.tobytes(), x_new.tobytes()))
        data_covariances = self._components(series._pairs)
        cross, prior = {level: np.zeros((n, m))}, {level: np.zeros(m)}
        for name, K in new_covariances.items():
            if name == level or name in merged:
                cross[level], prior[level] = cross[level] + K, prior[level] + new_variances[name]
                continue
            # Covariance of the component's average over the data with y, and its variance.
            average_cross = data_covariances[name] @ shares
            average_variance = shares @ average_cross
            cross[name] = K - average_cross[:, None]
            prior[name] = new_variances[name] - 2.0 * shares @ K + average_variance
            cross[level] = cross[level] + average_cross[:, None]
            prior[level] = prior[level] + average_variance
        if series.effects is not None:
            for name in series.effects.names:
                cross[name] = series.effects.covariance(series.x, x_new, name)
                prior[name] = series.effects.variance(x_new, name)
        return {name: self._moments(cross[name], prior[name]) for name in cross}

    def coefficients(self) -> Moments:
        effects = self.series.effects
        assert effects is not None
        return self._moments(effects.rows(self.series.x), 1.0)


@lru_cache(maxsize=4)
def _minus_doubled(n: int) -> np.ndarray:
    """Factors (n, n): -2 below the diagonal, -1 on it and 0 above, Fortran-ordered."""
    return np.asfortranarray(np.eye(n) - np.tri(n) * 2.0)
