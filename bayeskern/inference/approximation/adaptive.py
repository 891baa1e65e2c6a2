"""Adaptive importance sampling: proposals refitted in rounds to their own weighted draws."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from bayeskern.core.progress import Progress
from bayeskern.inference.approximation.elliptical import Elliptical
from bayeskern.inference.approximation.proposals import Approximation, Refittable, Sample
from bayeskern.inference.approximation.psis import Weights, pareto_smooth
from bayeskern.inference.model.cost import is_costly
from bayeskern.inference.model.evaluation import log_densities
from bayeskern.inference.model.target import Target
from bayeskern.inference.search.modes import Optimum


class AdaptedProposal(NamedTuple):
    """A proposal after its last round, and weighted draws from it.

    Attributes:
        proposal: The proposal.
        sample: Draws from it.
        weights: Their weights.
        previous: Draws and weights of the round before; None without an earlier round.
    """

    proposal: Approximation
    sample: Sample
    weights: Weights
    previous: tuple[Sample, Weights] | None


def adapt_proposal(
    q: Approximation,
    target: Target,
    count: int,
    rounds: int,
    rng: np.random.Generator,
    bar: Progress,
) -> AdaptedProposal:
    """Refit a proposal to its weighted draws, then draw from it.

    Args:
        q: The proposal, left unchanged if it cannot be refitted.
        target: The posterior.
        count: Draws of the last round.
        rounds: Rounds before the last one, each with a refit.
        rng: Random numbers.
        bar: Progress bar, which has a step for each round.
    """
    previous, round_count = None, count // 2
    if is_costly(target):
        # Enough draws to estimate a covariance.
        round_count = min(round_count, max(1024, 40 * target.size))
    for i in range(rounds):
        if not isinstance(q, Refittable):
            break
        sample, weights = previous = weighted_sample(q, target, rng, round_count)
        bar.to(i + 1, f"k-hat {weights.khat:.2f}")
        q = q.refit(sample.z, tempered_weights(weights, 10 * target.size))
    sample, weights = weighted_sample(q, target, rng, count)
    return AdaptedProposal(q, sample, weights, previous)


def weighted_sample(
    q: Approximation, target: Target, rng: np.random.Generator, count: int
) -> tuple[Sample, Weights]:
    """`count` draws from q with their densities, and their smoothed weights p / q."""
    z, log_q = q.draw(rng, count)
    sample = Sample(z, log_densities(target, z), log_q)
    return sample, pareto_smooth(sample.log_p - sample.log_q)


def proposal_around_modes(optimum: Optimum, tails: float | None) -> Elliptical:
    """Mixture of a Student t at each influential mode, weighted by Laplace's evidence.

    Args:
        optimum: The modes.
        tails: Degrees of freedom; None for normal distributions.
    """
    modes = (optimum, *optimum.influential)
    trils = [mode.inverse_root[0] for mode in modes]
    log_evidence = np.array([mode.log_evidence for mode in modes])
    # A mode without evidence weighs as much as the best mode. Without any, all weigh the same.
    log_weights = np.where(np.isfinite(log_evidence), log_evidence, log_evidence[0])
    log_weights = log_weights if np.all(np.isfinite(log_weights)) else np.zeros(len(modes))
    return Elliptical(np.stack([m.z for m in modes]), np.stack(trils), log_weights, tails)


def tempered_weights(weights: Weights, min_ess: float) -> np.ndarray:
    """Weights raised to the largest power <= 1 that gives `min_ess` effective draws.

    With fewer effective draws, a covariance would be too small, and the next round would have even
    fewer.
    """
    finite = np.isfinite(weights.log)
    min_ess = min(min_ess, 0.5 * finite.sum())

    def powered(power: float) -> np.ndarray:
        log = np.where(finite, power * np.where(finite, weights.log, 0.0), -np.inf)
        w = np.exp(log - log.max())
        return w / w.sum()

    def excess_ess(power: float) -> float:
        return 1.0 / np.sum(np.square(powered(power))) - min_ess

    if excess_ess(1.0) >= 0:
        return powered(1.0)
    return powered(brentq(excess_ess, 0.0, 1.0))  # pyright: ignore[reportArgumentType]
