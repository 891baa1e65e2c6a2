"""Chains started at points that other chains have not reached."""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import numpy as np

from bayeskern.inference.mcmc.chains import ChainGroup, Plan
from bayeskern.inference.mcmc.kernel import (
    InitialPoint,
    KernelOptions,
    Transitions,
    potential_and_gradient,
)
from bayeskern.inference.mcmc.metric import Metric
from bayeskern.inference.mcmc.stage import Stage
from bayeskern.inference.model.target import Target

# Maximum number of steps of the warmup of a short visit.
MAX_SHORT_WARMUP = 200
# Minimum number of draws of a short visit, and their share of the draws of a chain.
MIN_SHORT_DRAWS, SHORT_DRAWS_SHARE = 100, 0.25


@dataclass(frozen=True, eq=False)
class ChainVisits:
    """Runs short chains, or chains of full length, from given points.

    Attributes:
        target: The density.
        options: The options of the kernel.
        metric: First metric of the chains.
        plan: Length of a chain of full length.
        seed: Seed of the random numbers.
        full_length: True for chains of full length.
    """

    target: Target
    options: KernelOptions
    metric: Metric
    plan: Plan
    seed: int
    full_length: bool = False

    def __call__(self, point: np.ndarray, number: int) -> Transitions:
        """Run a chain.

        Args:
            point: Start, (d,).
            number: Number of the visit, which determines its random key.

        Returns:
            Transitions of the chain, (1, draws, ...).
        """
        plan = self.plan
        if not self.full_length:
            draws = max(MIN_SHORT_DRAWS, int(SHORT_DRAWS_SHARE * plan.draws))
            plan = replace(plan, warmup=min(plan.warmup, MAX_SHORT_WARMUP), draws=draws)
        (potential,), (gradient,) = potential_and_gradient(self.target, point[None])
        start = InitialPoint(point, potential, gradient, self.metric.scale)
        # Keys different from the keys of the chains.
        key = jax.random.fold_in(jax.random.key(self.seed), 1_000_000 + number)
        group = ChainGroup(
            self.options, self.target, plan, Stage.at(start, self.metric, key, plan.warmup)
        )
        group.run()
        return group.rows
