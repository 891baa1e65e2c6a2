"""Covariance matrices of state-space models: Kalman filter as Cholesky factor.

The Kalman filter factors K = L L' without forming K: its standardised innovations are L^-1 y, and
the sds of the innovations are the diagonal of L. It takes O(n s^2 b) time for states of s numbers
whose transition matrices have blocks of size b. Kalman (1960); Sarkka (2013), "Bayesian Filtering
and Smoothing", theorem 4.2; for the diagonal of K^-1, de Jong (1989), "Smoothing and interpolation
with the state-space model".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from bayeskern.core.validation import NotPositiveDefiniteError, is_traced
from bayeskern.kernels.state_space.blocks import Repeated, Weighted
from bayeskern.kernels.state_space.space import StateSpace
from bayeskern.linalg.factor import AnyArray, Factor

# Times per block. A block computes its transitions at once, and its states again for a gradient.
BLOCK_STEPS = 256
# With larger states the blocks are shorter, so that they fit in the cache.
MAX_STATE_OF_LONG_BLOCKS = 8


class Row(NamedTuple):
    """State-space model at one time.

    Attributes:
        A: Transition matrix to the next time.
        Q: Noise covariance of the transition.
        h: Coefficients of the state in f = h'x.
        noise: Noise variance.
        observed: 1.0 if the value is observed, otherwise 0.0.
    """

    A: Repeated
    Q: Weighted
    h: jax.Array
    noise: jax.Array
    observed: jax.Array


class ObservedProcess(eqx.Module):
    """A state-space model observed with noise at n times.

    Attributes:
        space: The state-space model.
        t: Sorted times, shape (n,).
        noise: Noise variances, shape (n,).
        observed: 1.0 if the value is observed, otherwise 0.0, shape (n,).
        order: Original index of each sorted time, shape (n,).
    """

    space: StateSpace
    t: jax.Array
    noise: jax.Array
    observed: jax.Array
    order: jax.Array

    @classmethod
    def of(
        cls,
        space: StateSpace,
        t: AnyArray,
        noise: ArrayLike,
        observed: AnyArray | None = None,
        order: AnyArray | None = None,
    ) -> ObservedProcess:
        """Build the process from unsorted, possibly repeated times.

        Args:
            space: The state-space model.
            t: Times, shape (n,).
            noise: Noise variance, a number or shape (n,).
            observed: Mask of the observed values, shape (n,); None for all.
            order: Indices that sort t, shape (n,), if known.
        """
        t = jnp.asarray(t)
        if order is None:
            # Skip sorting if possible: it takes longer than the filter.
            in_order = jnp.all(jnp.diff(t) >= 0.0)
            order = jax.lax.cond(in_order, lambda: jnp.arange(len(t)), lambda: jnp.argsort(t))
        observed = jnp.ones(t.shape) if observed is None else jnp.asarray(observed, t.dtype)
        noise = jnp.broadcast_to(noise, t.shape)
        order = jnp.asarray(order)
        return cls(space, t[order], noise[order], observed[order], order)

    @property
    def initial(self) -> FilterCovariance:
        """Covariance of the state at the first time; NaN if a term starts later."""
        P = self.space.covariance(self.t[0])
        for start in self.space.starts:
            P = jnp.where(self.t[0] >= start, P, jnp.nan)
        return FilterCovariance(P, jnp.zeros(()))

    def unsorted(self, rows: jax.Array) -> jax.Array:
        """Rows (n, ...) in the original order of the times."""
        return jnp.zeros_like(rows).at[self.order].set(rows, unique_indices=True)

    def scan(self, body: Callable, carry, *data, reverse: bool = False):
        """Pass over the times, like `jax.lax.scan`.

        Args:
            body: (carry, (row, *data)) -> (carry, result).
            carry: Initial carry.
            data: Arrays of n rows, in the order of the sorted times.
            reverse: Whether to start from the last time.

        Returns:
            The carry and the results, arrays of n rows.
        """
        d = jnp.diff(self.t, append=self.t[-1:])

        @jax.checkpoint
        def over_block(carry, block):
            t, d, noise, observed, *others = block
            rows = Row(*transitions(self.space, t, d), noise, observed)
            return jax.lax.scan(body, carry, (rows, *others), reverse=reverse)

        blocks = in_blocks(self.space.size, self.t, d, self.noise, self.observed, *data)
        carry, results = jax.lax.scan(over_block, carry, blocks, reverse=reverse)
        return carry, jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[: len(d)], results)


def transitions(
    space: StateSpace, t: jax.Array, d: jax.Array
) -> tuple[Repeated, Weighted, jax.Array]:
    """A, Q and h at the times t (n,), for steps d (n,) to the next times."""
    return jax.vmap(lambda t, d: (*space.step(t, d), space.h(t)))(t, d)


def block_length(size: int) -> int:
    """Number of times in a block, for states of `size` numbers."""
    return BLOCK_STEPS if size <= MAX_STATE_OF_LONG_BLOCKS else BLOCK_STEPS // 4


def in_blocks(size: int, t, d, noise, observed, *data) -> tuple[jax.Array, ...]:
    """Arrays of n rows in blocks, padded with copies of the last row.

    The copies are unobserved, and their steps d are 0.
    """
    length = block_length(size)
    blocks = -(-len(t) // length)

    def padded(x, mode="edge"):
        x = jnp.pad(x, [(0, blocks * length - len(t))] + [(0, 0)] * (x.ndim - 1), mode)
        return x.reshape(blocks, length, *x.shape[1:])

    return padded(t), padded(d), padded(noise), padded(observed, "constant"), *map(padded, data)


class FilterCovariance(NamedTuple):
    """Covariance of the state given the values so far.

    Attributes:
        P: The covariance, shape (s, s).
        rounding: Threshold below which a variance of f is rounding error.
    """

    P: jax.Array
    rounding: jax.Array

    def update(self, row: Row) -> tuple[jax.Array, jax.Array, FilterCovariance]:
        """Variance S of the value, gain P h / S (s,), and covariance given the value.

        S is 0 if the variance is within rounding error. An unobserved value is treated as
        independent of the state with variance 1.
        """
        Ph = self.P @ row.h
        f = row.h @ Ph
        S = jnp.where(f + row.noise > self.rounding, f + row.noise, 0.0)
        S = jnp.where(row.observed > 0.0, S, 1.0)
        gain = Ph * (row.observed / jnp.where(S > 0.0, S, 1.0))
        # Rounding error of the difference below, of two numbers of the order of f.
        rounding = jnp.where(row.observed > 0.0, 4.0 * jnp.finfo(f.dtype).eps * f, self.rounding)
        P = self.P - gain[:, None] * Ph[None, :]
        return S, gain, FilterCovariance(P, jax.lax.stop_gradient(rounding))

    def predict(self, row: Row) -> FilterCovariance:
        """Covariance of the state at the next time."""
        return self._replace(P=row.A @ self.P @ row.A.T + row.Q.dense())


class MarkovFactor(Factor):
    """Covariance matrix of a state-space model. Created by `compute`.

    K_ij = h(t_i)'Cov(x(t_i), x(t_j)) h(t_j), plus noise on the diagonal. L is lower triangular in
    the order of time. Products take O(n s b) time per column, the diagonal of the inverse
    O(n s^2 b).

    Attributes:
        process: The observed process.
        sd: Diagonal of L, the sds of the innovations, shape (n,).
        gain: Kalman gains, shape (n, s).
        jitter: 0.
    """

    process: ObservedProcess
    sd: jax.Array
    gain: jax.Array
    jitter: jax.Array

    @classmethod
    def compute(cls, process: ObservedProcess) -> MarkovFactor:
        """Factor the covariance matrix of the values of a process.

        Raises:
            NotPositiveDefiniteError: The variance of an innovation is 0 up to rounding. Under
                `jax.jit` its sd is NaN instead.
        """

        def body(covariance, data):
            (row,) = data
            S, gain, covariance = covariance.update(row)
            return covariance.predict(row), (S, gain)

        _, (S, gain) = process.scan(body, process.initial)
        sd = jnp.sqrt(jnp.where(S > 0.0, S, jnp.nan))
        if not is_traced(sd) and not np.all(np.isfinite(sd)):
            first = int(np.argmax(~np.isfinite(sd)))
            raise NotPositiveDefiniteError(
                f"the value at time {float(process.t[first])!r} is determined by earlier values up "
                "to rounding, so the covariance matrix is singular. Increase the noise, or use "
                "solver='dense', which adds a jitter to the diagonal."
            )
        return cls(process=process, sd=sd, gain=gain, jitter=jnp.zeros(()))

    def whiten(self, B: AnyArray) -> jax.Array:
        def body(x, data):
            row, sd, gain, b = data
            v = b - row.observed * (row.h @ x)
            return row.A @ (x + jnp.multiply.outer(gain, v)), v / sd

        start = jnp.zeros((self.process.space.size, *B.shape[1:]))
        _, W = self.process.scan(body, start, self.sd, self.gain, B[self.process.order])
        return W

    def sqrt_mul(self, B: AnyArray) -> jax.Array:
        def body(x, data):
            row, sd, gain, w = data
            v = sd * w
            return row.A @ (x + jnp.multiply.outer(gain, v)), v + row.observed * (row.h @ x)

        start = jnp.zeros((self.process.space.size, *B.shape[1:]))
        _, Y = self.process.scan(body, start, self.sd, self.gain, B)
        return self.process.unsorted(Y)

    def logdet(self) -> jax.Array:
        return 2.0 * jnp.sum(jnp.log(self.sd))

    def inv_diag(self) -> jax.Array:
        def body(N, data):
            row, sd, gain = data
            N_after, N = information(N, row, gain, jnp.square(sd))
            return N, 1.0 / jnp.square(sd) + gain @ N_after @ gain

        s = self.process.space.size
        start = jnp.zeros((s, s))
        _, precision = self.process.scan(body, start, self.sd, self.gain, reverse=True)
        return self.process.unsorted(precision)


def information(
    N: jax.Array, row: Row, gain: jax.Array, S: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Information about the state from the values after a time, and from that time on.

    N: information from the later values about the state at the next time. S: variance of the value.
    De Jong (1989).
    """
    N_after = row.A.T @ N @ row.A
    # R'N_after R + h h'/S with the update R = I - gain h', as N_after + w h' + h w', which stays
    # symmetric.
    u = N_after @ gain
    w = 0.5 * (gain @ u + row.observed / S) * row.h - u
    return N_after, N_after + w[:, None] * row.h + row.h[:, None] * w
