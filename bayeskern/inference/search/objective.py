"""The objective that a search for modes minimises."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.inference.model.evaluation import log_densities
from bayeskern.inference.model.target import Target


class NegativeLogDensity(eqx.Module):
    """-log p(z) of a target, infinite where log p(z) is NaN.

    Attributes:
        target: The model.
        jacobian: True to include the log determinant of the map to unconstrained coordinates.
        prior: True to include the densities of latent sites.
    """

    target: Target
    jacobian: bool = eqx.field(static=True)
    prior: bool = eqx.field(static=True, default=True)

    def __call__(self, z: jax.Array) -> jax.Array:
        """The objective at one point: (d,) -> ()."""
        value = -self.target.log_density(z, self.jacobian, self.prior)
        # A line search backtracks from an infinite value, but not from NaN.
        return jnp.where(jnp.isnan(value), jnp.inf, value)

    def values(self, z: np.ndarray) -> np.ndarray:
        """The objective at each row of z: (k, d) -> (k,)."""
        values = -log_densities(self.target, z, jacobian=self.jacobian, prior=self.prior)
        return np.where(np.isnan(values), np.inf, values)

    @property
    def may_be_flat(self) -> np.ndarray:
        """True for log-scale coordinates that no prior in these coordinates bounds, (d,)."""
        unbounded = self.target.without_prior if self.mode == "unconstrained" else None
        return np.repeat(
            [
                site.is_log_scale and (unbounded is None or site.name in unbounded)
                for site in self.target.latents
            ],
            [site.size for site in self.target.latents],
        )

    @property
    def is_point_estimate(self) -> bool:
        """True for a constrained mode and for a maximum of the likelihood."""
        return not (self.prior and self.jacobian)

    @property
    def mode(self) -> str:
        """Kind of mode at the minimum: "likelihood", "unconstrained" or "constrained"."""
        if not self.prior:
            return "likelihood"
        return "unconstrained" if self.jacobian else "constrained"
