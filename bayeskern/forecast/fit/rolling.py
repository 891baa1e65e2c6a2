"""Earlier origins of a series, for forecasts at the hyperparameters of the whole series.

Hyndman and Athanasopoulos (2021), "Forecasting: principles and practice", section 5.10. Structures
are not fitted again: a forecast from an origin is a conditional of the same process.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# Most origins, and fewest values known at an origin.
MAX_ORIGINS, MIN_KNOWN = 10, 5


class Origin(NamedTuple):
    """A past date, from which the next k values are forecast.

    Attributes:
        count: Number of known values.
        steps: Steps from the first future time to each of the next values, (k,).
    """

    count: int
    steps: np.ndarray

    @property
    def ahead(self) -> slice:
        """Rows of the values that are forecast."""
        return slice(self.count, self.count + len(self.steps))


def origins_of(steps: np.ndarray, horizon: int, season: int = 1) -> tuple[Origin, ...]:
    """Evenly spaced origins in the second half of a series; none if it is too short.

    Args:
        steps: Step of each value on the grid of the calendar, (n,).
        horizon: Largest number of steps that are forecast from an origin.
        season: Season in steps. If the series has two seasons, each origin knows more than one.
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
