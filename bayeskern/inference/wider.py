"""A look for what an approximation misses: draws from it, from around it, and from the prior."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
from scipy.special import logsumexp

from bayeskern.inference.approximation import (
    Approximation,
    Elliptical,
    Prior,
    cholesky,
    log_densities,
)
from bayeskern.inference.constrain import constrain
from bayeskern.inference.target import Target
from bayeskern.inference.weights import Weights, moments, smooth

# The wider proposal: its sds in those of the approximation, and its degrees of freedom.
WIDER, TAILS = 1.5, 5.0
# Draws from the prior, for each draw of the approximation.
FROM_PRIOR = 0.5


class Sample(NamedTuple):
    """Draws z (S, d) of an approximation q, with log p and log q of each: (S,)."""

    z: np.ndarray
    log_p: np.ndarray
    log_q: np.ndarray


class Wider(NamedTuple):
    """The sites at all draws, (T, shape) each, and their weights."""

    draws: dict[str, np.ndarray]
    weights: Weights


def look_wider(target: Target, q: Approximation, sample: Sample, z) -> Wider | None:
    """Weighted draws from q, a Student t wider than the draws z (S, d), and the prior.

    They are one mixture: each draw is weighted by p over the density of all of it (Owen and Zhou,
    2000), so that a part that fits badly does no harm. An improper prior is left out. None where q
    cannot tell its density at other draws than its own.
    """
    if not hasattr(q, "log_density"):
        return None
    count = len(sample.z)
    mean, covariance = moments(z, np.full(len(z), 1.0 / len(z)))
    scale = WIDER * np.sqrt((TAILS - 2.0) / TAILS)
    wide = Elliptical.of(mean, scale * cholesky(covariance), TAILS)
    others = [np.asarray(wide.draw(jax.random.key(1), count)[0])]
    densities = [wide.log_density]
    if not target.without_prior:
        prior = Prior(target)
        others.append(_finite(prior.draw(jax.random.key(2), int(FROM_PRIOR * count))[0]))
        densities.append(prior.log_density)
    shares = np.array([count, *map(len, others)], float)
    new = np.concatenate(others)
    z = np.concatenate([sample.z, new])
    log_q = [np.concatenate([sample.log_q, q.log_density(new)]), *(f(z) for f in densities)]
    log_p = np.concatenate([sample.log_p, log_densities(target, new)])
    # A density that is NaN far out counts as none.
    log_q, log_p = (np.where(np.isnan(x), -np.inf, x) for x in (np.stack(log_q), log_p))
    weights = smooth(log_p - logsumexp(log_q, axis=0, b=shares[:, None] / len(z)))
    return Wider({k: v[0] for k, v in constrain(target, z[None]).items()}, weights)


def _finite(z) -> np.ndarray:
    """Without the draws at the edge of a support, which lie at infinity."""
    z = np.asarray(z)
    return z[np.all(np.isfinite(z), axis=1)]
