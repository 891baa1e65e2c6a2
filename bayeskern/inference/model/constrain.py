"""From unconstrained draws to the sites of the model."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core.batching import BATCH
from bayeskern.inference.model.target import Target


@eqx.filter_jit
def _constrain(target, z):
    flat = z.reshape(z.shape[0] * z.shape[1], z.shape[2])

    def sized(z):
        # JAX cannot map what has no numbers.
        return {k: v for k, v in target.constrain(z).items() if v.size}

    flat_sites = jax.lax.map(sized, flat, batch_size=BATCH)
    shapes = jax.eval_shape(target.constrain, flat[0])
    return {
        k: jnp.reshape(flat_sites.get(k, jnp.zeros(0, s.dtype)), z.shape[:-1] + s.shape)
        for k, s in shapes.items()
    }


def constrain(target: Target, z) -> dict[str, np.ndarray]:
    """The sites at z: (chains, draws, d) -> each (chains, draws, shape), latent ones first."""
    by_site = jax.device_get(_constrain(target, jnp.asarray(z)))
    # A compiled function returns dictionaries sorted by name.
    order = [s.name for s in target.latents]
    return {name: by_site[name] for name in dict.fromkeys([*order, *target.deterministics])}
