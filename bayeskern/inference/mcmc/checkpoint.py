"""Convert progress of Markov chains to arrays of a checkpoint file, and back."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.hmc import HMCState

from bayeskern.inference.mcmc.kernel import (
    ChainProgress,
    KernelOptions,
    Transitions,
    potential_and_gradient,
    unscaled,
)
from bayeskern.inference.model.checkpoint_file import CheckpointFile, is_key
from bayeskern.inference.model.target import Target


def read_stages(
    file: CheckpointFile, target: Target, options: KernelOptions, like: HMCState
) -> list[ChainProgress] | None:
    """Progress of each group of chains in a checkpoint file; None if there is no file.

    Args:
        file: The file.
        target: The model.
        options: The options of the kernel.
        like: A state with the structure of the stored states.

    Raises:
        ValueError: If the file is not a checkpoint, or belongs to another run.
    """
    arrays = file.read()
    if arrays is None:
        return None
    stages = [_stage(arrays, f"{i}.", like) for i in range(int(arrays["groups"]))]
    z = [np.atleast_2d(unscaled(s.scale, options.join(s.state.z))) for s in stages]
    stored = [np.atleast_1d(s.state.potential_energy) for s in stages]
    potential, _ = potential_and_gradient(target, np.concatenate(z))
    file.require_same_density(potential, np.concatenate(stored))
    return stages


def stage_arrays(stages: list[ChainProgress]) -> dict[str, np.ndarray]:
    """Arrays of all groups of chains, by name in a checkpoint file."""
    arrays = {"groups": np.array(len(stages))}
    for i, stage in enumerate(stages):
        leaves = jax.tree.leaves(stage.state)
        raw = [jax.random.key_data(x) if is_key(x) else x for x in leaves]
        arrays |= {f"{i}.state.{j}": np.asarray(x) for j, x in enumerate(raw)}
        arrays |= {f"{i}.done": np.array(stage.done), f"{i}.scale": np.asarray(stage.scale)}
        if stage.rows:
            rows = Transitions.joined(stage.rows, axis=1)
            arrays |= {f"{i}.rows.{name}": x for name, x in rows._asdict().items()}
    return arrays


def _stage(arrays: dict[str, np.ndarray], prefix: str, like: HMCState) -> ChainProgress:
    """Progress of the group under a prefix, with a state structured like `like`."""
    leaves, structure = jax.tree.flatten(like)
    state_leaves = [jnp.asarray(arrays[f"{prefix}state.{j}"]) for j in range(len(leaves))]
    state_leaves = [
        jax.random.wrap_key_data(x) if is_key(old) else x
        for x, old in zip(state_leaves, leaves, strict=True)
    ]
    state = jax.tree.unflatten(structure, state_leaves)
    rows = ()
    if f"{prefix}rows.z" in arrays:
        rows = (Transitions(*(arrays[f"{prefix}rows.{name}"] for name in Transitions._fields)),)
    return ChainProgress(state, arrays[f"{prefix}scale"], int(arrays[f"{prefix}done"]), rows)
