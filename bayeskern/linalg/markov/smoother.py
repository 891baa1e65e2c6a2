"""Posterior mean and variance of a state-space model at other times.

The n times of the values and the m other times are sorted together; a forward and a backward pass
take O(n + m) time. De Jong (1989), "Smoothing and interpolation with the state-space model".
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
    """sum_i weights_i Cov(f(t_i), f(t_new)), (m,), for t and weights (n,), t_new (m,)."""
    times, zeros = jnp.concatenate([t, t_new]), jnp.zeros(len(t_new))
    process = ObservedProcess.of(space, times, 0.0, jnp.concatenate([jnp.ones(len(t)), zeros]))
    return product(process, jnp.concatenate([weights, zeros]))[len(t) :]


def product(process: ObservedProcess, weights: AnyArray) -> jax.Array:
    """sum_i weights_i Cov(f_i, f_j) over observed rows i, for each row j.

    f does not include the noise.
    """
    a, space = process.sorted(weights), process.space

    def forward(carry, data):
        # z: sum over rows i up to this step of weights_i Cov(f_i, x), with the state x in this
        # step; c: Cov(x, f) for the row of this step.
        z, P = carry
        row, a, step = data
        P = step.prior(space, P)
        c = P @ row.h
        z = z + row.observed * a * c
        return (row.A @ z, row.A @ P @ row.A.T + row.Q.dense()), (row.h @ z, c)

    start = jnp.zeros(process.size), process.initial.P
    _, (sums_up_to, c) = process.scan(forward, start, a, process.steps)

    def backward(u, data):
        # u: sum over later rows i of weights_i A'h, since Cov(x, f_i) = Cov(x) A'h.
        row, a, sum_up_to, c = data
        u = row.A.T @ u
        return u + row.observed * a * row.h, sum_up_to + c @ u

    _, sums = process.scan(backward, jnp.zeros(process.size), a, sums_up_to, c, reverse=True)
    return process.unsorted(sums)


def variances(
    space: StateSpace,
    state_mask: AnyArray,
    t: AnyArray,
    noise: ArrayLike,
    observed: AnyArray | None,
    t_new: AnyArray,
) -> jax.Array:
    """Variances of f, or of a component of it, at t_new given the values at t: (m,).

    Args:
        space: The state-space model.
        state_mask: 1.0 for the state variables of the component, 0.0 for the others, (s,).
        t: Times of the values, shape (n,).
        noise: Noise variance, a number or shape (n,).
        observed: Mask of the observed values, shape (n,); None for all.
        t_new: Other times, shape (m,).
    """
    n, m = len(t), len(t_new)
    observed = jnp.ones(n) if observed is None else jnp.asarray(observed, t.dtype)
    noise = jnp.concatenate([jnp.broadcast_to(noise, (n,)), jnp.ones(m)])
    times = jnp.concatenate([t, t_new])
    process = ObservedProcess.of(space, times, noise, jnp.concatenate([observed, jnp.zeros(m)]))

    def forward(covariance, data):
        (row,) = data
        Ph = covariance.P @ (state_mask * row.h)
        S, gain, covariance = covariance.update(row)
        return covariance.predict(row), (S, gain, Ph)

    _, steps = process.scan(forward, process.initial)

    def backward(N, data):
        # N: information about the state from the values after this time. `information` adds the
        # value at this time.
        row, S, gain, Ph = data
        _, N = information(N, row, gain, S)
        return N, (state_mask * row.h) @ Ph - Ph @ N @ Ph

    start = jnp.zeros((space.size, space.size))
    _, results = process.scan(backward, start, *steps, reverse=True)
    return process.unsorted(results)[n:]
