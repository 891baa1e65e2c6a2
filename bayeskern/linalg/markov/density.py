"""Log density of a state-space model, with a hand-written derivative.

The derivative is a backward pass over the times. From each time to the previous one, it propagates
the gradient of the log density of all later values with respect to the mean and covariance of the
state. The pass recomputes the filter block by block and takes about as long as the filter;
automatic differentiation of the filter would take several times as long. Koopman and Shephard
(1992), "Exact score for time series models in state space form".

In the code, g_x is the gradient of the log density with respect to x.
"""

from __future__ import annotations

import operator
from functools import reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp

from bayeskern.kernels.state_space.space import StateSpace
from bayeskern.linalg.factor import AnyArray
from bayeskern.linalg.markov.factor import (
    FilterCovariance,
    ObservedProcess,
    Row,
    in_blocks,
    transitions,
)


def log_density(process: ObservedProcess, r: AnyArray) -> jax.Array:
    """log N(r; 0, K) of residuals r (n,), in the original order of the times.

    It can be differentiated twice.

    Returns:
        A number; -inf, with a gradient of 0, if K is not positive definite.
    """
    rows = (process.steps, process.noise, process.observed, process.sorted(r))
    # As floats: gradients with respect to integers cannot be added.
    return _log_density(
        *jax.tree.map(lambda x: jnp.asarray(x, float), (process.space, process.initial.P, rows))
    )


@jax.custom_jvp
def _log_density(space: StateSpace, P, rows):
    """Log density of the values.

    P: covariance of the state in the first step. rows: (steps, noise, observed, r), for N steps,
    with the residuals r (N,).
    """
    end, _ = _filter(space, P, rows)
    return end.value(rows)


@_log_density.defjvp
def _log_density_jvp(primals, tangents):
    value, gradient = _value_and_gradient(*primals)
    products = jax.tree.map(jnp.vdot, gradient, tangents)
    return value, reduce(operator.add, jax.tree.leaves(products))


class FilterState(NamedTuple):
    """State of the filter before a step.

    Attributes:
        x: Mean of the state of the process, shape (s,).
        covariance: Covariance of the state of the process.
        total: Sum of v^2 / S + log S over the innovations v with variances S so far.
        positive: Whether all variances so far are positive.
    """

    x: jax.Array
    covariance: FilterCovariance
    total: jax.Array
    positive: jax.Array

    def value(self, rows) -> jax.Array:
        """Log density after the last time."""
        n_observed = jnp.sum(rows[2])
        value = -0.5 * (self.total + n_observed * jnp.log(2.0 * jnp.pi))
        return jnp.where(self.positive & jnp.isfinite(value), value, -jnp.inf)

    def step(self, row: Row, y: jax.Array) -> tuple[FilterState, tuple]:
        """State at the next time, and the arrays that the backward pass needs."""
        S, gain, covariance = self.covariance.update(row)
        v = row.observed * (y - row.h @ self.x)
        positive, S = self.positive & (S > 0.0), jnp.where(S > 0.0, S, 1.0)
        x, total = self.x + gain * v, self.total + v * v / S + jnp.log(S)
        saved = (x, covariance.P, S, gain, v)
        return FilterState(row.A @ x, covariance.predict(row), total, positive), saved


def _filter(space: StateSpace, P, rows) -> tuple[FilterState, FilterState]:
    """Filter state after the last step, and before each block."""

    def over_block(state, block):
        steps, noise, observed, r = block
        rows = Row(*transitions(space, steps), noise, observed)
        end, _ = jax.lax.scan(lambda s, data: (s.step(*data)[0], None), state, (rows, r))
        return end, state

    start = FilterState(
        jnp.zeros(len(P)),
        FilterCovariance(P, jnp.zeros(())),
        jnp.zeros(()),
        jnp.asarray(True),
    )
    return jax.lax.scan(over_block, start, in_blocks(len(P), *rows))


def _value_and_gradient(space: StateSpace, P, rows):
    """Log density, and its gradients with respect to the space, P and the rows."""
    end, starts = _filter(space, P, rows)

    def over_block(carry, block):
        state_gradient, g_space = carry
        state, (steps, noise, observed, r) = block
        (A, Q, h), pullback = jax.vjp(transitions, space, steps)
        rows = Row(A, Q, h, noise, observed)
        _, saved = jax.lax.scan(lambda s, data: s.step(*data), state, (rows, r))
        state_gradient, (g_rows, g_r) = jax.lax.scan(
            _step_back, state_gradient, (rows, *saved), reverse=True
        )
        g_block, g_steps = pullback((g_rows.A, g_rows.Q, g_rows.h))
        g_space = jax.tree.map(jnp.add, g_space, g_block)
        return (state_gradient, g_space), (g_steps, g_rows.noise, g_rows.observed, g_r)

    state_gradient = jnp.zeros(len(P)), jnp.zeros(P.shape)
    blocks = starts, in_blocks(len(P), *rows)
    carry = state_gradient, jax.tree.map(jnp.zeros_like, space)
    ((_, g_P), g_space), g_rows = jax.lax.scan(over_block, carry, blocks, reverse=True)
    n = len(rows[1])
    g_rows = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:n], g_rows)
    value = end.value(rows)
    gradient = jax.tree.map(
        lambda x: jnp.where(jnp.isfinite(value), x, 0.0), (g_space, g_P, g_rows)
    )
    return value, gradient


def _step_back(state_gradient, data):
    """Gradients at a time from the gradients at the next time.

    Args:
        state_gradient: Gradients with respect to the mean (s,) and covariance (s, s) of the next
            state.
        data: Row, and the arrays saved by `FilterState.step`: x and P given the value, S, gain, v.

    Returns:
        Gradients with respect to the mean and covariance at this time; then with respect to the row
        and its residual.
    """
    g_x, g_P = state_gradient
    row, x, P, S, gain, v = data
    # The step from x, P to A x, A P A' + Q. By symmetry, both factors A have the same gradient.
    one_side = g_P @ row.A
    g_A = jax.tree.map(
        jnp.add, row.A.slope(g_x[:, None], x[:, None]), row.A.slope(2.0 * one_side, P)
    )
    (g_Q,) = jax.vjp(lambda Q: Q.dense(), row.Q)[1](g_P)
    g_x, g_P = row.A.T @ g_x, row.A.T @ one_side
    # The update by the value: x = m + p v / S and P = M - p p' / S with the predicted mean m and
    # covariance M, p = M h, S = h'p + noise and v = y - h'm. The gain is p / S, so p = S gain and
    # M = P + S gain gain'. e is minus the gradient with respect to y.
    u = g_P @ gain
    e = v / S - gain @ g_x
    g_S = 0.5 * row.observed * (jnp.square(v / S) - 1.0 / S) - (g_x @ gain) * v / S + gain @ u
    g_p = g_x * (v / S) - 2.0 * u + g_S * row.h
    g_h = P @ g_p + gain * (S * (gain @ g_p + g_S)) + (x - gain * v) * e
    g_x = g_x + row.h * e
    half = 0.5 * g_p
    g_P = g_P + half[:, None] * row.h + row.h[:, None] * half
    g_row = Row(g_A, g_Q, g_h, g_S, jnp.zeros_like(S))
    return (g_x, g_P), (g_row, -e)
