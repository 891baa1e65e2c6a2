"""Integral of an Ornstein-Uhlenbeck process: a slope that reverts to 0."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import constraints

from bayeskern.hyperparameters import Hyperparameter, hyperparameter
from bayeskern.kernels.families.trend import Trend
from bayeskern.kernels.means.lags import LagFunction, mean_in_closed_form
from bayeskern.kernels.state_space.integrals import Integral
from bayeskern.kernels.state_space.space import StateSpace
from bayeskern.kernels.state_space.terms import SERIES_TERMS, Term, horner, lower_gammas, matrix


class IntegratedOrnsteinUhlenbeck(Trend):
    """Integral of an Ornstein-Uhlenbeck process, a slope that reverts to 0.

    k(s, t) = variance * (g(s) + g(t) - g(s - t)), where
    g(t) = lengthscale^2 (r - 1 + exp(-r)) and r = |t| / lengthscale. The slope of functions drawn
    from it has the kernel variance * exp(-r): its correlation decays over a lengthscale, and its
    variance is constant. It is the damped form of `IntegratedBrownian`. For a short lengthscale it
    approaches `Brownian` with the variance 2 * variance * lengthscale, for a long lengthscale
    straight lines.

    Args:
        lengthscale: Correlation time of the slope, in the units of the inputs.
        variance: Variance of the slope, in squared units of the output per squared unit of the
            input.
        start: Time at which the function is 0, in the units of the inputs.

    References:
        Taylor, Cumberland and Sy (1994), "A stochastic model for analysis of longitudinal AIDS
        data".

    Examples:
        >>> from bayeskern.kernels import IntegratedOrnsteinUhlenbeck
        >>> print(IntegratedOrnsteinUhlenbeck(lengthscale=2.0)([1.0, 2.0]).round(3))
        [[0.852 1.472]
         [1.472 2.943]]
    """

    offers: ClassVar[tuple[str, ...]] = ("state_space", "means", "numpy_gram")
    sentence: ClassVar[str] = "has a slope that it forgets over about {lengthscale}"

    lengthscale: Hyperparameter = hyperparameter(1.0)
    variance: Hyperparameter = hyperparameter(1.0)
    start: Hyperparameter = hyperparameter(0.0, constraints.real)

    def state_space(self) -> StateSpace:
        term = IntegratedOrnsteinUhlenbeckTerm(self.lengthscale, self.variance, self.start)
        return StateSpace((term,))

    def _covariance(self, s, t):
        return self._half_variogram(s) + self._half_variogram(t) - self._half_variogram(s - t)

    def _covariance_of_means(self, s, t):
        scale, zero = self.lengthscale, jnp.zeros(())
        function = IntegratedOrnsteinUhlenbeckLags()

        def mean(lower, h, g):
            unit = mean_in_closed_form(function, lower / scale, h / scale, g / scale)
            return jnp.square(scale) * unit

        means = mean(s.lower, s.length, zero) + mean(t.lower, t.length, zero)
        return means - mean(s.lower - t.lower - t.length, s.length, t.length)

    def _half_variogram(self, t):
        # t^2 is a separate factor, so that the second derivative at 0 is correct.
        return jnp.square(t) * remainder(jnp.abs(t) / self.lengthscale)

    @staticmethod
    def numpy_gram(parts, values, pairs):
        lengthscale, variance, start = next(values), next(values), next(values)
        s, t = pairs.s - start, pairs.t - start

        def increments(function):
            """function(s), function(t), and function(s - t) at the lags."""
            # One call for all: the overhead of a NumPy call exceeds the cost of a hundred elements.
            values = function(np.concatenate([s, t, pairs.lag], axis=None))
            g_s, g_t, g_lag = np.split(values, [s.size, s.size + t.size])
            return g_s.reshape(s.shape), g_t.reshape(t.shape), g_lag.reshape(pairs.lag.shape)

        # k = variance (g(s) + g(t) - g(s - t)), with g and its derivatives:
        def g(t):
            return np.square(t) * remainder(np.abs(t) / lengthscale, np)

        def d_lengthscale(t):
            r = np.abs(t) / lengthscale
            return -np.square(t) * r / lengthscale * remainder_slope(r)

        def d_start(t):
            return lengthscale * np.sign(t) * np.expm1(-np.abs(t) / lengthscale)

        g_s, g_t, g_lag = increments(g)
        K = variance * g_s + variance * g_t
        K -= pairs.spread(variance * g_lag)

        def pullback(w):
            return [
                lambda: variance * w.dot_increments(*increments(d_lengthscale)),
                lambda: w.dot_increments(g_s, g_t, g_lag),
                lambda: variance * w.dot(d_start(s) + d_start(t)),
            ]

        return K, pullback


@dataclass(frozen=True)
class IntegratedOrnsteinUhlenbeckLags(LagFunction):
    """r - 1 + exp(-r), half the variogram of an integrated Ornstein-Uhlenbeck process."""

    def value(self, r: jax.Array) -> jax.Array:
        return r * r * remainder(jnp.abs(r))

    def first_integral(self, r: jax.Array) -> jax.Array:
        return 0.5 * r * r - r - jnp.expm1(-r)

    def second_integral(self, r: jax.Array) -> jax.Array:
        return r**3 / 6.0 - 0.5 * r * r + r + jnp.expm1(-r)


@lru_cache
def _remainder_series() -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (-1)^j / (j + 2)! of `remainder`, and those of its derivative.

    The series are accurate to rounding for r <= 1.
    """
    series = np.array([(-1.0) ** j / math.factorial(j + 2) for j in reversed(range(18))])
    return series, np.polyder(series)


