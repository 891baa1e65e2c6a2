"""Kernels of time as linear stochastic differential equations, for solvers that pass over the data.

A Gaussian process has a state-space form if f(t) = h'x(t), where x, a vector of s numbers, is all
that the past says of the future: x(t + d) = A x(t) + w with w ~ N(0, Q) independent of the past.
Sums put states side by side, products multiply them (Kronecker). Sarkka and Solin (2019), "Applied
Stochastic Differential Equations", chapter 12; Hartikainen and Sarkka (2010).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import lru_cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import block_diag
from jaxtyping import Array, Float

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
    """A process in time by its state x(t) ~ N(0, P(t)), with f(t) = h'x(t).

    The times of `covariance`, and of both ends of `step`, are scalars.
    """

    @property
    @abstractmethod
    def h(self) -> np.ndarray:
        """What f is of the state, 0 or 1 of each number: (s,)."""

    @abstractmethod
    def covariance(self, t) -> Float[Array, "s s"]:
        """P(t), before data."""

    @abstractmethod
    def step(self, t, d) -> tuple[Float[Array, "s s"], Float[Array, "s s"]]:
        """A and Q from the time t to the time t + d, d >= 0."""

    @property
    def size(self) -> int:
        """s."""
        return len(self.h)

    @property
    def seen(self) -> np.ndarray:
        """Those states whose sum f is."""
        return np.flatnonzero(self.h)

    @property
    def starts(self) -> tuple[jax.Array, ...]:
        """The times before which it is not the process, if there are any."""
        return ()


class Differentiable(StateSpace):
    """A process whose state is itself and its first derivatives, as many as a subclass says."""

    order: eqx.AbstractVar[int]

    @property
    def h(self):
        return np.eye(self.order + 1)[0]


class MaternSpace(Differentiable):
    """Matern process with smoothness order + 1/2: (1 + D / rate)^(order + 1) f is white noise.

    The state has the derivatives divided by powers of the rate. With u = rate * d, A is
    exp(-u) sum_k (N u)^k / k! for a nilpotent N, and Q an integral of such terms: incomplete gamma
    functions, which stay exact for small u where P - A P A' would cancel.
    """

    order: int = eqx.field(static=True)
    rate: jax.Array
    variance: jax.Array

    def covariance(self, t):
        return self.variance * jnp.asarray(_stationary(self.order))

    def step(self, t, d):
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

    def covariance(self, t):
        return self.step(self.start, t - self.start)[1]

    def step(self, t, d):
        factorials = [math.factorial(k) for k in reversed(range(self.order + 1))]
        powers = [
            [(k + m + 1, n * o) for m, o in zip(range(self.order, -1, -1), factorials, strict=True)]
            for k, n in zip(range(self.order, -1, -1), factorials, strict=True)
        ]
        Q = [[d**power / (power * divisor) for power, divisor in row] for row in powers]
        return _taylor(d, self.order), self.variance * _matrix(Q)


class IntegratedOrnsteinUhlenbeckSpace(StateSpace):
    """The integral, 0 at the start, of a stationary Ornstein-Uhlenbeck process."""

    lengthscale: jax.Array
    variance: jax.Array
    start: jax.Array

    @property
    def h(self):
        return np.array([1.0, 0.0])

    @property
    def starts(self):
        return (self.start,)

    def covariance(self, t):
        A, Q = self.step(self.start, t - self.start)
        return self.variance * jnp.outer(A[:, 1], A[:, 1]) + Q

    def step(self, t, d):
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

    def covariance(self, t):
        p = self.order
        # The derivatives of (t - center)^j, j = 0, ..., p, are columns of the matrix of Taylor.
        factorials = np.array([math.factorial(j) for j in range(p + 1)])
        powers = _taylor(t - self.center, p) * factorials
        return (powers * self.variances) @ powers.T

    def step(self, t, d):
        return _taylor(d, self.order), jnp.zeros((self.order + 1, self.order + 1))


class CosineSpace(StateSpace):
    """A sine wave of random amplitude and phase."""

    period: jax.Array
    variance: jax.Array

    @property
    def h(self):
        return np.array([1.0, 0.0])

    def covariance(self, t):
        return self.variance * jnp.eye(2)

    def step(self, t, d):
        angle = 2.0 * jnp.pi * d / self.period
        c, s = jnp.cos(angle), jnp.sin(angle)
        return _matrix([[c, -s], [s, c]]), jnp.zeros((2, 2))


class SumSpace(StateSpace):
    """Independent processes, added: their states side by side."""

    terms: tuple[StateSpace, ...]

    @property
    def h(self):
        return np.concatenate([term.h for term in self.terms])

    @property
    def size(self):
        return sum(term.size for term in self.terms)

    @property
    def starts(self):
        return sum((term.starts for term in self.terms), ())

    def covariance(self, t):
        return block_diag(*(term.covariance(t) for term in self.terms))

    def step(self, t, d):
        A, Q = zip(*(term.step(t, d) for term in self.terms), strict=True)
        return block_diag(*A), block_diag(*Q)


class ProductSpace(StateSpace):
    """The process whose kernel is the product of two: the Kronecker product of their states."""

    first: StateSpace
    second: StateSpace

    @property
    def h(self):
        return np.kron(self.first.h, self.second.h)

    @property
    def size(self):
        # Known before there is an array of it, since that of a high power would fill the memory.
        return self.first.size * self.second.size

    @property
    def starts(self):
        return self.first.starts + self.second.starts

    def covariance(self, t):
        return jnp.kron(self.first.covariance(t), self.second.covariance(t))

    def step(self, t, d):
        (A, Q), (B, R) = self.first.step(t, d), self.second.step(t, d)
        # (A P A' + Q) x (B P B' + R) minus the part of the past; a sum, so that nothing cancels.
        before = A @ self.first.covariance(t) @ A.T
        after = B @ self.second.covariance(t) @ B.T + R
        return jnp.kron(A, B), jnp.kron(before, R) + jnp.kron(Q, after)


class ScaledSpace(StateSpace):
    """A process times the square root of a number."""

    inner: StateSpace
    scale: jax.Array

    @property
    def h(self):
        return self.inner.h

    @property
    def size(self):
        return self.inner.size

    @property
    def starts(self):
        return self.inner.starts

    def covariance(self, t):
        return self.scale * self.inner.covariance(t)

    def step(self, t, d):
        A, Q = self.inner.step(t, d)
        return A, self.scale * Q


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
