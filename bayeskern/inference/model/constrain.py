"""From unconstrained draws to the sites of the model."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core.batching import BATCH, by_chunk
from bayeskern.inference.model.target import Target


@eqx.filter_jit
def _sites(target, z):
    # Compiled, since JAX keeps what it has traced of such a function.
    return target.constrain(z)


@eqx.filter_jit
def _constrain(target, z):
    def sized(z):
        # JAX cannot map what has no numbers.
        return {k: v for k, v in _sites(target, z).items() if v.size}

    return jax.lax.map(sized, z, batch_size=BATCH)


def constrain(target: Target, z) -> dict[str, np.ndarray]:
    """The sites at z: (chains, draws, d) -> each (chains, draws, shape), latent ones first."""
    z = np.asarray(z)
    shapes = eqx.filter_eval_shape(_sites, target, jax.ShapeDtypeStruct(z.shape[2:], z.dtype))
    size = sum(s.size for s in shapes.values())
    flat = by_chunk(
        lambda part: _constrain(target, jnp.asarray(part)), z.reshape(-1, z.shape[2]), size
    )
    # A compiled function returns dictionaries sorted by name.
    order = dict.fromkeys([*(s.name for s in target.latents), *target.deterministics])
    empty = np.zeros(0)
    return {
        name: np.reshape(flat.get(name, empty), (*z.shape[:2], *shapes[name].shape))
        for name in order
    }
