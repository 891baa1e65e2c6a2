"""Log joint density of a Gaussian process in time with its gradient, in NumPy, uncompiled.

For a few hundred values the whole search for a mode takes less time than JAX needs to compile its
first step (`benchmarks/engines.py`), so the log density that `linalg.dense` has in JAX stands here
again, with hand-written derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from copy import copy
from functools import cached_property, lru_cache
from typing import NamedTuple, Protocol, Self

import numpy as np
from scipy.linalg import get_blas_funcs, get_lapack_funcs, solve_triangular

from bayeskern.core.threads import one_blas_thread, side_by_side
from bayeskern.gp.time_series.predictive import LOG_2PI, JointPredictive
from bayeskern.gp.time_series.prior import Gradient, ProcessPrior
from bayeskern.kernels.derivatives import Pairs

potrf, potrs, potri, _trtrs = get_lapack_funcs(
    ("potrf", "potrs", "potri", "trtrs"), dtype=np.float64
)
(_syr,) = get_blas_funcs(("syr",), dtype=np.float64)

Moments = tuple[np.ndarray, np.ndarray]


class LinearEffects(Protocol):
    """sum_j b_j z_j(x) with k known functions z_j and b_j ~ N(0, 1), plus Gaussian processes."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the components."""
        ...

    def rows(self, x: np.ndarray) -> np.ndarray:
        """z(x) at x (n,): (n, k)."""
        ...

    def covariance(self, x: np.ndarray, x_new: np.ndarray, name: str | None = None) -> np.ndarray:
        """Prior covariance of one component, or of all: (n, m)."""
        ...

    def variance(self, x_new: np.ndarray, name: str | None = None) -> np.ndarray:
        """Prior variance of one component, or of all: (m,)."""
        ...


