"""Exact simultaneous band and p-value for the ECDF of uniform numbers.

Saeilynoja, Buerkner and Vehtari (2022), "Graphical test for discrete uniformity and its
applications in goodness-of-fit evaluation and multiple sample comparison", Statistics and Computing
32. The authors simulate the level of the band, as ArviZ does, or sum over all pairs of counts. Here
the n uniform numbers are a Poisson process given its total n. Its increments between grid points
are independent and identically distributed, so convolutions give the exact level.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

# Tail probabilities that differ by less than this factor are equal up to rounding.
ROUNDING_FACTOR = 1.0 + 1e-9


class Band(NamedTuple):
    """A band for an ECDF.

    Attributes:
        grid: Points where the ECDF is evaluated, (m,).
        lower: Lower bound of the ECDF, (m,).
        upper: Upper bound of the ECDF, (m,).
    """

    grid: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def p_value(u: np.ndarray) -> float:
    """Probability that n uniform numbers have an ECDF at least as extreme as u (n,)."""
    n = len(u)
    grid, tails = _tail_probabilities(n)
    smallest = tails[np.arange(len(grid)), counts(u, grid)].min()
    return float(
        np.clip(1.0 - _probability_inside(n, tails > smallest * ROUNDING_FACTOR), 0.0, 1.0)
    )


def band(n: int, level: float) -> Band:
    """Narrowest band around the ECDF of n uniform numbers, with probability `level`.

    The ECDF leaves the band with the same probability at each point. Because counts are whole
    numbers, it stays inside everywhere with probability `level` or a little more.
    """
    grid, tails = _tail_probabilities(n)
    thresholds = np.unique(tails)
    low, high = 0, len(thresholds) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if _probability_inside(n, tails * ROUNDING_FACTOR >= thresholds[middle]) >= level:
            low = middle
        else:
            high = middle - 1
    inside = tails * ROUNDING_FACTOR >= thresholds[low]
    largest = inside.shape[1] - 1 - np.argmax(inside[:, ::-1], axis=1)
    return Band(grid, np.argmax(inside, axis=1) / n, largest / n)


def counts(u: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Number of u below or at each value of the grid."""
    return np.searchsorted(np.sort(u), grid, side="right")


@lru_cache(maxsize=4)
def _tail_probabilities(n: int) -> tuple[np.ndarray, np.ndarray]:
    """A grid (m,), and the smaller tail probability of counts 0, ..., n: (m, n + 1)."""
    from scipy.stats import binom  # takes half a second, which `import bayeskern` must not

    parts = max(2, min(n, 200))
    grid = np.arange(1, parts) / parts
    k = np.arange(n + 1)
    below, above = binom.cdf(k, n, grid[:, None]), binom.sf(k - 1, n, grid[:, None])
    return grid, np.minimum(below, above)


def _probability_inside(n: int, inside: np.ndarray) -> float:
    """Probability that the counts of n uniform numbers are inside a band everywhere.

    inside: True for each count 0, ..., n inside the band at each grid point, (m, n + 1).
    """
    from scipy.stats import poisson  # takes half a second, which `import bayeskern` must not

    increments = poisson.pmf(np.arange(n + 1), n / (len(inside) + 1))
    # Smaller probabilities do not change the result.
    increments = increments[: np.flatnonzero(increments > 1e-40)[-1] + 1]
    # P(count so far = k, inside at all points so far), k = 0, ..., n, of the Poisson process.
    probability = np.zeros(n + 1)
    probability[0] = 1.0
    for row in inside:
        probability = np.convolve(probability, increments)[: n + 1] * row
    # Condition on the total n.
    return float(np.convolve(probability, increments)[n] / poisson.pmf(n, n))
