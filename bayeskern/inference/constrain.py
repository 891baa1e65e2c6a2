"""From unconstrained draws to the sites of the model."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.inference.approximation import BATCH
from bayeskern.inference.target import Target


@eqx.filter_jit
def _constrain(target, z):
    flat = z.reshape(-1, z.shape[-1])
    found = jax.lax.map(target.constrain, flat, batch_size=BATCH)
    return {k: v.reshape(*z.shape[:-1], *v.shape[1:]) for k, v in found.items()}


def constrain(target: Target, z) -> dict[str, np.ndarray]:
    """The sites at z: (chains, draws, d) -> each (chains, draws, shape), latent ones first."""
    found = jax.device_get(_constrain(target, jnp.asarray(z)))
    # A compiled function returns dictionaries sorted by name.
    order = [s.name for s in target.latents]
    return {name: found[name] for name in dict.fromkeys([*order, *target.deterministics])}
