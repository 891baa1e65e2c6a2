"""Change points of the level and the slope of a series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from bayeskern.engine.log_marginal import DenseLogMarginal
from bayeskern.forecast.fit.modes import FittedStructure
from bayeskern.forecast.model.trends import priors_of_changes

# Log prior odds of one more change: the data must be three times as probable with it, which is
# "positive evidence" in Kass and Raftery (1995), "Bayes factors".
LOG_PRIOR_ODDS = -float(np.log(3.0))


class ChangeScan(NamedTuple):
    """Log Bayes factors of an additional change at each candidate time.

    Attributes:
        times: Midpoints between neighbouring times of the series, (m,).
        log_factors: Log Bayes factors at fixed hyperparameters, (m,).
    """

    times: np.ndarray
    log_factors: np.ndarray

    @property
    def likeliest(self) -> float:
        """Time of the largest Bayes factor."""
        return float(self.times[np.argmax(self.log_factors)])


def scan(density: DenseLogMarginal, z: np.ndarray, trend: str, margin: int = 0) -> ChangeScan:
    """Bayes factors of a change of level and slope at every time between two values.

    A change at time c adds the features 1(t > c) and max(t - c, 0) to the process, with a prior on
    their coefficients. The marginal likelihood at fixed hyperparameters has a closed form:
    Rasmussen and Williams (2006), section 2.7. Sums over the times after c give it for all c in
    quadratic time.

    Args:
        density: Log joint density of n values.
        z: Hyperparameters, (d,).
        trend: Trend of the structure, which says whether the slope changes too.
        margin: Smallest number of values before and after a change.
    """
    with density.threads():
        precision, weighted = density.conditioned(z).precision()
    # Time to the end, so that a feature is 0 at the last value without loss of digits.
    x = density.x - density.x[-1]
    times = 0.5 * (x[1:] + x[:-1])
    after = [_sums_after(weighted * power) for power in (1.0, x)]
    level, mixed, square = (
        _sums_after(_sums_after(part).T).diagonal()
        for part in (precision, precision * x, x[:, None] * precision * x)
    )
    # Information H' K^-1 H, (m, 2, 2), and score H' K^-1 y, (m, 2), of the features H.
    level, mixed, square = (part[1:] for part in (level, mixed, square))
    mixed, square = mixed - times * level, square - 2.0 * times * mixed + times**2 * level
    information = np.stack([level, mixed, mixed, square], axis=-1).reshape(-1, 2, 2)
    score = np.stack([after[0][1:], after[1][1:] - times * after[0][1:]], axis=-1)
    priors = priors_of_changes(trend, 1, float(np.ptp(x))).values()
    prior = np.exp([location for location, _ in priors])
    k = len(prior)
    information, score = information[:, :k, :k], score[:, :k]
    posterior_precision = np.diag(1.0 / prior) + information
    coefficients = np.linalg.solve(posterior_precision, score[..., None])[..., 0]
    gain = np.einsum("ma,ma->m", score, coefficients)
    occam = np.linalg.slogdet(posterior_precision)[1] + np.log(prior).sum()
    inner = slice(max(margin - 1, 0), len(times) - max(margin - 1, 0))
    return ChangeScan((times + density.x[-1])[inner], 0.5 * (gain - occam)[inner])


def with_change(fitted: FittedStructure, time: float, margin: int) -> FittedStructure:
    """Fit with one more change of level and slope, from the mode of a fit.

    All times of the change are equally probable a priori. The log prior of the result accounts for
    all times of the change: p(y) given a change at any time is p(y) given this time, divided by the
    posterior probability of this time.
    """
    changes = (*fitted.structure.changes, time)
    structure = fitted.structure._replace(changes=changes)
    changed = FittedStructure.from_values(
        structure, fitted.choices, fitted.x, fitted.y, fitted.mode_by_name
    )
    candidates = _scan_of(fitted, changed, margin)
    at = int(np.argmin(np.abs(candidates.times - time)))
    log_share = float(candidates.log_factors[at] - logsumexp(candidates.log_factors))
    log_count = float(np.log(len(candidates.times)))
    log_prior = fitted.log_prior + LOG_PRIOR_ODDS - log_share - log_count
    return replace(changed, log_prior=log_prior)


def with_likeliest_change(
    fits: Sequence[FittedStructure], margin: int, starts: int
) -> FittedStructure | None:
    """Fit with a further change at its most probable time; None for a short series.

    The hyperparameters of a fit without the change explain it by a wandering level. Its time is
    therefore searched a second time, at the hyperparameters of a fit with the change.

    Args:
        fits: Structures at their modes.
        margin: Smallest number of values before and after a change.
        starts: Number of pairs of a structure and a time to fit.
    """
    if len(fits[0].y) < 2 * margin:
        return None
    proposals = []
    for fitted in fits:
        candidates = _scan_of(fitted, fitted, margin)
        score = fitted.log_joint + candidates.log_factors.max()
        proposals.append((score, fitted, candidates.likeliest))
    changed = []
    for _, fitted, time in sorted(proposals, key=lambda proposal: -proposal[0])[:starts]:
        changed.append(with_change(fitted, time, margin))
        new_time = _scan_of(fitted, changed[-1], margin).likeliest
        if new_time != time:
            changed.append(with_change(fitted, new_time, margin))
    return max(changed, key=lambda fitted: fitted.log_evidence)


def _scan_of(fitted: FittedStructure, at: FittedStructure, margin: int) -> ChangeScan:
    """Scan of `fitted` at the hyperparameters of `at`."""
    z = np.array([at.mode_by_name[name] for name in fitted.density.names])
    return scan(fitted.dense, z, fitted.structure.trend, margin)


def _sums_after(a: np.ndarray) -> np.ndarray:
    """Sum of the rows from i to the last one of an array, for each i."""
    return np.cumsum(a[::-1], axis=0)[::-1]
