"""What values of a process with a state say of it at other times.

The times of the values and the others are passed over together, there and back: O(n + m) for n
values and m other times. De Jong (1989), "Smoothing and interpolation with the state-space model".
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from bayeskern.kernels.state_space.space import StateSpace
from bayeskern.linalg.markov.factor import ObservedProcess, from_here_on


def weighted_covariances(space: StateSpace, t, weights, t_new) -> jax.Array:
    """sum_i weights_i Cov(f(t_i), f(t_new)): t, weights (n,), t_new (m,) -> (m,)."""
    times, none = jnp.concatenate([t, t_new]), jnp.zeros(len(t_new))
    series = ObservedProcess.of(space, times, 0.0, jnp.concatenate([jnp.ones(len(t)), none]))
    return product(series, jnp.concatenate([weights, none]))[len(t) :]


def product(series: ObservedProcess, weights) -> jax.Array:
    """sum_i weights_i Cov(f(t_i), f(t)) at each time t of a series, of those that count: (n,)."""
    a, space = weights[series.order], series.space

    def forward(z, data):
        # z: what the values up to here add to the state; with_f: its covariances with f before.
        row, a, t = data
        with_f = space.covariance(t) @ row.h
        z = z + row.counts * a * with_f
        return row.A @ z, (row.h @ z, with_f)

    _, (before, with_f) = series.scan(forward, jnp.zeros(space.size), a, series.t)

    def backward(u, data):
        # u: the same of the values after this one, per unit of the state.
        row, a, before, with_f = data
        u = row.A.T @ u
        return u + row.counts * a * row.h, before + with_f @ u

    _, sums = series.scan(backward, jnp.zeros(space.size), a, before, with_f, reverse=True)
    return series.unsorted(sums)


def variances(space: StateSpace, counted, t, noise, observed, t_new) -> jax.Array:
    """The variances of f, or of a component of it, at t_new given the values at t: (m,).

    counted: 1.0 for the numbers of the state that are of the component, and else 0.0: (s,); noise:
    () or (n,); observed: (n,) or None.
    """
    n, m = len(t), len(t_new)
    counts = jnp.ones(n) if observed is None else jnp.asarray(observed, t.dtype)
    noise = jnp.concatenate([jnp.broadcast_to(noise, (n,)), jnp.ones(m)])
    times = jnp.concatenate([t, t_new])
    series = ObservedProcess.of(space, times, noise, jnp.concatenate([counts, jnp.zeros(m)]))

    def forward(known, data):
        (row,) = data
        Ph = known.P @ (counted * row.h)
        S, gain, known = known.given(row)
        return known.later(row), (S, gain, Ph)

    _, steps = series.scan(forward, series.initial)

    def backward(N, data):
        # N: how much the values after this one say of the state.
        row, S, gain, Ph = data
        _, N = from_here_on(N, row, gain, S)
        return N, (counted * row.h) @ Ph - Ph @ N @ Ph

    nothing = jnp.zeros((space.size, space.size))
    _, left = series.scan(backward, nothing, *steps, reverse=True)
    return series.unsorted(left)[n:]