class NumpyEvidence:
    """log p(y, hyperparameters) of a Gaussian process in time, over unconstrained coordinates z.

    Args:
        prior: The process and its hyperparameters.
        x: Times, (n,).
        y: Values, (n,).

    Attributes:
        noise_factors: Factor of the noise variance of each value: (n,).
    """

    effects: LinearEffects | None = None

    def __init__(self, prior: ProcessPrior, x: np.ndarray, y: np.ndarray):
        self.prior = prior
        self._set_data(x, y)

    @property
    def names(self) -> tuple[str, ...]:
        """Name of each of the d coordinates of z."""
        return self.prior.names

    @property
    def middle(self) -> np.ndarray:
        """Median of the prior of z: (d,)."""
        return self.prior.middle

    @property
    def component_names(self) -> tuple[str, ...]:
        """Names of the additive components of the kernel."""
        return self.prior.component_names

    def values(self, z: np.ndarray) -> dict[str, np.ndarray]:
        """Hyperparameters by name, for z of shape (..., d)."""
        return self.prior.values(z)

    def _set_data(self, x: np.ndarray, y: np.ndarray) -> None:
        self.x, self.y = x, y
        self.noise_factors, self._constant = np.ones(len(y)), 0.0
        # Cached values depend on the times.
        for name in ("_pairs", "_effects_covariance"):
            vars(self).pop(name, None)

    @cached_property
    def _pairs(self) -> Pairs:
        return _pairs_among(self.x.tobytes())

    @cached_property
    def _effects_covariance(self) -> np.ndarray | float:
        return 0.0 if self.effects is None else self.effects.covariance(self.x, self.x)

    def given(self, x: np.ndarray, y: np.ndarray) -> Self:
        """Copy with other data: values y at times x, (n,) both."""
        other = copy(self)
        other._set_data(x, y)
        return other

    def with_noise_factors(self, noise_factors: np.ndarray, constant: float) -> Self:
        """Copy with factors of the noise variance, (n,), and a constant of the log density."""
        other = copy(self)
        other.noise_factors, other._constant = noise_factors, constant
        return other

    def with_effects(self, effects: LinearEffects | None) -> Self:
        """Copy with linear effects beside the kernel, as further components."""
        other = copy(self)
        other.effects = effects
        other._set_data(self.x, self.y)
        return other

    def threads(self) -> AbstractContextManager:
        """Context with one BLAS thread: matrices this small gain nothing from several."""
        return one_blas_thread()

    # -- log density -------------------------------------------------------------------------------

    def log_density(self, z: np.ndarray) -> float:
        """Log density at z (d,); -inf where K has no factor."""
        # Overflow is no error: it gives the value -inf.
        with np.errstate(all="ignore"):
            return self._factored(z)[0]

    def value_and_gradient(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """Log density at z (d,) and its gradient; -inf and zeros where K has no factor.

        Rasmussen and Williams (2006), equations 5.8 and 5.9, and the prior of z.
        """
        with np.errstate(all="ignore"):
            return self._value_and_gradient(z)

    def _value_and_gradient(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        value, factor, weights, gradient = self._factored(z)
        if factor is None:
            return value, np.zeros(len(z))
        # d log p / d theta = 1/2 tr((a a' - K^-1) dK / d theta), with dK / d theta symmetric: the
        # lower triangle, twice off the diagonal.
        lower, _ = potri(factor, lower=1, overwrite_c=True)
        lower *= -2.0
        A = _syr(2.0, weights, a=lower, lower=1, overwrite_a=True).T
        A.ravel()[:: len(A) + 1] *= 0.5
        return value, gradient(A, float(np.diag(A) @ self.noise_factors))

    def _factored(
        self, z: np.ndarray
    ) -> tuple[float, np.ndarray | None, np.ndarray | None, Gradient]:
        """Log density, factor of K, K^-1 y and gradient of weighted sums over K."""
        K, gradient = self._covariance(z)
        factor, failed = potrf(K.T, lower=1, overwrite_a=True)
        if failed or not np.isfinite(factor[-1, -1]):
            return -np.inf, None, None, gradient
        weights, _ = potrs(factor, self.y, lower=1)
        return self._log_joint(z, factor, self.y @ weights), factor, weights, gradient

    def _log_joint(self, z: np.ndarray, factor: np.ndarray, quadratic: float) -> float:
        """Log density at z, by the factor of K and y' K^-1 y."""
        value = -0.5 * (quadratic + len(self.y) * LOG_2PI) - np.log(np.diag(factor)).sum()
        return float(value) + self.prior.log_density(z) + self._constant

    def _covariance(self, z: np.ndarray) -> tuple[np.ndarray, Gradient]:
        """K, the covariance of y: (n, n), and the gradient of weighted sums over it."""
        K, gradient = self.prior.covariance(z, self._pairs)
        # A copy, since the gradient may need the matrix of the kernel.
        K = self._pairs.spread(K) + self._effects_covariance
        K.ravel()[:: len(K) + 1] += self.prior.noise(z) * self.noise_factors
        return K, gradient

    # -- predictions -------------------------------------------------------------------------------

    def _at_each(self, function: Callable, z: Iterable[np.ndarray]) -> tuple[np.ndarray, ...]:
        """The arrays that a function returns at each of z (S, d), stacked: (S, ...)."""
        with self.threads():
            results = [function(z_one) for z_one in z]
        return tuple(np.array(part) for part in zip(*results, strict=True))

    def _conditioned(self, z: np.ndarray) -> tuple[ConditionedSeries, float]:
        """The process given the data, and its noise variance."""
        factor = _cholesky(self._covariance(z)[0])
        weights = solve_triangular(factor, self.y, lower=True, check_finite=False)
        return ConditionedSeries(self, factor, weights, self.y, z), self.prior.noise(z)

    def moments(self, z: np.ndarray, x_new: np.ndarray) -> Moments:
        """Means and variances of new observations at x_new (m,), for each of z (S, d): (S, m)."""

        def at(z_one):
            process, noise = self._conditioned(z_one)
            mean, variance = process.moments_at(x_new)
            return mean, variance + noise

        means, variances = self._at_each(at, z)
        return means, variances

    def predictive(self, z: np.ndarray, x_new: np.ndarray) -> JointPredictive:
        """Log density at each of z (S, d), and the joint distribution at sorted x_new (m,).

        Both use one Gram matrix, and one factor, for each of z.
        """
        n, x = len(self.y), np.append(self.x, x_new)
        pairs = _pairs_among(x.tobytes())
        effects = 0.0 if self.effects is None else self.effects.covariance(x, x)
        right_sides = np.empty((n, 1 + len(x_new)), order="F")

        def at(z_one):
            noise = self.prior.noise(z_one)
            K = pairs.spread(self.prior.covariance(z_one, pairs)[0]) + effects
            cross, among = K[:n, n:], K[n:, n:]
            K.ravel()[: n * len(K) : len(K) + 1] += noise * self.noise_factors
            factor = _cholesky(K[:n, :n])
            right_sides[:, 0], right_sides[:, 1:] = self.y, cross
            solved, _ = _trtrs(factor, right_sides, lower=1)
            weights, half = solved[:, 0], solved[:, 1:]
            density = self._log_joint(z_one, factor, weights @ weights)
            density = density if np.isfinite(density) else -np.inf
            return density, weights @ half, among - half.T @ half, noise

        # Overflow is no error: it gives the value -inf.
        with np.errstate(all="ignore"):
            densities, means, covariances, noises = self._at_each(at, z)
        return JointPredictive(densities, x_new, means, covariances, noises)

    def joint(self, z: np.ndarray, x_new: np.ndarray) -> Moments:
        """Mean (m,) and covariance (m, m) of new observations at x_new (m,), for z (d,)."""
        with self.threads():
            process, noise = self._conditioned(z)
            among = process.prior_covariance(Pairs.among(x_new))
            if self.effects is not None:
                among = among + self.effects.covariance(x_new, x_new)
            half, mean = process.project(process.cross_covariance(x_new))
            return mean, among - half.T @ half + noise * np.eye(len(x_new))

    def rolling(self, z: np.ndarray, counts: Iterable[int], reach: Iterable[int]) -> list[Moments]:
        """Rolling-origin predictions: moments of the values after the first ones, at z (d,).

        One factor serves all origins: with K = L L' and a = L^-1 y, the values from n on, given the
        first n, have means L[n:, :n] a[:n] and the covariance L[n:, n:] L[n:, n:]'.

        Args:
            z: The hyperparameters, (d,).
            counts: Number of known values at each origin.
            reach: Number of values predicted from each origin. Their noise is the ordinary one,
                without their noise factors.

        Returns:
            Means and variances of those values, one pair for each origin.
        """
        with self.threads(), np.errstate(all="ignore"):
            noise = self.prior.noise(z)
            factor = _cholesky(self._covariance(z)[0])
            weights = solve_triangular(factor, self.y, lower=True, check_finite=False)
        pairs = []
        for n, k in zip(counts, reach, strict=True):
            later = factor[n : n + k]
            own = np.tril(later[:, n : n + k])
            excess = noise * (self.noise_factors[n : n + k] - 1.0)
            pairs.append((later[:, :n] @ weights[:n], np.sum(np.square(own), axis=1) - excess))
        return pairs

    def precision(self, z: np.ndarray) -> Moments:
        """K^-1 (n, n) and K^-1 y (n,) at z (d,), with K the covariance of y."""
        with self.threads():
            process, _ = self._conditioned(z)
            inverse, _ = potri(process.factor, lower=1)
            inverse = np.tril(inverse) + np.tril(inverse, -1).T
        return inverse, inverse @ process.y

    def fitted(self, z: np.ndarray) -> Moments:
        """Mean and variance of the function at the data, without noise: (n,) each."""
        with self.threads():
            return self._conditioned(z)[0].moments_at(self.x)

    def loo(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean, variance and log density of each value given the others, for z (S, d): (S, n) each.

        Rasmussen and Williams (2006), equations 5.10 to 5.12.
        """

        def at(z_one):
            process, _ = self._conditioned(z_one)
            inverse, _ = potri(process.factor, lower=1)
            precision = np.diag(inverse)
            residual = potrs(process.factor, process.y, lower=1)[0] / precision
            density = 0.5 * (np.log(precision) - LOG_2PI - precision * np.square(residual))
            return self.y - residual, 1.0 / precision, density

        means, variances, densities = self._at_each(at, z)
        return means, variances, densities

    def changes(self, z: np.ndarray, name: str, ends: np.ndarray) -> Moments:
        """Mean and variance of the change of a component between times (2,), for z (S, d): (S,)."""

        def at(z_one):
            process, _ = self._conditioned(z_one)
            cross = np.diff(process.prior_components(Pairs.between(self.x, ends))[name])
            among = process.prior_components(Pairs.among(ends))[name]
            mean, variance = process.moments(cross, among[0, 0] + among[1, 1] - 2.0 * among[0, 1])
            return mean[0], variance[0]

        means, variances = self._at_each(at, z)
        return means, variances

    def components(self, z: np.ndarray, x_new: np.ndarray, level: str) -> dict[str, Moments]:
        """Means and variances of every component at x_new (m,), for each of z (S, d): (S, m).

        Each component is taken minus its average over the data, and the averages are added to the
        component `level`, as in `bayeskern.gp.components`.
        """
        names = (level, *(name for name in self.component_names if name != level))
        with self.threads():
            parts = side_by_side(
                lambda z_one: self._centered(z_one, x_new, names), list(z), len(self.y)
            )
        return {
            name: (
                np.array([moments[name][0] for moments in parts]),
                np.array([moments[name][1] for moments in parts]),
            )
            for name in parts[0]
        }

    def _centered(
        self, z: np.ndarray, x_new: np.ndarray, names: tuple[str, ...]
    ) -> dict[str, Moments]:
        """Mean and variance of each component at x_new, (m,) each; the level comes first."""
        process, _ = self._conditioned(z)
        n, m, level = len(self.y), len(x_new), names[0]
        among = process.prior_components(Pairs(x_new, x_new))
        between = process.prior_components(_pairs_between(self.x.tobytes(), x_new.tobytes()))
        within = process.prior_components(self._pairs)
        averages = {name: self._pairs.spread(K).mean(axis=1) for name, K in within.items()}
        cross, prior = {level: np.zeros((n, m))}, {level: np.zeros(m)}
        for name, K in between.items():
            # Covariances of the average over the data with y and with f(x_new).
            with_data, with_new = averages[name], K.mean(axis=0)
            variance = with_data.mean()
            if name == level:
                cross[level], prior[level] = cross[level] + K, prior[level] + among[name]
            else:
                cross[name] = K - with_data[:, None]
                prior[name] = among[name] - 2.0 * with_new + variance
                cross[level] = cross[level] + with_data[:, None]
                prior[level] = prior[level] + variance
        moments = {name: process.moments(cross[name], prior[name]) for name in names}
        if self.effects is not None:
            # Effects are differences from none, or from the average, and need no centring.
            for name in self.effects.names:
                covariance = self.effects.covariance(self.x, x_new, name)
                moments[name] = process.moments(covariance, self.effects.variance(x_new, name))
        return moments

    def coefficients(self, z: np.ndarray) -> Moments:
        """Means and variances of the coefficients of the effects, for z (S, d): (S, k) each."""
        if self.effects is None:
            raise ValueError("the process has no linear effects.")
        Z = self.effects.rows(self.x)
        means, variances = self._at_each(
            lambda z_one: self._conditioned(z_one)[0].moments(Z, 1.0), z
        )
        return means, variances


# Several models, and draws of each, ask for the same times one after the other.
@lru_cache(maxsize=4)
def _pairs_among(x: bytes) -> Pairs:
    return Pairs.among(np.frombuffer(x))


@lru_cache(maxsize=4)
def _pairs_between(x: bytes, x_new: bytes) -> Pairs:
    return Pairs.between(np.frombuffer(x), np.frombuffer(x_new))


class ConditionedSeries(NamedTuple):
    """Process given its data y (n,), or given Gaussian values in their place.

    factor: L, of the covariance of y; weights: L^-1 y; z: coordinates of the process.
    """

    evidence: NumpyEvidence
    factor: np.ndarray
    weights: np.ndarray
    y: np.ndarray
    z: np.ndarray

    def prior_covariance(self, pairs: Pairs) -> np.ndarray:
        """k at the pairs, without effects."""
        return pairs.spread(self.evidence.prior.covariance(self.z, pairs)[0])

    def prior_components(self, pairs: Pairs) -> dict[str, np.ndarray]:
        """Components of k at the pairs."""
        return self.evidence.prior.components(self.z, pairs)

    def cross_covariance(self, x_new: np.ndarray) -> np.ndarray:
        """Prior covariance of the data with x_new (m,), effects included: (n, m)."""
        x, effects = self.evidence.x, self.evidence.effects
        cross = self.prior_covariance(_pairs_between(x.tobytes(), x_new.tobytes()))
        return cross if effects is None else cross + effects.covariance(x, x_new)

    def project(self, cross: np.ndarray) -> Moments:
        """L^-1 of covariances with the data (n, m), and the posterior mean (m,)."""
        half = solve_triangular(self.factor, cross, lower=True, check_finite=False)
        return half, self.weights @ half

    def moments(self, cross: np.ndarray, prior_variance: np.ndarray | float) -> Moments:
        """Posterior means and variances, (m,), by covariances with the data (n, m)."""
        half, mean = self.project(cross)
        return mean, np.maximum(prior_variance - np.sum(np.square(half), axis=0), 0.0)

    def moments_at(self, x_new: np.ndarray) -> Moments:
        """Posterior means and variances of the function at x_new: (m,) each."""
        effects, prior = self.evidence.effects, self.prior_covariance(Pairs(x_new, x_new))
        prior = prior if effects is None else prior + effects.variance(x_new)
        return self.moments(self.cross_covariance(x_new), prior)


def _cholesky(K: np.ndarray) -> np.ndarray:
    """Cholesky factor of K; NaN where it has none."""
    factor, failed = potrf(K, lower=1)
    return np.full_like(K, np.nan) if failed else factor
