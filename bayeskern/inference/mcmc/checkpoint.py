"""Convert stages of Markov chains to arrays of a checkpoint file, and back."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.inference.mcmc.kernel import ChainState, Transitions, potential_and_gradient
from bayeskern.inference.mcmc.metric import Metric
from bayeskern.inference.mcmc.stage import Stage
from bayeskern.inference.mcmc.warmup import RecentDraws
from bayeskern.inference.model.checkpoint_file import CheckpointFile, is_key
from bayeskern.inference.model.target import Target

# Numbers of a stage.
NUMBERS = ("warmup", "last_window", "settled", "together", "leapfrog_steps", "done")


def read_stages(
    file: CheckpointFile, target: Target, blocks: tuple[int, ...] | None
) -> list[Stage] | None:
    """Stage of each group of chains in a checkpoint file; None if there is no file.

    Args:
        file: The file.
        target: The model.
        blocks: Blocks of the metric.

    Raises:
        ValueError: If the file is not a checkpoint, or belongs to another run.
    """
    arrays = file.read()
    if arrays is None:
        return None
    if "rank" not in arrays:
        # A file of an earlier version.
        raise file.other_run()
    metric = Metric.of_root(np.ones(target.size), int(arrays["rank"]), blocks)
    stages = [_stage(arrays, f"{i}.", metric) for i in range(int(arrays["groups"]))]
    chains = [pair for s in stages for pair in zip(s.metrics, s.states, strict=True)]
    z = np.stack([metric.to_z(np.asarray(state.u)) for metric, state in chains])
    stored = np.stack([state.potential for _, state in chains])
    potential, _ = potential_and_gradient(target, z)
    file.require_same_density(potential, stored)
    return stages


def stage_arrays(stages: list[Stage]) -> dict[str, np.ndarray]:
    """Arrays of all groups of chains, by name in a checkpoint file."""
    rank = stages[0].metrics[0].rank
    arrays = {"groups": np.array(len(stages)), "rank": np.array(rank)}
    for i, stage in enumerate(stages):
        arrays |= {f"{i}.{name}": np.array(getattr(stage, name)) for name in ("chains", *NUMBERS)}
        for j, chain in enumerate(
            zip(stage.states, stage.metrics, stage.estimates, stage.recent, strict=True)
        ):
            leaves = jax.tree.leaves(chain)
            raw = [jax.random.key_data(x) if is_key(x) else x for x in leaves]
            arrays |= {f"{i}.chain.{j}.{k}": np.asarray(x) for k, x in enumerate(raw)}
        if stage.rows:
            rows = Transitions.joined(stage.rows, axis=1)
            arrays |= {f"{i}.rows.{name}": x for name, x in rows._asdict().items()}
    return arrays


def _stage(arrays: dict[str, np.ndarray], prefix: str, metric: Metric) -> Stage:
    """Stage of the group under a prefix."""
    number = np.zeros(())
    state = ChainState(number, number, number, jax.random.key(0), (number,) * 5)  # pyright: ignore[reportArgumentType]
    leaves, structure = jax.tree.flatten((state, metric, metric, RecentDraws(number, number)))
    chains = []
    for j in range(int(arrays[f"{prefix}chains"])):
        stored = [arrays[f"{prefix}chain.{j}.{k}"] for k in range(len(leaves))]
        values = [
            jax.random.wrap_key_data(jnp.asarray(x)) if is_key(old) else x
            for x, old in zip(stored, leaves, strict=True)
        ]
        chains.append(jax.tree.unflatten(structure, values))
    states, metrics, estimates, recent = zip(*chains, strict=True)
    rows = ()
    if f"{prefix}rows.z" in arrays:
        rows = (Transitions(*(arrays[f"{prefix}rows.{name}"] for name in Transitions._fields)),)
    states = tuple(jax.tree.map(jnp.asarray, state) for state in states)
    numbers = {name: arrays[f"{prefix}{name}"].item() for name in NUMBERS}
    return Stage(states, metrics, estimates, recent, rows=rows, **numbers)
