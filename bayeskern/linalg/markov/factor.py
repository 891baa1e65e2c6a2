"""Covariance matrices of processes with a state: the Kalman filter as a Cholesky factor.

The filter passes over the times in order. What it adds to what is known, the innovations, are
L^-1 y, and the sds of the innovations the diagonal of L: K = L L' is factored without being written
down, in O(n s^2 b) time for states of s numbers that move in blocks of b. Kalman (1960); Sarkka
(2013), "Bayesian Filtering and Smoothing", theorem 4.2; for the diagonal of K^-1, de Jong (1989),
"Smoothing and interpolation with the state-space model".
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core.validation import NotPositiveDefiniteError, is_traced
from bayeskern.kernels.state_space.blocks import Repeated, Weighted
from bayeskern.kernels.state_space.space import StateSpace
from bayeskern.linalg.factor import Factor

# Steps whose transitions are computed at once, and whose states are computed again for a gradient;
# fewer where a state has many numbers, so that they stay in the cache.
BLOCK, FEW_NUMBERS = 256, 8


class Row(NamedTuple):
    """A time of a series: what f is of the state there, and how the state goes on from there.

    A, Q: to the next time. h: f = h'x. counts: 1.0 where a value counts, 0.0 where it does not.
    """

    A: Repeated
    Q: Weighted
    h: jax.Array
    noise: jax.Array
    counts: jax.Array


class ObservedProcess(eqx.Module):
    """A process with a state, seen with noise at n times.

    Attributes:
        space: The process.
        t: The times in order, (n,).
        noise: The noise variances, (n,).
        counts: 1.0 where a value counts, 0.0 where it does not, (n,).
        order: Where each of the times stood before they were sorted: (n,).
    """

    space: StateSpace
    t: jax.Array
    noise: jax.Array
    counts: jax.Array
    order: jax.Array

    @classmethod
    def of(cls, space: StateSpace, t, noise, observed=None, order=None) -> ObservedProcess:
        """A process at times in any order, repeated or not.

        t: (n,); noise: () or (n,); observed: (n,) or None; order: that of t, (n,), where it is
        known.
        """
        t = jnp.asarray(t)
        if order is None:
            # Sorting takes longer than all that follows.
            in_order = jnp.all(jnp.diff(t) >= 0.0)
            order = jax.lax.cond(in_order, lambda: jnp.arange(len(t)), lambda: jnp.argsort(t))
        counts = jnp.ones(t.shape) if observed is None else jnp.asarray(observed, t.dtype)
        noise = jnp.broadcast_to(noise, t.shape)
        return cls(space, t[order], noise[order], counts[order], order)

    @property
    def initial(self) -> Known:
        """What is known of the state before the first value; NaN before the process begins."""
        P = self.space.covariance(self.t[0])
        for start in self.space.starts:
            P = jnp.where(self.t[0] >= start, P, jnp.nan)
        return Known(P, jnp.zeros(()))

    def unsorted(self, rows) -> jax.Array:
        """Rows (n, ...) in the order of the times as they were given."""
        return jnp.zeros_like(rows).at[self.order].set(rows, unique_indices=True)

    def scan(self, body, carry, *data, reverse: bool = False):
        """Pass over the times: (carry, results), as `jax.lax.scan`.

        body: (carry, (row, *data)) -> (carry, result), with data of n rows.
        """
        d = jnp.diff(self.t, append=self.t[-1:])

        @jax.checkpoint
        def over_block(carry, block):
            t, d, noise, counts, *others = block
            rows = Row(*moves(self.space, t, d), noise, counts)
            return jax.lax.scan(body, carry, (rows, *others), reverse=reverse)

        blocks = in_blocks(self.space.size, self.t, d, self.noise, self.counts, *data)
        carry, results = jax.lax.scan(over_block, carry, blocks, reverse=reverse)
        return carry, jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[: len(d)], results)


def moves(space: StateSpace, t, d) -> tuple[Repeated, Weighted, jax.Array]:
    """A, Q and h at the times t (n,), for steps d (n,) from there."""
    return jax.vmap(lambda t, d: (*space.step(t, d), space.h(t)))(t, d)


def block_length(size: int) -> int:
    """How many steps make a block, for states of so many numbers."""
    return BLOCK if size <= FEW_NUMBERS else BLOCK // 4


def in_blocks(size: int, t, d, noise, counts, *data) -> tuple[jax.Array, ...]:
    """Arrays of n rows in blocks, of which the last is filled up.

    What comes after the last row are copies of it that do not count, with no time between them.
    """
    length = block_length(size)
    blocks = -(-len(t) // length)

    def filled(x, mode="edge"):
        x = jnp.pad(x, [(0, blocks * length - len(t))] + [(0, 0)] * (x.ndim - 1), mode)
        return x.reshape(blocks, length, *x.shape[1:])

    return filled(t), filled(d), filled(noise), filled(counts, "constant"), *map(filled, data)


class Known(NamedTuple):
    """What the values so far leave open: the covariance P of the state, (s, s).

    rounding: the least variance of f that is not made of rounding errors.
    """

    P: jax.Array
    rounding: jax.Array

    def given(self, row: Row) -> tuple[jax.Array, jax.Array, Known]:
        """The variance S of the next value, the gain P h / S (s,), and what that value leaves open.

        S is 0 where there is nothing but rounding. A value that does not count is one of variance 1
        that has nothing to do with the state.
        """
        Ph = self.P @ row.h
        f = row.h @ Ph
        S = jnp.where(f + row.noise > self.rounding, f + row.noise, 0.0)
        S = jnp.where(row.counts > 0.0, S, 1.0)
        gain = Ph * (row.counts / jnp.where(S > 0.0, S, 1.0))
        # What is left of f where two numbers of about its size cancel.
        rounding = jnp.where(row.counts > 0.0, 4.0 * jnp.finfo(f.dtype).eps * f, self.rounding)
        P = self.P - gain[:, None] * Ph[None, :]
        return S, gain, Known(P, jax.lax.stop_gradient(rounding))

    def later(self, row: Row) -> Known:
        return self._replace(P=row.A @ self.P @ row.A.T + row.Q.dense())


class MarkovFactor(Factor):
    """The covariance matrix of a process with a state, K = h'P(t_i, t_j)h + noise I, factored.

    L is lower triangular in the order of time. `compute` makes it; each product takes O(n s b)
    time for a column, the diagonal of the inverse O(n s^2 b).

    Attributes:
        series: The process at its times.
        sd: The diagonal of L, the sds of the innovations, (n,).
        gain: What the state takes of each innovation, (n, s).
        jitter: 0.
    """

    series: ObservedProcess
    sd: jax.Array
    gain: jax.Array
    jitter: jax.Array

    @classmethod
    def compute(cls, series: ObservedProcess) -> MarkovFactor:
        """Factor the covariance matrix of a series.

        Raises:
            NotPositiveDefiniteError: An innovation has no variance. Under `jax.jit`, where nothing
                can be raised, its sd is NaN instead.
        """

        def body(known, data):
            (row,) = data
            S, gain, known = known.given(row)
            return known.later(row), (S, gain)

        _, (S, gain) = series.scan(body, series.initial)
        sd = jnp.sqrt(jnp.where(S > 0.0, S, jnp.nan))
        if not is_traced(sd) and not np.all(np.isfinite(sd)):
            first = int(np.argmax(~np.isfinite(sd)))
            raise NotPositiveDefiniteError(
                f"the value at time {float(series.t[first])!r} follows from those before it, to "
                "rounding, so that their covariance matrix cannot be factored. Give it more noise, "
                "or solver='dense', which adds to the diagonal what rounding asks for."
            )
        return cls(series=series, sd=sd, gain=gain, jitter=jnp.zeros(()))

    def solve(self, B):
        W = self.whiten(B)
        (B,) = jax.linear_transpose(self.whiten, B)(W)
        return B

    def whiten(self, B):
        def body(x, data):
            row, sd, gain, b = data
            v = b - row.counts * (row.h @ x)
            return row.A @ (x + _outer(gain, v)), v / sd

        start = jnp.zeros((self.series.space.size, *B.shape[1:]))
        _, W = self.series.scan(body, start, self.sd, self.gain, B[self.series.order])
        return W

    def sqrt_mul(self, B):
        def body(x, data):
            row, sd, gain, w = data
            v = sd * w
            return row.A @ (x + _outer(gain, v)), v + row.counts * (row.h @ x)

        start = jnp.zeros((self.series.space.size, *B.shape[1:]))
        _, Y = self.series.scan(body, start, self.sd, self.gain, B)
        return self.series.unsorted(Y)

    def logdet(self):
        return 2.0 * jnp.sum(jnp.log(self.sd))

    def inv_diag(self):
        def body(N, data):
            row, sd, gain = data
            after, N = from_here_on(N, row, gain, jnp.square(sd))
            return N, 1.0 / jnp.square(sd) + gain @ after @ gain

        s = self.series.space.size
        start = jnp.zeros((s, s))
        _, precision = self.series.scan(body, start, self.sd, self.gain, reverse=True)
        return self.series.unsorted(precision)


def from_here_on(N, row: Row, gain, S) -> tuple[jax.Array, jax.Array]:
    """What the values after a time, and those from it on, say of the state there: (s, s) each.

    N: what they say of the state at the next time; S: the variance of the value.
    """
    after = row.A.T @ N @ row.A
    # R'after R with R = I - gain h', what is left of the state when its value is taken from it.
    u = after @ gain
    on_h = 0.5 * (gain @ u + row.counts / S) * row.h - u
    return after, after + on_h[:, None] * row.h + row.h[:, None] * on_h


def _outer(gain, v):
    """gain v' for v (), (m,): (s,) or (s, m)."""
    return gain * v if jnp.ndim(v) == 0 else gain[:, None] * v
