"""Profiles of stationary kernels, and functions of the lag with integrals.

Rasmussen and Williams (2006), section 4.2.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax.scipy.special import erf

from bayeskern.kernels.means.lags import LagFunction


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def matern_profile(u: jax.Array, order: int) -> jax.Array:
    """Correlation at u = r^2 for smoothness nu = order + 1/2, with order 0, 1 or 2.

    The correlation is exp(-s) times 1, 1 + s or 1 + s + s^2 / 3, with s = sqrt(2 nu) r.
    """
    s = jnp.sqrt((2.0 * order + 1.0) * u)
    return (1.0, 1.0 + s, 1.0 + s + s * s / 3.0)[order] * jnp.exp(-s)


@matern_profile.defjvp
def _profile_jvp(order, primals, tangents):
    # The profiles are not smooth functions of u at 0. The derivative of a profile is written in
    # terms of the profile of order - 1, so that derivatives are correct where they exist. Others
    # (the first derivative of order 0, the second of order 1) multiply du = 0, and are set to 0.
    (u,), (du,) = primals, tangents
    if order > 0:
        ratio = (2.0 * order + 1.0) / (2.0 * order - 1.0)
        return matern_profile(u, order), -0.5 * ratio * matern_profile(ratio * u, order - 1) * du
    # Points that differ by rounding are treated as equal: their du is rounding error, and would be
    # divided by a tiny r.
    is_apart = u > jnp.finfo(jnp.result_type(u, float)).eps
    r = jnp.sqrt(jnp.where(is_apart, u, 1.0))
    return matern_profile(u, 0), jnp.where(is_apart, -0.5 * matern_profile(u, 0) / r, 0.0) * du


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

    order: int

    def value(self, r: jax.Array) -> jax.Array:
        return matern_profile(r * r, self.order)

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
