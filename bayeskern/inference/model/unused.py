"""Arrays that a model is called with and that its density does not depend on."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters.partial_eval import dce_jaxpr

from bayeskern.inference.model.target import Target


def ignores_data(target: Target) -> bool:
    """Whether no site is observed, and the density does not depend on some array argument.

    A model whose data were forgotten (no `obs=`) is its own prior. One without data is not meant:
    it may take arrays as parameters, all of which its density depends on.
    """
    if target.conditioned:
        return False
    arguments, rest = eqx.partition(target.arguments, eqx.is_array)

    def log_density(arguments, z):
        whole = eqx.tree_at(lambda t: t.arguments, target, eqx.combine(arguments, rest))
        return whole.log_density(z)

    arrays = jax.tree.map(jnp.asarray, arguments)
    program = jax.make_jaxpr(log_density)(arrays, jnp.zeros(target.size)).jaxpr
    _, used = dce_jaxpr(program, [True] * len(program.outvars))
    leaves = zip(jax.tree.leaves(arrays), used, strict=False)
    return any(np.ndim(leaf) > 0 and not is_used for leaf, is_used in leaves)
