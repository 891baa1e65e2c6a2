"""Warmup of a chain in windows, with an estimate of the metric at the end of each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayeskern.inference.mcmc.metric import Metric

# Steps of the first window.
FIRST_WINDOW_STEPS = 10


# Number of different draws below which nothing is estimated.
MIN_DISTINCT_DRAWS = 4


class RecentDraws(NamedTuple):
    """Recent draws of a warmup, (n, d), and the gradients of -log p there, (n, d)."""

    z: np.ndarray
    gradient: np.ndarray

    def joined(self, z: np.ndarray, gradient: np.ndarray) -> RecentDraws:
        """These draws and further ones."""
        return RecentDraws(np.concatenate([self.z, z]), np.concatenate([self.gradient, gradient]))

    def last(self, count: int) -> RecentDraws:
        """The last draws."""
        first = max(0, len(self.z) - count)
        return RecentDraws(self.z[first:], self.gradient[first:])

    def update(self, metric: Metric) -> Metric:
        """Metric estimated from the draws; the old one if they vary too little or diverge."""
        finite = np.all(np.isfinite(self.z), axis=1) & np.all(np.isfinite(self.gradient), axis=1)
        z, gradient = self.z[finite], self.gradient[finite]
        if len(np.unique(z[:, 0])) < MIN_DISTINCT_DRAWS:
            return metric
        with np.errstate(over="ignore", invalid="ignore"):
            updated = metric.updated(z, gradient)
        return updated if updated.is_regular else metric

    def widen(self, metric: Metric) -> Metric:
        """Metric widened to the sds of the draws; the old metric if the draws diverge."""
        # Squares of larger numbers overflow; a comparison with NaN is false.
        if not np.max(np.abs(self.z), initial=0.0) < 1e100 * np.min(metric.scale):
            return metric
        wider = metric.widened(self.z)
        return wider if wider.is_regular else metric


# Ratio of sds between two estimates below which the metric has settled in all directions. The
# warmup ends early once it has settled at two window ends in a row.
SETTLED_RATIO = 1.5
# The same ratio for a metric of low rank, whose few draws in many coordinates leave more noise.
SETTLED_RATIO_OF_LOW_RANK = 2.0


def has_settled(old: Metric, new: Metric) -> bool:
    """True if two successive estimates of a metric hardly differ.

    A metric that is kept, because a chain hardly moves, is no new estimate.
    """
    if new is old:
        return False
    is_low_rank = new.rank > 0 and new.matrix is None
    ratio = SETTLED_RATIO_OF_LOW_RANK if is_low_rank else SETTLED_RATIO
    return old.log_ratio(new) < np.log(ratio)


# Ratio of the ends of later windows.
WINDOW_GROWTH = 1.5


def window_ends(warmup: int) -> list[int]:
    """Steps after which the metric is estimated again."""
    last = warmup - final_steps(warmup)
    ends, end = [], FIRST_WINDOW_STEPS
    while end < last:
        ends.append(end)
        end = max(end + FIRST_WINDOW_STEPS, int(WINDOW_GROWTH * end))
    return [*ends, last] if last >= FIRST_WINDOW_STEPS else ends


# Maximum number of steps after the last estimate, in which only the step size adapts, and their
# maximum share in the warmup.
MAX_FINAL_STEPS, MAX_FINAL_SHARE = 60, 0.3


def final_steps(warmup: int) -> int:
    """Number of steps after the last estimate, in which only the step size adapts."""
    return min(MAX_FINAL_STEPS, int(MAX_FINAL_SHARE * warmup))


# Share of the draws so far, the most recent, that an estimate uses.
RECENT_SHARE = 0.5


def recent_count(step: int) -> int:
    """Number of draws that an estimate after a step uses."""
    return max(FIRST_WINDOW_STEPS, int(RECENT_SHARE * step))
