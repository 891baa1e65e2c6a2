"""Terms of state-space models: Matern, integrated, polynomial, harmonic."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable
from functools import lru_cache, partial, reduce
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bayeskern.kernels.state_space.integrals import Integral, by_quadrature

# Number of terms of the power series below, accurate to rounding for arguments up to 2.
SERIES_TERMS = 28


class NoStateSpaceError(ValueError):
    """The kernel has no state-space form, or its state is too large."""


class Term(eqx.Module):
    """Process sum_k phi_k(t) g_k(t), with m independent copies g_k of one process.

    Each copy has its own variance and a state of b numbers; the first is the value g_k(t). The
    state of the term has s = b m numbers: the first numbers of all copies, then the second numbers
    of all copies, and so on.
    """

    @property
    @abstractmethod
    def b(self) -> int:
        """Size of the state of a copy."""

    @abstractmethod
    def prior(self, t: jax.Array) -> Float[Array, "b b"]:
        """Prior covariance P(t) of the state of a copy of variance 1."""

    @abstractmethod
    def transition(
        self, t: jax.Array, d: jax.Array
    ) -> tuple[Float[Array, "b b"], Float[Array, "b b"]]:
        """Transition matrix A and noise covariance Q from t to t + d.

        Q is the noise covariance of a copy of variance 1.
        """

    @property
    def weights(self) -> Float[Array, " m"]:
        """Variances of the copies."""
        return jnp.ones(1)

    @property
    def starts(self) -> tuple[jax.Array, ...]:
        """Start times; before them the term does not describe the process."""
        return ()

    def features(self, t: jax.Array) -> Float[Array, " m"]:
        """Coefficients phi(t) of the copies."""
        return jnp.ones(1)

    @property
    def copy_slope(self) -> Float[Array, " b"]:
        """Coefficients of the state of a copy in the derivative of its value.

        Raises:
            NoStateSpaceError: The process has no derivative.
        """
        raise NoStateSpaceError("its state does not contain the derivative")

    @property
    def constant_variance(self) -> jax.Array | None:
        """Variance of a process that is one number at all times; None for other processes."""
        return None

    @property
    def has_closed_integral(self) -> bool:
        """True if `integral` is in closed form; otherwise it is by quadrature."""
        return False

    def integral(self, t: jax.Array, d: jax.Array, nodes: int) -> Integral:
        """Integral of the process over (t, t + d).

        Args:
            t: Start of the step.
            d: Length of the step.
            nodes: Gauss-Legendre nodes, for integrals without closed form.
        """
        return by_quadrature(self, t, d, nodes)

    def value(self, t: jax.Array) -> Float[Array, " s"]:
        """Coefficients of the state in the process at t."""
        phi = self.features(t)
        return jnp.pad(phi, (0, self.size - len(phi)))

    def slope(self, t: jax.Array) -> Float[Array, " s"]:
        """Coefficients of the state in the derivative of the process at t."""
        phi, phi_slope = jax.jvp(self.features, (t,), (jnp.ones_like(t),))
        slopes = self.copy_slope[:, None] * phi
        return slopes.at[0].add(phi_slope).ravel()

    @property
    def size(self) -> int:
        """Size s of the state of all copies."""
        return self.b * len(self.weights)


class DerivativesTerm(Term):
    """Term whose state is the process and its first `order` derivatives."""

    order: eqx.AbstractVar[int]

    has_closed_integral: ClassVar[bool] = True

    @property
    def b(self) -> int:
        return self.order + 1

    @property
    def copy_slope(self) -> jax.Array:
        if self.order == 0:
            return super().copy_slope
        return jnp.eye(self.b)[1]


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


class IntegratedTerm(DerivativesTerm):
    """Brownian motion integrated `order` times; f and its derivatives start at 0."""

    order: int = eqx.field(static=True)
    variance: jax.Array
    start: jax.Array

    @property
    def starts(self) -> tuple[jax.Array, ...]:
        return (self.start,)

    def prior(self, t: jax.Array) -> jax.Array:
        return self.transition(self.start, t - self.start)[1]

    def transition(self, t: jax.Array, d: jax.Array) -> tuple[jax.Array, jax.Array]:
        def entry(i, j):
            power = i + j + 1
            return d**power / (power * math.factorial(i) * math.factorial(j))

        powers = range(self.order, -1, -1)
        Q = [[entry(i, j) for j in powers] for i in powers]
        return _taylor(d, self.order), self.variance * _matrix(Q)

    def integral(self, t: jax.Array, d: jax.Array, nodes: int) -> Integral:
        A, Q = IntegratedTerm(self.order + 1, self.variance, self.start).transition(t, d)
        return Integral(A[0, 1:], Q[0, 1:], Q[0, 0])


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
        return _matrix(A), self.variance * _matrix(Q)

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


class PolynomialTerm(DerivativesTerm):
    """sum_j w_j t^j with independent w_j ~ N(0, variances_j): (order + 1,)."""

    order: int = eqx.field(static=True)
    variances: jax.Array

    def prior(self, t: jax.Array) -> jax.Array:
        p = self.order
        # Column j of the matrix: the derivatives 0, ..., p of t^j.
        factorials = np.array([math.factorial(j) for j in range(p + 1)])
        powers = _taylor(t, p) * factorials
        return (powers * self.variances) @ powers.T

    def transition(self, t: jax.Array, d: jax.Array) -> tuple[jax.Array, jax.Array]:
        return _taylor(d, self.order), jnp.zeros((self.order + 1, self.order + 1))

    @property
    def copy_slope(self) -> jax.Array:
        return jnp.eye(self.b, k=-1)[:, 0]

    @property
    def constant_variance(self) -> jax.Array | None:
        return self.variances[0] if self.order == 0 else None

    def integral(self, t: jax.Array, d: jax.Array, nodes: int) -> Integral:
        return Integral.without_noise(_taylor(d, self.order + 1)[0, 1:])


class CoefficientsTerm(Term):
    """Term whose state consists of the coefficients of its features; they are constant."""

    b: ClassVar[int] = 1
    has_closed_integral: ClassVar[bool] = True

    @property
    def copy_slope(self) -> jax.Array:
        return jnp.zeros(1)

    def prior(self, t: jax.Array) -> jax.Array:
        return jnp.ones((1, 1))

    def transition(self, t: jax.Array, d: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.ones((1, 1)), jnp.zeros((1, 1))


class LineTerm(CoefficientsTerm):
    """w (t - center) with w ~ N(0, variance); the state is w.

    With the value of the line in the state too, its covariance matrix would be singular.
    """

    variance: jax.Array
    center: jax.Array

    @property
    def weights(self) -> jax.Array:
        return self.variance[None]

    def features(self, t: jax.Array) -> jax.Array:
        return (t - self.center)[None]

    def integral(self, t: jax.Array, d: jax.Array, nodes: int) -> Integral:
        return Integral.without_noise(d * self.features(t + 0.5 * d))


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


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def lower_gammas(x: jax.Array, highest: int) -> jax.Array:
    """Integrals of w^m exp(-w) over w from 0 to x, for m = 0, ..., highest.

    The integral for the highest m is m! (1 - exp(-x) sum_{j <= m} x^j / j!), or a series for x
    below 2 or below m - 2, where this cancels. The recursion to lower m adds positive numbers only:
    Abramowitz and Stegun (1964), 6.5.22.
    """
    m, decay, above = highest, jnp.exp(-x), max(highest - 4, 0)
    is_small, terms = x < 2.0 + above, SERIES_TERMS + 2 * above
    small, large = jnp.where(is_small, x, 0.0), jnp.where(is_small, 2.0 + above, x)
    rising = [math.factorial(m) / math.factorial(m + 1 + j) for j in reversed(range(terms))]
    series = small ** (m + 1) * decay * horner(rising, small)
    head = [1.0 / math.factorial(j) for j in reversed(range(m + 1))]
    closed = float(math.factorial(m)) * (1.0 - decay * horner(head, large))
    # The barrier keeps XLA from computing the integral and exp(-x) again for each m.
    highest_gamma, decay = jax.lax.optimization_barrier(
        (jnp.where(is_small, series, closed), decay)
    )
    gammas = [highest_gamma]
    for k in range(m, 0, -1):
        gammas.append((gammas[-1] + x**k * decay) / k)
    return jnp.stack(gammas[::-1])


@lower_gammas.defjvp
def _lower_gammas_jvp(highest, primals, tangents):
    (x,), (dx,) = primals, tangents
    integrands = jnp.stack([x**m for m in range(highest + 1)]) * jnp.exp(-x)
    return lower_gammas(x, highest), integrands * dx


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


def exponential_terms(F: np.ndarray, count: int) -> np.ndarray:
    """First terms F^k / k! of the series of exp(F), k = 0, 1, ...: (count, s, s)."""
    terms = [np.eye(len(F))]
    for k in range(1, count):
        terms.append(terms[-1] @ F / k)
    return np.array(terms)


def _noise_integral(p: int, gamma: jax.Array | int) -> jax.Array | float:
    """Integral over (0, u) of the square of w^p exp(-w) / p!.

    gamma: integral of w^(2 p) exp(-w) over (0, 2 u), which is (2 p)! for u = infinity.
    """
    return gamma / (2.0 ** (2 * p + 1) * math.factorial(p) ** 2)


def _stationary(order: int) -> np.ndarray:
    """Covariance of the state of a Matern process of variance 1: (s, s)."""
    return _matern_series(order)[1] @ [math.factorial(m) for m in range(2 * order + 1)]


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


def horner(coefficients: Iterable, x: jax.Array) -> jax.Array:
    """Polynomial in x; the coefficients are numbers or arrays, highest power first.

    Without a loop, unlike `jnp.polyval`, so that XLA fuses the operations.
    """
    return reduce(lambda total, c: x * total + c, coefficients)


def _matrix(rows) -> jax.Array:
    return jnp.stack([jnp.stack(row) for row in rows])


def _taylor(d, order: int) -> jax.Array:
    """Matrix from the derivatives of a polynomial at t to those at t + d."""
    zero = jnp.zeros_like(d)
    return _matrix(
        [
            [d ** (j - i) / math.factorial(j - i) if j >= i else zero for j in range(order + 1)]
            for i in range(order + 1)
        ]
    )


def _polynomial(powers: np.ndarray, u) -> jax.Array:
    """sum_k powers[k] u^k, for matrices powers (p + 1, s, s)."""
    # u**k for each k: a power with an array of exponents has no second derivative at 0.
    return jnp.tensordot(jnp.stack([u**k for k in range(len(powers))]), powers, 1)
