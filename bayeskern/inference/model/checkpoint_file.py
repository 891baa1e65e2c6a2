"""Files from which runs that were killed go on: NumPy arrays, no pickles, replaced atomically."""

from __future__ import annotations

import hashlib
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np

from bayeskern.core import files, sharding
from bayeskern.inference.model.target import Target

# Seconds between two writes, at least, and the share of the time that writing may take.
MIN_SECONDS, MAX_SHARE = 1.0, 0.1


class CheckpointFile:
    """Arrays of a run by their names, with a fingerprint of what the run depends on.

    kind: what the run is, for messages. settings: what it depends on beside the target. Of several
    processes the first one writes, to a folder that all of them see.
    Raises OSError if the folder cannot be written to.
    """

    def __init__(self, path, kind: str, target: Target, settings: tuple):
        self.path, self.kind = Path(path), kind
        files.require_writable(self.path.parent)
        self.fingerprint = fingerprint(target, settings)
        self._due = 0.0

    def write_when_due(self, arrays: Callable[[], dict[str, np.ndarray]], last: bool) -> None:
        """Write the file, unless that was done a moment ago and more is to come."""
        start = time.monotonic()
        if start < self._due and not last:
            return
        self.write(arrays())
        end = time.monotonic()
        self._due = end + max(MIN_SECONDS, (end - start) / MAX_SHARE)

    def write(self, arrays: dict[str, np.ndarray]) -> None:
        if sharding.processes()[0] > 0:
            return
        with files.atomic_write(self.path) as temporary, temporary.open("wb") as file:
            np.savez(file, fingerprint=np.array(self.fingerprint), **arrays)

    def read(self) -> dict[str, np.ndarray] | None:
        """The arrays; None if there is no file.

        Raises ValueError if it is not a checkpoint, or belongs to another run.
        """
        arrays = self._arrays() if self.path.exists() else None
        # None goes on, and writes, before all have read.
        seen, (_, processes) = (
            sharding.total(np.array(arrays is not None, int)),
            sharding.processes(),
        )
        if 0 < seen < processes:
            raise ValueError(
                f"checkpoint={str(self.path)!r} is seen by {seen} of {processes} processes. Give a "
                "path in a folder that all of them see."
            )
        if arrays is not None and arrays.pop("fingerprint") != self.fingerprint:
            raise self.other_run()
        return arrays

    def read_as[State: tuple](
        self,
        kind: Callable[..., State],
        log_densities: Callable[[State], tuple[np.ndarray, np.ndarray]],
    ) -> State | None:
        """State in the file, a NamedTuple of arrays; None if there is no file.

        Args:
            kind: The NamedTuple.
            log_densities: From the state to log densities that the model gives at some of its
                points, and those in the state.

        Raises:
            ValueError: If the file is not a checkpoint, or belongs to another run.
        """
        arrays = self.read()
        if arrays is None:
            return None
        if set(arrays) != set(kind._fields):  # pyright: ignore[reportFunctionMemberAccess]
            raise self.other_run()
        state = kind(**arrays)
        self.require_same_density(*log_densities(state))
        return state

    def require_same_density(self, computed, stored) -> None:
        """Raise ValueError unless the model gives the log densities in the file.

        The fingerprint knows of the data, not of what a model does with them.
        """
        if not np.allclose(computed, stored, rtol=1e-6, atol=1e-6):
            raise self.other_run()

    def other_run(self) -> ValueError:
        return ValueError(
            f"checkpoint={str(self.path)!r} belongs to another run: the model, the data, the "
            "seed or the options differ. Delete it to start afresh, or give another path."
        )

    def _arrays(self) -> dict[str, np.ndarray]:
        try:
            with np.load(self.path, allow_pickle=False) as file:
                arrays = dict(file)
            arrays["fingerprint"] = str(arrays["fingerprint"])
        except (KeyError, ValueError, zipfile.BadZipFile, EOFError):
            raise ValueError(
                f"checkpoint={str(self.path)!r} is not a checkpoint of {self.kind}. "
                "Give another path."
            ) from None
        return arrays


def fingerprint(target: Target, settings: tuple) -> str:
    """A hash of the settings, the latent sites, and every array and number of model and data."""
    generator = jax.config.jax_default_prng_impl
    digest = hashlib.sha256(repr((settings, generator, target.latents)).encode())
    # The arguments by themselves too, since static arrays are no leaves of the target.
    for leaf in jax.tree.leaves((target, target.args, target.kwargs)):
        if isinstance(leaf, np.ndarray | np.generic | jax.Array):
            array = np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf)
            digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
        else:
            # The text of a function would hold its address.
            plain = isinstance(leaf, bool | int | float | complex | str)
            digest.update(repr(leaf if plain else type(leaf).__name__).encode())
    return digest.hexdigest()


def is_key(leaf) -> bool:
    """Whether an array is one of random keys."""
    return jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
