"""Draws from the prior of a model, in unconstrained coordinates."""

from __future__ import annotations

import equinox as eqx
import jax
import numpy as np

from bayeskern.core.random import jax_seed
from bayeskern.inference.model.target import Target

# So many at once, however many are wanted, so that they are compiled once.
BLOCK = 256


def draw_prior(target: Target, rng: np.random.Generator, spread) -> np.ndarray:
    """One z for each spread (n,), which is as in `Target.draw_prior`: (n, d)."""
    count = len(spread)
    whole = -(-count // BLOCK) * BLOCK
    spread = np.resize(np.asarray(spread, float), whole).reshape(-1, BLOCK)
    parts = [jax.device_get(_draw(target, jax_seed(rng), block)) for block in spread]
    return np.concatenate(parts)[:count]


@eqx.filter_jit
def _draw(target, seed, spread):
    keys = jax.random.split(jax.random.key(seed), len(spread))
    # One at a time: mapped by vmap, the random numbers take three times as long to compile.
    return jax.lax.map(lambda draw: target.draw_prior(*draw), (keys, spread))
