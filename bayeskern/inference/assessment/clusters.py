"""Standard errors and effective sample sizes of draws that share ancestors.

Draws of a particle sampler that descend from one particle are dependent, unless moves have
separated them. The mean of f over S draws, where draw i has the ancestor e_i, has the variance

    Var(mean f) = sum_e (sum_{i: e_i = e} (f_i - mean f))^2 / S^2,

a consistent estimate: Chan and Lai (2013), "A general theory of particle filters in hidden Markov
models and some applications"; Lee and Whiteley (2018), "Variance estimation in the particle
filter". Independent islands of particles give a second estimate, from a few values.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri


def variance_of_mean(x: np.ndarray, ancestors: np.ndarray, islands: np.ndarray) -> np.ndarray:
    """Variance of the mean of x: the larger of two estimates, by ancestors and by islands.

    Args:
        x: Draws, (S, m).
        ancestors: Index of the ancestor of each draw, (S,).
        islands: Index of the island of each draw, (S,); a single island gives no estimate.

    Returns:
        The variance for each column, (m,).
    """
    centred = x - x.mean(axis=0)
    by_ancestor = np.sum(np.square(_sums(centred, ancestors)), axis=0)
    totals = _sums(centred, islands)
    count = len(totals)
    by_island = count / (count - 1) * np.sum(np.square(totals), axis=0) if count > 1 else 0.0
    return np.maximum(by_ancestor, by_island) / len(x) ** 2


def effective_sizes(
    x: np.ndarray, ancestors: np.ndarray, islands: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Effective sample sizes in the bulk and in the tails.

    An effective size is the variance of x over `variance_of_mean`. Bulk: the smaller size of the
    rank-normalised draws and of their rank-normalised distances from the median, which reveal wrong
    scales. Tails: the smaller size of the indicators of the 5 % and 95 % quantiles. Vehtari and
    others (2021), section 4, define the same sizes for chains.

    Args:
        x: Draws, (S, m).
        ancestors: As in `variance_of_mean`.
        islands: As in `variance_of_mean`.

    Returns:
        The two sizes for each column, (m,) each.
    """
    folded = np.abs(x - np.median(x, axis=0))
    bulk = [_effective(_normal_scores(f), ancestors, islands) for f in (x, folded)]
    tails = [
        _effective((x <= np.quantile(x, p, axis=0)).astype(float), ancestors, islands)
        for p in (0.05, 0.95)
    ]
    return np.minimum(*bulk), np.minimum(*tails)


def _effective(x: np.ndarray, ancestors: np.ndarray, islands: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore", divide="ignore"):
        size = np.var(x, axis=0) / variance_of_mean(x, ancestors, islands)
    # The mean of a constant, such as the indicator of a tail where many draws are equal, has no
    # error.
    constant = np.all(x == x[0], axis=0)
    return np.where(constant, len(x), np.minimum(size, len(x)))


def _sums(x: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Sums of the rows of x (S, m) by group, (groups, m)."""
    order = np.argsort(groups, kind="stable")
    begins = np.flatnonzero(np.diff(groups[order], prepend=-1))
    return np.add.reduceat(x[order], begins, axis=0)


def _normal_scores(x: np.ndarray) -> np.ndarray:
    """Normal quantiles of the ranks of each column: Vehtari and others (2021), equation 14."""
    # SciPy's distributions take a while to import.
    from scipy.stats import rankdata

    return ndtri((rankdata(x, axis=0) - 0.375) / (len(x) + 0.25))
