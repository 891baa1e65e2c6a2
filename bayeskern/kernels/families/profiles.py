"""Functions of the lag with integrals, for stationary kernels.

Rasmussen and Williams (2006), section 4.2.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax.scipy.special import erf

from bayeskern.kernels.families.matern_profile import matern_profile
from bayeskern.kernels.means.lags import LagFunction


@jax.custom_jvp
def power(u: jax.Array, exponent: jax.Array) -> jax.Array:
    """u^exponent, and 0 at u = 0, where derivatives that are infinite are set to 0."""
    is_apart = u != 0.0
    return jnp.where(is_apart, jnp.where(is_apart, u, 1.0) ** exponent, 0.0)


@power.defjvp
def _power_jvp(primals, tangents):
    (u, exponent), (du, d_exponent) = primals, tangents
    value = power(u, exponent)
    # Points that differ by rounding have the derivatives of equal points, as for a Matern kernel.
    is_apart = u > jnp.finfo(jnp.result_type(u, float)).eps
    far = jnp.where(is_apart, u, 1.0)
    # At 0, the derivative of u is 1, and that of u^a is 0 for a > 1.
    at_0 = 1.0 * (exponent == 1.0)
    slope = exponent * jnp.where(is_apart, power(far, exponent - 1.0), at_0)
    return value, slope * du + jnp.where(is_apart, value * jnp.log(far), 0.0) * d_exponent


@dataclass(frozen=True)
class RBFLags(LagFunction):
    """exp(-r^2 / 2)."""

    has_kink: ClassVar[bool] = False

    def value(self, r: jax.Array) -> jax.Array:
        return jnp.exp(-0.5 * r * r)

    def first_integral(self, r: jax.Array) -> jax.Array:
        return math.sqrt(0.5 * math.pi) * erf(math.sqrt(0.5) * r)

    def second_integral(self, r: jax.Array) -> jax.Array:
        return r * self.first_integral(r) + jnp.expm1(-0.5 * r * r)


@dataclass(frozen=True)
class MaternLags(LagFunction):
    """Matern profile of smoothness order + 1/2.

    It is a polynomial in s = sqrt(2 order + 1) r, times exp(-s).

    Attributes:
        order: 0, 1 or 2.
    """

    ORDERS: ClassVar[tuple[int, ...]] = (0, 1, 2)

    order: int

    def value(self, r: jax.Array) -> jax.Array:
        return matern_profile(r * r, self.order + 0.5)

    def first_integral(self, r: jax.Array) -> jax.Array:
        s = self._rate * r
        # total (1 - e^-s) - s polynomial(s) e^-s, so that small s lose no digits.
        total, polynomial = ((1.0, 0.0), (2.0, 1.0), (8.0 / 3.0, (5.0 + s) / 3.0))[self.order]
        return (-total * jnp.expm1(-s) - s * polynomial * jnp.exp(-s)) / self._rate

    def second_integral(self, r: jax.Array) -> jax.Array:
        s = self._rate * r
        total, constant, polynomial = (
            (1.0, 1.0, 0.0),
            (2.0, 3.0, 1.0),
            (8.0 / 3.0, 5.0, (7.0 + s) / 3.0),
        )[self.order]
        value = total * s + constant * jnp.expm1(-s) + s * polynomial * jnp.exp(-s)
        return value / self._rate**2

    @property
    def _rate(self) -> float:
        return math.sqrt(2.0 * self.order + 1.0)


@dataclass(frozen=True)
class InverseMultiquadricLags(LagFunction):
    """(1 + r^2)^(-1/2)."""

    has_kink: ClassVar[bool] = False

    def value(self, r: jax.Array) -> jax.Array:
        return 1.0 / jnp.sqrt(1.0 + r * r)

    def first_integral(self, r: jax.Array) -> jax.Array:
        return jnp.arcsinh(r)

    def second_integral(self, r: jax.Array) -> jax.Array:
        return r * jnp.arcsinh(r) + 1.0 - jnp.sqrt(1.0 + r * r)
