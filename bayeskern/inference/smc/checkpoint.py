"""A file from which a killed sampler resumes, to the same draws."""

from __future__ import annotations

import numpy as np

from bayeskern.inference.model.checkpoint_file import CheckpointFile
from bayeskern.inference.model.evaluation import log_densities
from bayeskern.inference.model.target import Target
from bayeskern.inference.smc.sampler import State

# Particles whose densities are compared with those in the file, at most.
MAX_COMPARED = 256


class Checkpoint:
    """The state of a sampler in a file.

    settings: what the draws depend on beside the target.
    Raises OSError if the folder cannot be written to.
    """

    def __init__(self, path, target: Target, settings: tuple):
        self.target = target
        self.file = CheckpointFile(path, "SMC", target, settings)

    def save(self, state: State) -> None:
        """Write the file, unless that was done a moment ago and more is to come."""
        self.file.write_when_due(state._asdict, state.done)

    def read(self) -> State | None:
        """The state in the file; None if there is no file.

        Raises ValueError if it is not a checkpoint, or belongs to another run.
        """
        state = self.file.read_as(State)
        if state is not None:
            here = np.flatnonzero(np.isfinite(state.log_p))[:MAX_COMPARED]
            computed = log_densities(self.target, state.z[here])
            self.file.require_same_density(computed, state.log_p[here])
        return state
