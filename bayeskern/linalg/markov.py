"""Covariance matrices of processes with a state: the Kalman filter as a Cholesky factor.

The filter passes over the times in order. What it adds to what is known, the innovations, are
L^-1 y, and the sds of the innovations the diagonal of L: K = L L' is factored in O(n s^3) time
without being written down. Kalman (1960); Sarkka (2013), "Bayesian Filtering and Smoothing",
theorem 4.2; for the diagonal of K^-1, de Jong (1989), "Smoothing and interpolation with the
state-space model".
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core.validation import NotPositiveDefiniteError, is_traced
from bayeskern.kernels.state_space import StateSpace
from bayeskern.linalg.factor import Factor

# Steps whose transitions are computed at once, and whose states are computed again for a gradient.
BLOCK = 256


class Series(eqx.Module):
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
    def of(cls, space: StateSpace, t, noise, observed=None) -> Series:
        """t: (n,) in any order, repeated or not; noise: () or (n,); observed: (n,) or None."""
        t = jnp.asarray(t)
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

        body: (carry, (A, Q, noise, counts, *data)) -> (carry, result) with the transition from each
        time to the next, and data of n rows.
        """
        n, blocks = len(self.t), -(-len(self.t) // BLOCK)
        d = jnp.diff(self.t, append=self.t[-1:])

        def in_blocks(x, mode="edge"):
            x = jnp.pad(x, [(0, blocks * BLOCK - n)] + [(0, 0)] * (x.ndim - 1), mode)
            return x.reshape(blocks, BLOCK, *x.shape[1:])

        @jax.checkpoint
        def over_block(carry, rows):
            t, d, *others = rows
            transitions = jax.vmap(self.space.step)(t, d)
            return jax.lax.scan(body, carry, (*transitions, *others), reverse=reverse)

        # After the last row come copies of it that do not count, with no time between them.
        rows = (*map(in_blocks, (self.t, d, self.noise)), in_blocks(self.counts, "constant"))
        rows += tuple(map(in_blocks, data))
        carry, results = jax.lax.scan(over_block, carry, rows, reverse=reverse)
        return carry, jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:n], results)


class Known(NamedTuple):
    """What the values so far leave open: the covariance P of the state, (s, s).

    rounding: the least variance of f that is not made of rounding errors.
    """

    P: jax.Array
    rounding: jax.Array

    def given(self, seen, noise, counts) -> tuple[jax.Array, jax.Array, Known]:
        """The variance S of the next value, the gain P h / S (s,), and what that value leaves open.

        seen: those states whose sum f is. S is 0 where there is nothing but rounding. A value that
        does not count is one of variance 1 that has nothing to do with the state.
        """
        Ph = self.P[:, seen].sum(axis=1)
        f = Ph[seen].sum()
        S = jnp.where(f + noise > self.rounding, f + noise, 0.0)
        S = jnp.where(counts > 0.0, S, 1.0)
        gain = Ph * (counts / jnp.where(S > 0.0, S, 1.0))
        # What is left of f where two numbers of about its size cancel.
        rounding = jnp.where(counts > 0.0, 4.0 * jnp.finfo(f.dtype).eps * f, self.rounding)
        P = self.P - gain[:, None] * Ph[None, :]
        return S, gain, Known(P, jax.lax.stop_gradient(rounding))

    def later(self, A, Q) -> Known:
        return self._replace(P=A @ self.P @ A.T + Q)


def log_density(series: Series, r):
    """log N(r; 0, K) of residuals r (n,), in the order of the times as they were given.

    Returns:
        A number; -inf, with a gradient of 0, if K is not positive definite.
    """
    seen = series.space.seen

    def body(carry, row):
        x, known, total, positive = carry
        A, Q, noise, counts, y = row
        S, gain, known = known.given(seen, noise, counts)
        v = counts * (y - x[seen].sum())
        positive, S = positive & (S > 0.0), jnp.where(S > 0.0, S, 1.0)
        carry = A @ (x + gain * v), known.later(A, Q), total + v * v / S + jnp.log(S), positive
        return carry, None

    start = (jnp.zeros(series.space.size), series.initial, jnp.zeros(()), jnp.asarray(True))
    (*_, total, positive), _ = series.scan(body, start, r[series.order])
    value = -0.5 * (total + jnp.sum(series.counts) * jnp.log(2.0 * jnp.pi))
    return jnp.where(positive & jnp.isfinite(value), value, -jnp.inf)


class MarkovFactor(Factor):
    """The covariance matrix of a process with a state, K = h'P(t_i, t_j)h + noise I, factored.

    L is lower triangular in the order of time. `compute` makes it; each product takes O(n s^2)
    time for a column, the diagonal of the inverse O(n s^3).

    Attributes:
        series: The process at its times.
        sd: The diagonal of L, the sds of the innovations, (n,).
        gain: What the state takes of each innovation, (n, s).
        jitter: 0.
    """

    series: Series
    sd: jax.Array
    gain: jax.Array
    jitter: jax.Array

    @classmethod
    def compute(cls, series: Series) -> MarkovFactor:
        """Factor the covariance matrix of a series.

        Raises:
            NotPositiveDefiniteError: An innovation has no variance. Under `jax.jit`, where nothing
                can be raised, its sd is NaN instead.
        """
        seen = series.space.seen

        def body(known, row):
            A, Q, noise, counts = row
            S, gain, known = known.given(seen, noise, counts)
            return known.later(A, Q), (S, gain)

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
        seen = self.series.space.seen

        def body(x, row):
            A, _, _, counts, sd, gain, b = row
            v = b - counts * x[seen].sum(axis=0)
            return A @ (x + _outer(gain, v)), v / sd

        start = jnp.zeros((self.series.space.size, *B.shape[1:]))
        _, W = self.series.scan(body, start, self.sd, self.gain, B[self.series.order])
        return W

    def sqrt_mul(self, B):
        seen = self.series.space.seen

        def body(x, row):
            A, _, _, counts, sd, gain, w = row
            v = sd * w
            return A @ (x + _outer(gain, v)), v + counts * x[seen].sum(axis=0)

        start = jnp.zeros((self.series.space.size, *B.shape[1:]))
        _, Y = self.series.scan(body, start, self.sd, self.gain, B)
        return self.series.unsorted(Y)

    def logdet(self):
        return 2.0 * jnp.sum(jnp.log(self.sd))

    def inv_diag(self):
        h = jnp.asarray(self.series.space.h)

        def body(N, row):
            A, _, _, counts, sd, gain = row
            after, N = from_here_on(N, A, h, gain, counts / jnp.square(sd))
            return N, 1.0 / jnp.square(sd) + gain @ after @ gain

        start = jnp.zeros((len(h), len(h)))
        _, precision = self.series.scan(body, start, self.sd, self.gain, reverse=True)
        return self.series.unsorted(precision)


def from_here_on(N, A, h, gain, precision) -> tuple[jax.Array, jax.Array]:
    """What the values after a time, and those from it on, say of the state there: (s, s) each.

    N: what they say of the state at the next time; precision: 1 / S of the value, 0 if it does not
    count.
    """
    after = A.T @ N @ A
    # What is left of the state when its value is taken from it.
    rest = jnp.eye(len(h)) - jnp.outer(gain, h)
    return after, rest.T @ after @ rest + precision * jnp.outer(h, h)


def _outer(gain, v):
    """gain v' for v (), (m,): (s,) or (s, m)."""
    return gain * v if jnp.ndim(v) == 0 else gain[:, None] * v
