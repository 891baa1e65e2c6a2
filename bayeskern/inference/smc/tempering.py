"""Reweighting and resampling from one temperature to the next."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import logsumexp

from bayeskern.inference.approximation.psis import resample


def next_temperature(log_ratios: np.ndarray, temperature: float, min_ess: float) -> float:
    """Largest temperature at which the effective share of the particles is at least `min_ess`.

    The weights of a step h are w_i = exp(h r_i), r = log p - log q0. Their effective share is
    (sum w)^2 / (m sum w^2), over the m particles with p > 0. Del Moral, Doucet and Jasra (2012),
    "An adaptive sequential Monte Carlo method for approximate Bayesian computation".

    Args:
        log_ratios: r, (n,); -inf where p is zero, which must not be so at all particles.
        temperature: Temperature of the particles.
        min_ess: Smallest effective share.

    Returns:
        The next temperature, at most 1; `temperature` itself if no step is possible.
    """
    finite = log_ratios[np.isfinite(log_ratios)]
    finite = finite - np.max(finite)

    def excess(step: float) -> float:
        log_share = 2.0 * logsumexp(step * finite) - logsumexp(2.0 * step * finite)
        return log_share - np.log(min_ess * len(finite))

    rest = 1.0 - temperature
    if excess(rest) >= 0.0:
        return 1.0
    # If a smaller step is needed, the density ratio has no bound, and no step is possible.
    lower, min_step = 0.5 * rest, 1e-30
    while excess(lower) < 0.0 and lower > min_step:
        lower *= 0.5
    if lower <= min_step:
        return temperature
    return temperature + float(brentq(excess, lower, 2.0 * lower, xtol=1e-3 * lower))  # pyright: ignore[reportArgumentType]


def resample_islands(
    log_weights: np.ndarray, islands: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Systematic resampling inside each island.

    Args:
        log_weights: Log weights of all particles, island by island, (n,).
        islands: Number of islands, of n / islands particles each.
        rng: Random numbers.

    Returns:
        Indices of the chosen particles, (n,), and the log of the mean weight of each island,
        (islands,). An island without weight keeps its particles.
    """
    by_island = log_weights.reshape(islands, -1)
    size = by_island.shape[1]
    log_means = logsumexp(by_island, axis=1) - np.log(size)
    chosen = []
    for k, (log, log_mean) in enumerate(zip(by_island, log_means, strict=True)):
        weights = np.full(size, 1.0 / size)
        if np.isfinite(log_mean):
            weights = np.exp(log - log_mean) / size
        chosen.append(k * size + resample(weights, size, rng))
    return np.concatenate(chosen), log_means
