"""Whether numbers are uniform: a simultaneous band for their ECDF, and a p-value, both exact.

Saeilynoja, Buerkner and Vehtari (2022), "Graphical test for discrete uniformity and its
applications in goodness-of-fit evaluation and multiple sample comparison", Statistics and Computing
32. They simulate the level of the band, as ArviZ does, or sum over all pairs of counts. Here the
counts are those of a Poisson process given its total, whose increments all have one distribution,
so that the level is computed exactly.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

# The grid that the ECDF is evaluated on divides (0, 1) into at most so many parts.
MAX_PARTS = 200
# Tail probabilities that differ by rounding only are the same.
ROUNDING = 1.0 + 1e-9


class Band(NamedTuple):
    """grid: where the ECDF is evaluated; lower, upper: the values it stays within; (m,) each."""

    grid: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def p_value(u) -> float:
    """The chance that the ECDF of n uniform numbers is somewhere as far out as that of u (n,)."""
    n = len(u)
    grid, tails = _tail_probabilities(n)
    smallest = tails[np.arange(len(grid)), counts(u, grid)].min()
    return float(np.clip(1.0 - _probability_inside(n, tails > smallest * ROUNDING), 0.0, 1.0))


def band(n: int, level: float) -> Band:
    """The narrowest band that holds the whole ECDF of n uniform numbers with probability `level`.

    The pointwise probability to leave the band is the same everywhere. Since counts are whole
    numbers, the simultaneous one to stay inside is `level` or a little more.
    """
    grid, tails = _tail_probabilities(n)
    thresholds = np.unique(tails)
    low, high = 0, len(thresholds) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if _probability_inside(n, tails * ROUNDING >= thresholds[middle]) >= level:
            low = middle
        else:
            high = middle - 1
    inside = tails * ROUNDING >= thresholds[low]
    largest = inside.shape[1] - 1 - np.argmax(inside[:, ::-1], axis=1)
    return Band(grid, np.argmax(inside, axis=1) / n, largest / n)


def counts(u, grid) -> np.ndarray:
    """How many of u are at most each value of the grid."""
    return np.searchsorted(np.sort(u), grid, side="right")


@lru_cache(maxsize=4)
def _tail_probabilities(n: int) -> tuple[np.ndarray, np.ndarray]:
    """The grid (m,), and there the smaller tail probability of each count 0, ..., n: (m, n + 1)."""
    from scipy.stats import binom  # takes half a second, which `import bayeskern` must not

    parts = max(2, min(n, MAX_PARTS))
    grid = np.arange(1, parts) / parts
    k = np.arange(n + 1)
    below, above = binom.cdf(k, n, grid[:, None]), binom.sf(k - 1, n, grid[:, None])
    return grid, np.minimum(below, above)


def _probability_inside(n: int, inside) -> float:
    """The probability that the counts of n uniform numbers are inside everywhere.

    inside: whether each count 0, ..., n is inside at each value of the grid, (m, n + 1).
    """
    from scipy.stats import poisson  # takes half a second, which `import bayeskern` must not

    increments = poisson.pmf(np.arange(n + 1), n / (len(inside) + 1))
    # Smaller probabilities change no digit.
    increments = increments[: np.flatnonzero(increments > 1e-40)[-1] + 1]
    probability = np.zeros(n + 1)
    probability[0] = 1.0
    for row in inside:
        probability = np.convolve(probability, increments)[: n + 1] * row
    return float(np.convolve(probability, increments)[n] / poisson.pmf(n, n))
