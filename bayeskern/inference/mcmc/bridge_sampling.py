"""The log evidence from posterior draws, by bridge sampling."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp

from bayeskern.inference.approximation.elliptical import Elliptical
from bayeskern.inference.estimate import Estimate
from bayeskern.inference.model.evaluation import log_densities
from bayeskern.inference.model.target import Target

# The iteration has converged when the log evidence moves by less than this.
TOLERANCE = 1e-10
STEPS = 1000


def bridge_log_evidence(
    target: Target, z, seed: int, inside: Callable[[np.ndarray], np.ndarray] | None = None
) -> Estimate:
    """log p(data) from posterior draws z: (chains, draws, d), in unconstrained coordinates.

    inside: which of some points (n, d) lie in the part of the space that z are draws from, where
    they are from a part of the posterior only; the integral is over that part.

    A normal q is fitted to the first half of each chain. With the n1 effective draws of the second
    half and n2 draws of q, s1 = n1 / (n1 + n2) and s2 = 1 - s1, the evidence Z is the fixed point

        Z = mean_q[ p / (s1 p + s2 Z q) ] / mean_p[ q / (s1 p + s2 Z q) ].

    Meng and Wong (1996), equation 4.1; Gronau et al. (2017), "A tutorial on bridge sampling". The
    error is that of Fruehwirth-Schnatter (2004), equation 16, with the autocorrelation of the
    chains. NaN where there are too few draws, chains do not move, a density is not
    finite, or the normal is so far from the posterior that the iteration does not converge.
    """
    z = np.asarray(z)
    half, d = z.shape[1] // 2, z.shape[2]
    fitted, rest = z[:, :half].reshape(-1, d), z[:, half:]
    if len(fitted) <= d + 1 or rest.shape[1] < 4:
        return Estimate(np.nan, np.nan)
    q = Elliptical.around(fitted, None)
    flat = rest.reshape(-1, d)
    proposed, log_q_proposed = q.draw(np.random.default_rng(seed), len(flat))
    at_draws = log_densities(target, flat) - q.log_density(flat)
    at_proposed = log_densities(target, proposed) - log_q_proposed
    if inside is not None:
        at_proposed = np.where(inside(proposed), at_proposed, -np.inf)
    # A draw from the normal at which the posterior has no density counts as one of density zero.
    at_proposed = np.where(np.isnan(at_proposed), -np.inf, at_proposed)
    if not np.all(np.isfinite(at_draws)) or not np.any(np.isfinite(at_proposed)):
        return Estimate(np.nan, np.nan)
    return _fixed_point(at_draws.reshape(rest.shape[:2]), at_proposed)


def _fixed_point(at_draws, at_proposed) -> Estimate:
    """The bridge from log p - log q at posterior draws (chains, n) and at draws of q (m,)."""
    chains, n = at_draws.shape
    # Chains that do not move would count as independent draws.
    if not np.ptp(at_draws) > 0.0:
        return Estimate(np.nan, np.nan)
    effective = chains * n
    # How many draws the chains are worth is known only once Z is.
    for _ in range(2):
        share = effective / (effective + len(at_proposed))
        log_z = _solve(at_draws.ravel(), at_proposed, share)
        # p / (s1 p + s2 q) at draws of q, q / (s1 p + s2 q) at draws of p, for the normalised p.
        f1 = 1.0 / (share + (1.0 - share) * np.exp(np.minimum(log_z - at_proposed, 700.0)))
        f2 = 1.0 / (share * np.exp(np.minimum(at_draws - log_z, 700.0)) + 1.0 - share)
        effective = _effective(f2)
        # The iteration has not converged: the normal and the posterior hardly overlap.
        if not np.isfinite(effective):
            return Estimate(np.nan, np.nan)
    squared = np.var(f1) / np.mean(f1) ** 2 / len(f1) + np.var(f2) / np.mean(f2) ** 2 / effective
    return Estimate(log_z, float(np.sqrt(squared)))


def _solve(at_draws, at_proposed, share) -> float:
    """The fixed point for log Z; NaN if it is not reached."""
    log_s1, log_s2 = np.log(share), np.log1p(-share)
    sizes = np.log(len(at_draws)) - np.log(len(at_proposed))
    log_z = float(np.median(at_draws))
    for _ in range(STEPS):
        before = log_z
        above = logsumexp(at_proposed - np.logaddexp(log_s1 + at_proposed, log_s2 + before))
        below = logsumexp(-np.logaddexp(log_s1 + at_draws, log_s2 + before))
        log_z = float(above - below + sizes)
        if abs(log_z - before) < TOLERANCE * (1.0 + abs(log_z)):
            return log_z
    return np.nan


def _effective(f) -> float:
    """How many independent draws the mean over (chains, n) is worth."""
    from arviz_stats.base import array_stats

    # In units of their mean, since arviz takes a small range for a constant.
    return float(array_stats.ess(f / np.mean(f), method="mean"))
