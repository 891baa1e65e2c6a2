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


@dataclass(frozen=True)
class ShortVisitOptions:
    """Options of a short visit.

    Attributes:
        warmup: Maximum number of steps of its warmup.
        min_draws: Minimum number of draws.
        share: Share of the draws of a chain.
    """

    warmup: int = 200
    min_draws: int = 100
    share: float = 0.25


SHORT = ShortVisitOptions()


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
            draws = max(SHORT.min_draws, int(SHORT.share * plan.draws))
            plan = replace(plan, warmup=min(plan.warmup, SHORT.warmup), draws=draws)
        (potential,), (gradient,) = potential_and_gradient(self.target, point[None])
        start = InitialPoint(point, potential, gradient, self.metric.scale)
        # Keys different from the keys of the chains.
        key = jax.random.fold_in(jax.random.key(self.seed), 1_000_000 + number)
        group = ChainGroup(
            self.options, self.target, plan, Stage.at(start, self.metric, key, plan.warmup)
        )
        group.run()
        return group.rows
