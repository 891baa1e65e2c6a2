"""A file from which a killed run of Markov chains resumes, to the same draws."""

from __future__ import annotations

import hashlib
import time
import zipfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.hmc import HMCState

from bayeskern.core import files
from bayeskern.inference.mcmc.chains import ChainProgress
from bayeskern.inference.mcmc.kernel import KernelOptions, Transitions, potential_and_gradient
from bayeskern.inference.model.target import Target

# The least seconds between two writes, and the largest share of the time that writing may take.
EVERY = 1.0
SHARE = 0.1


class Checkpoint:
    """Stages of groups of chains in one file: NumPy arrays, no pickles, replaced atomically.

    options: of the kernel; settings: what the draws depend on beside the target. The file holds a
    fingerprint of settings and target.
    Raises OSError if the folder cannot be written to.
    """

    def __init__(self, path, target: Target, options: KernelOptions, settings: tuple):
        self.path, self.target, self.options = Path(path), target, options
        files.require_writable(self.path.parent)
        self.fingerprint = fingerprint(target, settings)
        self._due = 0.0

    def save(self, stages: list[ChainProgress], last: bool = False) -> None:
        """Write the file, unless that was done a moment ago and more is to come."""
        start = time.monotonic()
        if start < self._due and not last:
            return
        arrays = {"fingerprint": np.array(self.fingerprint), "groups": np.array(len(stages))}
        for i, stage in enumerate(stages):
            arrays |= {f"{i}.{name}": array for name, array in _arrays(stage).items()}
        with files.atomic_write(self.path) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays)
        end = time.monotonic()
        self._due = end + max(EVERY, (end - start) / SHARE)

    def read(self, like: HMCState) -> list[ChainProgress] | None:
        """The stages in the file, with states shaped `like` this one; None if there is no file.

        Raises ValueError if it is not a checkpoint, or belongs to another run.
        """
        if not self.path.exists():
            return None
        try:
            with np.load(self.path, allow_pickle=False) as file:
                arrays = dict(file)
            fingerprint = str(arrays["fingerprint"])
        except (KeyError, ValueError, zipfile.BadZipFile, EOFError):
            raise ValueError(
                f"checkpoint={str(self.path)!r} is not a checkpoint of NUTS. Give another path."
            ) from None
        stages = None
        if fingerprint == self.fingerprint:
            stages = [_stage(arrays, f"{i}.", like) for i in range(int(arrays["groups"]))]
        if stages is None or not self._same_density(stages):
            raise ValueError(
                f"checkpoint={str(self.path)!r} belongs to another run: the model, the data, the "
                "seed or the options differ. Delete it to start afresh, or give another path."
            )
        return stages

    def _same_density(self, stages) -> bool:
        """Whether the model gives the log densities that the states hold."""
        z = np.concatenate([np.atleast_2d(self.options.join(s.state.z) * s.scale) for s in stages])
        stored = np.concatenate([np.atleast_1d(s.state.potential_energy) for s in stages])
        potential, _ = potential_and_gradient(self.target, z)
        return bool(np.allclose(potential, stored, rtol=1e-6, atol=1e-6))


def fingerprint(target: Target, settings: tuple) -> str:
    """A hash of the settings, the latent sites, and every array and number of model and data."""
    generator = jax.config.jax_default_prng_impl
    digest = hashlib.sha256(repr((settings, generator, target.latents)).encode())
    # The arguments by themselves too, since static arrays are no leaves of the target.
    for leaf in jax.tree.leaves((target, target.args, target.kwargs)):
        if isinstance(leaf, np.ndarray | np.generic | jax.Array):
            array = np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)
            digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
        else:
            # The text of a function would hold its address.
            plain = isinstance(leaf, bool | int | float | complex | str)
            digest.update(repr(leaf if plain else type(leaf).__name__).encode())
    return digest.hexdigest()


def _is_key(leaf) -> bool:
    return jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _arrays(stage) -> dict[str, np.ndarray]:
    leaves = jax.tree.leaves(stage.state)
    plain = [jax.random.key_data(x) if _is_key(x) else x for x in leaves]
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
        jax.random.wrap_key_data(x) if _is_key(old) else x
        for x, old in zip(state_leaves, leaves, strict=True)
    ]
    kept = [arrays.get(f"{prefix}rows.{name}") for name in Transitions._fields]
    rows = () if kept[0] is None else (Transitions(*kept),)
    state = jax.tree.unflatten(structure, state_leaves)
    return ChainProgress(state, arrays[f"{prefix}scale"], int(arrays[f"{prefix}done"]), rows)
