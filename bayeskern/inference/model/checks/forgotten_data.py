"""Data that a model does not condition on."""

from __future__ import annotations

import inspect

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters.partial_eval import dce_jaxpr

from bayeskern.inference.model.target import Target


def forgets_data(target: Target) -> bool:
    """True if no site is observed, and data are None or the density does not depend on them.

    The posterior is the prior then. A density without data does not count, nor does one that
    depends on all its arrays.
    """
    return not target.conditioned and (_is_called_with_none(target) or _ignores_an_array(target))


def _is_called_with_none(target: Target) -> bool:
    """True if an argument of the model is None, passed or by default, as in `model(X, y=None)`."""
    try:
        call = inspect.signature(target.model).bind(*target.args, **target.kwargs)
    except (TypeError, ValueError):
        return False
    call.apply_defaults()
    return any(value is None for value in call.arguments.values())


def _ignores_an_array(target: Target) -> bool:
    """True if the density does not depend on some array that the model is called with."""
    arguments, rest = eqx.partition(target.arguments, eqx.is_array)

    def log_density(arguments: tuple, z: jax.Array) -> jax.Array:
        whole = eqx.tree_at(lambda t: t.arguments, target, eqx.combine(arguments, rest))
        return whole.log_density(z)

    arrays = jax.tree.map(jnp.asarray, arguments)
    program = jax.make_jaxpr(log_density)(arrays, jnp.zeros(target.size)).jaxpr
    _, used = dce_jaxpr(program, [True] * len(program.outvars))
    leaves = zip(jax.tree.leaves(arrays), used, strict=False)
    return any(np.ndim(leaf) > 0 and not is_used for leaf, is_used in leaves)
