"""Matern profiles with their derivatives, and their spectral densities.

Rasmussen and Williams (2006), section 4.2.1.
"""

import math

import jax
import jax.numpy as jnp

# The Matern profiles are not smooth functions of u = r^2 at 0. The derivative of each is written
# with the rougher profile, so that derivatives of all orders are correct where they exist. Those
# that do not exist (the first of Matern12, the second of Matern32) multiply a vanishing du and are
# set to 0.


@jax.custom_jvp
def matern12(u: jax.Array) -> jax.Array:
    """exp(-r)."""
    return jnp.exp(-jnp.sqrt(u))


@matern12.defjvp
def _matern12_jvp(primals, tangents):
    (u,), (du,) = primals, tangents
    # Points that differ by rounding alone count as equal: du is noise there, and is divided by r.
    apart = u > jnp.finfo(jnp.result_type(u, float)).eps
    r = jnp.sqrt(jnp.where(apart, u, 1.0))
    return matern12(u), jnp.where(apart, -0.5 * matern12(u) / r, 0.0) * du


@jax.custom_jvp
def matern32(u: jax.Array) -> jax.Array:
    """(1 + s) exp(-s), s = sqrt(3) r."""
    s = jnp.sqrt(3.0 * u)
    return (1.0 + s) * jnp.exp(-s)


@matern32.defjvp
def _matern32_jvp(primals, tangents):
    (u,), (du,) = primals, tangents
    return matern32(u), -1.5 * matern12(3.0 * u) * du


@jax.custom_jvp
def matern52(u: jax.Array) -> jax.Array:
    """(1 + s + s^2 / 3) exp(-s), s = sqrt(5) r."""
    s = jnp.sqrt(5.0 * u)
    return (1.0 + s + s * s / 3.0) * jnp.exp(-s)


@matern52.defjvp
def _matern52_jvp(primals, tangents):
    (u,), (du,) = primals, tangents
    return matern52(u), -(5.0 / 6.0) * matern32(5.0 / 3.0 * u) * du


def mixing(key: jax.Array, nu: float, n: int) -> jax.Array:
    """Draw n precisions of the Gaussian scale mixture of the Matern profile of order nu.

    The spectral density is a multivariate Student t with 2 nu degrees of freedom: a Gaussian whose
    precision has a gamma distribution of mean 1.
    """
    return nu / jax.random.gamma(key, nu, (n,))


def spectrum(u: jax.Array, nu: float, d: int) -> jax.Array:
    """Spectral density of order nu in d dimensions at u = |w|^2.

    Lengthscale and variance are 1. Rasmussen and Williams (2006), equation 4.15, with frequencies
    in radians.
    """
    factor = math.gamma(nu + 0.5 * d) / math.gamma(nu) * (4.0 * math.pi) ** (0.5 * d)
    return factor * (2.0 * nu) ** nu * (2.0 * nu + u) ** -(nu + 0.5 * d)
