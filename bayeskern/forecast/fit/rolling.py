"""Origins of a rolling-origin evaluation without refits.

Hyndman and Athanasopoulos (2021), "Forecasting: principles and practice", section 5.10. Structures
are not fitted again: the process is conditioned on the values up to an origin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Origin(NamedTuple):
    """The end of the known values, from which the next k values are forecast.

    Attributes:
        count: Number of known values.
        steps: Steps from the first future time to each of the next values, (k,).
    """

    count: int
    steps: np.ndarray

    @property
    def ahead(self) -> slice:
        """Rows of the forecast values."""
        return slice(self.count, self.count + len(self.steps))


class Ahead(NamedTuple):
    """Values that are forecast from several origins, concatenated.

    Attributes:
        steps: Steps ahead of each forecast, counted from 0, (N,).
        rows: Row of each value; forecasts from several origins share values, (N,).
        known: Number of known values at the origin of each forecast, (N,).
    """

    steps: np.ndarray
    rows: np.ndarray
    known: np.ndarray

    @classmethod
    def from_origins(cls, origins: Sequence[Origin]) -> Ahead:
        """Values that are forecast from `origins`."""
        parts = [(o.steps, np.arange(o.ahead.start, o.ahead.stop)) for o in origins]
        empty = np.zeros(0, int)
        steps, rows = (np.concatenate([empty, *(part[i] for part in parts)]) for i in (0, 1))
        counts = [len(origin.steps) for origin in origins]
        return cls(steps, rows, np.repeat([o.count for o in origins], counts).astype(int))


# Largest number of origins of past forecasts, and the same with a likelihood, where a forecast
# takes longer.
MAX_ORIGINS, MAX_ORIGINS_WITH_LIKELIHOOD = 24, 10
# Smallest number of values known at an origin.
MIN_KNOWN_VALUES = 5


def origins_of(
    steps: np.ndarray, horizon: int, season: int = 1, max_origins: int = MAX_ORIGINS
) -> tuple[Origin, ...]:
    """Evenly spaced origins in the second half of a series; none if it is too short.

    Args:
        steps: Step of each value on the grid of the calendar, (n,).
        horizon: Largest number of steps ahead.
        season: Season in steps. If the series has more than two full seasons, at least one full
            season and two values are known at each origin.
        max_origins: Largest number of origins.
    """
    n = len(steps)
    first = max(MIN_KNOWN_VALUES, n // 2, season + 2 if n > 2 * season else 0)
    if n <= first:
        return ()
    counts = np.unique(np.linspace(first, n - 1, min(max_origins, n - first)).astype(int))
    origins = []
    for count in counts.tolist():
        next_steps = steps[count:] - steps[count - 1] - 1
        next_steps = next_steps[next_steps < horizon]
        if len(next_steps):
            origins.append(Origin(count, next_steps))
    return tuple(origins)
