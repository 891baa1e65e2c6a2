"""Terms of state-space models: Matern, integrated, polynomial, harmonic."""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import lru_cache, partial
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

# Number of terms of the power series below, accurate to rounding for arguments up to 2.
SERIES_TERMS = 28


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
        """Transition matrix A, and noise covariance Q of a copy of variance 1, from t to t + d."""

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
    def size(self) -> int:
        """Size s of the state of all copies."""
        return self.b * len(self.weights)


class DerivativesTerm(Term):
    """Term whose state is the process and its first `order` derivatives."""

    order: eqx.AbstractVar[int]

    @property
    def b(self) -> int:
        return self.order + 1


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


class IntegratedOrnsteinUhlenbeckTerm(Term):
    """Integral of a stationary Ornstein-Uhlenbeck process, 0 at the start."""

    lengthscale: jax.Array
    variance: jax.Array
    start: jax.Array

    b: ClassVar[int] = 2

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
        # The integral of (1 - exp(-w))^2 over (0, r), by its series if the closed form cancels.
        is_small = r < 1.0
        small, large = jnp.where(is_small, r, 0.0), jnp.where(is_small, 1.0, r)
        series = small**3 * jnp.polyval(_squared_decay(), small)
        closed = large + 2.0 * jnp.expm1(-large) - 0.5 * jnp.expm1(-2.0 * large)
        off_diagonal = self.lengthscale * jnp.square(decay)
        integral = jnp.where(is_small, series, closed)
        Q = [
            [2.0 * jnp.square(self.lengthscale) * integral, off_diagonal],
            [off_diagonal, -jnp.expm1(-2.0 * r)],
        ]
        return _matrix(A), self.variance * _matrix(Q)


class PolynomialTerm(DerivativesTerm):
    """sum_j w_j (t - center)^j with independent w_j ~ N(0, variances_j): (order + 1,)."""

    order: int = eqx.field(static=True)
    variances: jax.Array
    center: jax.Array

    def prior(self, t: jax.Array) -> jax.Array:
        p = self.order
        # Column j of the matrix: the derivatives 0, ..., p of (t - center)^j.
        factorials = np.array([math.factorial(j) for j in range(p + 1)])
        powers = _taylor(t - self.center, p) * factorials
        return (powers * self.variances) @ powers.T

    def transition(self, t: jax.Array, d: jax.Array) -> tuple[jax.Array, jax.Array]:
        return _taylor(d, self.order), jnp.zeros((self.order + 1, self.order + 1))


class HarmonicTerm(Term):
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

    b: ClassVar[int] = 1

    @property
    def weights(self) -> jax.Array:
        return jnp.concatenate([self.variances, self.variances[-len(self._sines) :]])

    def features(self, t: jax.Array) -> jax.Array:
        # The remainder is exact, so that large times lose no digits.
        angle = 2.0 * jnp.pi * jnp.mod(t, self.period) / self.period
        cosines, sines = np.array(self.harmonics), np.array(self._sines)
        return jnp.concatenate([jnp.cos(cosines * angle), jnp.sin(sines * angle)])

    def prior(self, t: jax.Array) -> jax.Array:
        return jnp.ones((1, 1))

    def transition(self, t: jax.Array, d: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.ones((1, 1)), jnp.zeros((1, 1))

    @property
    def _sines(self) -> tuple[int, ...]:
        return self.harmonics[1:] if self.harmonics[0] == 0 else self.harmonics


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def lower_gammas(x: jax.Array, highest: int) -> jax.Array:
    """Integrals of w^m exp(-w) over w from 0 to x, for m = 0, ..., highest.

    The integral for the highest m is m! (1 - exp(-x) sum_{j <= m} x^j / j!), or a series for small
    x, where this cancels. The recursion to lower m adds positive numbers only: Abramowitz and
    Stegun (1964), 6.5.22.
    """
    m, decay = highest, jnp.exp(-x)
    is_small = x < 2.0
    small, large = jnp.where(is_small, x, 0.0), jnp.where(is_small, 2.0, x)
    rising = [math.factorial(m) / math.factorial(m + 1 + j) for j in reversed(range(SERIES_TERMS))]
    series = small ** (m + 1) * decay * jnp.polyval(jnp.array(rising), small)
    head = [1.0 / math.factorial(j) for j in reversed(range(m + 1))]
    closed = math.factorial(m) * -jnp.expm1(jnp.log(jnp.polyval(jnp.array(head), large)) - large)
    gammas = [jnp.where(is_small, series, closed)]
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
    """(C + I)^k / k!, (p + 1, s, s), and weights of the incomplete gammas in Q, (s, s, 2 p + 1).

    Here p = order and s = p + 1. C is the companion matrix of (1 + D)^s, with
    exp(C u) = exp(-u) sum_k (C + I)^k u^k / k!. Q is the integral over u of c c', where c is the
    last column of exp(C u). It is divided by its (0, 0) entry at u = infinity, for variance 1.
    """
    s = order + 1
    companion = np.diag(np.ones(order), 1)
    companion[-1] = [-float(math.comb(s, j)) for j in range(s)]
    N, powers = companion + np.eye(s), [np.eye(s)]
    for k in range(1, s):
        powers.append(powers[-1] @ N / k)
    columns = np.array([power[:, -1] for power in powers])
    squares = np.zeros((s, s, 2 * order + 1))
    for k, column in enumerate(columns):
        for m, other in enumerate(columns):
            squares[:, :, k + m] += np.outer(column, other) / 2.0 ** (k + m + 1)
    at_infinity = [math.factorial(m) for m in range(2 * order + 1)]
    return np.array(powers), squares / (squares[0, 0] @ at_infinity)


def _stationary(order: int) -> np.ndarray:
    """Covariance of the state of a Matern process of variance 1: (s, s)."""
    return _matern_series(order)[1] @ [math.factorial(m) for m in range(2 * order + 1)]


@lru_cache
def _squared_decay() -> np.ndarray:
    """r^-3 times the integral of (1 - exp(-w))^2 over (0, r), in powers of r, highest first."""
    n = range(SERIES_TERMS, 1, -1)
    return np.array([(-1.0) ** k * (2.0**k - 2.0) / (math.factorial(k) * (k + 1)) for k in n])


def _matrix(rows) -> jax.Array:
    return jnp.stack([jnp.stack(row) for row in rows])


def _taylor(d, order: int) -> jax.Array:
    """Matrix that maps the derivatives of a polynomial at t to its derivatives at t + d."""
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
