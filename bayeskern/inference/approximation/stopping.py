"""When a noisy objective has stopped rising: a test on two horizons."""

from __future__ import annotations

import numpy as np

# Steps of the short horizon, and at most of the long one.
SHORT, LONG = 200, 1000
# Standard errors that a rise must have to count.
SIGNIFICANT = 2.0


class StoppingRule:
    """Fed with the ELBO of each step, it says whether the last steps still rose.

    The mean of the last h steps is compared with that of the h before them, for a short and for a
    long h, each against its standard error. A slow rise shows on the long horizon only, and the end
    of a fast one on the short horizon first; noise shows on neither. A change of the learning rate
    begins a new level, whose steps are compared with one another only.
    """

    def __init__(self):
        self._values: list[np.ndarray] = []
        self._level = np.zeros(0)

    def next_level(self) -> None:
        """Begin a new level, as where the learning rate changes."""
        self._level = np.zeros(0)

    def add(self, values: np.ndarray) -> None:
        self._values.append(values)
        self._level = np.concatenate([self._level, values])

    @property
    def trace(self) -> np.ndarray:
        return np.concatenate(self._values)

    @property
    def latest(self) -> float:
        return float(np.mean(self._values[-1]))

    @property
    def reached(self) -> bool:
        """Whether the ELBO no longer rises on this level."""
        count = len(self._level)
        if count < 2 * SHORT:
            return False
        return not (self._rises(SHORT) or self._rises(min(count // 2, LONG)))

    def _rises(self, horizon: int) -> bool:
        gain, error = self.gain(horizon)
        # Written so that NaN counts as a rise.
        return not gain <= SIGNIFICANT * error + 1e-12 * abs(self.latest)

    def gain(self, horizon: int) -> tuple[float, float]:
        """The rise from one horizon to the next, and its standard error."""
        before, after = self._level[-2 * horizon : -horizon], self._level[-horizon:]
        if not np.all(np.isfinite(self._level[-2 * horizon :])):
            return np.nan, np.nan
        error = np.sqrt(np.var(before) / horizon + np.var(after) / horizon)
        return float(np.mean(after) - np.mean(before)), float(error)

    def describe(self, steps: int) -> str:
        """A sentence on a fit that ended at its step limit while the ELBO still rose."""
        horizon = min(len(self._level) // 2, LONG)
        if horizon < 2:
            return f"Stopped at the step limit ({steps}) before the last learning rate."
        gain, error = self.gain(horizon)
        return (
            f"Stopped at the step limit ({steps}), the ELBO rising by {gain:.2g} ± {error:.1g} in "
            f"{horizon} steps: give it more steps."
        )
