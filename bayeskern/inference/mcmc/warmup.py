"""Warmup of a chain in windows, with an estimate of the metric at the end of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayeskern.inference.mcmc.metric import Metric


@dataclass(frozen=True)
class WarmupOptions:
    """Options of the warmup.

    Attributes:
        first_window_steps: Steps of the first window.
        growth: Ratio of the ends of later windows.
        recent_share: Share of the draws so far, the most recent, that an estimate uses.
        final_steps: Maximum number of steps after the last estimate, in which only the step size
            adapts.
        final_share: Maximum share of these steps in the warmup.
        settled_ratio: Ratio of sds between two estimates below which the metric has settled in all
            directions. The warmup ends early once it has settled at two window ends in a row.
        settled_ratio_low_rank: The same ratio for a metric of low rank, whose few draws in many
            coordinates leave more noise.
        min_steps: Steps before which the warmup does not end early.
        max_dense: Coordinates up to which the metric is dense by default.
        max_low_rank: Coordinates up to which it is of low rank by default. With more, products with
            its vectors cost more than they save if the density is cheap.
        max_rank: Maximum rank of a metric of low rank.
        min_distinct: Number of different draws below which nothing is estimated.
    """

    first_window_steps: int = 10
    growth: float = 1.5
    recent_share: float = 0.5
    final_steps: int = 60
    final_share: float = 0.3
    settled_ratio: float = 1.5
    settled_ratio_low_rank: float = 2.0
    min_steps: int = 100
    max_dense: int = 100
    max_low_rank: int = 1000
    max_rank: int = 16
    min_distinct: int = 4


WARMUP = WarmupOptions()


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
        if len(np.unique(z[:, 0])) < WARMUP.min_distinct:
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


def has_settled(old: Metric, new: Metric) -> bool:
    """True if two successive estimates of a metric hardly differ.

    A metric that is kept, because a chain hardly moves, is no new estimate.
    """
    if new is old:
        return False
    is_low_rank = new.rank > 0 and new.matrix is None
    ratio = WARMUP.settled_ratio_low_rank if is_low_rank else WARMUP.settled_ratio
    return old.log_ratio(new) < np.log(ratio)


def window_ends(warmup: int) -> list[int]:
    """Steps after which the metric is estimated again."""
    last = warmup - final_steps(warmup)
    ends, end = [], WARMUP.first_window_steps
    while end < last:
        ends.append(end)
        end = max(end + WARMUP.first_window_steps, int(WARMUP.growth * end))
    return [*ends, last] if last >= WARMUP.first_window_steps else ends


def final_steps(warmup: int) -> int:
    """Number of steps after the last estimate, in which only the step size adapts."""
    return min(WARMUP.final_steps, int(WARMUP.final_share * warmup))


def recent_count(step: int) -> int:
    """Number of draws that an estimate after a step uses."""
    return max(WARMUP.first_window_steps, int(WARMUP.recent_share * step))
