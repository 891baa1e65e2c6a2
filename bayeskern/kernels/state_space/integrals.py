"""Integrals of state-space processes over a time step."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


class Integral(NamedTuple):
    """Integral a'x(t) + e of a process over (t, t + d), with state x and noise e.

    Attributes:
        coefficients: a, shape (s,).
        covariance: Covariance of e and the noise of the state at t + d, shape (s,).
        variance: Variance of e.
    """

    coefficients: Float[Array, " s"]
    covariance: Float[Array, " s"]
    variance: Float[Array, ""]

    @classmethod
    def without_noise(cls, coefficients: jax.Array) -> Integral:
        """Integral of a process that its state determines."""
        return cls(coefficients, jnp.zeros_like(coefficients), jnp.zeros(()))

    def scaled(self, scale: jax.Array) -> Integral:
        """Integral of a process whose variance is multiplied by a number.

        The variances of the state are multiplied too; the coefficients stay unchanged.
        """
        return Integral(self.coefficients, scale * self.covariance, scale * self.variance)
