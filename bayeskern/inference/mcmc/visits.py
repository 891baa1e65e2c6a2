"""Chains started at points that other chains have not reached."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.hmc import HMCState

from bayeskern.inference.mcmc.chains import ChainGroup
from bayeskern.inference.mcmc.kernel import (
    ChainProgress,
    InitialPoint,
    KernelOptions,
    ScaledTarget,
    Transitions,
    at_step,
    initial_state,
    potential_and_gradient,
)
from bayeskern.inference.model.target import Target


@dataclass(frozen=True, eq=False)
class ChainVisits:
    """Runs short chains, or chains of full length, from given points.

    Attributes:
        target: The density.
        options: The options of the kernel.
        scale: Scale of the coordinates, as in `ScaledTarget`.
        draws: Draws of a chain, after thinning.
        thin: Thinning interval.
        seed: Seed of the random numbers.
        full_length: True for chains of full length.
    """

    target: Target
    options: KernelOptions
    scale: np.ndarray
    draws: int
    thin: int
    seed: int
    full_length: bool = False

    def __call__(self, point: np.ndarray, number: int) -> Transitions:
        """Run a chain.

        Args:
            point: Start, (d,).
            number: Number of the visit, which determines its random key.

        Returns:
            Thinned transitions of the chain, (1, draws, ...).
        """
        draws, warmup, begin = self.draws, self.options.warmup, 0
        state = self._initial_state(point, number)
        if not self.full_length:
            draws = max(100, int(0.25 * draws))
            # From a long warmup take only the window that first adapts the mass matrix, and the
            # last steps.
            first_window, last_steps = (75, 150), 200
            if warmup - last_steps > first_window[1]:
                state = self._advance(state, *first_window).stage.state
                begin = warmup - last_steps
        return self._advance(state, begin, warmup + draws * self.thin).rows.thinned(self.thin)

    def _initial_state(self, point: np.ndarray, number: int) -> HMCState:
        scale, covariance = self.scale, np.square(self.scale)
        if scale.ndim == 2 or self.options.dense_mass:
            root = scale if scale.ndim == 2 else np.diag(scale)
            covariance = root @ root.T
        (potential,), (gradient,) = potential_and_gradient(self.target, point[None])
        start = InitialPoint(point, potential, gradient, covariance).rescaled(scale)
        # Keys different from the keys of the chains.
        key = jax.random.fold_in(jax.random.key(self.seed), 1_000_000 + number)
        density = ScaledTarget(self.target, jnp.asarray(scale))
        return initial_state(self.options, density, start, key)

    def _advance(self, state: HMCState, begin: int, end: int) -> ChainGroup:
        """Run a chain from step `begin` to step `end`."""
        stage = ChainProgress(at_step(state, begin, self.options.warmup), self.scale, begin)
        group = ChainGroup(self.options, self.target, end, stage)
        group.run()
        return group