def remainder(r, xp: ModuleType = jnp):
    """(exp(-r) - 1 + r) / r^2, which is 1/2 at 0; xp is NumPy or `jax.numpy`."""
    is_small = r < 1.0
    small, large = xp.where(is_small, r, 0.0), xp.where(is_small, 1.0, r)
    closed = (large + xp.expm1(-large)) / xp.square(large)
    return xp.where(is_small, xp.polyval(_remainder_series()[0], small), closed)


def remainder_slope(r: np.ndarray) -> np.ndarray:
    """Derivative of `remainder`, in NumPy."""
    is_small = r < 1.0
    small, large = np.where(is_small, r, 0.0), np.where(is_small, 1.0, r)
    closed = (-large - 2.0 * np.expm1(-large) - large * np.exp(-large)) / large**3
    return np.where(is_small, np.polyval(_remainder_series()[1], small), closed)


class IntegratedOrnsteinUhlenbeckTerm(Term):
    """Integral of a stationary Ornstein-Uhlenbeck process, 0 at the start."""

    lengthscale: jax.Array
    variance: jax.Array
    start: jax.Array

    b: ClassVar[int] = 2
    has_closed_integral: ClassVar[bool] = True

    @property
    def starts(self) -> tuple[jax.Array, ...]:
        return (self.start,)

    def prior(self, t: jax.Array) -> jax.Array:
        A, Q = self.transition(self.start, t - self.start)
        return self.variance * jnp.outer(A[:, 1], A[:, 1]) + Q

    def transition(self, t: jax.Array, d: jax.Array) -> tuple[jax.Array, jax.Array]:
        r = d / self.lengthscale
        decay = -jnp.expm1(-r)
        A = [[jnp.ones_like(r), self.lengthscale * decay], [jnp.zeros_like(r), 1.0 - decay]]
        off_diagonal = self.lengthscale * jnp.square(decay)
        Q = [
            [2.0 * jnp.square(self.lengthscale) * _squared_decay(r), off_diagonal],
            [off_diagonal, -jnp.expm1(-2.0 * r)],
        ]
        return matrix(A), self.variance * matrix(Q)

    @property
    def copy_slope(self) -> jax.Array:
        return jnp.array([0.0, 1.0])

    def integral(self, t: jax.Array, d: jax.Array, nodes: int) -> Integral:
        # In units of the lengthscale, the noise enters the slope; the slope, f and the integral of
        # f respond by exp(-w), G = 1 - exp(-w) and H, the integral of G. Then q_0 = H^2 and, by
        # parts, q_1 = 2 (G H - int G^2).
        scale, r = self.lengthscale, d / self.lengthscale
        G, next_gamma = lower_gammas(r, 1)
        H = r * G - next_gamma
        covariance = [scale**3 * jnp.square(H), 2.0 * scale**2 * (G * H - _squared_decay(r))]
        return Integral(
            jnp.stack([d, scale**2 * H]),
            self.variance * jnp.stack(covariance),
            2.0 * self.variance * scale**4 * _squared_integral(r),
        )


def _squared_decay(r: jax.Array) -> jax.Array:
    """Integral of (1 - exp(-w))^2 over (0, r)."""

    def closed(r):
        return r + 2.0 * jnp.expm1(-r) - 0.5 * jnp.expm1(-2.0 * r)

    return _closed_or_series(closed, 2, lambda k: 2.0**k - 2.0, r)


def _squared_integral(r: jax.Array) -> jax.Array:
    """Integral of (w - 1 + exp(-w))^2 over (0, r)."""

    def closed(r):
        G, next_gamma = lower_gammas(r, 1)
        return ((r - 1.0) ** 3 + 1.0) / 3.0 + 2.0 * (next_gamma - G) - 0.5 * jnp.expm1(-2.0 * r)

    return _closed_or_series(closed, 4, lambda k: 2.0**k - 2.0 * k - 2.0, r)


def _closed_or_series(
    closed: Callable, lowest: int, coefficient: Callable, r: jax.Array
) -> jax.Array:
    """closed(r) for r >= 1; a power series for smaller r, where it would cancel.

    The series is the integral over (0, r) of the sum over k >= lowest of
    coefficient(k) (-w)^k / k!.
    """
    is_small = r < 1.0
    small, large = jnp.where(is_small, r, 0.0), jnp.where(is_small, 1.0, r)
    powers = range(SERIES_TERMS, lowest - 1, -1)
    series = [(-1.0) ** k * coefficient(k) / (math.factorial(k) * (k + 1)) for k in powers]
    by_series = small ** (lowest + 1) * horner(series, small)
    return jnp.where(is_small, by_series, closed(large))
