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
from bayeskern.kernels.state_space.space import StateSpace
from bayeskern.linalg.factor import AnyArray, Factor
from bayeskern.linalg.markov.steps import Noise, PointSteps, Steps, Transition

# Times per block. The transitions of a block are computed at once. For a gradient, its states are
# computed a second time.
BLOCK_STEPS = 256
# With larger states the blocks are shorter, so that they fit in the cache.
MAX_STATE_OF_LONG_BLOCKS = 8
# Smallest number of values added to a root of the information before it is made square again.
MIN_ADDED_VALUES = 8


class Row(NamedTuple):
    """State-space model in one step.

    Attributes:
        A: Transition matrix to the next step.
        Q: Noise covariance of the transition.
        h: Coefficients of the state in the value h'x.
        noise: Noise variance.
        observed: 1.0 if the value is observed, otherwise 0.0.
    """

    A: Transition
    Q: Noise
    h: jax.Array
    noise: jax.Array
    observed: jax.Array


class ObservedProcess(eqx.Module):
    """A state-space model observed with noise in n rows, in N steps of the filter.

    Attributes:
        space: The state-space model.
        steps: The N steps.
        noise: Noise variance in each step, shape (N,).
        observed: 1.0 if the row of the step is observed, otherwise 0.0, shape (N,).
        order: Original index of the row of each step, n for steps without a row, shape (N,).
        with_rows: Steps with a row, shape (n,); None for all.
    """

    space: StateSpace
    steps: Steps
    noise: jax.Array
    observed: jax.Array
    order: jax.Array
    with_rows: jax.Array | None = None

    @classmethod
    def of(
        cls,
        space: StateSpace,
        t: AnyArray,
        noise: ArrayLike,
        observed: AnyArray | None = None,
        order: AnyArray | None = None,
    ) -> ObservedProcess:
        """Process at unsorted, possibly repeated times.

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
        return cls(space, PointSteps.at(t[order]), noise[order], observed[order], order)

    @property
    def initial(self) -> FilterCovariance:
        """Covariance of the state at the first step; NaN if a term starts later."""
        return FilterCovariance(self.steps.initial(self.space), jnp.zeros(()))

    @property
    def size(self) -> int:
        """Size s of the state."""
        return self.steps.size(self.space)

    def sorted(self, rows: AnyArray) -> jax.Array:
        """Rows (n, ...) in the order of the steps; 0 for steps without a row."""
        return take(jnp.asarray(rows), self.order)

    def unsorted(self, rows: jax.Array) -> jax.Array:
        """Rows (N, ...) of the steps in the original order of the rows."""
        rows, order = self.of_rows(rows), self.of_rows(self.order)
        return jnp.zeros_like(rows).at[order].set(rows, unique_indices=True)

    def of_rows(self, x: jax.Array) -> jax.Array:
        """Entries (n, ...) of x (N, ...) for the steps with a row."""
        return x if self.with_rows is None else x[self.with_rows]

    def of_steps(self, x: AnyArray) -> jax.Array:
        """Entries (N, ...) from x (n, ...) for the steps with a row; 0 for the others."""
        if self.with_rows is None:
            return jnp.asarray(x)
        return jnp.zeros((len(self.order), *x.shape[1:])).at[self.with_rows].set(x)

    def scan(self, body: Callable, carry, *data, reverse: bool = False):
        """Pass over the steps, like `jax.lax.scan`.

        Args:
            body: (carry, (row, *data)) -> (carry, result).
            carry: Initial carry.
            data: Arrays of N rows, in the order of the steps, or pytrees of them.
            reverse: Whether to start from the last step.

        Returns:
            The carry and the results, arrays of N rows.
        """

        @jax.checkpoint
        def over_block(carry, block):
            steps, noise, observed, *others = block
            rows = Row(*transitions(self.space, steps), noise, observed)
            return jax.lax.scan(body, carry, (rows, *others), reverse=reverse)

        blocks = in_blocks(self.size, self.steps, self.noise, self.observed, *data)
        carry, results = jax.lax.scan(over_block, carry, blocks, reverse=reverse)
        return carry, self._joined(results)

    def scan_back(
        self, forward: Callable, of_block: Callable, backward: Callable, start: Callable, *data
    ):
        """Pass from the last step to the first, with results of a forward pass.

        The results are computed again block by block, to bound the memory.

        Args:
            forward: (covariance, (row,)) -> (covariance, results).
            of_block: (rows, results) of a block of steps -> results for `backward`.
            backward: (carry, (row, results, *data)) -> (carry, result).
            start: Initial carry of `backward` from the covariance after the last step.
            data: Arrays of N rows, in the order of the steps, or pytrees of them.

        Returns:
            The carry and the results of `backward`, arrays of N rows.
        """

        def over_block(covariance, block):
            rows = Row(*transitions(self.space, block[0]), *block[1:])
            after, _ = jax.lax.scan(forward, covariance, (rows,))
            return after, covariance

        @jax.checkpoint
        def back_over_block(carry, block):
            covariance, (steps, noise, observed, *others) = block
            rows = Row(*transitions(self.space, steps), noise, observed)
            _, results = jax.lax.scan(forward, covariance, (rows,))
            results = of_block(rows, results)
            return jax.lax.scan(backward, carry, (rows, results, *others), reverse=True)

        blocks = in_blocks(self.size, self.steps, self.noise, self.observed, *data)
        end, starts = jax.lax.scan(over_block, self.initial, blocks[:3])
        carry, results = jax.lax.scan(back_over_block, start(end), (starts, blocks), reverse=True)
        return carry, self._joined(results)

    def _joined(self, results):
        """Results of N steps, from results in blocks."""
        n = len(self.order)
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:n], results)


def transitions(space: StateSpace, steps: Steps) -> tuple[Transition, Noise, jax.Array]:
    """A, Q and h of N steps."""
    return jax.vmap(lambda step: (*step.transition(space), step.h(space)))(steps)


def take(x: jax.Array, index: jax.Array) -> jax.Array:
    """x[index], and 0 for indices outside."""
    return x.at[index].get(mode="fill", fill_value=0)


def block_length(size: int) -> int:
    """Number of times in a block, for states of `size` numbers."""
    return BLOCK_STEPS if size <= MAX_STATE_OF_LONG_BLOCKS else BLOCK_STEPS // 4


def in_blocks(size: int, steps, noise, observed, *data) -> tuple:
    """Arrays of N rows, or pytrees of them, in blocks padded with the last row.

    The rows that pad a block are unobserved, and the last step does not change the state.
    """
    length, n = block_length(size), len(noise)
    blocks = -(-n // length)

    def padded(x, mode="edge"):
        x = jnp.pad(x, [(0, blocks * length - n)] + [(0, 0)] * (x.ndim - 1), mode)
        return x.reshape(blocks, length, *x.shape[1:])

    steps, noise, data = jax.tree.map(padded, (steps, noise, data))
    return steps, noise, padded(observed, "constant"), *data


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

    def update_accurately(self, row: Row) -> tuple[jax.Array, jax.Array, FilterCovariance]:
        """Like `update`, in Joseph's form, which keeps more digits if the prior is vague.

        The log density takes `update`, which is faster.
        """
        S, gain, after = self.update(row)
        # P h is noise * gain up to the rounding errors of the difference in `update`.
        error = after.P @ row.h - row.noise * row.observed * gain
        return S, gain, after._replace(P=after.P - error[:, None] * gain[None, :])

    def predict(self, row: Row) -> FilterCovariance:
        """Covariance of the state at the next time."""
        return self._replace(P=row.A @ self.P @ row.A.T + row.Q.dense())


class MarkovFactor(Factor):
    """Covariance matrix of a state-space model. Created by `compute`.

    K_ij = h_i'Cov(x_i, x_j) h_j for the states x_i in the steps, plus noise on the diagonal. L is
    lower triangular in the order of time. Products take O(n s b) time per column, the diagonal of
    the inverse O(n s^2 b).

    Attributes:
        process: The observed process.
        sd: Diagonal of L, the sds of the innovations, in each step, shape (N,); 1 without a row.
        gain: Kalman gains, shape (N, s).
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
            S, gain, covariance = covariance.update_accurately(row)
            return covariance.predict(row), (S, gain)

        _, (S, gain) = process.scan(body, process.initial)
        sd = jnp.sqrt(jnp.where(S > 0.0, S, jnp.nan))
        if not is_traced(sd) and not np.all(np.isfinite(sd)):
            first = int(np.argmax(~np.isfinite(sd)))
            time = float(process.steps.t[first])
            raise NotPositiveDefiniteError(
                f"the value at time {time!r} is determined by earlier values up to rounding, so "
                "the covariance matrix is singular. Increase the noise, or use solver='dense', "
                "which adds a jitter to the diagonal."
            )
        return cls(process=process, sd=sd, gain=gain, jitter=jnp.zeros(()))

    def whiten(self, B: AnyArray) -> jax.Array:
        def body(x, data):
            row, sd, gain, b = data
            v = b - row.observed * (row.h @ x)
            return row.A @ (x + jnp.multiply.outer(gain, v)), v / sd

        start = jnp.zeros((self.process.size, *B.shape[1:]))
        _, W = self.process.scan(body, start, self.sd, self.gain, self.process.sorted(B))
        return self.process.of_rows(W)

    def sqrt_mul(self, B: AnyArray) -> jax.Array:
        def body(x, data):
            row, sd, gain, w = data
            v = sd * w
            return row.A @ (x + jnp.multiply.outer(gain, v)), v + row.observed * (row.h @ x)

        start = jnp.zeros((self.process.size, *B.shape[1:]))
        _, Y = self.process.scan(body, start, self.sd, self.gain, self.process.of_steps(B))
        return self.process.unsorted(Y)

    def logdet(self) -> jax.Array:
        return 2.0 * jnp.sum(jnp.log(self.sd))

    def inv_diag(self) -> jax.Array:
        informed = informed_products(self.process, self.sd, self.gain, self.gain)
        precisions = 1.0 / jnp.square(self.sd) + jnp.sum(self.gain * informed, axis=1)
        return self.process.unsorted(precisions)


