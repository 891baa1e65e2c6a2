"""A file from which a killed sampler resumes, to the same draws."""

from __future__ import annotations

import time

import numpy as np

from bayeskern.inference.model.checkpoint_file import CheckpointFile
from bayeskern.inference.model.log_densities import log_densities
from bayeskern.inference.model.target import Target
from bayeskern.inference.smc.sampler import State

# Seconds between two writes, at least, and the share of the time that writing may take.
MIN_SECONDS, MAX_SHARE = 1.0, 0.1
# Particles whose densities are compared with those in the file.
COMPARED = 256


class Checkpoint:
    """The state of a sampler in a file.

    settings: what the draws depend on beside the target.
    Raises OSError if the folder cannot be written to.
    """

    def __init__(self, path, target: Target, settings: tuple):
        self.target = target
        self.file = CheckpointFile(path, "SMC", target, settings)
        self._due = 0.0

    def save(self, state: State) -> None:
        """Write the file, unless that was done a moment ago and more is to come."""
        start = time.monotonic()
        if start < self._due and not state.done:
            return
        self.file.write(state._asdict())
        end = time.monotonic()
        self._due = end + max(MIN_SECONDS, (end - start) / MAX_SHARE)

    def read(self) -> State | None:
        """The state in the file; None if there is no file.

        Raises ValueError if it is not a checkpoint, or belongs to another run.
        """
        arrays = self.file.read()
        if arrays is None:
            return None
        if set(arrays) != set(State._fields):
            raise self.file.other_run()
        state = State(**arrays)
        # The fingerprint knows of the data, not of what a model does with them.
        here = np.flatnonzero(np.isfinite(state.log_p))[:COMPARED]
        known = log_densities(self.target, state.z[here])
        if not np.allclose(known, state.log_p[here], rtol=1e-6, atol=1e-6):
            raise self.file.other_run()
        return state
