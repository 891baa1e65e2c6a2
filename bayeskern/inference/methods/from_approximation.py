"""Build fits from draws of an approximation, unweighted or resampled by weight."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bayeskern.core.random import stream
from bayeskern.inference.approximation.adaptive import AdaptedProposal
from bayeskern.inference.approximation.proposals import Approximation
from bayeskern.inference.approximation.psis import resample
from bayeskern.inference.assessment.approximation import WeightedAssessment, assess_approximation
from bayeskern.inference.result import Fit
from bayeskern.inference.search.modes import Optimum


def fit_from_approximation(
    q: Approximation,
    count: int,
    seed: int,
    optimum: Optimum,
    problem: str | None = None,
    doubt: str | None = None,
    **fields: Any,
) -> Fit:
    """A Fit of draws from an approximation.

    Args:
        q: The approximation.
        count: Number of draws.
        seed: Seed of the draws.
        optimum: The modes found by a search.
        problem: As in `assess_approximation`.
        doubt: As in `assess_approximation`.
        **fields: Other fields of the Fit.
    """
    z, log_q = q.draw(stream(seed, "draws"), count)
    return Fit(
        z=z[None],
        log_q=log_q,
        assess=partial(assess_approximation, problem=problem, doubt=doubt),
        optimum=optimum,
        approximation=q,
        **fields,
    )


def fit_from_weights(
    weighted: AdaptedProposal, count: int, replace: bool, seed: int, changing: str | None = None
) -> Fit:
    """A Fit of draws resampled from weighted draws.

    Args:
        weighted: The proposal with its weighted draws.
        count: Number of draws.
        replace: True to resample with replacement; False for count // 4 draws without replacement.
        seed: Seed of the resampling.
        changing: As in `WeightedAssessment`.
    """
    q, sample, weights, _ = weighted
    count = count if replace else max(1, count // 4)
    chosen = resample(weights.normal, count, stream(seed, "resampling"), replace)
    distinct = len(np.unique(chosen))
    return Fit(
        z=sample.z[chosen][None],
        weighted_z=(sample.z, weights.log),
        assess=WeightedAssessment(sample, weights, distinct, changing),
        log_evidence=weights.log_evidence,
        approximation=q,
        trace={"khat": np.array([weights.khat])},
    )
