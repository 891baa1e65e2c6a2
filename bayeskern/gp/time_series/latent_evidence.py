"""The evidence of a Gaussian process seen through a likelihood, in NumPy: nothing is compiled.

Laplace's approximation of `LatentProcess`, as Rasmussen and Williams (2006), sections 3.4 and
5.5.1, have it. Where the curvature of log p(y | f) may be negative, its mean over y takes its
place, Fisher's information: Hartmann and Vanhatalo (2019), "Laplace approximation and natural
gradient for Gaussian process regression with heteroscedastic Student-t model".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, lapack, solve_triangular
from scipy.special import logsumexp

from bayeskern.gp.time_series.evidence import Conditioned, NumpyEvidence
from bayeskern.gp.time_series.predictive import JointPredictive
from bayeskern.gp.time_series.prior import ProcessPrior
from bayeskern.likelihoods.numpy_likelihoods import NumpyLikelihood

# The most Newton steps, and the most halvings of one.
STEPS, HALVINGS = 50, 30
# The search has ended where a step would gain less than the first, one that would gain less than
# the second, which is not seen in the sum, is taken as it is, and from the third on a curvature
# that may be negative leads the rest of the way faster than one that is not.
CONVERGED, UNSEEN, CLOSE = 1e-18, 1e-10, 1.0
# After all steps the mode counts as found where another one would gain less than this.
ACCEPTED = 1e-8
# What likelihoods say of their own hyperparameters, and of the third derivative, is found by
# differences over this far, which cost O(n) only.
STEP = 1e-4
# A value with less information than this has none: it would have an infinite noise.
LEAST_INFORMATION = 1e-12
# A variance of g beside all others, so that the covariances of a smooth process have a factor.
JITTER = 1e-9
# Nodes of quadrature over f.
NODES = 16


class LaplaceMode(NamedTuple):
    """g: the mode (n,); slope, information: of log p(y | g) there, (n,); value: log q(y).

    half: L^-1 W^1/2, with L L' = I + W^1/2 K W^1/2: (n, n).
    """

    g: np.ndarray
    slope: np.ndarray
    information: np.ndarray
    half: np.ndarray
    value: float


class NumpyLatentEvidence(NumpyEvidence):
    """log q(y, hyperparameters), y ~ likelihood(shift + size g), g ~ GP(0, kernel).

    The hyperparameters of the likelihood come first among the coordinates z, as in a `LatentGP`.
    Moments, paths and components are those of g.

    Args:
        prior: That of g, without noise.
        likelihood: What is observed.
        x: Times, (n,).
        y: Observations, (n,).
        shift: What is added to g.
        size: What g is multiplied by.
    """

    def __init__(self, prior: ProcessPrior, likelihood: NumpyLikelihood, x, y, shift=0.0, size=1.0):
        self.likelihood, self.shift, self.size = likelihood, shift, size
        super().__init__(prior, x, y)

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.likelihood.names, *self.prior.names)

    def _take(self, x, y) -> None:
        super()._take(x, y)
        # Where the next search for a mode begins: a = K^-1 g.
        self._start = np.zeros(len(y))

    @property
    def middle(self) -> np.ndarray:
        return np.append(self.likelihood.middle, super().middle)

    def values(self, z) -> dict[str, np.ndarray]:
        z, k = np.asarray(z), len(self.likelihood.names)
        return {**self.likelihood.values(z[..., :k]), **self.prior.values(z[..., k:])}

    def predictive(self, z, x_new) -> JointPredictive:
        """The log density at each of z (S, d); new values have no normal distribution."""
        with self.threads():
            return JointPredictive.unknown(np.array([self.log_density(z_one) for z_one in z]))

    def _split(self, z) -> tuple[np.ndarray, np.ndarray]:
        """The coordinates of the likelihood, and those of the kernel."""
        k = len(self.likelihood.names)
        return z[:k], z[k:]

    def _evaluated(self, z):
        theta, of_kernel = self._split(z)
        K, gradient = self._covariance(of_kernel)
        mode = self._mode(theta, K)
        if mode is None:
            return -np.inf, None, K, gradient
        prior = self.likelihood.log_prior(theta)[0] + self.prior.log_density(of_kernel)
        return float(mode.value + prior), mode, K, gradient

    def _covariance(self, of_kernel):
        """K (n, n) at coordinates of the kernel, and the gradient of sums over it."""
        K, gradient = self.prior.covariance(of_kernel, self._pairs)
        return self._pairs.spread(K) + self._of_effects, gradient

    def _mode(self, theta, K) -> LaplaceMode | None:
        """Newton's method; None where it finds no mode."""
        with np.errstate(all="ignore"):
            # What overflows on the way has no density, and is stepped back from.
            if self.likelihood.log_concave and np.any(self._start):
                # There is one mode, and it is near the last one, as a rule.
                mode = self._searched(theta, K, self._start)
                if mode is not None:
                    return mode
            # Where there may be several, the one that is found must not depend on the last one.
            return self._searched(theta, K, np.zeros(len(self.y)))

    def _searched(self, theta, K, a) -> LaplaceMode | None:
        """Newton's method from g = K a."""
        likelihood, n = self.likelihood, len(self.y)

        def gain(g, a):
            f = self.shift + self.size * g
            return np.sum(likelihood.log_density(f, self.y, theta)) - 0.5 * (a @ g)

        g = K @ a
        value = gain(g, a)
        if not np.isfinite(value):
            a, g = np.zeros(n), np.zeros(n)
            value = gain(g, a)
        for _ in range(STEPS):
            slope, information = self._slope(g, theta), self._information(g, theta)
            root = np.sqrt(information)
            L, failed = lapack.dpotrf(np.eye(n) + root[:, None] * K * root, lower=1)
            if failed or not np.isfinite(L[-1, -1]):
                return None
            ahead = information * g + slope
            inner = cho_solve((L, True), root * (K @ ahead), check_finite=False)
            step = ahead - root * inner - a
            change = K @ step
            promised = step @ change + np.sum(information * np.square(change))
            if not np.isfinite(promised):
                return None
            if promised < CONVERGED:
                break
            if promised < CLOSE and not likelihood.log_concave:
                H = self._curvature(g, theta)
                newton = np.linalg.solve(np.eye(n) + K * H, K @ (slope - a))
                ahead = slope - a - H * newton
                if promised < UNSEEN or gain(g + newton, a + ahead) >= value:
                    step, change = ahead, newton
            for _ in range(HALVINGS):
                new = gain(g + change, a + step)
                if new >= value or promised < UNSEEN:
                    break
                step, change = 0.5 * step, 0.5 * change
            else:
                return None
            a, g, value = a + step, g + change, new
        if not (np.isfinite(value) and promised < ACCEPTED):
            return None
        self._start = a
        half = solve_triangular(L, np.diag(root), lower=True, check_finite=False)
        return LaplaceMode(g, slope, information, half, value - np.log(np.diag(L)).sum())

    def _slope(self, g, theta):
        f = self.shift + self.size * g
        return self.size * self.likelihood.slope(f, self.y, theta)

    def _information(self, g, theta):
        f = self.shift + self.size * g
        return self.size**2 * self.likelihood.information(f, self.y, theta)

    def _curvature(self, g, theta):
        f = self.shift + self.size * g
        return self.size**2 * self.likelihood.curvature(f, self.y, theta)

    def _value_and_gradient(self, z):
        value, mode, K, gradient = self._evaluated(z)
        if mode is None:
            return value, np.zeros(len(z))
        theta, _ = self._split(z)
        R = mode.half.T @ mode.half
        RK = R @ K
        variance = np.diag(K) - np.sum(K * RK, axis=0)

        def difference(function, at, step):
            return (function(at + step) - function(at - step)) / (2.0 * STEP)

        # d log q / dg^ at fixed hyperparameters, and what it means for a change of the slope.
        of_mode = difference(lambda g: self._information(g, theta), mode.g, STEP)
        of_mode = -0.5 * variance * of_mode
        f, H = self.shift + self.size * mode.g, self._curvature(mode.g, theta)
        u = np.linalg.solve(np.eye(len(f)) + H[:, None] * K, of_mode)
        # tr((a a' - R + u a' + a u') dK) / 2
        A = np.outer(mode.slope + u, mode.slope) + np.outer(mode.slope, u) - R
        of_likelihood = self.likelihood.log_prior(theta)[1].copy()
        Ku = K @ u
        for i, step in enumerate(STEP * np.eye(len(theta))):
            density = difference(lambda t: self.likelihood.log_density(f, self.y, t), theta, step)
            slope = difference(lambda t: self._slope(mode.g, t), theta, step)
            information = difference(lambda t: self._information(mode.g, t), theta, step)
            of_likelihood[i] += np.sum(density - 0.5 * variance * information + Ku * slope)
        return value, np.append(of_likelihood, gradient(A, 0.0))

    def _conditioned(self, z):
        """The process given what Laplace's method puts in the place of the observations.

        These are values g + slope / information with noise 1 / information.
        """
        conditioned, _ = self._approximated(z)
        return conditioned, JITTER

    def _approximated(self, z) -> tuple[Conditioned, np.ndarray]:
        """The same, and the noise of its values: (n,). NaN where there is no mode."""
        theta, of_kernel = self._split(z)
        K, _ = self._covariance(of_kernel)
        mode = self._mode(theta, K)
        if mode is None:
            nothing = np.full(len(self.y), np.nan)
            return Conditioned(self, np.full_like(K, np.nan), nothing, nothing, of_kernel), nothing
        noise = 1.0 / np.maximum(mode.information, LEAST_INFORMATION)
        y = mode.g + noise * mode.slope
        factor, _ = lapack.dpotrf(K + np.diag(noise), lower=1)
        weights = solve_triangular(factor, y, lower=True, check_finite=False)
        return Conditioned(self, factor, weights, y, of_kernel), noise

    def rolling(self, z, counts, reach) -> list[tuple[np.ndarray, np.ndarray]]:
        # What stands for the observations depends on all of them.
        pairs = []
        for n, k in zip(counts, reach, strict=True):
            earlier = self.given(self.x[:n], self.y[:n])
            (mean,), (variance,) = earlier.moments(z[None], self.x[n : n + k])
            pairs.append((mean, variance))
        return pairs

    def loo(self, z) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean and variance of g at each value given the others, and its log density: (S, n) each.

        Vehtari et al. (2016), "Bayesian leave-one-out cross-validation approximations for Gaussian
        latent variable models", section 3.2.
        """
        parts = []
        nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
        log_weights = np.log(weights / weights.sum())
        with self.threads():
            for z_one in z:
                theta, _ = self._split(z_one)
                (_, factor, _, y, _), noise = self._approximated(z_one)
                inverse, _ = lapack.dpotri(factor, lower=1)
                precision = np.diag(inverse)
                mean = y - lapack.dpotrs(factor, y, lower=1)[0] / precision
                variance = np.maximum(1.0 / precision - noise, 0.0)
                f = self.shift + self.size * (mean[:, None] + np.sqrt(variance)[:, None] * nodes)
                density = self.likelihood.log_density(f, self.y[:, None], theta)
                parts.append((mean, variance, logsumexp(density + log_weights, axis=1)))
        return tuple(np.array(part) for part in zip(*parts, strict=True))
