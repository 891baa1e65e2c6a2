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
    """True if no site is observed, and an argument is None or an array has no effect.

    The posterior then equals the prior. False for a model without arguments, and for a density
    that depends on all arrays.
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
    """True if the density is independent of an array among the arguments."""
    arguments, rest = eqx.partition(target.arguments, eqx.is_array)

    def log_density(arguments: tuple, z: jax.Array) -> jax.Array:
        complete = eqx.tree_at(lambda t: t.arguments, target, eqx.combine(arguments, rest))
        return complete.log_density(z)

    arrays = jax.tree.map(jnp.asarray, arguments)
    program = jax.make_jaxpr(log_density)(arrays, jnp.zeros(target.size)).jaxpr
    _, used = dce_jaxpr(program, [True] * len(program.outvars))
    # The last entry of `used` is for z.
    leaves = zip(jax.tree.leaves(arrays), used, strict=False)
    return any(np.ndim(leaf) > 0 and not is_used for leaf, is_used in leaves)
