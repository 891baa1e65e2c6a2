"""Power exponential kernel: continuous, rough functions."""

from __future__ import annotations

import math
from typing import ClassVar

import jax
import jax.numpy as jnp
from numpyro.distributions import constraints

from bayeskern.hyperparameters import Hyperparameter, hyperparameter
from bayeskern.kernels.families.stationary import Stationary


class PowerExponential(Stationary):
    """Power exponential kernel, k(x, z) = variance * exp(-r^gamma).

    It is also called gamma-exponential. Functions drawn from it are continuous and, for gamma < 2,
    have no derivative; gamma = 1 is `Matern12`, and gamma = 2 an `RBF` with the lengthscale divided
    by sqrt(2).

    Args:
        lengthscale: Distance over which the function changes, in the units of the inputs: a
            number, a vector (d,), or a lower triangular matrix (d, d), as for `RBF`.
        variance: Prior variance k(x, x), in the squared units of the output.
        gamma: Exponent, from 0 to 2, without units; a smaller gamma gives rougher functions. The
            limit gamma = 0 is `variance` at equal points and variance / e elsewhere.

    References:
        Rasmussen and Williams (2006), equation 4.18.

    Examples:
        >>> from bayeskern.kernels import PowerExponential
        >>> print(PowerExponential(gamma=1.5)([0.0, 2.0]).round(3))
        [[1.    0.059]
         [0.059 1.   ]]
    """

    offers: ClassVar[tuple[str, ...]] = ("frequencies",)
    sentence: ClassVar[str] = "varies roughly over about {lengthscale}"
    is_differentiable: ClassVar[bool] = False

    gamma: Hyperparameter = hyperparameter(1.0, constraints.interval(0.0, 2.0))

    def profile(self, u: jax.Array) -> jax.Array:
        return jnp.exp(-power(u, 0.5 * self.gamma))

    def mixing(self, key: jax.Array, n: int) -> jax.Array:
        # exp(-u^a) is the Laplace transform of a positive stable variable, which Kanter (1975),
        # "Stable densities under change of scale", draws from a uniform and an exponential one.
        key_uniform, key_exponential = jax.random.split(key)
        a, angle = 0.5 * self.gamma, math.pi * jax.random.uniform(key_uniform, (n,))
        rest = jnp.sin((1.0 - a) * angle) / jax.random.exponential(key_exponential, (n,))
        stable = jnp.sin(a * angle) / jnp.sin(angle) ** (1.0 / a) * rest ** ((1.0 - a) / a)
        return 2.0 * stable


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
