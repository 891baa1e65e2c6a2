"""Kernels of time as linear stochastic differential equations, for solvers that pass over the data.

A Gaussian process has a state-space form if f(t) = h'x(t), where x, a vector of s numbers, is all
that the past says of the future: x(t + d) = A x(t) + w with w ~ N(0, Q) independent of the past.
Sums put states side by side, products multiply them (Kronecker). Sarkka and Solin (2019), "Applied
Stochastic Differential Equations", chapter 12; Hartikainen and Sarkka (2010).
"""

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

from bayeskern.kernels.state_space.blocks import Repeated, Weighted

# Terms of the series below: to the last digit where they are taken, for arguments up to 2.
TERMS = 28
# r^-3 times the integral of (1 - exp(-w))^2 over w from 0 to r, in powers of r, highest first.
SQUARED_DECAY = np.array(
    [(-1.0) ** n * (2.0**n - 2.0) / (math.factorial(n) * (n + 1)) for n in range(TERMS, 1, -1)]
)


class NoStateSpaceError(ValueError):
    """A kernel is not that of a process with a state of a few numbers."""


def number(kernel, name: str) -> jax.Array:
    """A hyperparameter as the number that it is where there is one column.

    Raises NoStateSpaceError if it differs from column to column.
    """
    value = jnp.asarray(getattr(kernel, name))
    if value.size != 1:
        raise NoStateSpaceError(f"{kernel!r} has a {name} for each of several columns.")
    return value.reshape(())


class StateSpace(eqx.Module):
    """A process in time by its state x(t) ~ N(0, P(t)), with f(t) = h(t)'x(t).

    It is a sum of independent terms, whose states stand side by side. Times are scalars.
    """

    @property
    @abstractmethod
    def size(self) -> int:
        """s, which is known before there are arrays of it."""

    @property
    @abstractmethod
    def terms(self) -> tuple[Term, ...]:
        """The terms, in the order of their states."""

    @property
    def starts(self) -> tuple[jax.Array, ...]:
        """The times before which it is not the process, if there are any."""
        return ()

    @property
    def white(self) -> tuple[jax.Array, ...]:
        """Variances of white noise that f has beside what its state says."""
        return ()

    def h(self, t) -> Float[Array, " s"]:
        """What f is of the state at the time t."""
        in_terms = [(term.features(t), term.size) for term in self.terms]
        return jnp.concatenate([jnp.pad(phi, (0, size - len(phi))) for phi, size in in_terms])

    def covariance(self, t) -> Float[Array, "s s"]:
        """P(t), before data."""
        terms = self.terms
        return Weighted(tuple(x.prior(t) for x in terms), tuple(x.weights for x in terms)).dense()

    def step(self, t, d) -> tuple[Repeated, Weighted]:
        """A and Q from the time t to the time t + d, d >= 0."""
        terms = self.terms
        A, Q = zip(*(term.transition(t, d) for term in terms), strict=True)
        weights = tuple(term.weights for term in terms)
        return Repeated(A, tuple(map(len, weights))), Weighted(Q, weights)


class Term(StateSpace):
    """sum_k phi_k(t) g_k(t), where g_k are m copies of a process with a state of b numbers.

    The copies are independent, and have a variance each. The first number of a state is the value
    of its process. The first numbers of all copies come first, then the second ones: s = b m.
    """

    @property
    @abstractmethod
    def b(self) -> int:
        """How many numbers the state of a copy has."""

    @abstractmethod
    def prior(self, t) -> Float[Array, "b b"]:
        """P(t) of a copy of variance 1."""

    @abstractmethod
    def transition(self, t, d) -> tuple[Float[Array, "b b"], Float[Array, "b b"]]:
        """A, and Q of a copy of variance 1, from the time t to the time t + d."""

    @property
    def copies(self) -> int:
        """m."""
        return 1

    @property
    def weights(self) -> Float[Array, " m"]:
        """The variances of the copies."""
        return jnp.ones(1)

    def features(self, t) -> Float[Array, " m"]:
        """phi(t)."""
        return jnp.ones(1)

    @property
    def size(self):
        return self.b * self.copies

    @property
    def terms(self):
        return (self,)


