"""Short first chains, whose draws give all chains one metric.

A chain that starts in a wrong place can adapt a metric to that place, which holds it there. The
metric of draws of all chains that have arrived sets it free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from bayeskern.inference.mcmc.initialization import max_drop
from bayeskern.inference.mcmc.kernel import InitialPoint, potential_and_gradient
from bayeskern.inference.mcmc.mass_matrix import MetricShape
from bayeskern.inference.mcmc.metric import Metric
from bayeskern.inference.mcmc.stage import Stage, joined_rows
from bayeskern.inference.mcmc.warmup import RecentDraws
from bayeskern.inference.model.centring import recentred
from bayeskern.inference.model.target import Target

# Steps of the warmup and draws of each first chain, chosen on the correlated slopes and crossed
# factors of `benchmarks.everyday`.
WARMUP_STEPS, DRAWS = 120, 30
# Warmup of the later chains, in steps, below which there are no first chains.
MIN_WARMUP = 300


@dataclass(frozen=True)
class FirstDraws:
    """Draws of the first chains.

    Attributes:
        z: Draws, (chains, n, d).
        log_density: Mean log density of each chain, (chains,).
        steps: Mean number of leapfrog steps of a draw of each chain, (chains,).
        metrics: Metric of each chain.
        leapfrog_steps: Leapfrog steps of each group of chains, with those of its warmup.
    """

    z: np.ndarray
    log_density: np.ndarray
    steps: np.ndarray
    metrics: tuple[Metric, ...]
    leapfrog_steps: tuple[int, ...]

    @classmethod
    def from_stages(cls, stages: Sequence[Stage]) -> Self:
        """Draws of chains at their ends."""
        rows = joined_rows(list(stages))
        log_density, steps = -np.mean(rows.potential, axis=1), np.mean(rows.n_steps, axis=1)
        metrics = sum((s.metrics for s in stages), ())
        return cls(rows.z, log_density, steps, metrics, tuple(s.leapfrog_steps for s in stages))

    def recentred(self, old: Target, new: Target, shape: MetricShape) -> FirstDraws:
        """The draws in a form with another centredness."""
        z = recentred(old, new, np.concatenate(self.z)).reshape(self.z.shape)
        sds = np.std(z - np.mean(z, axis=1, keepdims=True), axis=(0, 1))
        metric = shape.metric(np.where(sds > 0.0, sds, 1.0))
        return replace(self, z=z, metrics=(metric,) * len(z))

    def starts(self, target: Target, may_be_diagonal: bool) -> tuple[list[InitialPoint], Metric]:
        """The last draw of each chain, and the metric of the draws within the chains.

        Args:
            target: The density.
            may_be_diagonal: True if held-out draws may choose a diagonal metric.
        """
        chains, count, d = self.z.shape
        potential, gradient = potential_and_gradient(target, np.concatenate(self.z))
        gradient = gradient.reshape(self.z.shape)
        has_arrived = self.log_density > np.max(self.log_density) - max_drop(d)
        steps = np.where(has_arrived, self.steps, np.inf)
        # A chain with trajectories more than 4 times as long as the shortest has a bad metric.
        counts = steps <= 4.0 * np.min(steps)
        # Chains may be in several modes: the metric is that within a mode.
        deviations = [
            np.concatenate((x - np.mean(x, axis=1, keepdims=True))[counts])
            for x in (self.z, gradient)
        ]
        draws, old = RecentDraws(*deviations), self.metrics[int(np.argmin(steps))]
        if may_be_diagonal and d > 1 and _is_diagonal_as_good(draws, old):
            old = old.diagonal
        metric = draws.update(old)
        ends = potential.reshape(chains, count)[:, -1]
        # The roots are not used, since all chains have one metric.
        points = zip(self.z[:, -1], ends, gradient[:, -1], [metric.scale] * chains, strict=True)
        return [InitialPoint(*point) for point in points], metric


# Fisher divergence of a metric with vectors over that of a diagonal metric, at held-out draws,
# above which the diagonal metric is used. Where the curvature varies, as under a horseshoe, vectors
# predict gradients hardly better, and trajectories turn earlier. Chosen on 19 models of
# `benchmarks.everyday`.
MAX_DIVERGENCE_RATIO = 0.8


def _is_diagonal_as_good(draws: RecentDraws, metric: Metric) -> bool:
    """True if vectors of a metric hardly reduce the Fisher divergence at held-out draws."""
    half = RecentDraws(draws.z[::2], draws.gradient[::2])
    held_out = draws.z[1::2], draws.gradient[1::2]
    full = half.update(metric).fisher_divergence(*held_out)
    diagonal = half.update(metric.diagonal).fisher_divergence(*held_out)
    return full > MAX_DIVERGENCE_RATIO * diagonal
