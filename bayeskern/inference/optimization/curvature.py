"""Derivatives of -log p, and its curvature: the Hessian itself, Gauss-Newton's or Fisher's."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp

from bayeskern.inference.optimization.information import LocalDensity
from bayeskern.inference.optimization.objective import NegativeLogDensity

# What JAX says of functions that have derivatives in reverse mode only.
NO_FORWARD_MODE = "forward-mode autodiff (jvp) to a custom_vjp"
# The step of the differences of a gradient that was computed by a solver.
DIFFERENCE = 1e-4


def hessian_at(objective: NegativeLogDensity, z, kind: str = "exact") -> jax.Array:
    """The Hessian of the objective at z, (d, d), or the matrix that `kind` puts in its place.

    kind: "exact", or one of `information.KINDS`.
    """
    function = objective if kind == "exact" else LocalDensity.of(objective.target, z, kind)
    return derivatives(function, z)[2]


def derivatives(objective, z):
    """Value, gradient and Hessian; by differences of the gradient where it has no derivatives."""
    try:
        return _all_derivatives(objective, z)
    except TypeError as reason:
        if NO_FORWARD_MODE not in str(reason):
            raise
        return _derivatives_by_differences(objective, z)


@eqx.filter_jit
def _all_derivatives(objective, z):
    """One column of the Hessian at a time, to bound the memory."""
    (value, gradient), along = jax.linearize(jax.value_and_grad(objective), z)
    columns = jax.lax.map(lambda e: along(e)[1], jnp.eye(z.shape[0], dtype=z.dtype))
    return value, gradient, 0.5 * (columns + columns.T)


@eqx.filter_jit
def _derivatives_by_differences(objective, z):
    """For densities with derivatives in reverse mode only, as solvers of equations have them."""
    differentiate = jax.value_and_grad(objective)
    value, gradient = differentiate(z)
    steps = DIFFERENCE * jnp.maximum(1.0, jnp.abs(z))

    def column(direction):
        step = steps * direction
        ahead, behind = differentiate(z + step)[1], differentiate(z - step)[1]
        return (ahead - behind) / (2.0 * jnp.sum(step))

    columns = jax.lax.map(column, jnp.eye(z.shape[0], dtype=z.dtype))
    return value, gradient, 0.5 * (columns + columns.T)
