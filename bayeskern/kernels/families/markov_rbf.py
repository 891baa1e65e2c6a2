"""The RBF in time by a rational spectral density: its process has a state of few numbers."""

from __future__ import annotations

import math
from functools import lru_cache, reduce
from itertools import accumulate
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.polynomial import polynomial

from bayeskern.core import validation
from bayeskern.kernels.families.stationary import Stationary
from bayeskern.kernels.state_space.space import StateSpace, number
from bayeskern.kernels.state_space.terms import Term

# Fewer numbers are too few for the series near 0; more lose as many digits as they gain.
ORDERS = range(6, 11)
# Below this distance the profile is a series: what it leaves out is of order r^7.
NEAR = 0.01
# Below this step its transition is a series of so many terms, to the last digit. Of many short
# steps the rounding errors of eigenvectors would add up.
SHORT, TERMS = 0.5, 26


class Modes(NamedTuple):
    """The process of lengthscale and variance 1, f = x[0], dx = F x dt + noise, x ~ N(0, I).

    Attributes:
        rates: Those of f(r^2) = sum_j amplitudes_j exp(rates_j r), (s,), complex.
        amplitudes: The residues of the spectral density, which have more digits than those that
            eigenvectors give.
        eigenvalues: Of F; rates with fewer digits.
        V: Its eigenvectors, (s, s).
        inverse: The inverse of V.
        powers: F^k / k! of k = TERMS, ..., 1: (TERMS, s, s).
        series: Those of f near 0 in powers of r^2, highest first.
        error: The largest distance of the covariances from those of an RBF.
    """

    rates: np.ndarray
    amplitudes: np.ndarray
    eigenvalues: np.ndarray
    V: np.ndarray
    inverse: np.ndarray
    powers: np.ndarray
    series: np.ndarray
    error: float


def _order(value) -> int:
    order = validation.positive_integer(value, "order")
    if order not in ORDERS:
        raise ValueError(f"order must be one of {', '.join(map(str, ORDERS))}, got {order}.")
    return order