class Differentiable(Term):
    """A process whose state is itself and its first derivatives, as many as a subclass says."""

    order: eqx.AbstractVar[int]

    @property
    def b(self):
        return self.order + 1


class MaternSpace(Differentiable):
    """Matern process with smoothness order + 1/2: (1 + D / rate)^(order + 1) f is white noise.

    The state has the derivatives divided by powers of the rate. With u = rate * d, A is
    exp(-u) sum_k (N u)^k / k! for a nilpotent N, and Q an integral of such terms: incomplete gamma
    functions, which stay exact for small u where P - A P A' would cancel.
    """

    order: int = eqx.field(static=True)
    rate: jax.Array
    variance: jax.Array

    def prior(self, t):
        return self.variance * jnp.asarray(_stationary(self.order))

    def transition(self, t, d):
        u, (powers, squares) = self.rate * d, _matern_series(self.order)
        A = jnp.exp(-u) * _polynomial(powers, u)
        gammas = lower_gammas(2.0 * u, 2 * self.order)
        return A, self.variance * jnp.tensordot(squares, gammas, 1)


class IntegratedSpace(Differentiable):
    """Brownian motion integrated so many times, 0 at the start with all its derivatives."""

    order: int = eqx.field(static=True)
    variance: jax.Array
    start: jax.Array

    @property
    def starts(self):
        return (self.start,)

    def prior(self, t):
        return self.transition(self.start, t - self.start)[1]

    def transition(self, t, d):
        factorials = [math.factorial(k) for k in reversed(range(self.order + 1))]
        powers = [
            [(k + m + 1, n * o) for m, o in zip(range(self.order, -1, -1), factorials, strict=True)]
            for k, n in zip(range(self.order, -1, -1), factorials, strict=True)
        ]
        Q = [[d**power / (power * divisor) for power, divisor in row] for row in powers]
        return _taylor(d, self.order), self.variance * _matrix(Q)


class IntegratedOrnsteinUhlenbeckSpace(Term):
    """The integral, 0 at the start, of a stationary Ornstein-Uhlenbeck process."""

    lengthscale: jax.Array
    variance: jax.Array
    start: jax.Array

    b: ClassVar[int] = 2

    @property
    def starts(self):
        return (self.start,)

    def prior(self, t):
        A, Q = self.transition(self.start, t - self.start)
        return self.variance * jnp.outer(A[:, 1], A[:, 1]) + Q

    def transition(self, t, d):
        r = d / self.lengthscale
        decayed = -jnp.expm1(-r)
        A = [[jnp.ones_like(r), self.lengthscale * decayed], [jnp.zeros_like(r), 1.0 - decayed]]
        # The integral of (1 - exp(-w))^2 up to r: its series where the terms cancel.
        small = r < 1.0
        near, far = jnp.where(small, r, 0.0), jnp.where(small, 1.0, r)
        series = near**3 * jnp.polyval(SQUARED_DECAY, near)
        closed = far + 2.0 * jnp.expm1(-far) - 0.5 * jnp.expm1(-2.0 * far)
        among = self.lengthscale * jnp.square(decayed)
        Q = [
            [2.0 * jnp.square(self.lengthscale) * jnp.where(small, series, closed), among],
            [among, -jnp.expm1(-2.0 * r)],
        ]
        return _matrix(A), self.variance * _matrix(Q)


class PolynomialSpace(Differentiable):
    """sum_j w_j (t - center)^j with independent w_j ~ N(0, variances_j): (order + 1,)."""

    order: int = eqx.field(static=True)
    variances: jax.Array
    center: jax.Array

    def prior(self, t):
        p = self.order
        # The derivatives of (t - center)^j, j = 0, ..., p, are columns of the matrix of Taylor.
        factorials = np.array([math.factorial(j) for j in range(p + 1)])
        powers = _taylor(t - self.center, p) * factorials
        return (powers * self.variances) @ powers.T

    def transition(self, t, d):
        return _taylor(d, self.order), jnp.zeros((self.order + 1, self.order + 1))


