"""Adaptive importance sampling: proposals refitted in rounds to their own weighted draws."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from bayeskern.inference.approximation.elliptical import Elliptical
from bayeskern.inference.approximation.proposals import (
    Approximation,
    Refittable,
    Sample,
)
from bayeskern.inference.approximation.psis import Weights, pareto_smooth
from bayeskern.inference.model.cost import is_costly
from bayeskern.inference.model.evaluation import log_densities
from bayeskern.inference.model.target import Target
from bayeskern.inference.optimization.factors import inverse_hessian_root
from bayeskern.inference.optimization.modes import Optimum

# Where a density costs much, a round before the last has as many draws as a covariance needs:
# so many, or so many for each coordinate.
A_ROUND, FOR_EACH = 1024, 40


class AdaptedProposal(NamedTuple):
    """A proposal after its last round, and draws from it.

    previous: the draws and the weights of the round before; None where nothing was adapted.
    """

    proposal: Approximation
    sample: Sample
    weights: Weights
    previous: tuple[Sample, Weights] | None


def adapt_proposal(
    q: Approximation, target: Target, count: int, rounds: int, rng, bar
) -> AdaptedProposal:
    """Refit q to its weighted draws in some rounds, and then draw `count` from it.

    A proposal that cannot be refitted is drawn from as it is.
    """
    previous, few = None, count // 2
    if is_costly(target):
        few = min(few, max(A_ROUND, FOR_EACH * target.size))
    if isinstance(q, Refittable):
        for i in range(rounds):
            sample, weights = previous = weighted_sample(q, target, rng, few)
            bar.to(i + 1, f"k-hat {weights.khat:.2f}")
            q = q.refit(sample.z, tempered_weights(weights, 10 * target.size))
    sample, weights = weighted_sample(q, target, rng, count)
    return AdaptedProposal(q, sample, weights, previous)


def weighted_sample(q: Approximation, target: Target, rng, count: int) -> tuple[Sample, Weights]:
    """`count` draws from q with their densities, and their smoothed weights p / q."""
    z, log_q = q.draw(rng, count)
    sample = Sample(z, log_densities(target, z), log_q)
    return sample, pareto_smooth(sample.log_p - sample.log_q)


def proposal_around_modes(optimum: Optimum, tails: float | None) -> Elliptical:
    """A Student t at each mode, weighted by Laplace's evidence of each."""
    modes = (optimum, *optimum.influential)
    trils = [inverse_hessian_root(mode)[0] for mode in modes]
    log_evidence = np.array([mode.log_evidence for mode in modes])
    log_weights = np.where(np.isfinite(log_evidence), log_evidence, log_evidence[0])
    log_weights = log_weights if np.all(np.isfinite(log_weights)) else np.zeros(len(modes))
    return Elliptical(np.stack([m.z for m in modes]), np.stack(trils), log_weights, tails)


def tempered_weights(weights: Weights, least: float) -> np.ndarray:
    """Weights flattened to a power at which `least` of them are effective, if fewer are.

    Few effective draws would give a covariance that is too small, and the next round fewer still.
    """
    finite = np.isfinite(weights.log)
    least = min(least, 0.5 * finite.sum())

    def at(power):
        log = np.where(finite, power * np.where(finite, weights.log, 0.0), -np.inf)
        w = np.exp(log - log.max())
        return w / w.sum()

    def lacking(power):
        return 1.0 / np.sum(np.square(at(power))) - least

    return at(1.0) if lacking(1.0) >= 0 else at(brentq(lacking, 0.0, 1.0))
