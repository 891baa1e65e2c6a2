"""What values of a process with a state say of it at other times.

The times of the values and the others are passed over together, there and back: O(n + m) for n
values and m other times. De Jong (1989), "Smoothing and interpolation with the state-space model".
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from bayeskern.kernels.state_space import StateSpace
from bayeskern.linalg.markov import Series, from_here_on


def weighted_covariances(space: StateSpace, t, weights, t_new) -> jax.Array:
    """sum_i weights_i Cov(f(t_i), f(t_new)): t, weights (n,), t_new (m,) -> (m,)."""
    times, none = jnp.concatenate([t, t_new]), jnp.zeros(len(t_new))
    series = Series.of(space, times, 0.0, jnp.concatenate([jnp.ones(len(t)), none]))
    return product(series, jnp.concatenate([weights, none]))[len(t) :]


def product(series: Series, weights) -> jax.Array:
    """sum_i weights_i Cov(f(t_i), f(t)) at each time t of a series, of those that count: (n,)."""
    a, space = weights[series.order], series.space
    seen = space.seen

    def forward(z, row):
        # z: what the values up to here add to the state; with_f: its covariances with f before.
        A, _, _, counts, a, t = row
        with_f = space.covariance(t)[:, seen].sum(axis=1)
        z = z + counts * a * with_f
        return A @ z, (z[seen].sum(), with_f)

    _, (before, with_f) = series.scan(forward, jnp.zeros(space.size), a, series.t)

    def backward(u, row):
        # u: the same of the values after this one, per unit of the state.
        A, _, _, counts, a, before, with_f = row
        u = A.T @ u
        return u + counts * a * space.h, before + with_f @ u

    _, sums = series.scan(backward, jnp.zeros(space.size), a, before, with_f, reverse=True)
    return series.unsorted(sums)


def variances(space: StateSpace, h, t, noise, observed, t_new) -> jax.Array:
    """The variances of h'x(t_new) given the values at t: (m,).

    h: (s,), that of f or of a component; noise: () or (n,); observed: (n,) or None.
    """
    n, m = len(t), len(t_new)
    counts = jnp.ones(n) if observed is None else jnp.asarray(observed, t.dtype)
    noise = jnp.concatenate([jnp.broadcast_to(noise, (n,)), jnp.ones(m)])
    times = jnp.concatenate([t, t_new])
    series = Series.of(space, times, noise, jnp.concatenate([counts, jnp.zeros(m)]))
    f = jnp.asarray(space.h)

    def forward(known, row):
        A, Q, noise, counts = row
        Ph = known.P @ h
        S, gain, known = known.given(space.seen, noise, counts)
        return known.later(A, Q), (S, gain, Ph)

    _, steps = series.scan(forward, series.initial)

    def backward(N, row):
        # N: how much the values after this one say of the state.
        A, _, _, counts, S, gain, Ph = row
        _, N = from_here_on(N, A, f, gain, counts / S)
        return N, h @ Ph - Ph @ N @ Ph

    _, left = series.scan(backward, jnp.zeros((len(f), len(f))), *steps, reverse=True)
    return series.unsorted(left)[n:]
