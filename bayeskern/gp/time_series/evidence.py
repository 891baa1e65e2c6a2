"""The evidence of a Gaussian process in time and its gradient, in NumPy: nothing is compiled.

For a few hundred values the search for a mode takes less time than JAX takes to compile its first
step. The formulas are those of `GPRegression` and of its kernels.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property, lru_cache
from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg import blas, lapack, solve_triangular

from bayeskern.core.threads import one_blas_thread, side_by_side
from bayeskern.gp.time_series.predictive import LOG_2PI, JointPredictive
from bayeskern.gp.time_series.prior import Gradient, ProcessPrior
from bayeskern.kernels.derivatives import Pairs


class LinearEffects(Protocol):
    """sum_j b_j z_j(x) with known z and independent b_j ~ N(0, 1), k of them; functions beside.

    Attributes:
        names: The components that they make up.
    """

    names: tuple[str, ...]

    def rows(self, x) -> np.ndarray:
        """z(x) at x (n,): (n, k)."""

    def covariance(self, x, x_new, name: str | None = None) -> np.ndarray:
        """z(x) z(x_new)' and that of the functions, of one component or of all: (n, m)."""

    def variance(self, x_new, name: str | None = None) -> np.ndarray:
        """Its diagonal at x_new, of one component or of all: (m,)."""


