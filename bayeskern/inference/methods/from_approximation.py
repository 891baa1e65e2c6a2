"""Fits whose draws come from an approximation of known density, plain or weighted."""

from __future__ import annotations

import numpy as np

from bayeskern.core.random import stream
from bayeskern.inference.approximation.proposals import Approximation
from bayeskern.inference.approximation.psis import resample
from bayeskern.inference.assessment.approximation import assess_approximation, assess_weighted
from bayeskern.inference.optimization.modes import Optimum
from bayeskern.inference.result import Fit
from bayeskern.inference.verdict import Trust


def fit_from_approximation(
    q: Approximation,
    count: int,
    seed: int,
    optimum: Optimum,
    problem: str | None = None,
    doubt: str | None = None,
    **fields,
) -> Fit:
    """A Fit of `count` draws of q.

    optimum: the modes that were found; problem, doubt: as in `assess_approximation`; fields: other
    fields of the Fit.
    """
    z, log_q = q.draw(stream(seed, "draws"), count)
    return Fit(
        z=z[None],
        log_q=log_q,
        assess=lambda posterior: assess_approximation(posterior, problem, doubt),
        optimum=optimum,
        approximation=q,
        **fields,
    )


def fit_from_weights(sample, weights, q, count, replace, seed, moved=None, **fields) -> Fit:
    """A Fit of `count` draws resampled from weighted ones, a quarter of them without replacement.

    sample, weights: of draws from q; moved: as in `assess_weighted`; fields: other fields of the
    Fit.
    """
    count = count if replace else max(1, count // 4)
    chosen = resample(weights.normal, count, stream(seed, "resampling"), replace)

    def assess(posterior) -> Trust:
        distinct = len(np.unique(chosen))
        return assess_weighted(posterior, sample, weights, distinct, moved)

    return Fit(
        z=sample.z[chosen][None],
        weighted=(sample.z, weights.log),
        assess=assess,
        log_evidence=weights.log_evidence,
        approximation=q,
        trace={"khat": np.array([weights.khat])},
        **fields,
    )
