"""A file from which a search for modes goes on that was killed."""

from __future__ import annotations

from bayeskern.inference.model.checkpoint_file import CheckpointFile
from bayeskern.inference.optimization.lbfgs import State
from bayeskern.inference.optimization.objective import NegativeLogDensity


class SearchFile:
    """The state of a search, after each stretch of it.

    settings: what the search depends on beside the objective. How many steps it may take is not
    among that, so that one that was too short can be given more.
    """

    def __init__(self, path, objective: NegativeLogDensity, settings: tuple):
        self.objective = objective
        settings = (objective.mode, *settings)
        self.file = CheckpointFile(path, "a search for modes", objective.target, settings)

    def write(self, state: State) -> None:
        self.file.write(state._asdict())

    def read(self) -> State | None:
        """The state in the file; None if there is no file.

        Raises ValueError if it is not a checkpoint, or belongs to another run.
        """
        state = self.file.read_as(State)
        if state is not None:
            self.file.require_same_density(self.objective.values(state.z), state.value)
        return state
