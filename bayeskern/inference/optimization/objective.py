"""What searches for modes minimise."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from bayeskern.inference.model.evaluation import log_densities
from bayeskern.inference.model.target import Target


class NegativeLogDensity(eqx.Module):
    """What is minimised: -log p(z), with or without the Jacobian and the prior."""

    target: Target
    jacobian: bool = eqx.field(static=True)
    prior: bool = eqx.field(static=True, default=True)

    def __call__(self, z):
        value = -self.target.log_density(z, self.jacobian, self.prior)
        # A line search steps back from an infinite value, but not from NaN.
        return jnp.where(jnp.isnan(value), jnp.inf, value)

    def values(self, z) -> np.ndarray:
        """The objective at each row of z (k, d): (k,)."""
        values = -log_densities(self.target, z, jacobian=self.jacobian, prior=self.prior)
        return np.where(np.isnan(values), np.inf, values)

    @property
    def mode(self) -> str:
        """Which density has its mode here."""
        if not self.prior:
            return "likelihood"
        return "unconstrained" if self.jacobian else "constrained"
