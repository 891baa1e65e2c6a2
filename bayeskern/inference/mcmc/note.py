"""Note of a progress bar: effective draws and divergences so far."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from bayeskern.core.batching import evenly
from bayeskern.core.formatting import counted
from bayeskern.inference.mcmc.stage import Stage, divergent_draws

# Seconds between two estimates beside a progress bar.
NOTE_INTERVAL_SECONDS = 2.0


class RunNote:
    """Note on running chains, with an effective sample size every few seconds."""

    def __init__(self) -> None:
        self._due, self._ess = 0.0, ""

    def __call__(self, stages: Sequence[Stage]) -> str:
        """The note, such as "smallest ESS about 350, 2 divergences"."""
        now, diverging = time.monotonic(), int(divergent_draws(stages).sum())
        if all(stage.rows for stage in stages) and now >= self._due:
            self._ess = _smallest_ess([np.concatenate([r.z for r in s.rows], 1) for s in stages])
            self._due = now + NOTE_INTERVAL_SECONDS
        parts = [self._ess, counted(diverging, "divergence") if diverging else ""]
        return ", ".join(part for part in parts if part)


# Minimum number of draws of each chain for an estimate.
MIN_NOTE_DRAWS = 50
# Maximum number of coordinates of an estimate.
MAX_NOTE_COORDINATES = 100


def _smallest_ess(z: list[np.ndarray]) -> str:
    """Smallest bulk ESS of chains z, each (chains, n, d), over some coordinates."""
    from arviz_stats.base.array import array_stats  # slow to import

    count, d = min(x.shape[1] for x in z), z[0].shape[2]
    if count < MIN_NOTE_DRAWS:
        return ""
    some = evenly(d, min(d, MAX_NOTE_COORDINATES))
    draws = np.concatenate([x[:, :count] for x in z])[..., some]
    if np.any(np.ptp(draws, axis=1) == 0.0):
        return "a chain does not move"
    ess = float(np.min(array_stats.ess(np.moveaxis(draws, -1, 0))))
    return f"smallest ESS about {float(f'{ess:.2g}'):,.0f}" if np.isfinite(ess) else ""
