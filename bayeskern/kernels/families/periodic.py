"""Periodic kernels, positive definite in any dimension."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from types import ModuleType
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import i0e
from numpyro.distributions import constraints
from scipy import special

from bayeskern.core import validation
from bayeskern.hyperparameters import Hyperparameter, hyperparameter
from bayeskern.kernels import column_groups, metrics
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.column_groups import Columns
from bayeskern.kernels.families.harmonics import (
    MAX_HARMONICS,
    coefficients,
    count_harmonics,
    least_lengthscale,
)
from bayeskern.kernels.families.trend import time_of
from bayeskern.kernels.means.boxes import Boxes
from bayeskern.kernels.pairs import with_slopes
from bayeskern.kernels.state_space.integrals import Integral
from bayeskern.kernels.state_space.space import NoStateSpaceError, StateSpace, number
from bayeskern.kernels.state_space.terms import CoefficientsTerm


class Periodic(Kernel):
    """Periodic kernel, a function of the differences modulo a period.

    k(x, z) = variance * exp(-2 sum_i sin^2(pi (x_i - z_i) / period_i) / lengthscale_i^2). It is the
    RBF kernel between points wrapped around a circle, one circle for each dimension, and therefore
    positive definite in any dimension. Multiplied by an RBF, its shape changes slowly.

    Args:
        period: The period, in the units of the inputs: a number or a vector (d,).
        lengthscale: Smoothness within a period, without units: a number or a vector (d,). Above
            about 2 the function is close to a sine wave, below 1/2 rich in detail.
        variance: Prior variance k(x, x), in the squared units of the output.
        harmonics: Number of sine waves in the state-space model. By default it follows from the
            lengthscale or its prior. A number suffices for lengthscales above a bound (20 for 0.4
            and more); at smaller lengthscales the log density of a process is -inf.

    References:
        MacKay (1998), "Introduction to Gaussian processes", equation 47; Rasmussen and Williams
        (2006), equation 4.31.

    Examples:
        >>> from bayeskern.kernels import Periodic
        >>> print(Periodic(period=1.0)([0.0, 0.5, 3.0]).round(3))
        [[1.    0.135 1.   ]
         [0.135 1.    0.135]
         [1.    0.135 1.   ]]
    """

    offers: ClassVar[tuple[str, ...]] = ("frequencies", "state_space", "means", "numpy_gram")
    sentence: ClassVar[str] = "repeats every {period}"
    is_wave: ClassVar[bool] = True
    depends_on_lag: ClassVar[bool] = True

    period: Hyperparameter = hyperparameter(1.0, scalar=False)
    lengthscale: Hyperparameter = hyperparameter(1.0, scalar=False)
    variance: Hyperparameter = hyperparameter(1.0)
    harmonics: int | None = eqx.field(
        static=True, default=None, kw_only=True, converter=lambda j: _harmonics(j)
    )

    def evaluate(self, X: jax.Array, Z: jax.Array | None = None) -> jax.Array:
        X, Z = metrics.center(X, Z)
        circles = self._circle(X), None if Z is None else self._circle(Z)
        return self.variance * jnp.exp(-0.5 * metrics.squared_distance(*circles))

    def evaluate_diag(self, X: jax.Array) -> jax.Array:
        return jnp.broadcast_to(self.variance, X.shape[:1])

    def frequencies(self, key: jax.Array, n: int, d: int, orthogonal: bool = False) -> jax.Array:
        # exp(a cos t - a) is the Fourier series sum_k exp(-a) I_k(a) cos(k t), whose coefficients
        # are the probabilities that two Poisson(a / 2) numbers differ by k (Skellam 1946).
        X = jnp.zeros((1, d))
        lengthscale = metrics.require_per_dimension("lengthscale", self.lengthscale, X)
        period = metrics.require_per_dimension("period", self.period, X)
        counts = jax.random.poisson(key, 0.5 / jnp.square(lengthscale), (2, n, d))
        return 2.0 * jnp.pi * (counts[0] - counts[1]) / period

    def by_columns(self, d: int) -> dict[Columns, Kernel]:
        return column_groups.one_by_one(self, ("period", "lengthscale"), d)

    def evaluate_means(self, X: Boxes, Z: Boxes) -> jax.Array:
        if X.d > 1 or not X.columns:
            return super().evaluate_means(X, Z)
        variances = self.variance * self._harmonic_variances(jnp.reshape(self.lengthscale, ()))
        waves = [self._mean_waves(boxes, len(variances)) for boxes in (X, Z)]
        return jnp.concatenate([variances, variances]) * waves[0] @ waves[1].T

    def _harmonic_variances(self, lengthscale: jax.Array) -> jax.Array:
        """Variances of the harmonics 0, 1, ... for variance 1; NaN if there are too few."""
        is_enough = lengthscale >= least_lengthscale(MAX_HARMONICS)
        return jnp.where(is_enough, coefficients(lengthscale, MAX_HARMONICS), jnp.nan)

    def _mean_waves(self, X: Boxes, count: int) -> jax.Array:
        """Means of the cosines and sines of the harmonics over intervals: (n, 2 count)."""
        j, period = np.arange(count), jnp.reshape(self.period, ())
        angle = 2.0 * jnp.pi * jnp.mod(X.middle, period) / period
        sinc = jnp.sinc(X.sides / period * j)
        return jnp.concatenate([sinc * jnp.cos(angle * j), sinc * jnp.sin(angle * j)], axis=1)

    def state_space(self) -> StateSpace:
        return StateSpace((self._harmonic_term(0),))

    def _harmonic_term(self, n_extra: int) -> HarmonicTerm:
        """Term with the harmonics that the lengthscale needs, and `n_extra` more."""
        J = self.harmonics or count_harmonics(self.lengthscale)
        if J is None:
            raise NoStateSpaceError(
                f"{self!r} has a lengthscale that is unknown before inference, or too small, so "
                "that it does not determine the number of harmonics: set it, as in harmonics=20."
            )
        J += n_extra
        weights = coefficients(number(self, "lengthscale"), J)
        period = number(self, "period")
        return HarmonicTerm(period, self.variance * weights, tuple(range(J + 1)))

    @staticmethod
    def numpy_gram(parts, values, pairs):
        period, lengthscale, variance = next(values), next(values), next(values)
        angle = np.pi * pairs.lag / period
        squares = 2.0 * np.square(np.sin(angle)) / lengthscale**2
        unit = np.exp(-squares)
        K = variance * unit

        def d_period():
            return K * 2.0 * np.sin(2.0 * angle) / lengthscale**2 * angle / period

        return with_slopes(K, [d_period, lambda: 2.0 * K * squares / lengthscale, lambda: unit])

    def _circle(self, X):
        # |circle(x) - circle(z)|^2 = 4 sin^2(pi (x - z) / period)
        angle = 2.0 * jnp.pi * X / metrics.require_per_dimension("period", self.period, X)
        lengthscale = metrics.require_per_dimension("lengthscale", self.lengthscale, X)
        return jnp.concatenate([jnp.cos(angle) / lengthscale, jnp.sin(angle) / lengthscale], axis=1)


class Seasonal(Periodic):
    """Seasonal kernel: periodic functions of time with mean zero over a period.

    k(s, t) = variance * (exp(-2 sin^2(pi (s - t) / period) / lengthscale^2) - c) / (1 - c), with c
    the mean of the exponential over a period, exp(-a) I_0(a) at a = 1 / lengthscale^2. It is the
    `Periodic` kernel without its constant part, so that a separate level is identified. At large
    lengthscales it is the `Cosine` kernel. At small lengthscales, values far apart within the
    period have the correlation -c / (1 - c), like 1 / c effects that sum to zero. Multiplied by
    `Brownian`, the season drifts.

    Args:
        period: The period, in the units of the time.
        lengthscale: Smoothness within a period, as in `Periodic`.
        variance: Prior variance k(x, x), in the squared units of the output.
        harmonics: As in `Periodic`. The state-space model has one more sine wave, because the error
            is relative to the variance without the constant part.

    References:
        Harvey (1989), "Forecasting, structural time series models and the Kalman filter", section
        2.3.4, on seasonal effects that sum to zero.

    Examples:
        >>> from bayeskern.kernels import Seasonal
        >>> print(Seasonal(period=4.0, lengthscale=0.2)([0.0, 1.0, 2.0]).round(3))
        [[ 1.    -0.087 -0.087]
         [-0.087  1.    -0.087]
         [-0.087 -0.087  1.   ]]
    """

    offers: ClassVar[tuple[str, ...]] = ("state_space", "means", "numpy_gram")

    def evaluate(self, X: jax.Array, Z: jax.Array | None = None) -> jax.Array:
        s = time_of(self, X)
        t = s if Z is None else time_of(self, Z)
        a = 1.0 / jnp.square(metrics.require_per_dimension("lengthscale", self.lengthscale, X))
        period = metrics.require_per_dimension("period", self.period, X)
        squares = jnp.square(jnp.sin(jnp.pi * (s[:, None] - t[None, :]) / period))
        return self.variance * (1.0 + jnp.expm1(-2.0 * a * squares) / variation(a, i0e))

    def evaluate_diag(self, X: jax.Array) -> jax.Array:
        time_of(self, X)
        return super().evaluate_diag(X)

    # Of one column, and with a mean of 0 over a period.
    frequencies = Kernel.frequencies
    by_columns = Kernel.by_columns

    def _harmonic_variances(self, lengthscale: jax.Array) -> jax.Array:
        waves = super()._harmonic_variances(lengthscale).at[0].set(0.0)
        return waves / jnp.sum(waves)

    def state_space(self) -> StateSpace:
        term = self._harmonic_term(1)
        waves = term.variances[1:]
        variances = waves * self.variance / jnp.sum(waves)
        return StateSpace((HarmonicTerm(term.period, variances, term.harmonics[1:]),))

    @staticmethod
    def numpy_gram(parts, values, pairs):
        period, lengthscale, variance = next(values), next(values), next(values)
        angle, a = np.pi * pairs.lag / period, 1.0 / lengthscale**2
        waves = 2.0 * np.square(np.sin(angle))
        # change = exp(-a waves) - 1; size = 1 - c, with c the mean of exp(-a waves) over a
        # period.
        change, size = np.expm1(-a * waves), variation(a, special.i0e, np)
        unit = 1.0 + change / size

        def d_period():
            # d change / d angle, and d angle / d period = -angle / period.
            d_angle = -2.0 * a * (1.0 + change) * np.sin(2.0 * angle)
            return -variance / size * d_angle * angle / period

        def d_lengthscale():
            # Through a, with d a / d lengthscale = -2 a / lengthscale.
            d_a = -waves * (1.0 + change) - (special.i0e(a) - special.i1e(a)) * change / size
            return -2.0 * variance * a / lengthscale * d_a / size

        return with_slopes(variance * unit, [d_period, d_lengthscale, lambda: unit])


class Cosine(Kernel):
    """Cosine kernel, k(x, z) = variance * cos(2 pi sum_i (x_i - z_i) / period_i).

    Functions drawn from it are sine waves with this period and a random amplitude and phase.

    Args:
        period: The period, in the units of the inputs: a number or a vector (d,).
        variance: The prior variance k(x, x), in the squared units of the output.

    Examples:
        >>> from bayeskern.kernels import Cosine
        >>> print(Cosine(period=4.0)([0.0, 2.0]).round(3))
        [[ 1. -1.]
         [-1.  1.]]
    """

    offers: ClassVar[tuple[str, ...]] = (*Periodic.offers, "features")
    sentence: ClassVar[str] = "swings as a pure wave with a period of {period}"
    is_wave: ClassVar[bool] = True
    depends_on_lag: ClassVar[bool] = True
    means_from_features: ClassVar[bool] = True

    period: Hyperparameter = hyperparameter(1.0, constraints.positive, scalar=False)
    variance: Hyperparameter = hyperparameter(1.0)

    def evaluate(self, X: jax.Array, Z: jax.Array | None = None) -> jax.Array:
        circle = self._circle(X)
        return self.variance * (circle @ (circle if Z is None else self._circle(Z)).T)

    def evaluate_diag(self, X: jax.Array) -> jax.Array:
        return jnp.broadcast_to(self.variance, X.shape[:1])

    def frequencies(self, key: jax.Array, n: int, d: int, orthogonal: bool = False) -> jax.Array:
        period = metrics.require_per_dimension("period", self.period, jnp.zeros((1, d)))
        sign = jax.random.rademacher(key, (n, 1))
        return sign * jnp.broadcast_to(2.0 * jnp.pi / period, (d,))

    def state_space(self) -> StateSpace:
        return StateSpace((HarmonicTerm(number(self, "period"), self.variance[None], (1,)),))

    def features(self, X: jax.Array, degree: int | None) -> jax.Array:
        return jnp.sqrt(self.variance) * self._circle(X)

    def features_of_means(self, X: Boxes) -> jax.Array:
        # The mean of a wave over a box is the wave at the midpoint, times a sinc of each side.
        period = metrics.require_per_dimension("period", self.period, X.lower)
        shares = jnp.prod(jnp.sinc(X.sides / period), axis=1)
        return shares[:, None] * self.features(X.middle, None)

    @staticmethod
    def numpy_gram(parts, values, pairs):
        period, variance = next(values), next(values)
        angle = 2.0 * np.pi * pairs.lag / period
        unit = np.cos(angle)
        return with_slopes(
            variance * unit,
            [lambda: variance * np.sin(angle) * angle / period, lambda: unit],
        )

    def _circle(self, X):
        angle = (
            2.0
            * jnp.pi
            * jnp.sum(X / metrics.require_per_dimension("period", self.period, X), axis=1)
        )
        return jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)


class HarmonicTerm(CoefficientsTerm):
    """Sum of sine waves with random amplitudes.

    f(t) = sum_j a_j cos(2 pi j t / period) + b_j sin(2 pi j t / period), a_j and b_j ~ N(0, w_j).
    The state consists of the coefficients a_j and b_j, which are constant.

    Attributes:
        period: The period.
        variances: Variance w_j of each harmonic.
        harmonics: Numbers j of the harmonics; the first may be 0.
    """

    period: jax.Array
    variances: jax.Array
    harmonics: tuple[int, ...] = eqx.field(static=True)

    @property
    def weights(self) -> jax.Array:
        return jnp.concatenate([self.variances, self.variances[-len(self._sines) :]])

    def features(self, t: jax.Array) -> jax.Array:
        # The remainder is exact, so that large times lose no digits.
        angle = 2.0 * jnp.pi * jnp.mod(t, self.period) / self.period
        cosines, sines = np.array(self.harmonics), np.array(self._sines)
        return jnp.concatenate([jnp.cos(cosines * angle), jnp.sin(sines * angle)])

    def integral(self, t: jax.Array, d: jax.Array, nodes: int) -> Integral:
        # The mean of a wave over an interval is the wave at the midpoint, times a sinc.
        waves = np.array((*self.harmonics, *self._sines))
        return Integral.without_noise(
            d * jnp.sinc(waves * d / self.period) * self.features(t + 0.5 * d)
        )

    @property
    def _sines(self) -> tuple[int, ...]:
        return self.harmonics[1:] if self.harmonics[0] == 0 else self.harmonics


@lru_cache
def _variation_series() -> tuple[np.ndarray, np.ndarray]:
    """Powers and coefficients of 1 - exp(-a) I_0(a), accurate to rounding for a <= 1.

    The series is -sum_j (1/2)_j (-2 a)^j / (j!)^2 over j >= 1.
    """
    powers = np.arange(1.0, 30.0)
    terms = [-((-2.0) ** j) * special.poch(0.5, j) / math.factorial(int(j)) ** 2 for j in powers]
    return powers, np.array(terms)


def variation(a, i0e: Callable, xp: ModuleType = jnp):
    """1 - exp(-a) I_0(a), without cancellation where a is small.

    Args:
        a: A number or an array.
        i0e: The function exp(-a) I_0(a) of SciPy or JAX.
        xp: NumPy or `jax.numpy`.
    """
    is_small = a < 1.0
    small, large = xp.where(is_small, a, 0.0), xp.where(is_small, 1.0, a)
    powers, coefficients = _variation_series()
    # A vector of powers: for a single number a, Horner's rule would take 60 separate operations.
    series = xp.power(small[..., None], powers) @ coefficients
    return xp.where(is_small, series, 1.0 - i0e(large))


def _harmonics(count) -> int | None:
    """Read a number of harmonics. Raises ValueError if there are too many."""
    if count is None:
        return None
    count = validation.positive_integer(count, "harmonics")
    if count > MAX_HARMONICS:
        raise ValueError(f"harmonics must be at most {MAX_HARMONICS}, got {count}.")
    return count