class NumpyEvidence:
    """log p(y, hyperparameters) of a Gaussian process in time, over unconstrained coordinates z.

    Args:
        prior: The process and its hyperparameters.
        x: Times, (n,).
        y: Values, (n,).

    Attributes:
        noise_factors: What the noise variance of each value is multiplied by: (n,).
    """

    effects: LinearEffects | None = None

    def __init__(self, prior: ProcessPrior, x, y):
        self.prior = prior
        self._take(x, y)

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each coordinate of z, d of them."""
        return self.prior.names

    @property
    def middle(self) -> np.ndarray:
        """The median of the prior of z: (d,)."""
        return self.prior.middle

    @property
    def component_names(self) -> tuple[str, ...]:
        """The names of the additive components of the kernel."""
        return self.prior.component_names

    def values(self, z) -> dict[str, np.ndarray]:
        """The hyperparameters by name, for z of shape (..., d)."""
        return self.prior.values(z)

    def _take(self, x, y) -> None:
        self.x, self.y = x, y
        self.noise_factors, self._constant = np.ones(len(y)), 0.0
        # Those of other times.
        for name in ("_pairs", "_of_effects"):
            vars(self).pop(name, None)

    @cached_property
    def _pairs(self) -> Pairs:
        return _pairs_among(self.x.tobytes())

    @cached_property
    def _of_effects(self):
        return 0.0 if self.effects is None else self.effects.covariance(self.x, self.x)

    def given(self, x, y) -> NumpyEvidence:
        """A copy with other data: values y at times x, (n,) both."""
        other = copy(self)
        other._take(x, y)
        return other

    def with_noise_factors(self, noise_factors, constant: float) -> NumpyEvidence:
        """The same with other factors of the noise variance, (n,), and a term of the density."""
        other = copy(self)
        other.noise_factors, other._constant = noise_factors, constant
        return other

    def with_effects(self, effects: LinearEffects | None) -> NumpyEvidence:
        """The same with linear effects beside the kernel, components by their names."""
        if effects is None:
            return self
        other = copy(self)
        other.effects = effects
        other._take(self.x, self.y)
        return other

    def threads(self):
        """A context in which BLAS takes one thread: several only wait for one another here."""
        return one_blas_thread()

    def log_density(self, z) -> float:
        """The log density at z (d,); -inf where K has no factor."""
        with np.errstate(all="ignore"):
            return self._evaluated(z)[0]

    def value_and_gradient(self, z) -> tuple[float, np.ndarray]:
        """The log density at z (d,), and its gradient; -inf and zeros where K has no factor.

        Rasmussen and Williams (2006), equations 5.8 and 5.9, and the prior of z.
        """
        with np.errstate(all="ignore"):
            # What overflows has no density, and that is said by its value.
            return self._value_and_gradient(z)

    def _value_and_gradient(self, z):
        value, factor, weights, gradient = self._evaluated(z)
        if factor is None:
            return value, np.zeros(len(z))
        # d log p / d theta = 1/2 tr((a a' - K^-1) dK / d theta), with dK / d theta symmetric: the
        # lower triangle, twice off the diagonal.
        lower, _ = lapack.dpotri(factor, lower=1, overwrite_c=True)
        lower *= -2.0
        A = blas.dsyr(2.0, weights, a=lower, lower=1, overwrite_a=True).T
        A.ravel()[:: len(A) + 1] *= 0.5
        return value, gradient(A, np.diag(A) @ self.noise_factors)

    def _evaluated(self, z):
        """The log density, the factor of K, K^-1 y and the gradient of sums over K."""
        K, gradient = self._covariance(z)
        factor, failed = lapack.dpotrf(K.T, lower=1, overwrite_a=True)
        if failed or not np.isfinite(factor[-1, -1]):
            return -np.inf, None, None, gradient
        weights, _ = lapack.dpotrs(factor, self.y, lower=1)
        return self._log_joint(z, factor, self.y @ weights), factor, weights, gradient

    def _log_joint(self, z, factor, quadratic) -> float:
        """The log density at z, by the factor of K and y' K^-1 y."""
        value = -0.5 * (quadratic + len(self.y) * LOG_2PI) - np.log(np.diag(factor)).sum()
        return float(value) + self.prior.log_density(z) + self._constant

    def moments(self, z, x_new) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of new observations at x_new (m,), for each of z (S, d): (S, m)."""
        pairs, means, variances = Pairs(x_new, x_new), [], []
        with self.threads():
            for z_one in z:
                solve, noise = self._conditioned(z_one)
                half, mean = solve(x_new)
                among = solve.prior_covariance(pairs) + self._variance_of_effects(x_new)
                means.append(mean)
                variances.append(np.maximum(among - np.sum(np.square(half), axis=0), 0.0) + noise)
        return np.array(means), np.array(variances)

    def predictive(self, z, x_new) -> JointPredictive:
        """The log density at each of z (S, d), and the joint distribution at sorted x_new (m,).

        Both take one Gram matrix, and one factor, for each of z.
        """
        n, x, parts = len(self.y), np.append(self.x, x_new), []
        pairs, of_effects = _pairs_among(x.tobytes()), 0.0
        known = np.empty((n, 1 + len(x_new)), order="F")
        if self.effects is not None:
            of_effects = self.effects.covariance(x, x)
        with self.threads(), np.errstate(all="ignore"):
            # What overflows has no density, and that is said by its value.
            for z_one in z:
                noise = self.prior.noise(z_one)
                K = pairs.spread(self.prior.covariance(z_one, pairs)[0]) + of_effects
                cross, among = K[:n, n:], K[n:, n:]
                K.ravel()[: n * len(K) : len(K) + 1] += noise * self.noise_factors
                factor = _factor(K[:n, :n])
                known[:, 0], known[:, 1:] = self.y, cross
                solved, _ = lapack.dtrtrs(factor, known, lower=1)
                weights, half = solved[:, 0], solved[:, 1:]
                density = self._log_joint(z_one, factor, weights @ weights)
                density = density if np.isfinite(density) else -np.inf
                parts.append((density, weights @ half, among - half.T @ half, noise))
        densities, means, covariances, noises = map(np.array, zip(*parts, strict=True))
        return JointPredictive(densities, x_new, means, covariances, noises)

    def joint(self, z, x_new, noise_factors=1.0) -> tuple[np.ndarray, np.ndarray]:
        """Mean (m,) and covariance (m, m) of new observations at x_new (m,), for z (d,).

        noise_factors: what the noise variance of each is multiplied by, (m,).
        """
        with self.threads():
            solve, noise = self._conditioned(z)
            among = solve.prior_covariance(Pairs.among(x_new))
            if self.effects is not None:
                among = among + self.effects.covariance(x_new, x_new)
            half, mean = solve(x_new)
            return mean, among - half.T @ half + noise * noise_factors * np.eye(len(x_new))

    def rolling(self, z, counts, reach) -> list[tuple[np.ndarray, np.ndarray]]:
        """Means and variances of the values after the first ones, given those: for z (d,).

        One factor holds all of them: with K = L L' and a = L^-1 y, the values from n on, given the
        first n, have means L[n:, :n] a[:n] and the covariance L[n:, n:] L[n:, n:]'.

        Args:
            z: The hyperparameters, (d,).
            counts: How many values are known at each origin.
            reach: How many of the next ones are forecast there. Their noise is the ordinary one,
                without the factors that they had once they were known.

        Returns:
            Means and variances of those, one pair for each origin.
        """
        with self.threads(), np.errstate(all="ignore"):
            noise = self.prior.noise(z)
            factor = _factor(self._covariance(z)[0])
            weights = solve_triangular(factor, self.y, lower=True, check_finite=False)
        pairs = []
        for n, k in zip(counts, reach, strict=True):
            later = factor[n : n + k]
            own = np.tril(later[:, n : n + k])
            excess = noise * (self.noise_factors[n : n + k] - 1.0)
            pairs.append((later[:, :n] @ weights[:n], np.sum(np.square(own), axis=1) - excess))
        return pairs

    def precision(self, z) -> tuple[np.ndarray, np.ndarray]:
        """K^-1 (n, n) and K^-1 y (n,) at z (d,), with K the covariance of y."""
        with self.threads():
            conditioned, _ = self._conditioned(z)
            inverse, _ = lapack.dpotri(conditioned.factor, lower=1)
            inverse = np.tril(inverse) + np.tril(inverse, -1).T
        return inverse, inverse @ conditioned.y

    def fitted(self, z) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the function at the values themselves, without noise: (n,) each."""
        with self.threads():
            solve, _ = self._conditioned(z)
            half, mean = solve(self.x)
            among = solve.prior_covariance(Pairs(self.x, self.x))
            among = among + self._variance_of_effects(self.x)
            return mean, np.maximum(among - np.sum(np.square(half), axis=0), 0.0)

    def loo(self, z) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean, variance and log density of each value given the others, for z (S, d): (S, n) each.

        Rasmussen and Williams (2006), equations 5.10 to 5.12.
        """
        parts = []
        with self.threads():
            for z_one in z:
                conditioned, _ = self._conditioned(z_one)
                inverse, _ = lapack.dpotri(conditioned.factor, lower=1)
                precision = np.diag(inverse)
                residual = lapack.dpotrs(conditioned.factor, conditioned.y, lower=1)[0] / precision
                density = 0.5 * (np.log(precision) - LOG_2PI - precision * np.square(residual))
                parts.append((self.y - residual, 1.0 / precision, density))
        return tuple(np.array(part) for part in zip(*parts, strict=True))

    def changes(self, z, name: str, ends) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the change of a component between times (2,), for z (S, d): (S,)."""
        parts = []
        with self.threads():
            for z_one in z:
                solve, _ = self._conditioned(z_one)
                cross = np.diff(solve.prior_components(Pairs.between(self.x, ends))[name])
                half, mean = solve.covariances(cross)
                among = solve.prior_components(Pairs.among(ends))[name]
                prior = among[0, 0] + among[1, 1] - 2.0 * among[0, 1]
                parts.append((mean[0], np.maximum(prior - np.sum(np.square(half)), 0.0)))
        means, variances = zip(*parts, strict=True)
        return np.array(means), np.array(variances)

    def components(self, z, x_new, level: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Means and variances of every component at x_new (m,), for each of z (S, d): (S, m).

        Each component is taken minus its average over the data, and the averages go to the one
        called level, as in `bayeskern.gp.components`.
        """
        names = (level, *(name for name in self.component_names if name != level))
        parts = {name: ([], []) for name in (*names, *self._names_of_effects)}

        def centered(z_one):
            return self._centered(z_one, x_new, names)

        with self.threads():
            for moments in side_by_side(centered, z, len(self.y)):
                for name, (mean, variance) in moments.items():
                    parts[name][0].append(mean)
                    parts[name][1].append(variance)
        return {name: (np.array(m), np.array(v)) for name, (m, v) in parts.items()}

    def _centered(self, z, x_new, names):
        """name -> mean and variance of one component at x_new, (m,) each; the level is first."""
        solve, _ = self._conditioned(z)
        n, m, level = len(self.y), len(x_new), names[0]
        among = solve.prior_components(Pairs(x_new, x_new))
        between = solve.prior_components(_pairs_between(self.x.tobytes(), x_new.tobytes()))
        within = solve.prior_components(self._pairs)
        averages = {name: self._pairs.spread(K).mean(axis=1) for name, K in within.items()}
        cross, prior = {level: np.zeros((n, m))}, {level: np.zeros(m)}
        for name, K in between.items():
            # The average over the data has these covariances with y and with f(x_new).
            with_data, with_new = averages[name], K.mean(axis=0)
            variance = with_data.mean()
            if name == level:
                cross[level], prior[level] = cross[level] + K, prior[level] + among[name]
            else:
                cross[name] = K - with_data[:, None]
                prior[name] = among[name] - 2.0 * with_new + variance
                cross[level], prior[level] = (
                    cross[level] + with_data[:, None],
                    prior[level] + variance,
                )
        moments = {}
        for name in names:
            half, mean = solve.covariances(cross[name])
            moments[name] = mean, np.maximum(prior[name] - np.sum(np.square(half), axis=0), 0.0)
        for name in self._names_of_effects:
            # Differences from none, or from the average, as they are.
            half, mean = solve.covariances(self.effects.covariance(self.x, x_new, name))
            variance = self.effects.variance(x_new, name) - np.sum(np.square(half), axis=0)
            moments[name] = mean, np.maximum(variance, 0.0)
        return moments

    @property
    def _names_of_effects(self) -> tuple[str, ...]:
        return () if self.effects is None else self.effects.names

    def _variance_of_effects(self, x_new):
        return 0.0 if self.effects is None else self.effects.variance(x_new)

    def coefficients(self, z) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of the coefficients of the effects, for z (S, d): (S, k) each."""
        Z, parts = self.effects.rows(self.x), []
        with self.threads():
            for z_one in z:
                solve, _ = self._conditioned(z_one)
                half, mean = solve.covariances(Z)
                parts.append((mean, np.maximum(1.0 - np.sum(np.square(half), axis=0), 0.0)))
        means, variances = zip(*parts, strict=True)
        return np.array(means), np.array(variances)

    def _conditioned(self, z) -> tuple[Conditioned, float]:
        """The process given the data, and its noise variance."""
        factor = _factor(self._covariance(z)[0])
        weights = solve_triangular(factor, self.y, lower=True, check_finite=False)
        return Conditioned(self, factor, weights, self.y, z), self.prior.noise(z)

    def _covariance(self, z) -> tuple[np.ndarray, Gradient]:
        """K, the covariance of y: (n, n), and the gradient of sums over it."""
        K, gradient = self.prior.covariance(z, self._pairs)
        # One copy, into which the rest is added: the gradient may need what the kernel gave.
        K = self._pairs.spread(K) + self._of_effects
        K.ravel()[:: len(K) + 1] += self.prior.noise(z) * self.noise_factors
        return K, gradient


# Several models, and draws of each, ask for the same times one after the other.
@lru_cache(maxsize=4)
def _pairs_among(x: bytes) -> Pairs:
    return Pairs.among(np.frombuffer(x))


@lru_cache(maxsize=4)
def _pairs_between(x: bytes, x_new: bytes) -> Pairs:
    return Pairs.between(np.frombuffer(x), np.frombuffer(x_new))


class Conditioned(NamedTuple):
    """A process given its data y (n,), or what stands for them.

    factor: L, of the covariance of y; weights: L^-1 y; z: the coordinates of the process.
    """

    evidence: NumpyEvidence
    factor: np.ndarray
    weights: np.ndarray
    y: np.ndarray
    z: np.ndarray

    def __call__(self, x_new):
        """L^-1 k(x, x_new) (n, m) and the mean at x_new (m,)."""
        evidence = self.evidence
        cross = self.prior_covariance(_pairs_between(evidence.x.tobytes(), x_new.tobytes()))
        if evidence.effects is not None:
            cross = cross + evidence.effects.covariance(evidence.x, x_new)
        return self.covariances(cross)

    def prior_covariance(self, pairs: Pairs) -> np.ndarray:
        """k at the pairs, without effects."""
        return pairs.spread(self.evidence.prior.covariance(self.z, pairs)[0])

    def prior_components(self, pairs: Pairs) -> dict[str, np.ndarray]:
        """The components of k at the pairs."""
        return self.evidence.prior.components(self.z, pairs)

    def covariances(self, cross):
        """L^-1 of covariances with the data (n, m), and the mean of what has them (m,)."""
        half = solve_triangular(self.factor, cross, lower=True, check_finite=False)
        return half, self.weights @ half


def _factor(K) -> np.ndarray:
    """The Cholesky factor of K; NaN where it has none."""
    factor, failed = lapack.dpotrf(K, lower=1)
    return np.full_like(K, np.nan) if failed else factor
