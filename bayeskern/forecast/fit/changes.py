"""Change points of the level and the slope of a series."""

from __future__ import annotations

from typing import cast

import numpy as np

from bayeskern.forecast.fit.modes import Fitted
from bayeskern.forecast.model.kernels import JUMP_VARIANCE
from bayeskern.gp.time_series.evidence import NumpyEvidence


def likeliest_change(fitted: Fitted, unit: float) -> tuple[float, float]:
    """Most probable time of an additional change point, and its log Bayes factor.

    A change at time c adds the features 1(t > c) and max(t - c, 0) to the process, with a prior on
    their coefficients. The marginal likelihood at fixed hyperparameters has a closed form:
    Rasmussen and Williams (2006), section 2.7. Candidate times are the midpoints between times.

    unit: Time unit of the prior of the change of slope.
    """
    x = fitted.x
    evidence = cast("NumpyEvidence", fitted.evidence)
    with evidence.threads():
        precision, weighted = evidence.conditioned(fitted.mode).precision()
    times = 0.5 * (x[1:] + x[:-1])
    is_after = x[:, None] > times
    features = np.stack([is_after.astype(float), np.where(is_after, x[:, None] - times, 0.0)])
    solved = precision @ features
    # For each of the m candidate times, with its features H (n, 2): information H' K^-1 H
    # (m, 2, 2) and score H' K^-1 y (m, 2).
    information = np.einsum("anm,bnm->mab", features, solved)
    score = np.einsum("anm,n->ma", features, weighted)
    prior = np.exp(JUMP_VARIANCE) / np.array([1.0, unit**2])
    posterior_precision = np.diag(1.0 / prior) + information
    coefficients = np.linalg.solve(posterior_precision, score[..., None])[..., 0]
    gain = np.einsum("ma,ma->m", score, coefficients)
    occam = np.linalg.slogdet(posterior_precision)[1] + np.log(prior).sum()
    log_factors = 0.5 * (gain - occam)
    best = int(np.argmax(log_factors))
    return float(times[best]), float(log_factors[best])
