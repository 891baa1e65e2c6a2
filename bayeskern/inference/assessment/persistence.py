"""Dependence of moved draws on their starts, as correlations from 0 (none) to 1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayeskern.inference.search.modes import Optimum

# Shares of the draws in a tail. A distant region with a share of a few per cent is a tail of some
# number.
TAIL_SHARES = (0.02, 0.05, 0.1, 0.25)


def rank_persistence(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Largest of several correlations of moved draws with their starts, 0 or more.

    The correlations are those of the ranks, of the ranks of distances from the median, and of the
    indicators of both tails for each of `TAIL_SHARES`. The result for a constant is 0.

    Args:
        start: Numbers at the draws before the first step, (n, m).
        end: The same numbers after the last step, (n, m).

    Returns:
        The correlation for each number, (m,).
    """
    # SciPy's distributions take a while to import.
    from scipy.stats import rankdata

    pooled = np.concatenate([start, end])
    centre = np.median(pooled, axis=0)
    correlations = [
        _correlation(rankdata(x, axis=0), rankdata(y, axis=0))
        for x, y in ((start, end), (np.abs(start - centre), np.abs(end - centre)))
    ]
    for share in TAIL_SHARES:
        low, high = np.quantile(pooled, [share, 1.0 - share], axis=0)
        correlations += [
            _correlation(start < low, end < low),
            _correlation(start > high, end > high),
        ]
    return np.max(correlations, axis=0)


def _correlation(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Correlation of each column, 0 instead of a negative or undefined one."""
    x, y = x - np.mean(x, axis=0), y - np.mean(y, axis=0)
    with np.errstate(invalid="ignore"):
        r = np.sum(x * y, axis=0) / np.sqrt(np.sum(x * x, axis=0) * np.sum(y * y, axis=0))
    return np.maximum(np.nan_to_num(r), 0.0)


def mode_persistence(modes: Sequence[Optimum], start: np.ndarray, end: np.ndarray) -> float:
    """Agreement, beyond chance, of the nearest modes before and after the steps.

    Cohen (1960), "A coefficient of agreement for nominal scales", equation 1.

    Args:
        modes: Modes, each with a curvature.
        start: Points before the first step, (n, d).
        end: Points after the last step, (n, d).

    Returns:
        Cohen's kappa, 0 or more; 0 for fewer than two modes.
    """
    if len(modes) < 2:
        return 0.0
    labels = np.argmin([_surprise(modes, z) for z in (start, end)], axis=1)
    same = float(np.mean(labels[0] == labels[1]))
    first, last = (np.bincount(x, minlength=len(modes)) / len(x) for x in labels)
    chance = float(first @ last)
    return max(0.0, (same - chance) / (1.0 - chance)) if chance < 1.0 else 0.0


def _surprise(modes: Sequence[Optimum], z: np.ndarray) -> np.ndarray:
    """-2 log density of the normal at each mode, up to a constant: (modes, n)."""
    return np.array([m.squared_distances(z) + 2.0 * _log_volume(m) for m in modes])


def _log_volume(mode: Optimum) -> float:
    return float(np.sum(np.log(np.diag(mode.inverse_root[0]))))
