"""A function of z, its value and gradient, compiled once and called often from Python."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import equinox as eqx
import jax
import numpy as np

# As many objectives have their compiled functions at hand.
KEPT = 64


def compiled(objective: Callable) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    """From z (d,) to the value of an objective and its gradient (d,), in NumPy.

    objective: a pytree that is called with z. `eqx.filter_jit` takes 0.2 ms a call to tell its
    arrays from the rest; here that is done once.
    """
    arrays, rest = eqx.partition(objective, eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)
    others, structure_of_others = jax.tree.flatten(rest)
    differentiate = _compiled(structure, tuple(others), structure_of_others)

    def evaluate(z):
        value, gradient = differentiate(leaves, z)
        return float(value), np.asarray(gradient)

    return evaluate


@lru_cache(maxsize=KEPT)
def _compiled(structure, others, structure_of_others):
    rest = jax.tree.unflatten(structure_of_others, others)

    @jax.jit
    def value_and_gradient(leaves, z):
        objective = eqx.combine(jax.tree.unflatten(structure, leaves), rest)
        return jax.value_and_grad(objective)(z)

    return value_and_gradient
