"""A file from which a killed run of Markov chains resumes, to the same draws."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.hmc import HMCState

from bayeskern.inference.mcmc.chains import ChainProgress
from bayeskern.inference.mcmc.kernel import (
    KernelOptions,
    Transitions,
    potential_and_gradient,
    unscaled,
)
from bayeskern.inference.model.checkpoint_file import CheckpointFile, is_key
from bayeskern.inference.model.target import Target


class Checkpoint:
    """Stages of groups of chains in one file.

    options: of the kernel; settings: what the draws depend on beside the target.
    Raises OSError if the folder cannot be written to.
    """

    def __init__(self, path, target: Target, options: KernelOptions, settings: tuple):
        self.target, self.options = target, options
        self.file = CheckpointFile(path, "NUTS", target, settings)

    def save(self, stages: list[ChainProgress], last: bool = False) -> None:
        """Write the file, unless that was done a moment ago and more is to come."""
        self.file.write_when_due(lambda: _all_arrays(stages), last)

    def read(self, like: HMCState) -> list[ChainProgress] | None:
        """The stages in the file, with states shaped `like` this one; None if there is no file.

        Raises ValueError if it is not a checkpoint, or belongs to another run.
        """
        arrays = self.file.read()
        if arrays is None:
            return None
        stages = [_stage(arrays, f"{i}.", like) for i in range(int(arrays["groups"]))]
        self._require_same_density(stages)
        return stages

    def _require_same_density(self, stages) -> None:
        z = np.concatenate(
            [np.atleast_2d(unscaled(s.scale, self.options.join(s.state.z))) for s in stages]
        )
        stored = np.concatenate([np.atleast_1d(s.state.potential_energy) for s in stages])
        potential, _ = potential_and_gradient(self.target, z)
        self.file.require_same_density(potential, stored)


def _all_arrays(stages: list[ChainProgress]) -> dict[str, np.ndarray]:
    arrays = {"groups": np.array(len(stages))}
    for i, stage in enumerate(stages):
        arrays |= {f"{i}.{name}": array for name, array in _arrays(stage).items()}
    return arrays


def _arrays(stage) -> dict[str, np.ndarray]:
    leaves = jax.tree.leaves(stage.state)
    plain = [jax.random.key_data(x) if is_key(x) else x for x in leaves]
    arrays = {f"state.{j}": np.asarray(x) for j, x in enumerate(plain)}
    arrays |= {"done": np.array(stage.done), "scale": np.asarray(stage.scale)}
    if stage.rows:
        kept = (np.concatenate(x, axis=1) for x in zip(*stage.rows, strict=True))
        arrays |= {f"rows.{name}": x for name, x in zip(Transitions._fields, kept, strict=True)}
    return arrays


def _stage(arrays, prefix, like) -> ChainProgress:
    leaves, structure = jax.tree.flatten(like)
    state_leaves = [jnp.asarray(arrays[f"{prefix}state.{j}"]) for j in range(len(leaves))]
    state_leaves = [
        jax.random.wrap_key_data(x) if is_key(old) else x
        for x, old in zip(state_leaves, leaves, strict=True)
    ]
    kept = [arrays.get(f"{prefix}rows.{name}") for name in Transitions._fields]
    rows = () if kept[0] is None else (Transitions(*kept),)
    state = jax.tree.unflatten(structure, state_leaves)
    return ChainProgress(state, arrays[f"{prefix}scale"], int(arrays[f"{prefix}done"]), rows)
