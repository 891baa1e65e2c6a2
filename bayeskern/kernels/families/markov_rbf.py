"""RBF in time, approximated by a kernel with a state-space model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.polynomial import polynomial

from bayeskern.core import validation
from bayeskern.kernels.families.stationary import Stationary
from bayeskern.kernels.means.lags import LagFunction
from bayeskern.kernels.state_space.integrals import Integral
from bayeskern.kernels.state_space.space import StateSpace, number
from bayeskern.kernels.state_space.terms import Term, exponential_terms, horner

# Number of terms of the power series of the transition over a short step.
TRANSITION_TERMS = 26


class UnitProcess(NamedTuple):
    """Process with unit lengthscale: f = x[0], dx = F x dt + noise, x ~ N(0, I).

    Its kernel is k(r) = sum_j amplitudes_j exp(rates_j r) at the distance r.

    Attributes:
        rates: Complex rates, shape (s,).
        amplitudes: Complex amplitudes, shape (s,): residues of the spectral density, which are more
            accurate than amplitudes from the eigenvectors.
        eigenvalues: Eigenvalues of F, equal to the rates up to rounding.
        V: Eigenvectors of F, shape (s, s).
        inverse: Inverse of V.
        F: The matrix F, shape (s, s).
        noise: Sds with which one white noise enters x, shape (s,): F + F' + noise noise' = 0.
        powers: F^k / k! for k = terms, ..., 1, shape (terms, s, s).
        series: Coefficients of k near 0 in powers of r^2, highest first.
        error: Largest difference between k and an RBF.
    """

    rates: np.ndarray
    amplitudes: np.ndarray
    eigenvalues: np.ndarray
    V: np.ndarray
    inverse: np.ndarray
    F: np.ndarray
    noise: np.ndarray
    powers: np.ndarray
    series: np.ndarray
    error: float

    def transition(self, u: jax.Array) -> jax.Array:
        """exp(F u), by eigenvectors."""
        return jnp.real((self.V * jnp.exp(self.eigenvalues * u)) @ self.inverse)


def _order(value) -> int:
    order = validation.positive_integer(value, "order")
    # The series near 0 needs order >= 6; above 10, rounding errors exceed the gain in accuracy.
    if not 6 <= order <= 10:
        raise ValueError(f"order must be one of 6, 7, 8, 9, 10, got {order}.")
    return order


# Distance below which the profile is computed by a series. Its error is of order r^7, and of order
# r^5 in the second derivative, the covariance of slopes.
MAX_SERIES_DISTANCE = 0.001


class MarkovRBF(Stationary):
    """Approximate squared-exponential kernel of one input with a state-space model.

    The spectral density sqrt(2 pi) exp(-w^2 / 2) of the RBF is replaced by its Pade approximant in
    w^2 / 2 with a numerator of degree 2 and a denominator of degree `order`, the size of the state.
    A process with this kernel takes O(n) time by the Kalman filter; `RBF` takes O(n^3). Covariances
    differ from those of the RBF by at most `error` times the variance:

        order     6        7        8        9        10
        error     3.3e-3   9.4e-4   3.0e-4   1.0e-4   3.6e-5

    Functions drawn from it have order - 3 derivatives.

    Args:
        lengthscale: Distance over which the function changes, in the units of the input.
        variance: Prior variance k(x, x), in the squared units of the output.
        order: Size of the state, from 6 to 10; static.

    Raises:
        ValueError: The order is not from 6 to 10; or, on evaluation, there are several inputs:
            `.on([0])` selects one of them.

    References:
        Hartikainen and Sarkka (2010), "Kalman filtering and smoothing solutions to temporal
        Gaussian process regression models"; Sarkka and Piche (2014), "On convergence and accuracy
        of state-space approximations of squared exponential covariance functions".

    Examples:
        >>> from bayeskern.kernels import RBF, MarkovRBF
        >>> print(MarkovRBF(lengthscale=2.0, order=10)([0.0, 2.0]).round(4))
        [[1.     0.6065]
         [0.6065 1.    ]]
        >>> print(RBF(lengthscale=2.0)([0.0, 2.0])[0, 1].round(4))
        0.6065
    """

    offers: ClassVar[tuple[str, ...]] = ("state_space", "means")

    order: int = eqx.field(static=True, default=8, converter=_order)

    @property
    def error(self) -> float:
        """Largest difference from the covariances of an RBF, relative to the variance."""
        return unit_process(self.order).error

    def profile(self, u: jax.Array) -> jax.Array:
        process = unit_process(self.order)
        is_small = u < MAX_SERIES_DISTANCE**2
        r = jnp.sqrt(jnp.where(is_small, 1.0, u))[..., None]
        # Conjugate pairs: the sum of a pair is twice the real part of either term.
        upper = np.imag(process.rates) > 0.0
        rates, c = process.rates[upper], 2.0 * process.amplitudes[upper]
        angles = np.imag(rates) * r
        waves = np.real(c) * jnp.cos(angles) - np.imag(c) * jnp.sin(angles)
        real = np.imag(process.rates) == 0.0
        decays = np.real(process.amplitudes[real]) * jnp.exp(np.real(process.rates[real]) * r)
        exact = jnp.sum(jnp.exp(np.real(rates) * r) * waves, axis=-1) + jnp.sum(decays, axis=-1)
        return jnp.where(is_small, jnp.polyval(jnp.asarray(process.series), u), exact)

    def lag_function(self) -> LagFunction:
        return MarkovRBFLags(self.order)

    def evaluate(self, X: jax.Array, Z: jax.Array | None = None) -> jax.Array:
        if X.shape[1] != 1:
            raise ValueError(
                f"MarkovRBF is a kernel of one input, and the points have {X.shape[1]} inputs: "
                "select one, as in .on([0]), or use RBF."
            )
        return super().evaluate(X, Z)

    def state_space(self) -> StateSpace:
        term = RationalTerm(self.order, number(self, "lengthscale"), self.variance)
        return StateSpace((term,))


@dataclass(frozen=True)
class MarkovRBFLags(LagFunction):
    """Profile of a MarkovRBF: a sum of complex exponentials of the lag.

    Attributes:
        order: Size of the state.
    """

    order: int

    def value(self, r: jax.Array) -> jax.Array:
        return MarkovRBF(order=self.order).profile(r * r)

    def first_integral(self, r: jax.Array) -> jax.Array:
        process = unit_process(self.order)
        c = process.amplitudes / process.rates
        return jnp.sum(jnp.real(c * jnp.expm1(process.rates * r[..., None])), axis=-1)

    def second_integral(self, r: jax.Array) -> jax.Array:
        process = unit_process(self.order)
        c = process.amplitudes / process.rates**2
        exponentials = jnp.sum(jnp.real(c * jnp.expm1(process.rates * r[..., None])), axis=-1)
        return exponentials - float(np.real(np.sum(c * process.rates))) * r


# Step below which the transition is computed by a power series, accurate to rounding. The rounding
# errors of eigenvectors would accumulate over many short steps.
MAX_SERIES_STEP = 0.5


class RationalTerm(Term):
    """State-space model of a MarkovRBF."""

    order: int = eqx.field(static=True)
    lengthscale: jax.Array
    variance: jax.Array

    has_closed_integral: ClassVar[bool] = True

    @property
    def b(self) -> int:
        return self.order

    def prior(self, t: jax.Array) -> jax.Array:
        return self.variance * jnp.eye(self.order)

    def transition(self, t: jax.Array, d: jax.Array) -> tuple[jax.Array, jax.Array]:
        process, u = unit_process(self.order), d / self.lengthscale
        is_short = u < MAX_SERIES_STEP
        short, long = jnp.where(is_short, u, 0.0), jnp.where(is_short, MAX_SERIES_STEP, u)
        # For short steps, A - I is computed first: A and Q = I - A A' then lose no digits.
        change = short * horner(process.powers, short)
        A = process.transition(long)
        identity = jnp.eye(self.order)
        Q = jnp.where(is_short, -(change + change.T + change @ change.T), identity - A @ A.T)
        return jnp.where(is_short, identity + change, A), self.variance * Q

    @property
    def copy_slope(self) -> jax.Array:
        return jnp.asarray(unit_process(self.order).F[0]) / self.lengthscale

    def integral(self, t: jax.Array, d: jax.Array, nodes: int) -> Integral:
        series, u = _integral_series(self.order), d / self.lengthscale
        is_short = u < MAX_SERIES_STEP
        short, long = jnp.where(is_short, u, 0.0), jnp.where(is_short, MAX_SERIES_STEP, u)
        by_series = [horner(c, short) for c in series[:3]]
        # With the prior covariance I, Cov(x(u), f(s)) is the first column of exp(F (u - s)).
        inverse, first = series.inverse, jnp.eye(self.order)[0]
        A = unit_process(self.order).transition(long)
        change = inverse @ (A - jnp.eye(self.order))
        a = change[0]
        closed = [
            a,
            change[:, 0] - A @ a,
            2.0 * (inverse[0] @ (change @ first - long * first)) - a @ a,
        ]
        a, q, v = (jnp.where(is_short, x, y) for x, y in zip(by_series, closed, strict=True))
        scale, variance = self.lengthscale, self.variance
        return Integral(scale * a, variance * scale * q, variance * jnp.square(scale) * v)


class IntegralSeries(NamedTuple):
    """Power series, in the step u, of the integral of f = x[0] over the step.

    Attributes:
        coefficients: Coefficients of x in the integral, shape (terms, s), highest first.
        covariance: Covariance of the noises of the integral and of x, shape (m, s).
        variance: Variance of the noise of the integral, shape (m,).
        inverse: Inverse of F, shape (s, s).
    """

    coefficients: np.ndarray
    covariance: np.ndarray
    variance: np.ndarray
    inverse: np.ndarray


@lru_cache
def _integral_series(order: int) -> IntegralSeries:
    F, noise = unit_process(order).F, unit_process(order).noise
    powers = exponential_terms(F, TRANSITION_TERMS)
    # First row of the integral of exp(F w) from 0 to u. Responses of x and of the integral to the
    # noise.
    rows = [np.zeros(order), *(power[0] / (k + 1) for k, power in enumerate(powers))]
    response = np.array([power @ noise for power in powers])
    of_integral = np.array(rows) @ noise
    products = np.array([np.convolve(of_integral, column) for column in response.T]).T
    squares = np.convolve(of_integral, of_integral)
    covariance, variance = (polynomial.polyint(x)[::-1] for x in (products, squares))
    return IntegralSeries(np.array(rows)[::-1], covariance, variance, np.linalg.inv(F))


@lru_cache
def unit_process(order: int) -> UnitProcess:
    """Process of a `MarkovRBF` of unit lengthscale and variance.

    Args:
        order: Size of the state, from 6 to 10.
    """
    x_zeros, x_poles = (_roots(p) for p in _pade(2, order))
    # Roots s of p(-s^2 / 2) in the left half-plane.
    zeros, poles = (-np.sqrt(-2.0 * x) for x in (x_zeros, x_poles))
    # S(s) = N(x) / D(x) with x = -s^2 / 2; k is the sum of the residues of S(s) exp(s r) at the
    # poles in the left half-plane, up to a factor N(x) / (-s D'(x)), here as products of
    # differences of roots, which do not cancel.
    differences = x_poles[:, None] - x_poles + np.eye(order)
    numerators = np.prod(x_poles[:, None] - x_zeros, axis=1)
    residues = numerators / (-poles * np.prod(differences, axis=1))
    amplitudes = residues / np.real(np.sum(residues))
    F = _schwarz(polynomial.polyfromroots(poles).real)
    # f = h'x is the numerator, as a polynomial in d/dt, applied to the first number of the state.
    h, power = np.zeros(order), np.eye(order)[0]
    for coefficient in polynomial.polyfromroots(zeros).real:
        h += coefficient * power
        power = F.T @ power
    h /= np.linalg.norm(h)
    # A Householder reflection makes f the first number of the state; the covariance remains I.
    normal = h + math.copysign(1.0, h[0]) * np.eye(order)[0]
    H = np.eye(order) - 2.0 * np.outer(normal, normal) / (normal @ normal)
    noise = np.sqrt(-2.0 * F[-1, -1]) * H[:, -1]
    F = H @ F @ H
    eigenvalues, V = np.linalg.eig(F)
    powers = exponential_terms(F, TRANSITION_TERMS + 1)
    # Odd powers of r below the seventh vanish, since f has order - 3 >= 3 derivatives.
    series = np.array([powers[k][0, 0] for k in (6, 4, 2, 0)])
    r = np.linspace(0.0, 12.0, 2_401)
    k = np.real(amplitudes @ np.exp(np.outer(poles, r)))
    error = float(np.abs(k - np.exp(-0.5 * r * r)).max())
    return UnitProcess(
        rates=poles,
        amplitudes=amplitudes,
        eigenvalues=eigenvalues,
        V=V,
        inverse=np.linalg.inv(V),
        F=F,
        noise=noise,
        powers=powers[:0:-1],
        series=series,
        error=error,
    )


def _pade(m: int, n: int) -> tuple[list[int], list[int]]:
    """N and D of degrees m and n with exp(-x) ~ N(x) / D(x), lowest powers first.

    Up to a common factor, with which the coefficients are integers. Baker (1975), section 5.1.
    """
    N = [math.comb(m, j) * math.factorial(m + n - j) * (-1) ** j for j in range(m + 1)]
    D = [math.comb(n, j) * math.factorial(m + n - j) for j in range(n + 1)]
    return N, D


def _roots(p: list[int]) -> np.ndarray:
    """Roots of a polynomial with integer coefficients, accurate to rounding.

    Newton's steps with exact residuals: second derivatives of the kernel are small differences of
    powers of the roots.
    """
    roots = polynomial.polyroots(p).astype(complex)
    slope = polynomial.polyder(p)
    for _ in range(3):
        roots -= np.array([_exact_value(p, x) for x in roots]) / polynomial.polyval(roots, slope)
    return roots


def _exact_value(p: list[int], x: complex) -> complex:
    """p(x), rounded once: Horner's rule in fractions."""
    a, b = Fraction(x.real), Fraction(x.imag)
    real, imaginary = Fraction(0), Fraction(0)
    for coefficient in reversed(p):
        real, imaginary = real * a - imaginary * b + coefficient, real * b + imaginary * a
    return complex(real, imaginary)


def _schwarz(p: np.ndarray) -> np.ndarray:
    """Matrix F with characteristic polynomial p and state covariance I.

    F is antisymmetric except for the last diagonal entry, where the noise enters:
    F + F' + noise covariance = 0. Routh's table gives the entries. Anderson, Jury and Mansour
    (1976), "Schwarz matrix properties for continuous and discrete time systems".
    """
    s = len(p) - 1
    above, below = p[::-1][0::2], np.pad(p[::-1][1::2], (0, 1 - s % 2))
    above, quotients = np.pad(above, (0, len(below) - len(above))), []
    for _ in range(s):
        quotients.append(above[0] / below[0])
        above, below = below, np.append((above - quotients[-1] * below)[1:], 0.0)
    q = np.array(quotients)
    couplings = 1.0 / np.sqrt(q[:-1] * q[1:])[::-1]
    F = np.diag(couplings, 1) - np.diag(couplings, -1)
    F[-1, -1] = -1.0 / q[0]
    return F
