"""Models with some latents integrated out, and the recovery of these latents."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from bayeskern.inference.model.evaluation import constrain, join_chains
from bayeskern.inference.model.target import Target


class Marginalized(NamedTuple):
    """The marginal target that a method ran on, and the recovery of the full model.

    Attributes:
        target: The marginal target.
        recover: Maps draws of the marginal to draws of the full model; as in
            `bayeskern.protocols.Marginal`.
        seed: Seed of the fit.
    """

    target: Target
    recover: Callable[[dict, jax.Array, bool], dict]
    seed: int

    def draws(self, z: np.ndarray) -> dict[str, np.ndarray]:
        """Sites of the full model at z (chains, draws, d): each (chains, draws, *site)."""
        chains, count = z.shape[:2]
        marginal_draws = join_chains(constrain(self.target, z))
        # Another key: recovered sites must not repeat the random numbers of the draws.
        key = jax.random.fold_in(jax.random.key(self.seed), 3)
        # A single point, such as a mode, gets the conditional mean.
        full_draws = self.recover(marginal_draws, key, chains * count == 1)
        return {
            name: np.asarray(values).reshape(chains, count, *values.shape[1:])
            for name, values in full_draws.items()
        }
