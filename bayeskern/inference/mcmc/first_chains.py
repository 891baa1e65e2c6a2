"""Short first chains, whose draws give all chains one metric.

A chain that starts in a wrong place can adapt a metric to that place, which holds it there. The
metric of draws of all chains that have arrived sets it free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from bayeskern.inference.mcmc.kernel import InitialPoint, potential_and_gradient
from bayeskern.inference.mcmc.mass_matrix import MetricShape
from bayeskern.inference.mcmc.metric import Metric
from bayeskern.inference.mcmc.stage import Stage, joined_rows
from bayeskern.inference.mcmc.warmup import RecentDraws
from bayeskern.inference.model.centring import recentred
from bayeskern.inference.model.target import Target


@dataclass(frozen=True)
class FirstChainOptions:
    """Options of the first chains.

    Attributes:
        warmup: Steps of their warmup.
        draws: Draws of each chain.
        min_warmup: Warmup of the later chains below which there are no first chains.
        max_steps_ratio: Ratio of the steps of a trajectory to those of the cheapest chain, above
            which a chain has a bad metric and its draws do not count.
    """

    warmup: int = 120
    draws: int = 30
    min_warmup: int = 300
    max_steps_ratio: float = 4.0


FIRST = FirstChainOptions()


@dataclass(frozen=True)
class FirstDraws:
    """Draws of the first chains.

    Attributes:
        z: Draws, (chains, n, d).
        log_density: Mean log density of each chain, (chains,).
        steps: Mean number of leapfrog steps of a draw of each chain, (chains,).
        metrics: Metric of each chain.
    """

    z: np.ndarray
    log_density: np.ndarray
    steps: np.ndarray
    metrics: tuple[Metric, ...]

    @classmethod
    def of(cls, stages: Sequence[Stage]) -> Self:
        """Draws of chains at their ends."""
        rows = joined_rows(list(stages))
        log_density, steps = -np.mean(rows.potential, axis=1), np.mean(rows.n_steps, axis=1)
        return cls(rows.z, log_density, steps, sum((s.metrics for s in stages), ()))

    def recentred(self, old: Target, new: Target, shape: MetricShape) -> FirstDraws:
        """The draws in a form with another centredness."""
        z = recentred(old, new, np.concatenate(self.z)).reshape(self.z.shape)
        sds = np.std(z - np.mean(z, axis=1, keepdims=True), axis=(0, 1))
        metric = shape.metric(np.where(sds > 0.0, sds, 1.0))
        return replace(self, z=z, metrics=(metric,) * len(z))

    def starts(self, target: Target) -> tuple[list[InitialPoint], Metric]:
        """The last draw of each chain, and the metric of the draws within the chains."""
        chains, count, d = self.z.shape
        potential, gradient = potential_and_gradient(target, np.concatenate(self.z))
        gradient = gradient.reshape(self.z.shape)
        # Draws of one mode differ by less: the log density of d normal coordinates has a mean of
        # -d/2 and an sd of sqrt(d/2).
        has_arrived = self.log_density > np.max(self.log_density) - 4.0 * d - 25.0
        steps = np.where(has_arrived, self.steps, np.inf)
        counts = steps <= FIRST.max_steps_ratio * np.min(steps)
        # Chains may be in several modes: the metric is that within a mode.
        deviations = [
            np.concatenate((x - np.mean(x, axis=1, keepdims=True))[counts])
            for x in (self.z, gradient)
        ]
        metric = RecentDraws(*deviations).update(self.metrics[int(np.argmin(steps))])
        ends = potential.reshape(chains, count)[:, -1]
        # The roots are not used, since all chains have one metric.
        points = zip(self.z[:, -1], ends, gradient[:, -1], [metric.scale] * chains, strict=True)
        return [InitialPoint(*point) for point in points], metric