@jax.custom_jvp
def informed_products(
    process: ObservedProcess, sd: jax.Array, gain: jax.Array, vectors: jax.Array
) -> jax.Array:
    """N_i v_i, (N, s), with the information N_i about the state i in the values after it.

    For v_i = Cov(x_i) h given the earlier values, the later values reduce the variance of h'x_i by
    v_i' N_i v_i. De Jong (1989). The columns of the root B, N = B B', keep their own digits: in N
    itself, the rounding errors of a precise value remain after the filter has taken out what an
    earlier value at nearly the same time explains.

    Args:
        process: The observed process.
        sd: Sds of the innovations, shape (N,).
        gain: Kalman gains, shape (N, s).
        vectors: The vectors, shape (N, s).
    """
    size = process.size
    added = max(size, MIN_ADDED_VALUES)

    def body(carry, data):
        B, count = carry
        row, sd, gain, v = data
        B = row.A.T @ B
        product = B @ (v @ B)
        B = _updated(row.h, gain, B)
        B = B.at[:, size + count].set(row.observed / sd * row.h)
        count = count + 1
        B = jax.lax.cond(count == added, compressed, lambda B: B, B)
        return (B, count % added), product

    def compressed(B):
        return jnp.zeros_like(B).at[:, :size].set(jnp.linalg.qr(B.T, mode="r").T)

    start = jnp.zeros((size, size + added)), 0
    _, products = process.scan(body, start, sd, gain, vectors, reverse=True)
    return products


def _differentiable_products(process, sd, gain, vectors):
    """`informed_products` by N itself, which has derivatives where the root of N has none."""

    def body(N, data):
        row, sd, gain, v = data
        N = row.A.T @ N @ row.A
        product = N @ v
        N = _updated(row.h, gain, _updated(row.h, gain, N).T)
        return N + row.observed / jnp.square(sd) * jnp.outer(row.h, row.h), product

    start = jnp.zeros((process.size,) * 2)
    _, products = process.scan(body, start, sd, gain, vectors, reverse=True)
    return products


def _updated(h: jax.Array, gain: jax.Array, X: jax.Array) -> jax.Array:
    """(I - h gain') X, for X (s, m): the transposed update of the state by a value h'x."""
    return X - jnp.outer(h, gain @ X)


@informed_products.defjvp
def _informed_products_jvp(primals, tangents):
    _, tangent = jax.jvp(_differentiable_products, primals, tangents)
    return informed_products(*primals), tangent