class HarmonicSpace(Term):
    """sum_j a_j cos(2 pi j t / period) + b_j sin(2 pi j t / period), a_j and b_j ~ N(0, w_j).

    The coefficients are the state, which stays as it is.

    Attributes:
        period: The period.
        variances: w_j of each of the harmonics.
        harmonics: Their numbers j, which may begin with 0.
    """

    period: jax.Array
    variances: jax.Array
    harmonics: tuple[int, ...] = eqx.field(static=True)

    b: ClassVar[int] = 1

    @property
    def copies(self):
        return len(self.harmonics) + len(self._sines)

    @property
    def weights(self):
        return jnp.concatenate([self.variances, self.variances[-len(self._sines) :]])

    def features(self, t):
        # The remainder is exact, so that times far off cost no digits.
        angle = 2.0 * jnp.pi * jnp.mod(t, self.period) / self.period
        cosines, sines = np.array(self.harmonics), np.array(self._sines)
        return jnp.concatenate([jnp.cos(cosines * angle), jnp.sin(sines * angle)])

    def prior(self, t):
        return jnp.ones((1, 1))

    def transition(self, t, d):
        return jnp.ones((1, 1)), jnp.zeros((1, 1))

    @property
    def _sines(self) -> tuple[int, ...]:
        return self.harmonics[1:] if self.harmonics[0] == 0 else self.harmonics


class WhiteSpace(StateSpace):
    """White noise, which has no state."""

    variance: jax.Array

    size: ClassVar[int] = 0
    terms: ClassVar[tuple[Term, ...]] = ()

    @property
    def white(self):
        return (self.variance,)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def lower_gammas(x, highest: int) -> jax.Array:
    """The integrals of w^m exp(-w) over w from 0 to x, m = 0, ..., highest: (highest + 1,).

    The last is a series where 1 - exp(-x) sum_j x^j / j! cancels; the others follow from it by sums
    of positive numbers: Abramowitz and Stegun (1964), 6.5.22.
    """
    m, decay = highest, jnp.exp(-x)
    small = x < 2.0
    near, far = jnp.where(small, x, 0.0), jnp.where(small, 2.0, x)
    rising = [math.factorial(m) / math.factorial(m + 1 + j) for j in reversed(range(TERMS))]
    series = near ** (m + 1) * decay * jnp.polyval(jnp.array(rising), near)
    head = [1.0 / math.factorial(j) for j in reversed(range(m + 1))]
    closed = math.factorial(m) * -jnp.expm1(jnp.log(jnp.polyval(jnp.array(head), far)) - far)
    gammas = [jnp.where(small, series, closed)]
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
    """(C + I)^k / k!, (p + 1, s, s), and what the incomplete gammas count in Q: (s, s, 2 p + 1).

    C is the companion matrix of (1 + D)^(p + 1): exp(C u) = exp(-u) sum_k (C + I)^k u^k / k!, and Q
    is the integral of its last column times itself, here over that of the whole line at (0, 0).
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
    """The covariance of the state of a Matern process of variance 1: (s, s)."""
    return _matern_series(order)[1] @ [math.factorial(m) for m in range(2 * order + 1)]


def _matrix(rows) -> jax.Array:
    return jnp.stack([jnp.stack(row) for row in rows])


def _taylor(d, order: int) -> jax.Array:
    """From the derivatives of a polynomial to those d later: (order + 1, order + 1)."""
    zero = jnp.zeros_like(d)
    return _matrix(
        [
            [d ** (j - i) / math.factorial(j - i) if j >= i else zero for j in range(order + 1)]
            for i in range(order + 1)
        ]
    )


def _polynomial(powers: np.ndarray, u) -> jax.Array:
    """sum_k powers[k] u^k, for matrices powers (p + 1, s, s)."""
    # Whole powers, one by one: those of an array of exponents have no second derivative at 0.
    return jnp.tensordot(jnp.stack([u**k for k in range(len(powers))]), powers, 1)
