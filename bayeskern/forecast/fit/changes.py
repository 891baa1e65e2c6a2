"""Change points of the level and the slope of a series."""

from __future__ import annotations

from typing import cast

import numpy as np

from bayeskern.forecast.fit.modes import Fitted
from bayeskern.forecast.model.kernels import JUMP_VARIANCE
from bayeskern.gp.time_series.evidence import NumpyEvidence


def likeliest_change(fitted: Fitted, unit: float) -> tuple[float, float]:
    """Most probable time of a further change point, and its log Bayes factor.

    A change at time c adds the features 1(t >= c) and max(t - c, 0) to the process. Given the
    hyperparameters, its marginal likelihood has a closed form: Rasmussen and Williams (2006),
    section 2.7, with a prior on the coefficients. Changes lie halfway between two values.

    unit: Time unit of the prior on the slope.
    """
    x = fitted.x
    evidence = cast("NumpyEvidence", fitted.evidence)
    with evidence.threads():
        precision, weighted = evidence.conditioned(fitted.mode).precision()
    at = 0.5 * (x[1:] + x[:-1])
    after = x[:, None] > at
    features = np.stack([after.astype(float), np.where(after, x[:, None] - at, 0.0)])
    solved = precision @ features
    # A 2 x 2 system for each time: information (m, 2, 2), score (m, 2).
    information = np.einsum("anm,bnm->mab", features, solved)
    score = np.einsum("anm,n->ma", features, weighted)
    prior = np.exp(JUMP_VARIANCE) / np.array([1.0, unit**2])
    inner = np.diag(1.0 / prior) + information
    gain = np.einsum("ma,ma->m", score, np.linalg.solve(inner, score[..., None])[..., 0])
    shrink = np.linalg.slogdet(inner)[1] + np.log(prior).sum()
    factors = 0.5 * (gain - shrink)
    best = int(np.argmax(factors))
    return float(at[best]), float(factors[best])
