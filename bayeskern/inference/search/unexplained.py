"""Starts of searches at draws whose density the known modes do not explain."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayeskern.inference.model.evaluation import draw_prior
from bayeskern.inference.model.target import Target
from bayeskern.inference.search.factors import robust_cholesky
from bayeskern.inference.search.modes import Optimum

# Minimum and maximum number of draws.
MIN_DRAWS, MAX_DRAWS = 250, 20_000
# Array elements that the density may compute for all draws together.
MAX_DENSITY_NUMBERS = 2**24


def affordable_draws(numbers_made: int) -> int:
    """Number of draws for a density that computes this number of array elements."""
    return min(max(MAX_DENSITY_NUMBERS // max(1, numbers_made), MIN_DRAWS), MAX_DRAWS)


def wide_draws(
    target: Target, rng: np.random.Generator, count: int, prior_draws: int
) -> np.ndarray:
    """Draws from the prior, and normal draws with their moments: (count, d).

    Coordinates without a proper prior have sd 3 around their initial values.

    Args:
        target: The model.
        rng: Random numbers.
        count: Number of draws.
        prior_draws: Maximum number of draws from the prior.
    """
    z = draw_prior(target, rng, np.full(min(count, prior_draws), 3.0))
    finite = z[np.all(np.isfinite(z), axis=1)]
    if count == len(z) or len(finite) < 2:
        return z
    white = rng.standard_normal((count - len(z), z.shape[1]))
    tril = robust_cholesky(np.atleast_2d(np.cov(finite.T)))
    return np.concatenate([z, finite.mean(axis=0) + white @ tril.T])


def excess_log_density(
    z: np.ndarray, log_density: np.ndarray, modes: Sequence[Optimum]
) -> np.ndarray:
    """Excess of the log density over normal distributions at the known modes.

    log p(z) - log sum_k p(m_k) exp(-(z - m_k)' H_k (z - m_k) / 2), with modes m_k and Hessians H_k:
    0 everywhere for a normal density, and large near an unknown mode.

    Args:
        z: Points, (n, d).
        log_density: log p at each, (n,).
        modes: The known modes.

    Returns:
        The excess in nats, (n,); -inf where the density is zero or not finite.
    """
    finite = np.isfinite(log_density) & np.all(np.isfinite(z), axis=1)
    points = z[finite]
    explained = [mode.log_density - 0.5 * mode.squared_distances(points) for mode in modes]
    excess = np.full(len(z), -np.inf)
    excess[finite] = log_density[finite] - np.logaddexp.reduce(explained, axis=0)
    return excess


def highest(values: np.ndarray, rows: np.ndarray, count: int) -> np.ndarray:
    """The `count` of `rows` (m,), or fewer, that have the highest `values` (n,)."""
    return rows[np.argsort(-values[rows], kind="stable")[:count]]
