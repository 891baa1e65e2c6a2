"""Arrays that a model is called with and that its density does not depend on."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters.partial_eval import dce_jaxpr

from bayeskern.inference.model.target import Target


def ignores_data(target: Target) -> bool:
    """True if no site is observed and the density does not depend on some array argument.

    So it is where data were forgotten (no `obs=`), which leaves the prior. A model whose array
    arguments are parameters depends on all of them.
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
