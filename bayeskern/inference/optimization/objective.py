"""What searches for modes minimise."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp

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

    @property
    def mode(self) -> str:
        """Which density has its mode here."""
        if not self.prior:
            return "likelihood"
        return "unconstrained" if self.jacobian else "constrained"


@eqx.filter_jit
def values(objective, z):
    """objective(z) for each row of z (k, d): (k,)."""
    return jax.lax.map(objective, z)
