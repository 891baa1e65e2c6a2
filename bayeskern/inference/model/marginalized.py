"""The target that is left when a model integrates latents out, and the way back."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from bayeskern.inference.model.evaluation import constrain
from bayeskern.inference.model.target import Target

# Folded into the seed, so that what is recovered does not repeat the draws it is recovered from.
RECOVERY = 3


class Marginalized(NamedTuple):
    """The marginal target that a method ran on, and how to recover the model as it was written.

    recover: as in `bayeskern.protocols.Marginal`; seed: that of the fit.
    """

    target: Target
    recover: Callable
    seed: int

    def draws(self, z) -> dict[str, np.ndarray]:
        """Every site of the full model at z (chains, draws, d): each (chains, draws, *site)."""
        chains, count = z.shape[:2]
        marginal_draws = {
            name: values.reshape(-1, *values.shape[2:])
            for name, values in constrain(self.target, z).items()
        }
        key = jax.random.fold_in(jax.random.key(self.seed), RECOVERY)
        full_draws = self.recover(marginal_draws, key, chains * count == 1)
        return {
            name: np.asarray(values).reshape(chains, count, *values.shape[1:])
            for name, values in full_draws.items()
        }
