"""Posterior mean and variance of a state-space model at other times.

One forward and one backward pass go over the times of the values and the other times together:
O(n + m) for n values and m other times. De Jong (1989), "Smoothing and interpolation with the
state-space model".
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from bayeskern.kernels.state_space.space import StateSpace
from bayeskern.linalg.factor import AnyArray
from bayeskern.linalg.markov.factor import ObservedProcess, information


def weighted_covariances(
    space: StateSpace, t: AnyArray, weights: AnyArray, t_new: AnyArray
) -> jax.Array:
    """sum_i weights_i Cov(f(t_i), f(t_new)): t, weights (n,), t_new (m,) -> (m,)."""
    times, zeros = jnp.concatenate([t, t_new]), jnp.zeros(len(t_new))
    process = ObservedProcess.of(space, times, 0.0, jnp.concatenate([jnp.ones(len(t)), zeros]))
    return product(process, jnp.concatenate([weights, zeros]))[len(t) :]


def product(process: ObservedProcess, weights: AnyArray) -> jax.Array:
    """Sum over the counted values of weights_i Cov(f(t_i), f(t)), at each time t."""
    a, space = weights[process.order], process.space

    def forward(z, data):
        # z: contribution of the values up to here to the state; with_f: Cov(state, f).
        row, a, t = data
        with_f = space.covariance(t) @ row.h
        z = z + row.counts * a * with_f
        return row.A @ z, (row.h @ z, with_f)

    _, (before, with_f) = process.scan(forward, jnp.zeros(space.size), a, process.t)

    def backward(u, data):
        # u: contribution of the values after this one, per unit of the state.
        row, a, before, with_f = data
        u = row.A.T @ u
        return u + row.counts * a * row.h, before + with_f @ u

    _, sums = process.scan(backward, jnp.zeros(space.size), a, before, with_f, reverse=True)
    return process.unsorted(sums)


def variances(
    space: StateSpace,
    counted: AnyArray,
    t: AnyArray,
    noise: ArrayLike,
    observed: AnyArray | None,
    t_new: AnyArray,
) -> jax.Array:
    """Variances of f, or of a component of it, at t_new given the values at t: (m,).

    Args:
        space: The state-space model.
        counted: 1.0 for the numbers of the state in the component, 0.0 for the others, (s,).
        t: Times of the values, shape (n,).
        noise: Noise variance, a number or shape (n,).
        observed: Mask of the values that count, shape (n,); None for all.
        t_new: Other times, shape (m,).
    """
    n, m = len(t), len(t_new)
    counts = jnp.ones(n) if observed is None else jnp.asarray(observed, t.dtype)
    noise = jnp.concatenate([jnp.broadcast_to(noise, (n,)), jnp.ones(m)])
    times = jnp.concatenate([t, t_new])
    process = ObservedProcess.of(space, times, noise, jnp.concatenate([counts, jnp.zeros(m)]))

    def forward(covariance, data):
        (row,) = data
        Ph = covariance.P @ (counted * row.h)
        S, gain, covariance = covariance.update(row)
        return covariance.predict(row), (S, gain, Ph)

    _, steps = process.scan(forward, process.initial)

    def backward(N, data):
        # N: information in the values after this one about the state.
        row, S, gain, Ph = data
        _, N = information(N, row, gain, S)
        return N, (counted * row.h) @ Ph - Ph @ N @ Ph

    start = jnp.zeros((space.size, space.size))
    _, results = process.scan(backward, start, *steps, reverse=True)
    return process.unsorted(results)[n:]
