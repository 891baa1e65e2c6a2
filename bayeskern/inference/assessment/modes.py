"""Modes that a search found, that hold mass, and that draws do not reach."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import chdtri

from bayeskern.inference.approximation.proposals import Sample
from bayeskern.inference.assessment.mcmc import MISSING
from bayeskern.inference.estimate import Estimate
from bayeskern.inference.optimization.factors import inverse_hessian_root
from bayeskern.inference.optimization.modes import Optimum
from bayeskern.inference.result import Assessable

# The probability that a draw of the normal distribution at a mode is further away than near.
NEAR_PROBABILITY = 0.01
# Draws of the start distribution near a mode by which its share is judged, at least.
MIN_DRAWS_NEAR = 20
# A mode with less than this part of the draws that are expected there is not reached.
MIN_REACHED = 0.2
# Fewer draws than this that are expected near a mode may all be missing by chance.
MIN_EXPECTED = 10.0


def missed_modes(posterior: Assessable, first: Sample, log_evidence: float) -> list[Optimum]:
    """The modes that a search found and that draws do not reach.

    A mode is missed if the draws as a whole are far from it and weighted draws do not show that
    next to nothing lies there: a neck has a high mode without mass. It is also missed if few draws
    are near it and weighted draws, or Laplace's method where they are few, expect many; modes of
    that kind count where their shares sum to MISSING.

    Args:
        posterior: With the search of its fit, the findings of earlier ones, and draws.
        first: Draws of a start distribution that has the modes, with their densities.
        log_evidence: Log marginal likelihood.
    """
    z, optimum = posterior.z[0], posterior.optimum
    far = posterior.findings.missed(posterior.fitted_target.coordinates, z)
    own = (optimum, *optimum.others)
    earlier = [mode for mode in far if not any(mode is other for other in own)]
    missed, sparse = [], []
    for mode in (*own, *earlier):
        share = share_near(mode, first, log_evidence)
        least = share.value - 2.0 * share.error
        if np.isnan(share.value):
            least = np.exp(min(mode.log_evidence - log_evidence, 0.0))
        # Written so that an unknown share is not negligible.
        if any(mode is other for other in far):
            if not share.value + 2.0 * share.error < MISSING:
                missed.append(mode)
        elif least * len(z) >= MIN_EXPECTED and np.mean(is_near(mode, z)) < MIN_REACHED * least:
            sparse.append((mode, least))
    if sum(least for _, least in sparse) >= MISSING:
        missed += [mode for mode, _ in sparse]
    return missed


def is_near(mode: Optimum, z: np.ndarray) -> np.ndarray:
    """True for each of z (n, d) in the ellipsoid of a mode with 99 % of its normal draws: (n,)."""
    tril, _ = inverse_hessian_root(mode)
    with np.errstate(over="ignore", invalid="ignore"):
        white = solve_triangular(tril, (z - mode.z).T, lower=True)
        square = np.sum(np.square(white), axis=0)
    return square < chdtri(len(mode.z), NEAR_PROBABILITY)


def share_near(mode: Optimum, first: Sample, log_evidence: float) -> Estimate:
    """Share of the posterior near a mode, by weighted draws of the start distribution.

    The mean of p / (Z q0) over draws of q0 that are near, and 0 over the others; NaN where fewer
    than MIN_DRAWS_NEAR are.
    """
    near = is_near(mode, first.z)
    if near.sum() < MIN_DRAWS_NEAR:
        return Estimate(np.nan, np.nan)
    with np.errstate(over="ignore"):
        weights = np.where(near, np.exp(first.log_p - first.log_q - log_evidence), 0.0)
    return Estimate(float(np.mean(weights)), float(np.std(weights) / np.sqrt(len(weights))))
