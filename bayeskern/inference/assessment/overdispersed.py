"""Weighted sample from an approximation, from a wider distribution and from the prior."""

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


class OverdispersedSample(NamedTuple):
    """Weighted draws from a wide mixture.

    Attributes:
        z: Draws in unconstrained coordinates, (T, d).
        draws: Sites at z, each (T, *site).
        log_p: log p(z), -inf where it is not finite, (T,).
        weights: Importance weights.
    """

    z: np.ndarray
    draws: dict[str, np.ndarray]
    log_p: np.ndarray
    weights: Weights

    def heaviest(self, count: int) -> np.ndarray:
        """The `count` draws of largest weight, heaviest first, (count, d)."""
        return self.z[np.argsort(-self.weights.log, kind="stable")[:count]]


def overdispersed_sample(
    target: Target,
    q: Approximation | None,
    sample: Sample,
    z: np.ndarray,
    count: int,
    progress: bool = False,
) -> OverdispersedSample:
    """Weighted draws from q, from a Student t wider than the draws, and from the prior.

    The draws form one mixture: each is weighted by p over the density of the whole mixture (Owen
    and Zhou, 2000), so that a component that fits badly does no harm. Three components are left
    out: an improper prior, a prior with a coordinate that is equal in all draws, and a q whose
    density is known only at its own draws.

    Args:
        target: Log density p.
        q: Approximation.
        sample: Draws of q with their densities.
        z: Draws that the Student t surrounds, (S, d).
        count: Number of draws from the Student t; half as many come from the prior.
        progress: True to show a progress bar.

    Returns:
        The sample.
    """
    # The variance of a Student t with 5 degrees of freedom is 5/3 of its squared scale. This scale
    # makes its sds 1.5 times the sds of the draws.
    tails = 5.0
    student_t = Elliptical.around(z, tails, 1.5 * np.sqrt((tails - 2.0) / tails))
    q_part = [(q, sample.z)] if isinstance(q, Evaluable) else []
    rng = stream(0, "wider")
    parts = [*q_part, (student_t, student_t.draw(rng, count)[0])]
    if not target.without_prior:
        prior_draws = draw_prior(target, rng, np.ones(int(0.5 * count)))
        # The draws of a distribution with a dummy `sample` are no draws from its density.
        if not np.any(np.all(prior_draws == prior_draws[0], axis=0)):
            parts.append((PriorProposal(target), prior_draws))
    z = np.concatenate([points for _, points in parts])
    # A draw at the edge of a support lies at infinity; it gets a finite z and weight zero.
    at_infinity = ~np.all(np.isfinite(z), axis=1)
    z[at_infinity] = student_t.means[0]
    shares = np.array([len(points) for _, points in parts]) / len(z)
    log_q = np.stack([part.log_density(z) for part, _ in parts])
    known_log_p = sample.log_p if q_part else np.zeros(0)
    log_p = np.concatenate([known_log_p, log_densities(target, z[len(known_log_p) :], progress)])
    # A density that is NaN in the tails counts as zero.
    log_q, log_p = (np.where(np.isnan(x), -np.inf, x) for x in (log_q, log_p))
    log_p = np.where(at_infinity, -np.inf, log_p)
    mixture = logsumexp(log_q, axis=0, b=shares[:, None])
    weights = pareto_smooth(np.where(np.isneginf(log_p), -np.inf, log_p - mixture))
    draws = {k: v[0] for k, v in constrain(target, z[None]).items()}
    return OverdispersedSample(z, draws, log_p, weights)
