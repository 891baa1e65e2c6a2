"""Log joint density of a latent Gaussian process in time, in NumPy.

Laplace's approximation as in Rasmussen and Williams (2006), sections 3.4 and 5.5.1. If the second
derivative of -log p(y | f) may be negative, it is replaced by Fisher's information, its mean over
y: Hartmann and Vanhatalo (2019), "Laplace approximation and natural gradient for Gaussian process
regression with heteroscedastic Student-t model".

`bayeskern.gp.latent.laplace` is the same approximation for any likelihood and kernel. It does not
replace this module: its compilation takes longer than the whole fit of a short series, and it keeps
negative curvatures, which gives other numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self, cast

import numpy as np
from scipy.special import logsumexp

from bayeskern.engine.base import Moments
from bayeskern.engine.log_marginal import ConditionedSeries, DenseLogMarginal, LinearEffects
from bayeskern.engine.predictive import JointPredictive
from bayeskern.engine.prior import Gradient, ProcessPrior
from bayeskern.likelihoods.analytic import Analytic
from bayeskern.linalg import lapack


class LaplaceMode(NamedTuple):
    """Mode of the latent g and Laplace's approximation at the mode.

    Attributes:
        g: The mode, (n,).
        slope: Derivative of log p(y | g) in g, (n,).
        information: W, Fisher's information of g, (n,).
        half: L^-1 W^1/2, with L L' = I + W^1/2 K W^1/2 and the prior covariance K of g, (n, n).
        value: log q(y), the approximation of log p(y).
    """

    g: np.ndarray
    slope: np.ndarray
    information: np.ndarray
    half: np.ndarray
    value: float


@dataclass
class SearchStart:
    """Cache of the last mode, the start of the next search.

    Attributes:
        a: K^-1 g, (n,).
    """

    a: np.ndarray


# Largest number of steps of the search for the mode, and of halvings of a step.
MAX_NEWTON_STEPS, MAX_STEP_HALVINGS = 50, 30
# Expected gain, in nats, below which the search ends.
CONVERGED_GAIN = 1e-18
# Expected gain, in nats, below which a step is taken without a line search, since the gain is
# smaller than rounding errors.
UNCHECKED_GAIN = 1e-10
# Expected gain, in nats, below which steps use the curvature instead of Fisher's information.
NEWTON_GAIN = 1.0
# Largest expected gain, in nats, of another step at an accepted mode.
ACCEPTED_GAIN = 1e-8


class LaplaceLogMarginal(DenseLogMarginal):
    """log q(y, hyperparameters) of y ~ likelihood(shift + size g), g ~ GP(0, kernel).

    As in a `LatentGP`, the hyperparameters of the likelihood are the first coordinates of z. All
    predictions are predictions of g.

    Args:
        prior: Prior of g, without noise.
        likelihood: The observation model.
        x: Times, (n,).
        y: Observations, (n,).
        shift: Offset of the latent function f = shift + size g.
        size: Scale of the latent function.
        effects: Linear effects, added to g as further components.
    """

    def __init__(
        self,
        prior: ProcessPrior,
        likelihood: Analytic,
        x: np.ndarray,
        y: np.ndarray,
        shift: float = 0.0,
        size: float = 1.0,
        effects: LinearEffects | None = None,
    ):
        self.likelihood, self.shift, self.size = likelihood, shift, size
        super().__init__(prior, x, y, effects)
        self.names = (*likelihood.names, *prior.names)
        self.middle = np.append(likelihood.middle, prior.middle)
        self.prior_sd = np.append(np.ones(len(likelihood.middle)), prior.prior_sd)
        self._start = SearchStart(np.zeros(len(y)))

    def given(self, x: np.ndarray, y: np.ndarray) -> Self:
        return type(self)(self.prior, self.likelihood, x, y, self.shift, self.size, self.effects)

    def values(self, z: np.ndarray) -> dict[str, np.ndarray]:
        z, k = np.asarray(z), len(self.likelihood.middle)
        return {**self.likelihood.values(z[..., :k]), **self.prior.values(z[..., k:])}

    def predictive(self, z: np.ndarray, x_new: np.ndarray) -> JointPredictive:
        """Log density at each draw z (S, d), without the non-normal joint distribution."""
        with self.threads():
            return JointPredictive.unknown(np.array([self.log_density(row) for row in z]))

    def log_density(self, z: np.ndarray) -> float:
        with np.errstate(all="ignore"):
            return self._approximated(z)[0]

    # -- the mode of g -----------------------------------------------------------------------------

    def _split(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates of the likelihood, and coordinates of the kernel."""
        k = len(self.likelihood.middle)
        return z[:k], z[k:]

    def _approximated(
        self, z: np.ndarray
    ) -> tuple[float, LaplaceMode | None, np.ndarray, Gradient]:
        """Log joint density, mode (None if not found), K and `Gradient` at z."""
        theta, kernel_z = self._split(z)
        K, gradient = self._covariance(kernel_z)
        mode = self._mode(theta, K)
        if mode is None:
            return -np.inf, None, K, gradient
        prior = self.likelihood.log_prior(theta)[0] + self.prior.log_density(kernel_z)
        return float(mode.value + prior), mode, K, gradient

    def _covariance(self, z: np.ndarray) -> tuple[np.ndarray, Gradient]:
        """K (n, n) and `Gradient`, at coordinates z of the kernel."""
        K, gradient = self.prior.covariance(z, self._pairs)
        return self._pairs.spread(K) + self._effects_covariance, gradient

    def _mode(self, theta: np.ndarray, K: np.ndarray) -> LaplaceMode | None:
        """Find the mode; None if the search fails."""
        # A step that overflows has the log density -inf and is halved, without a warning.
        with np.errstate(all="ignore"):
            if self.likelihood.log_concave and np.any(self._start.a):
                # The only mode is usually close to the previous mode.
                mode = self._search(theta, K, self._start.a)
                if mode is not None:
                    return mode
            # With several modes the result must not depend on the previous search.
            return self._search(theta, K, np.zeros(len(self.y)))

    def _search(self, theta: np.ndarray, K: np.ndarray, a: np.ndarray) -> LaplaceMode | None:
        """Fisher scoring, then Newton's method, from g = K a; None if it fails."""
        likelihood, n = self.likelihood, len(self.y)

        def objective(g, a):
            return np.sum(likelihood.log_density(self._f(g), self.y, theta)) - 0.5 * (a @ g)

        g = K @ a
        value = objective(g, a)
        if not np.isfinite(value):
            a, g = np.zeros(n), np.zeros(n)
            value = objective(g, a)
        for _ in range(MAX_NEWTON_STEPS):
            slope, information = self._slope(g, theta), self._information(g, theta)
            root = np.sqrt(information)
            L = lapack.cholesky(np.eye(n) + root[:, None] * K * root)
            if not np.isfinite(L[-1, -1]):
                return None
            # Rasmussen and Williams (2006), algorithm 3.1.
            target = information * g + slope
            inner = lapack.solve(L, root * (K @ target))
            da = target - root * inner - a
            dg = K @ da
            expected_gain = da @ dg + np.sum(information * np.square(dg))
            if not np.isfinite(expected_gain):
                return None
            if expected_gain < CONVERGED_GAIN:
                break
            unchecked = expected_gain < UNCHECKED_GAIN
            if expected_gain < NEWTON_GAIN and not likelihood.log_concave:
                # (I + K H) dg = K (slope - a), with H the second derivative of -log p(y | g).
                H = self._curvature(g, theta)
                newton = np.linalg.solve(np.eye(n) + K * H, K @ (slope - a))
                newton_da = slope - a - H * newton
                if unchecked or objective(g + newton, a + newton_da) >= value:
                    da, dg = newton_da, newton
            for _ in range(MAX_STEP_HALVINGS):
                new_value = objective(g + dg, a + da)
                if new_value >= value or unchecked:
                    break
                da, dg = 0.5 * da, 0.5 * dg
            else:
                return None
            a, g, value = a + da, g + dg, new_value
        if not (np.isfinite(value) and expected_gain < ACCEPTED_GAIN):
            return None
        self._start.a = a
        half = lapack.solve_lower(L, np.diag(root))
        return LaplaceMode(g, slope, information, half, value - np.log(np.diag(L)).sum())

    def _f(self, g: np.ndarray) -> np.ndarray:
        return self.shift + self.size * g

    def _slope(self, g: np.ndarray, theta: np.ndarray) -> np.ndarray:
        return self.size * self.likelihood.slope(self._f(g), self.y, theta)

    def _information(self, g: np.ndarray, theta: np.ndarray) -> np.ndarray:
        return self.size**2 * self.likelihood.information(self._f(g), self.y, theta)

    def _curvature(self, g: np.ndarray, theta: np.ndarray) -> np.ndarray:
        return self.size**2 * self.likelihood.curvature(self._f(g), self.y, theta)

    def _value_and_gradient(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        value, mode, K, gradient = self._approximated(z)
        if mode is None:
            return value, np.zeros(len(z))
        theta, _ = self._split(z)
        # R = (K + W^-1)^-1, and the variances of g under Laplace's approximation.
        R = mode.half.T @ mode.half
        RK = R @ K
        variance = np.diag(K) - np.sum(K * RK, axis=0)
        # Derivative of log q in g at the mode and fixed hyperparameters, through log det L only.
        # With u = (I + H K)^-1 mode_gradient, a change d of the slope moves the mode and adds
        # (K u)' d to log q.
        mode_gradient = _difference(lambda g: self._information(g, theta), mode.g)
        mode_gradient = -0.5 * variance * mode_gradient
        f, H = self._f(mode.g), self._curvature(mode.g, theta)
        u = np.linalg.solve(np.eye(len(f)) + H[:, None] * K, mode_gradient)
        # d log q = tr((a a' - R + u a' + a u') dK) / 2, with a = mode.slope.
        A = np.outer(mode.slope + u, mode.slope) + np.outer(mode.slope, u) - R
        theta_gradient = self.likelihood.log_prior(theta)[1].copy()
        Ku = K @ u
        for i, direction in enumerate(np.eye(len(theta))):
            density = _difference(
                lambda t: self.likelihood.log_density(f, self.y, t), theta, direction
            )
            slope = _difference(lambda t: self._slope(mode.g, t), theta, direction)
            information = _difference(lambda t: self._information(mode.g, t), theta, direction)
            theta_gradient[i] += np.sum(density - 0.5 * variance * information + Ku * slope)
        return value, np.append(theta_gradient, gradient(A, 0.0))

    # -- predictions of g --------------------------------------------------------------------------

    def conditioned(self, z: np.ndarray) -> ConditionedLatentSeries:
        """Posterior of g given Gaussian pseudo-data; NaN if no mode is found.

        The pseudo-data are g + slope / information, with noise variances 1 / information.
        """
        theta, kernel_z = self._split(z)
        K, _ = self._covariance(kernel_z)
        mode = self._mode(theta, K)
        if mode is None:
            nan = np.full(len(self.y), np.nan)
            factor, weights, y, noise = np.full_like(K, np.nan), nan, nan, nan
        else:
            # An information of 0 would give infinite noise.
            noise = 1.0 / np.maximum(mode.information, 1e-12)
            y = mode.g + noise * mode.slope
            factor = lapack.cholesky(K + np.diag(noise))
            weights = lapack.solve_lower(factor, y)
        # A noise of 1e-9 makes covariances of a smooth process positive definite.
        return ConditionedLatentSeries(self, factor, weights, y, kernel_z, 1e-9, noise, theta)

    def rolling(
        self, z: np.ndarray, counts: Sequence[int], next_counts: Sequence[int]
    ) -> list[Moments]:
        # The pseudo-data depend on all observations, so each origin has its own mode.
        pairs = []
        for n, k in zip(counts, next_counts, strict=True):
            earlier = self.given(self.x[:n], self.y[:n])
            (mean,), (variance,) = earlier.moments(z[None], self.x[n : n + k])
            pairs.append((mean, variance))
        return pairs


@dataclass(frozen=True, eq=False)
class ConditionedLatentSeries(ConditionedSeries):
    """Posterior of the latent process given Gaussian pseudo-data.

    Attributes:
        value_noise: Noise variances of the pseudo-data, (n,).
        theta: Coordinates of the likelihood.
    """

    value_noise: np.ndarray
    theta: np.ndarray

    def loo(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Leave-one-out mean and variance of g and log density of y: (n,) each.

        Vehtari et al. (2016), "Bayesian leave-one-out cross-validation approximations for Gaussian
        latent variable models", section 3.2.
        """
        series = cast("LaplaceLogMarginal", self.series)
        nodes, weights = np.polynomial.hermite_e.hermegauss(16)
        mean, variance = self._loo()
        variance = np.maximum(variance - self.value_noise, 0.0)
        f = series._f(mean[:, None] + np.sqrt(variance)[:, None] * nodes)
        density = series.likelihood.log_density(f, series.y[:, None], self.theta)
        density = np.asarray(logsumexp(density + np.log(weights / weights.sum()), axis=1))
        return mean, variance, density


def _difference(
    function: Callable[[np.ndarray], np.ndarray],
    point: np.ndarray,
    direction: np.ndarray | float = 1.0,
    step: float = 1e-4,
) -> np.ndarray:
    """Central difference along a direction; elementwise derivatives if it is a number."""
    upper, lower = function(point + step * direction), function(point - step * direction)
    return (upper - lower) / (2.0 * step)
