"""Whether numbers are uniform: the ECDF with a band that holds all of it at once, exactly.

Saeilynoja, Buerkner and Vehtari (2022), "Graphical test for discrete uniformity and its
applications in goodness-of-fit evaluation and multiple sample comparison", Statistics and Computing
32. Where they simulate or sum over all pairs of counts, the counts are here a Poisson process given
its total, whose increments all have one distribution.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

# The ECDF is looked at in at most so many places.
PLACES = 200
# Depths that differ by rounding only are the same.
SLACK = 1.0 + 1e-9


class Band(NamedTuple):
    """at: where the ECDF is looked at, (m,); lower, upper: what it stays within, (m,)."""

    at: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def p_value(u) -> float:
    """The chance that the ECDF of n uniform numbers is somewhere as far out as that of u (n,)."""
    n = len(u)
    at, depth = _depths(n)
    rows = np.arange(len(at))
    least = depth[rows, counts(u, at)].min()
    return float(np.clip(1.0 - _staying(n, depth > least * SLACK), 0.0, 1.0))


def band(n: int, level: float) -> Band:
    """The narrowest band that the ECDF of n uniform numbers stays within with chance `level`.

    The pointwise chance to leave it is the same everywhere, and the chance to stay is at least
    `level`: counts are whole numbers.
    """
    at, depth = _depths(n)
    known = np.unique(depth)
    low, high = 0, len(known) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if _staying(n, depth * SLACK >= known[middle]) >= level:
            low = middle
        else:
            high = middle - 1
    inside = depth * SLACK >= known[low]
    last = inside.shape[1] - 1 - np.argmax(inside[:, ::-1], axis=1)
    return Band(at, np.argmax(inside, axis=1) / n, last / n)


def counts(u, at) -> np.ndarray:
    """How many of u are at most each of `at`."""
    return np.searchsorted(np.sort(u), at, side="right")


@lru_cache(maxsize=4)
def _depths(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Where it is looked at, (m,), and the chance of a count k or one further out, (m, n + 1)."""
    from scipy.stats import binom  # takes half a second, which `import bayeskern` must not

    places = max(2, min(n, PLACES))
    at = np.arange(1, places) / places
    k = np.arange(n + 1)
    below, above = binom.cdf(k, n, at[:, None]), binom.sf(k - 1, n, at[:, None])
    return at, np.minimum(below, above)


def _staying(n: int, inside) -> float:
    """The chance that all counts are inside, (m, n + 1) bool."""
    from scipy.stats import poisson

    steps = poisson.pmf(np.arange(n + 1), n / (len(inside) + 1))
    # What is so unlikely changes no digit.
    steps = steps[: np.flatnonzero(steps > 1e-40)[-1] + 1]
    chance = np.zeros(n + 1)
    chance[0] = 1.0
    for row in inside:
        chance = np.convolve(chance, steps)[: n + 1] * row
    return float(np.convolve(chance, steps)[n] / poisson.pmf(n, n))
