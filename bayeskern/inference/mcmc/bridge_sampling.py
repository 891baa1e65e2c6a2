"""The log evidence from posterior draws, by bridge sampling."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp

from bayeskern.inference.approximation.elliptical import Elliptical
from bayeskern.inference.estimate import Estimate
from bayeskern.inference.model.evaluation import log_densities
from bayeskern.inference.model.target import Target

UNKNOWN = Estimate(np.nan, np.nan)


def bridge_log_integral(
    target: Target,
    z: np.ndarray,
    seed: int,
    inside: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Estimate:
    """Log evidence, or the log integral of the density over a part of the space.

    A normal q is fitted to the first half of each chain. With the n1 effective draws of the second
    half and n2 draws of q, s1 = n1 / (n1 + n2) and s2 = 1 - s1, the evidence Z is the fixed point

        Z = mean_q[ p / (s1 p + s2 Z q) ] / mean_p[ q / (s1 p + s2 Z q) ].

    Meng and Wong (1996), equation 4.1; Gronau et al. (2017), "A tutorial on bridge sampling". The
    standard error follows Fruehwirth-Schnatter (2004), equation 16, with the autocorrelation of the
    chains.

    Args:
        target: The posterior.
        z: Draws in unconstrained coordinates, (chains, draws, d).
        seed: Seed of the draws of q.
        inside: For draws from a part of the posterior only: function from points (n, d) to True for
            each point in that part.

    Returns:
        The log integral. NaN if there are too few draws, chains do not move, a density is not
        finite, or q is so distant from the posterior that the iteration does not converge.
    """
    z = np.asarray(z)
    half, d = z.shape[1] // 2, z.shape[2]
    first_half, second_half = z[:, :half].reshape(-1, d), z[:, half:]
    if len(first_half) <= d + 1 or second_half.shape[1] < 4:
        return UNKNOWN
    q = Elliptical.around(first_half, None)
    flat = second_half.reshape(-1, d)
    proposed, log_q_proposed = q.draw(np.random.default_rng(seed), len(flat))
    posterior_log_ratios = log_densities(target, flat) - q.log_density(flat)
    proposal_log_ratios = log_densities(target, proposed) - log_q_proposed
    if inside is not None:
        proposal_log_ratios = np.where(inside(proposed), proposal_log_ratios, -np.inf)
    # The density counts as zero where it is NaN.
    proposal_log_ratios = np.where(np.isnan(proposal_log_ratios), -np.inf, proposal_log_ratios)
    if not np.all(np.isfinite(posterior_log_ratios)) or not np.any(
        np.isfinite(proposal_log_ratios)
    ):
        return UNKNOWN
    return _bridge(posterior_log_ratios.reshape(second_half.shape[:2]), proposal_log_ratios)


def _bridge(posterior_log_ratios: np.ndarray, proposal_log_ratios: np.ndarray) -> Estimate:
    """log Z from log p - log q at posterior draws (chains, n) and at draws of q (m,)."""
    chains, n = posterior_log_ratios.shape
    # Chains that do not move would count as independent draws.
    if not np.ptp(posterior_log_ratios) > 0.0:
        return UNKNOWN
    effective = chains * n
    log_z = squared_error = np.nan
    # The number of effective draws depends on Z: begin with all draws.
    for _ in range(2):
        share = effective / (effective + len(proposal_log_ratios))
        log_z = _fixed_point(posterior_log_ratios.ravel(), proposal_log_ratios, share)
        # p / (s1 p + s2 q) at draws of q, q / (s1 p + s2 q) at draws of p, for the normalised p.
        f1 = 1.0 / (share + (1.0 - share) * np.exp(np.minimum(log_z - proposal_log_ratios, 700.0)))
        f2 = 1.0 / (share * np.exp(np.minimum(posterior_log_ratios - log_z, 700.0)) + 1.0 - share)
        effective = _effective_draws(f2)
        # The iteration has not converged: q and the posterior hardly overlap.
        if not np.isfinite(effective):
            return UNKNOWN
        squared_error = np.var(f1) / np.mean(f1) ** 2 / len(f1)
        squared_error += np.var(f2) / np.mean(f2) ** 2 / effective
    return Estimate(log_z, float(np.sqrt(squared_error)))


def _fixed_point(
    posterior_log_ratios: np.ndarray, proposal_log_ratios: np.ndarray, share: float
) -> float:
    """Fixed point log Z; NaN if it is not reached in 1000 steps."""
    log_s1, log_s2 = np.log(share), np.log1p(-share)
    sizes = np.log(len(posterior_log_ratios)) - np.log(len(proposal_log_ratios))
    log_z = float(np.median(posterior_log_ratios))
    for _ in range(1000):
        old = log_z
        numerator = logsumexp(
            proposal_log_ratios - np.logaddexp(log_s1 + proposal_log_ratios, log_s2 + old)
        )
        denominator = logsumexp(-np.logaddexp(log_s1 + posterior_log_ratios, log_s2 + old))
        log_z = float(numerator - denominator + sizes)
        if abs(log_z - old) < 1e-10 * (1.0 + abs(log_z)):
            return log_z
    return np.nan


def _effective_draws(f: np.ndarray) -> float:
    """Number of independent draws with the same error of the mean of f (chains, n)."""
    from arviz_stats.base.array import array_stats

    # In units of the mean, since ArviZ takes a small range for a constant.
    return float(array_stats.ess(f / np.mean(f), method="mean"))  # pyright: ignore[reportArgumentType]
