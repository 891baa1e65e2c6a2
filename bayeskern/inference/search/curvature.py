"""Curvature of -log p: the Hessian, the Gauss-Newton matrix or the Fisher matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.inference.search.information import LocalDensity
from bayeskern.inference.search.objective import NegativeLogDensity


@dataclass(frozen=True, eq=False)
class HessianAt:
    """Curvature of the objective at z, computed on the first call.

    Attributes: as the arguments of `hessian_at`.
    """

    objective: NegativeLogDensity
    z: np.ndarray
    kind: str

    def __call__(self) -> np.ndarray:
        return self._matrix

    @cached_property
    def _matrix(self) -> np.ndarray:
        return np.asarray(hessian_at(self.objective, self.z, self.kind))


def hessian_at(
    objective: NegativeLogDensity, z: jax.Array | np.ndarray, kind: str = "exact"
) -> jax.Array:
    """Curvature of the objective at z, (d, d).

    Args:
        objective: -log p.
        z: A point, (d,).
        kind: "exact" for the Hessian, or one of `CURVATURES`.
    """
    function = objective if kind == "exact" else LocalDensity.at_point(objective.target, z, kind)
    return derivatives(function, z)[2]


def derivatives(
    objective: Callable[[jax.Array], jax.Array], z: jax.Array | np.ndarray
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Value, gradient and Hessian of a function at z (d,).

    The Hessian comes from automatic differentiation, or from finite differences of the gradient if
    the function has no forward mode.
    """
    try:
        return _derivatives(objective, z, forward=True)
    except TypeError as reason:
        # JAX's message about functions without a forward mode, such as solvers of equations.
        if "forward-mode autodiff (jvp) to a custom_vjp" not in str(reason):
            raise
        return _derivatives(objective, z, forward=False)


@eqx.filter_jit
def _derivatives(objective, z, forward):
    """`derivatives`; the Hessian by forward mode, or by central differences of the gradient."""
    differentiate = jax.value_and_grad(objective)
    # The gradient comes from a solver: a shorter step would amplify its tolerance.
    steps = 1e-4 * jnp.maximum(1.0, jnp.abs(z))

    def difference(direction):
        # A unit vector: one entry of the step is not zero.
        step = steps * direction
        right, left = differentiate(z + step)[1], differentiate(z - step)[1]
        return (right - left) / (2.0 * jnp.sum(step))

    if forward:
        (value, gradient), tangent_map = jax.linearize(differentiate, z)
    else:
        value, gradient = differentiate(z)
    # One column at a time, which bounds the memory.
    columns = jax.lax.map(
        lambda e: tangent_map(e)[1] if forward else difference(e), jnp.eye(len(z), dtype=z.dtype)
    )
    return value, gradient, 0.5 * (columns + columns.T)
