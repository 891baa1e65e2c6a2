"""Log density of a state-space model, with a hand-written derivative.

The derivative is a backward pass over the times: the slopes of the density of all later values in
the mean and covariance of the state at one time follow from those at the next time. The pass takes
about as long as the filter, which is run again for it, block by block; differentiating through the
filter would take several times as long. Koopman and Shephard (1992), "Exact score for
time series models in state space form".
"""

from __future__ import annotations

import operator
from functools import reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp

from bayeskern.kernels.state_space.blocks import Weighted
from bayeskern.kernels.state_space.space import StateSpace
from bayeskern.linalg.factor import AnyArray
from bayeskern.linalg.markov.factor import (
    FilterCovariance,
    ObservedProcess,
    Row,
    in_blocks,
    moves,
)


def log_density(process: ObservedProcess, r: AnyArray) -> jax.Array:
    """log N(r; 0, K) of residuals r (n,), in the original order of the times.

    It can be differentiated twice.

    Returns:
        A number; -inf, with a gradient of 0, if K is not positive definite.
    """
    d = jnp.diff(process.t, append=process.t[-1:])
    rows = (process.t, d, process.noise, process.counts, r[process.order])
    # Integers have no derivatives that could be added up.
    return _log_density(
        *jax.tree.map(lambda x: jnp.asarray(x, float), (process.space, process.initial.P, rows))
    )


@jax.custom_jvp
def _log_density(space: StateSpace, P, rows):
    """P: covariance of the state at the first time; rows: t, d, noise, counts, r, each (n,)."""
    end, _ = _filter(space, P, rows)
    return end.value(rows)


@_log_density.defjvp
def _log_density_jvp(primals, tangents):
    value, gradient = _value_and_gradient(*primals)
    products = jax.tree.map(jnp.vdot, gradient, tangents)
    return value, reduce(operator.add, jax.tree.leaves(products))


class FilterState(NamedTuple):
    """Carry of the filter.

    Attributes:
        x: Mean of the state, shape (s,).
        covariance: Covariance of the state.
        total: Sum of squared scaled innovations and log variances so far.
        positive: Whether all variances so far are positive.
    """

    x: jax.Array
    covariance: FilterCovariance
    total: jax.Array
    positive: jax.Array

    def value(self, rows) -> jax.Array:
        """Log density after the last time."""
        counted = jnp.sum(rows[3])
        value = -0.5 * (self.total + counted * jnp.log(2.0 * jnp.pi))
        return jnp.where(self.positive & jnp.isfinite(value), value, -jnp.inf)

    def step(self, row: Row, y: jax.Array) -> tuple[FilterState, tuple]:
        """State at the next time, and the numbers that its derivative needs."""
        S, gain, covariance = self.covariance.update(row)
        v = row.counts * (y - row.h @ self.x)
        positive, S = self.positive & (S > 0.0), jnp.where(S > 0.0, S, 1.0)
        x, total = self.x + gain * v, self.total + v * v / S + jnp.log(S)
        kept = (x, covariance.P, S, gain, v)
        return FilterState(row.A @ x, covariance.predict(row), total, positive), kept


def _filter(space: StateSpace, P, rows) -> tuple[FilterState, FilterState]:
    """Last state of the filter, and the states before each block."""

    def over_block(state, block):
        t, d, noise, counts, r = block
        steps = Row(*moves(space, t, d), noise, counts)
        end, _ = jax.lax.scan(lambda s, data: (s.step(*data)[0], None), state, (steps, r))
        return end, state

    start = FilterState(
        jnp.zeros(space.size),
        FilterCovariance(P, jnp.zeros(())),
        jnp.zeros(()),
        jnp.asarray(True),
    )
    return jax.lax.scan(over_block, start, in_blocks(space.size, *rows))


def _value_and_gradient(space: StateSpace, P, rows):
    end, starts = _filter(space, P, rows)

    def over_block(carry, block):
        slope, of_space = carry
        state, (t, d, noise, counts, r) = block
        (A, Q, h), pull = jax.vjp(moves, space, t, d)
        rows = Row(A, Q, h, noise, counts)
        _, kept = jax.lax.scan(lambda s, data: s.step(*data), state, (rows, r))
        slope, (of_rows, of_r) = jax.lax.scan(_step_back, slope, (rows, *kept), reverse=True)
        more, of_t, of_d = pull((of_rows.A, of_rows.Q, of_rows.h))
        of_space = jax.tree.map(jnp.add, of_space, more)
        return (slope, of_space), (of_t, of_d, of_rows.noise, of_rows.counts, of_r)

    slope = jnp.zeros(space.size), jnp.zeros((space.size, space.size))
    blocks = starts, in_blocks(space.size, *rows)
    carry = slope, jax.tree.map(jnp.zeros_like, space)
    ((_, of_P), of_space), of_rows = jax.lax.scan(over_block, carry, blocks, reverse=True)
    n = len(rows[0])
    of_rows = tuple(x.reshape(-1)[:n] for x in of_rows)
    value = end.value(rows)
    gradient = jax.tree.map(
        lambda x: jnp.where(jnp.isfinite(value), x, 0.0), (of_space, of_P, of_rows)
    )
    return value, gradient


def _step_back(slope, data):
    """Slopes in the mean and covariance of this state, from those in the next state.

    Returns:
        The slopes (s,), (s, s); then the slopes in the row and in its value.
    """
    of_x, of_P = slope
    row, x, P, S, gain, v = data
    # The step from x, P to A x, A P A' + Q, which is symmetric in its two factors A.
    one_side = of_P @ row.A
    of_A = jax.tree.map(
        jnp.add, row.A.slope(of_x[:, None], x[:, None]), row.A.slope(2.0 * one_side, P)
    )
    (of_Q,) = jax.vjp(Weighted.dense, row.Q)[1](of_P)
    of_x, of_P = row.A.T @ of_x, row.A.T @ one_side
    # The value, by which x = m + p v / S and P = M - p p' / S, with p = M h and S = h'p + noise.
    u = of_P @ gain
    e = v / S - gain @ of_x
    of_S = 0.5 * row.counts * (jnp.square(v / S) - 1.0 / S) - (of_x @ gain) * v / S + gain @ u
    of_p = of_x * (v / S) - 2.0 * u + of_S * row.h
    of_h = P @ of_p + gain * (S * (gain @ of_p + of_S)) + (x - gain * v) * e
    of_x = of_x + row.h * e
    half = 0.5 * of_p
    of_P = of_P + half[:, None] * row.h + row.h[:, None] * half
    of_row = Row(of_A, of_Q, of_h, of_S, jnp.zeros_like(S))
    return (of_x, of_P), (of_row, -e)
