"""A wider sample, for what an approximation misses: from it, from around it, and from the prior."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from bayeskern.core.random import stream
from bayeskern.inference.approximation.elliptical import Elliptical
from bayeskern.inference.approximation.proposals import (
    Approximation,
    Evaluable,
    PriorProposal,
    Sample,
)
from bayeskern.inference.approximation.psis import Weights, pareto_smooth
from bayeskern.inference.model.evaluation import constrain, draw_prior, log_densities
from bayeskern.inference.model.target import Target

# The wider Student t: its sds, as multiples of those of the draws, and its degrees of freedom.
WIDER, TAILS = 1.5, 5.0
# Draws from the prior, for each draw of the approximation.
FROM_PRIOR = 0.5


class OverdispersedSample(NamedTuple):
    """Draws in unconstrained coordinates, (T, d), the sites there, (T, shape) each, and weights."""

    z: np.ndarray
    draws: dict[str, np.ndarray]
    weights: Weights

    def heaviest(self, count: int) -> np.ndarray:
        """The draws of most weight, heaviest first: (count, d)."""
        return self.z[np.argsort(-self.weights.log, kind="stable")[:count]]


def overdispersed_sample(
    target: Target, q: Approximation, sample: Sample, z, count: int, progress: bool = False
) -> OverdispersedSample:
    """Weighted draws from q, `count` from a Student t wider than the draws z (S, d), the prior's.

    They are one mixture: each draw is weighted by p over the density of the whole mixture (Owen and
    Zhou, 2000), so that a part that fits badly does no harm. An improper prior is left out, and so
    is one whose draws are all equal, and q where its density is known at its own draws only.
    """
    # A Student t has TAILS / (TAILS - 2) times the variance of its scale.
    student_t = Elliptical.around(z, TAILS, WIDER * np.sqrt((TAILS - 2.0) / TAILS))
    q_part = [(q, sample.z)] if isinstance(q, Evaluable) else []
    rng = stream(0, "wider")
    parts = [*q_part, (student_t, student_t.draw(rng, count)[0])]
    if not target.without_prior:
        drawn = draw_prior(target, rng, np.ones(int(FROM_PRIOR * count)))
        # A distribution whose `sample` is a dummy has a density, and no draws from it.
        if not np.any(np.all(drawn == drawn[0], axis=0)):
            parts.append((PriorProposal(target), drawn))
    z = np.concatenate([drawn for _, drawn in parts])
    # A draw at the edge of a support lies at infinity; it has no weight, in a place of its own.
    at_infinity = ~np.all(np.isfinite(z), axis=1)
    z[at_infinity] = student_t.means[0]
    shares = np.array([len(drawn) for _, drawn in parts]) / len(z)
    log_q = np.stack([part.log_density(z) for part, _ in parts])
    known_log_p = sample.log_p if q_part else np.zeros(0)
    log_p = np.concatenate([known_log_p, log_densities(target, z[len(known_log_p) :], progress)])
    # A density that is NaN far out counts as none.
    log_q, log_p = (np.where(np.isnan(x), -np.inf, x) for x in (log_q, log_p))
    log_p = np.where(at_infinity, -np.inf, log_p)
    mixture = logsumexp(log_q, axis=0, b=shares[:, None])
    weights = pareto_smooth(np.where(np.isneginf(log_p), -np.inf, log_p - mixture))
    draws = {k: v[0] for k, v in constrain(target, z[None]).items()}
    return OverdispersedSample(z, draws, weights)
