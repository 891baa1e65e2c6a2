"""Matern kernels of any smoothness: the kernels, their state-space form and their integrals.

Rasmussen and Williams (2006), section 4.2.1; Stein (1999), "Interpolation of spatial data".
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core import validation
from bayeskern.kernels.families.matern_profile import (
    half_integer_order,
    matern_profile,
    polynomial,
)
from bayeskern.kernels.families.stationary import Stationary
from bayeskern.kernels.function import CovarianceFunction
from bayeskern.kernels.means.lags import LagFunction
from bayeskern.kernels.pairs import with_slopes
from bayeskern.kernels.state_space.integrals import Integral
from bayeskern.kernels.state_space.space import NoStateSpaceError, StateSpace, number
from bayeskern.kernels.state_space.terms import (
    DerivativesTerm,
    exponential_terms,
    horner,
    lower_gammas,
)


class MaternFamily(Stationary):
    """Base of the Matern kernels.

    For nu = p + 1/2 with a whole p, the kernel is a polynomial times an exponential, and in one
    dimension the process has a state of p + 1 numbers.
    """

    offers: ClassVar[tuple[str, ...]] = ("frequencies", "spectrum", "state_space", "means")
    sentence: ClassVar[str] = "varies with smoothness {kernel.nu:g} over about {lengthscale}"

    @property
    @abstractmethod
    def nu(self) -> float:
        """Smoothness: functions drawn from the kernel have k derivatives for k < nu."""

    def rough_parts(self, column: int, d: int) -> list[CovarianceFunction]:
        return [] if self.nu > 1.0 else [self]

    def state_space(self) -> StateSpace:
        order = half_integer_order(self.nu)
        # The state of order 7 has an error of 1e-12 of its variance, that of order 10, 1e-10.
        if order is None or order > 7:
            raise NoStateSpaceError(
                f"{self!r} has no state-space form: its nu is not one of 1/2, 3/2, ..., 15/2."
            )
        rate = math.sqrt(2.0 * self.nu) / number(self, "lengthscale")
        return StateSpace((MaternTerm(order, rate, self.variance),))

    def profile(self, u: jax.Array) -> jax.Array:
        return matern_profile(u, self.nu)

    def lag_function(self) -> LagFunction | None:
        order = half_integer_order(self.nu)
        return None if order is None else MaternLags(order)

    def mixing(self, key: jax.Array, n: int) -> jax.Array:
        # The spectral density is a multivariate Student t with 2 nu degrees of freedom: a Gaussian
        # whose precision has a gamma distribution of mean 1.
        return self.nu / jax.random.gamma(key, self.nu, (n,))

    def spectrum(self, u: jax.Array, d: int) -> jax.Array:
        # Rasmussen and Williams (2006), equation 4.15, with frequencies in radians.
        power = self.nu + 0.5 * d
        ratio = math.exp(math.lgamma(power) - math.lgamma(self.nu))
        factor = ratio * (2.0 * math.pi / self.nu) ** (0.5 * d)
        return factor * jnp.exp(-power * jnp.log1p(u / (2.0 * self.nu)))


class Matern(MaternFamily):
    """Matern kernel of any smoothness nu.

    k(x, z) = variance * 2^(1 - nu) / Gamma(nu) * s^nu K_nu(s) with s = sqrt(2 nu) r, where K_nu is
    the modified Bessel function of the second kind. Functions drawn from it have k mean-square
    derivatives for k < nu; for a large nu the kernel approaches `RBF`. For nu = p + 1/2 with a
    whole p it is a polynomial times exp(-s), and `Matern12`, `Matern32` and `Matern52` are the
    first three; other nu take up to a hundred times as long and have no state-space form.

    Args:
        lengthscale: Distance over which the function changes, in the units of the inputs: a
            number, a vector (d,), or a lower triangular matrix (d, d), as for `RBF`.
        variance: Prior variance k(x, x), in the squared units of the output.
        nu: Smoothness, a number above 0, at most 100; static.

    Raises:
        ValueError: nu is not such a number.

    References:
        Rasmussen and Williams (2006), equation 4.14.

    Examples:
        >>> from bayeskern.kernels import Matern
        >>> print(Matern(lengthscale=2.0, nu=0.8)([0.0, 2.0]).round(3))
        [[1.    0.421]
         [0.421 1.   ]]
    """

    nu: float = eqx.field(
        static=True, default=1.5, converter=lambda nu: validation.positive(nu, "nu")
    )

    def __check_init__(self):
        if self.nu > 100.0:
            raise ValueError(
                f"nu must be at most 100, got {self.nu:g}. Use RBF, which is the limit of a large "
                "nu."
            )


class Matern12(MaternFamily):
    """Matern kernel of order 1/2, or exponential kernel, k(x, z) = variance * exp(-r).

    Functions drawn from it are continuous and nowhere differentiable; in one dimension they are
    Ornstein-Uhlenbeck processes.

    Args:
        lengthscale: Distance over which the function changes, in the units of the inputs: a
            number, a vector (d,), or a lower triangular matrix (d, d), as for `RBF`.
        variance: Prior variance k(x, x), in the squared units of the output.

    References:
        Rasmussen and Williams (2006), section 4.2.1.

    Examples:
        >>> from bayeskern.kernels import Matern12
        >>> print(Matern12(lengthscale=2.0)([0.0, 2.0]).round(3))
        [[1.    0.368]
         [0.368 1.   ]]
    """

    offers: ClassVar[tuple[str, ...]] = (*MaternFamily.offers, "numpy_gram")
    sentence: ClassVar[str] = (
        "varies roughly, like a random walk pulled back to its mean, over about {lengthscale}"
    )
    nu: ClassVar[float] = 0.5

    @staticmethod
    def numpy_gram(parts, values, pairs):
        lengthscale, variance = next(values), next(values)
        r = np.abs(pairs.lag) / lengthscale
        unit = np.exp(-r)
        return with_slopes(
            variance * unit, [lambda: variance * unit * r / lengthscale, lambda: unit]
        )


class Matern32(MaternFamily):
    """Matern kernel of order 3/2, k(x, z) = variance * (1 + s) exp(-s) with s = sqrt(3) r.

    Functions drawn from it are once differentiable.

    Args:
        lengthscale: Distance over which the function changes, in the units of the inputs: a
            number, a vector (d,), or a lower triangular matrix (d, d), as for `RBF`.
        variance: Prior variance k(x, x), in the squared units of the output.

    References:
        Rasmussen and Williams (2006), equation 4.17.

    Examples:
        >>> from bayeskern.kernels import Matern32
        >>> print(Matern32(lengthscale=2.0)([0.0, 2.0]).round(3))
        [[1.    0.483]
         [0.483 1.   ]]
    """

    sentence: ClassVar[str] = "varies with some roughness over about {lengthscale}"
    nu: ClassVar[float] = 1.5


class Matern52(MaternFamily):
    """Matern kernel of order 5/2, variance * (1 + s + s^2 / 3) exp(-s) with s = sqrt(5) r.

    Functions drawn from it are twice differentiable.

    Args:
        lengthscale: Distance over which the function changes, in the units of the inputs: a
            number, a vector (d,), or a lower triangular matrix (d, d), as for `RBF`.
        variance: Prior variance k(x, x), in the squared units of the output.

    References:
        Rasmussen and Williams (2006), equation 4.17.

    Examples:
        >>> from bayeskern.kernels import Matern52
        >>> print(Matern52(lengthscale=2.0)([0.0, 2.0]).round(3))
        [[1.    0.524]
         [0.524 1.   ]]
    """

    sentence: ClassVar[str] = "varies smoothly over about {lengthscale}"
    nu: ClassVar[float] = 2.5


@dataclass(frozen=True)
class MaternLags(LagFunction):
    """Matern profile of smoothness order + 1/2: p(s) e^-s for a polynomial p of s = sqrt(2 nu) r.

    The integral of p e^-s over (0, s) is Q(0) - Q(s) e^-s, where Q is the sum of p and its
    derivatives. It is written as -Q(0) expm1(-s) - (Q(s) - Q(0)) e^-s, so that small s lose no
    digits; and likewise the integral of Q e^-s.
    """

    order: int

    def value(self, r: jax.Array) -> jax.Array:
        return matern_profile(r * r, self.order + 0.5)

    def first_integral(self, r: jax.Array) -> jax.Array:
        rate, Q, _ = _matern_integrals(self.order)
        return _decayed(Q, rate * r) / rate

    def second_integral(self, r: jax.Array) -> jax.Array:
        rate, Q, R = _matern_integrals(self.order)
        s = rate * r
        return (Q[0] * s - _decayed(R, s)) / rate**2


def _decayed(Q: np.ndarray, s: jax.Array) -> jax.Array:
    """Q(0) - Q(s) e^-s, for the coefficients of a polynomial Q, the lowest power first."""
    change = s * horner(Q[:0:-1], s) if len(Q) > 1 else 0.0
    return -Q[0] * jnp.expm1(-s) - change * jnp.exp(-s)


@lru_cache
def _matern_integrals(order: int) -> tuple[float, np.ndarray, np.ndarray]:
    """Rate sqrt(2 nu), and the polynomials of the first and of the second integral."""
    Q = _sum_of_derivatives(np.array(polynomial(order)[::-1]))
    return math.sqrt(2.0 * order + 1.0), Q, _sum_of_derivatives(Q)


def _sum_of_derivatives(p: np.ndarray) -> np.ndarray:
    """Sum of a polynomial and all its derivatives; coefficients, the lowest power first."""
    total = np.zeros(len(p))
    for k in range(len(p)):
        derivative = np.polynomial.polynomial.polyder(p, k)
        total[: len(derivative)] += derivative
    return total


class MaternTerm(DerivativesTerm):
    """Matern process with smoothness order + 1/2.

    (1 + D / rate)^(order + 1) f is white noise, where D is the derivative. The k-th number of the
    state is D^k f / rate^k. With u = rate * d, A is exp(-u) sum_k (N u)^k / k! for a nilpotent
    matrix N. Q is an integral of such terms, a sum of incomplete gamma functions. They are accurate
    for small u, where P - A P A' would cancel.
    """

    order: int = eqx.field(static=True)
    rate: jax.Array
    variance: jax.Array

    def prior(self, t: jax.Array) -> jax.Array:
        return self.variance * jnp.asarray(_stationary(self.order))

    def transition(self, t: jax.Array, d: jax.Array) -> tuple[jax.Array, jax.Array]:
        u, (powers, squares) = self.rate * d, _matern_series(self.order)
        A = jnp.exp(-u) * _polynomial(powers, u)
        gammas = lower_gammas(2.0 * u, 2 * self.order)
        return A, self.variance * jnp.tensordot(squares, gammas, 1)

    @property
    def copy_slope(self) -> jax.Array:
        return self.rate * super().copy_slope

    def integral(self, t: jax.Array, d: jax.Array, nodes: int) -> Integral:
        # The response of the k-th number to the white noise, after the time u, is c_k(u), the last
        # column of A; c_0 = u^p exp(-u) / p! and c_{k + 1} is the derivative of c_k. The integral
        # responds by C, the integral of c_0, so that q_0 = C^2 / 2 and, by parts,
        # q_{k + 1} = c_k C - Q_0k. The variance, the integral of C^2, is by parts
        # u C^2 - 2 (p + 1) int c C, where c is c_0 for the next higher p.
        p, u = self.order, self.rate * d
        A, Q = self.transition(t, d)
        gammas = lower_gammas(u, p + 1)
        coefficients = jnp.tensordot(gammas[:-1], _matern_series(p)[0][:, 0], 1)
        C, next_C = gammas[-2] / math.factorial(p), gammas[-1] / math.factorial(p + 1)
        scale = self.variance / _noise_integral(p, math.factorial(2 * p))
        first = 0.5 * scale * jnp.square(C)
        covariance = jnp.append(first, scale * A[:-1, -1] * C - Q[0, :-1])
        next_square = _noise_integral(p + 1, lower_gammas(2.0 * u, 2 * p + 2)[-1])
        parts = jnp.square(next_C) + 2.0 * next_square
        variance = scale * (u * jnp.square(C) - (p + 1.0) * parts)
        return Integral(
            coefficients / self.rate, covariance / self.rate, variance / jnp.square(self.rate)
        )


@lru_cache
def _matern_series(order: int) -> tuple[np.ndarray, np.ndarray]:
    """(C + I)^k / k!, (p + 1, s, s), and weights of gammas in Q, (s, s, 2 p + 1).

    Here p = order and s = p + 1. C is the companion matrix of (1 + D)^s, with
    exp(C u) = exp(-u) sum_k (C + I)^k u^k / k!. Q is the integral over u of c c', where c is the
    last column of exp(C u). It is divided by its (0, 0) entry at u = infinity, for variance 1.
    """
    s = order + 1
    companion = np.diag(np.ones(order), 1)
    companion[-1] = [-float(math.comb(s, j)) for j in range(s)]
    powers = exponential_terms(companion + np.eye(s), s)
    columns = powers[:, :, -1]
    squares = np.zeros((s, s, 2 * order + 1))
    for k, column in enumerate(columns):
        for m, other in enumerate(columns):
            squares[:, :, k + m] += np.outer(column, other) / 2.0 ** (k + m + 1)
    return powers, squares / _noise_integral(order, math.factorial(2 * order))


def _noise_integral(p: int, gamma: jax.Array | int) -> jax.Array | float:
    """Integral over (0, u) of the square of w^p exp(-w) / p!.

    gamma: integral of w^(2 p) exp(-w) over (0, 2 u), which is (2 p)! for u = infinity.
    """
    return gamma / (2.0 ** (2 * p + 1) * math.factorial(p) ** 2)


def _stationary(order: int) -> np.ndarray:
    """Covariance of the state of a Matern process of variance 1: (s, s)."""
    return _matern_series(order)[1] @ [math.factorial(m) for m in range(2 * order + 1)]


def _polynomial(powers: np.ndarray, u) -> jax.Array:
    """sum_k powers[k] u^k, for matrices powers (p + 1, s, s)."""
    # u**k for each k: a power with an array of exponents has no second derivative at 0.
    return jnp.tensordot(jnp.stack([u**k for k in range(len(powers))]), powers, 1)