class MarkovRBF(Stationary):
    """A squared-exponential kernel of one input whose process has a state of `order` numbers.

    The spectral density sqrt(2 pi) exp(-w^2 / 2) of the RBF is replaced by its Pade approximant in
    w^2 / 2 with a numerator of degree 2 and a denominator of degree `order`. A process with it
    takes O(n) time by the Kalman filter, where `RBF` takes O(n^3). No covariance differs from that
    of the RBF by more than `error` times the variance:

        order     6        7        8        9        10
        error     3.3e-3   9.4e-4   3.0e-4   1.0e-4   3.6e-5

    Functions drawn from it have order - 3 derivatives.

    Args:
        lengthscale: The distance over which the function changes, in the units of the input.
        variance: The prior variance k(x, x), in the squared units of the output.
        order: How many numbers the state has, from 6 to 10.

    Raises:
        ValueError: If the order is none of these; when it is evaluated, if there are several
            inputs: `.on([0])` takes one of them.

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

    order: int = eqx.field(static=True, default=8, converter=_order)

    @property
    def error(self) -> float:
        """The largest distance of the covariances from those of an RBF, over the variance."""
        return _modes(self.order).error

    def profile(self, u):
        modes = _modes(self.order)
        near = u < NEAR**2
        r = jnp.sqrt(jnp.where(near, 1.0, u))[..., None]
        # Pairs of conjugates: their sum is twice the real part of one.
        upper = modes.rates.imag > 0.0
        rates, c = modes.rates[upper], 2.0 * modes.amplitudes[upper]
        waves = c.real * jnp.cos(rates.imag * r) - c.imag * jnp.sin(rates.imag * r)
        real = modes.rates.imag == 0.0
        decays = modes.amplitudes[real].real * jnp.exp(modes.rates[real].real * r)
        far = jnp.sum(jnp.exp(rates.real * r) * waves, axis=-1) + jnp.sum(decays, axis=-1)
        return jnp.where(near, jnp.polyval(jnp.asarray(modes.series), u), far)

    def evaluate(self, X, Z=None):
        if X.shape[1] != 1:
            raise ValueError(
                f"MarkovRBF is a kernel of one input, and the points have {X.shape[1]}: take one "
                "of them by .on([0]), or RBF."
            )
        return super().evaluate(X, Z)

    def _arguments(self):
        return [*super()._arguments(), f"order={self.order}"]

    def state_space(self):
        term = RationalTerm(self.order, number(self, "lengthscale"), self.variance)
        return StateSpace((term,))


class RationalTerm(Term):
    """State-space model of a MarkovRBF."""

    order: int = eqx.field(static=True)
    lengthscale: jax.Array
    variance: jax.Array

    @property
    def b(self):
        return self.order

    def prior(self, t):
        return self.variance * jnp.eye(self.order)

    def transition(self, t, d):
        modes, u = _modes(self.order), d / self.lengthscale
        short = u < SHORT
        near, far = jnp.where(short, u, 0.0), jnp.where(short, SHORT, u)
        # A - I, so that neither it nor I - A A' loses digits.
        change = near * reduce(lambda total, power: near * total + power, jnp.asarray(modes.powers))
        A = ((modes.V * jnp.exp(modes.eigenvalues * far)) @ modes.inverse).real
        identity = jnp.eye(self.order)
        Q = jnp.where(short, -(change + change.T + change @ change.T), identity - A @ A.T)
        return jnp.where(short, identity + change, A), self.variance * Q


@lru_cache
def _modes(order: int) -> Modes:
    numerator, denominator = _pade(2, order)
    zeros, poles = (_roots(p) for p in (numerator, denominator))
    # S(s) = N(x) / D(x) with x = -s^2 / 2, and k is the sum of its residues on the left.
    x, slope = -0.5 * poles**2, polynomial.polyder(denominator)
    residues = polynomial.polyval(x, numerator) / (-poles * polynomial.polyval(x, slope))
    amplitudes = residues / np.sum(residues).real
    F = _schwarz(polynomial.polyfromroots(poles).real)
    # f is the numerator, in derivatives, of the first number of the state.
    h, power = np.zeros(order), np.eye(order)[0]
    for coefficient in polynomial.polyfromroots(zeros).real:
        h += coefficient * power
        power = F.T @ power
    h /= np.linalg.norm(h)
    # A reflection turns the state, whose covariance stays I, so that f is its first number.
    turned = h + math.copysign(1.0, h[0]) * np.eye(order)[0]
    H = np.eye(order) - 2.0 * np.outer(turned, turned) / (turned @ turned)
    F = H @ F @ H
    eigenvalues, V = np.linalg.eig(F)
    powers = list(
        accumulate(range(1, TERMS + 1), lambda power, k: power @ F / k, initial=np.eye(order))
    )
    # Odd powers below the seventh vanish, since f has order - 3 >= 3 derivatives.
    series = np.array([powers[k][0, 0] for k in (6, 4, 2, 0)])
    r = np.linspace(0.0, 12.0, 2_401)
    k = (amplitudes @ np.exp(np.outer(poles, r))).real
    error = float(np.abs(k - np.exp(-0.5 * r * r)).max())
    fields = poles, amplitudes, eigenvalues, V, np.linalg.inv(V), np.array(powers[:0:-1])
    return Modes(*fields, series, error)


def _pade(m: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """exp(-x) ~ N(x) / D(x) of the degrees m and n, lowest powers first: Baker (1975), 5.1."""
    N = [math.comb(m, j) * math.factorial(m + n - j) * (-1.0) ** j for j in range(m + 1)]
    D = [math.comb(n, j) * math.factorial(m + n - j) for j in range(n + 1)]
    return np.array(N) / N[0], np.array(D, float) / D[0]


def _roots(p: np.ndarray) -> np.ndarray:
    """The roots s on the left of p(x), x = -s^2 / 2, to the last digit."""
    x = polynomial.polyroots(p).astype(complex)
    for _ in range(2):
        x -= polynomial.polyval(x, p) / polynomial.polyval(x, polynomial.polyder(p))
    return -np.sqrt(-2.0 * x)


def _schwarz(p: np.ndarray) -> np.ndarray:
    """The matrix F with the characteristic polynomial p for which the covariance of a state is I.

    It is antisymmetric but for the last number on its diagonal, where the noise comes in: then
    F + F' + noise = 0. Routh's table gives its numbers. Anderson, Jury and Mansour (1976), "Schwarz
    matrix properties for continuous and discrete time systems".
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
