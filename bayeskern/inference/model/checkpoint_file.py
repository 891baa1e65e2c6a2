"""Checkpoint files from which interrupted runs continue: NumPy arrays, written atomically."""

from __future__ import annotations

import hashlib
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core import files, sharding
from bayeskern.inference.model.target import Target

# Minimum seconds between two writes of a checkpoint.
MIN_SECONDS_BETWEEN_WRITES = 1.0
# Maximum share of the run time spent on writing.
MAX_WRITING_SHARE = 0.1


class CheckpointFile:
    """File with the named arrays of a run and a fingerprint of the run.

    With several processes, the first one writes; all of them must be able to read the folder.

    Args:
        path: Name of the file.
        kind: Kind of run, for messages.
        target: Density of the run.
        settings: Settings that the run depends on.

    Raises:
        OSError: If the folder cannot be written to.
    """

    def __init__(self, path: str | Path, kind: str, target: Target, settings: tuple) -> None:
        self.path, self.kind = Path(path), kind
        files.require_writable(self.path.parent)
        self.fingerprint = fingerprint(target, settings)
        self._due = 0.0

    def write_when_due(self, arrays: Callable[[], dict[str, np.ndarray]], last: bool) -> None:
        """Write the file if `last` is true or the last write is long enough ago."""
        start = time.monotonic()
        if start < self._due and not last:
            return
        self.write(arrays())
        end = time.monotonic()
        self._due = end + max(MIN_SECONDS_BETWEEN_WRITES, (end - start) / MAX_WRITING_SHARE)

    def write(self, arrays: dict[str, np.ndarray]) -> None:
        if sharding.processes()[0] > 0:
            return
        with files.atomic_write(self.path) as temporary, temporary.open("wb") as file:
            fingerprint = {"fingerprint": np.array(self.fingerprint)}
            np.savez(file, **fingerprint, **arrays)  # pyright: ignore[reportArgumentType]

    def read(self) -> dict[str, np.ndarray] | None:
        """The arrays; None if there is no file.

        Raises ValueError if the file is not a checkpoint, or belongs to another run.
        """
        arrays = self._arrays() if self.path.exists() else None
        # A barrier: no process may continue, and overwrite the file, before all have read it.
        readers = sharding.total(np.array(arrays is not None, int))
        _, processes = sharding.processes()
        if 0 < readers < processes:
            raise ValueError(
                f"checkpoint={str(self.path)!r} exists for {readers} of {processes} processes. "
                "Give a path in a folder that all processes share."
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
            kind: Type of the state, a NamedTuple.
            log_densities: Function of the state that returns log densities at some of its points:
                as the model computes them, and as the state stores them.

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

    def require_same_density(self, computed: np.ndarray, stored: np.ndarray) -> None:
        """Raise ValueError unless the model reproduces the log densities in the file.

        The fingerprint covers the data, but not the code of the model.
        """
        if not np.allclose(computed, stored, rtol=1e-6, atol=1e-6):
            raise self.other_run()

    def other_run(self) -> ValueError:
        """Error for a file of another run."""
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
    """Hash of the settings, the latent sites, and all arrays and numbers of model and data."""
    generator = jax.config.jax_default_prng_impl
    digest = hashlib.sha256(repr((settings, generator, target.latents)).encode())
    # The arguments are added separately, because static arrays are not leaves of the target.
    for leaf in jax.tree.leaves((target, target.args, target.kwargs)):
        if isinstance(leaf, np.ndarray | np.generic | jax.Array):
            if isinstance(leaf, jax.Array) and is_key(leaf):
                leaf = jax.random.key_data(leaf)
            array = np.asarray(leaf)
            digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
        else:
            # The repr of a function contains its address: hash only the name of its type.
            plain = isinstance(leaf, bool | int | float | complex | str)
            digest.update(repr(leaf if plain else type(leaf).__name__).encode())
    return digest.hexdigest()


def is_key(leaf: Any) -> bool:
    """True for an array of random keys."""
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
