"""Leave-one-out cross-validation (LOO) by Pareto smoothed importance sampling.

Vehtari, Gelman and Gabry (2017), "Practical Bayesian model evaluation using leave-one-out
cross-validation and WAIC".
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

from bayeskern.core.scalars import scalar_columns
from bayeskern.inference import Posterior
from bayeskern.inference.approximation.psis import has_even_tail

# Log likelihoods that are smoothed at a time, 16 MB of them.
CHUNK_LOG_LIKELIHOODS = 2**21


def why_unavailable(by_draw: np.ndarray) -> str | None:
    """Reason why observations with log likelihoods (S, n) cannot be left out; else None."""
    count, observations = by_draw.shape
    if observations < 2:
        return "LOO needs at least 2 observations; there is only one."
    if count < 25:
        # Fewer draws have no tail of weights to smooth.
        return f"LOO needs at least 25 draws; there are {count}."
    broken = sum(not np.isfinite(draw).all() for draw in by_draw)
    if broken:
        return (
            f"The log likelihood is not finite at {broken:,} of {count:,} draws, so LOO "
            "is unavailable. Check the model at these draws."
        )
    return None


def in_chunks(by_draw: np.ndarray) -> Iterator[slice]:
    """Observations of log likelihoods (S, n), a chunk at a time."""
    count, observations = by_draw.shape
    step = max(1, CHUNK_LOG_LIKELIHOODS // count)
    return (slice(start, start + step) for start in range(0, observations, step))


def smoothed_weights(
    by_draw: np.ndarray, efficiency: float, powers: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | str:
    """Smoothed log weights (S, n) of the posterior without each observation, and k-hats (n,).

    Args:
        by_draw: Log likelihood of each observation, (S, n).
        efficiency: Effective draws per draw, as `relative_efficiency` returns it.
        powers: Power of the likelihood of each observation in the posterior, (n,).

    Returns:
        The weights and k-hats, or a sentence with the reason why there are none.
    """
    from arviz_stats.base.array import array_stats  # slow to import

    if np.any(has_even_tail(-by_draw, efficiency)):
        return (
            "LOO is unavailable: there are too few distinct draws to leave out an observation by "
            "importance weighting."
        )
    with warnings.catch_warnings():
        # Callers show the k-hats.
        warnings.simplefilter("ignore")
        # ArviZ takes minus the log ratios.
        log_weights, khat = array_stats.psislw((by_draw * powers).T, r_eff=efficiency)  # pyright: ignore[reportArgumentType]
    return np.asarray(log_weights).T, np.asarray(khat, float)


def relative_efficiency(posterior: Posterior) -> float:
    """Effective draws per draw, averaged over parameters; 1 without chains of MCMC."""
    if not posterior.has_chains:
        return 1.0
    from arviz_stats.base.array import array_stats  # slow to import

    x = scalar_columns(posterior.flat)[1].reshape(*posterior.shape, -1)
    with warnings.catch_warnings():
        # A constant parameter has no effective draws and is left out of the mean.
        warnings.simplefilter("ignore")
        efficiency = array_stats.ess(np.moveaxis(x, -1, 0), method="mean", relative=True)
        return float(np.clip(np.nanmean(efficiency), 1e-3, 1.0))
