"""Stopping rule for a noisy objective: a test on a short and a long horizon."""

from __future__ import annotations

import numpy as np

# Steps of the short horizon, and maximum number of steps of the long horizon.
SHORT_HORIZON_STEPS, MAX_LONG_HORIZON_STEPS = 200, 1000
# Standard errors that a rise must exceed to count.
MIN_RISE_ERRORS = 2.0


class StoppingRule:
    """Test whether the ELBO still rises, at one learning rate.

    The mean of the last h steps is compared with the mean of the h steps before, for a short and
    for a long h, each against its standard error. A slow rise shows on the long horizon only;
    the end of a fast rise shows on the short horizon first. Noise shows on neither.

    Attributes:
        elbo: The ELBO of all steps.
        latest: Mean ELBO of the steps added last.
    """

    def __init__(self) -> None:
        self.elbo, self.latest = np.zeros(0), np.nan

    def add(self, values: np.ndarray) -> None:
        """Add the ELBO of further steps."""
        self.elbo, self.latest = np.concatenate([self.elbo, values]), float(np.mean(values))

    @property
    def reached(self) -> bool:
        """True if the ELBO no longer rises."""
        count = len(self.elbo)
        if count < 2 * SHORT_HORIZON_STEPS:
            return False
        horizons = SHORT_HORIZON_STEPS, min(count // 2, MAX_LONG_HORIZON_STEPS)
        return not any(map(self._rises, horizons))

    def _rises(self, horizon: int) -> bool:
        gain, error = self.gain(horizon)
        # Written so that NaN counts as a rise.
        return not gain <= MIN_RISE_ERRORS * error + 1e-12 * abs(self.latest)

    def gain(self, horizon: int) -> tuple[float, float]:
        """Rise of the mean ELBO between the last two horizons, and its standard error."""
        previous, latest = self.elbo[-2 * horizon : -horizon], self.elbo[-horizon:]
        if not np.all(np.isfinite(self.elbo[-2 * horizon :])):
            return np.nan, np.nan
        error = np.sqrt(np.var(previous) / horizon + np.var(latest) / horizon)
        return float(np.mean(latest) - np.mean(previous)), float(error)

    def describe(self, steps: int) -> str:
        """Sentence on a fit that reached its step limit while the ELBO still rose."""
        horizon = min(len(self.elbo) // 2, MAX_LONG_HORIZON_STEPS)
        if horizon < 2:
            return f"Stopped at the step limit ({steps}) before the last learning rate."
        gain, error = self.gain(horizon)
        return (
            f"Stopped at the step limit ({steps}) with the ELBO rising by {gain:.2g} ± {error:.1g} "
            f"in {horizon} steps: give it more steps."
        )
