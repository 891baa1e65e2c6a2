"""Forecasts from earlier origins, at the hyperparameters that all values gave.

Hyndman and Athanasopoulos (2021), "Forecasting: principles and practice", section 5.10. Nothing is
fitted again: each origin is a conditional of the same process.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# The most origins, and the fewest values that one knows.
MAX_ORIGINS, MIN_KNOWN = 10, 5


class Origin(NamedTuple):
    """A past date, from which the next values are forecast.

    Attributes:
        count: How many values are known.
        steps: How many steps ahead the next ones lie, from 0 on: (k,).
    """

    count: int
    steps: np.ndarray

    @property
    def ahead(self) -> slice:
        """The places of the values that are forecast."""
        return slice(self.count, self.count + len(self.steps))


def origins_of(steps: np.ndarray, horizon: int, season: int = 1) -> tuple[Origin, ...]:
    """Origins in the second half of a series, evenly spaced; none where it is too short.

    Args:
        steps: The place of each value on the grid of the calendar, (n,).
        horizon: How many steps are forecast from each, where there are as many.
        season: The season in steps, of which an origin knows one and a bit where that is possible.
    """
    n = len(steps)
    first = max(MIN_KNOWN, n // 2, season + 2 if n > 2 * season else 0)
    if n <= first:
        return ()
    counts = np.unique(np.linspace(first, n - 1, min(MAX_ORIGINS, n - first)).astype(int))
    origins = []
    for count in counts.tolist():
        ahead = steps[count:] - steps[count - 1] - 1
        within = ahead[ahead < horizon]
        if len(within):
            origins.append(Origin(count, within))
    return tuple(origins)
