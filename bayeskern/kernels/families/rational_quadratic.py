"""Kernels that are powers of 1 + r^2: rational quadratic and multiquadrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from bayeskern.hyperparameters import Hyperparameter, hyperparameter
from bayeskern.kernels.families.stationary import Stationary
from bayeskern.kernels.means.lags import LagFunction


class RationalQuadratic(Stationary):
    """Rational quadratic kernel, k(x, z) = variance * (1 + r^2 / (2 alpha))^-alpha.

    It is a mixture of RBF kernels over lengthscales; for large alpha it approaches the RBF.

    Args:
        lengthscale: Distance over which the function changes, in the units of the inputs: a
            number, a vector (d,), or a lower triangular matrix (d, d), as for `RBF`.
        variance: Prior variance k(x, x), in the squared units of the output.
        alpha: Shape of the mixture, without units: a smaller alpha gives a wider range of
            lengthscales.

    References:
        Rasmussen and Williams (2006), equation 4.19.

    Examples:
        >>> from bayeskern.kernels import RationalQuadratic
        >>> print(RationalQuadratic(alpha=0.5)([0.0, 1.0]).round(3))
        [[1.    0.707]
         [0.707 1.   ]]
    """

    offers: ClassVar[tuple[str, ...]] = ("frequencies",)
    sentence: ClassVar[str] = (
        "varies smoothly, on short and long scales at once, over about {lengthscale}"
    )

    alpha: Hyperparameter = hyperparameter(1.0)

    def profile(self, u: jax.Array) -> jax.Array:
        return jnp.exp(-self.alpha * jnp.log1p(0.5 * u / self.alpha))

    def mixing(self, key: jax.Array, n: int) -> jax.Array:
        return jax.random.gamma(key, self.alpha, (n,)) / self.alpha


class InverseMultiquadric(Stationary):
    """Inverse multiquadric kernel, k(x, z) = variance * (1 + r^2)^(-1/2).

    Its correlations decay slowly, as 1 / r.

    Args:
        lengthscale: Distance over which the function changes, in the units of the inputs: a
            number, a vector (d,), or a lower triangular matrix (d, d), as for `RBF`.
        variance: Prior variance k(x, x), in the squared units of the output.

    References:
        Micchelli (1986), "Interpolation of scattered data".

    Examples:
        >>> from bayeskern.kernels import InverseMultiquadric
        >>> print(InverseMultiquadric()([0.0, 1.0]).round(3))
        [[1.    0.707]
         [0.707 1.   ]]
    """

    offers: ClassVar[tuple[str, ...]] = ("frequencies", "means")
    sentence: ClassVar[str] = "varies smoothly, with a long memory, over about {lengthscale}"

    def profile(self, u: jax.Array) -> jax.Array:
        return 1.0 / jnp.sqrt(1.0 + u)

    def lag_function(self) -> LagFunction:
        return InverseMultiquadricLags()

    def mixing(self, key: jax.Array, n: int) -> jax.Array:
        return 2.0 * jax.random.gamma(key, 0.5, (n,))


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


class Multiquadric(Stationary):
    """Multiquadric, variance * (1 + r^2)^(1/2), which is NOT positive definite.

    Its negative is conditionally positive definite of order one. Use it for interpolation and
    kernel ridge regression only; a Gaussian process refuses it and needs `InverseMultiquadric`.

    Args:
        lengthscale: Distance at which it turns from a parabola to a cone, in the units of the
            inputs: a number, a vector (d,), or a lower triangular matrix (d, d), as for `RBF`.
        variance: Its value k(x, x).

    References:
        Hardy (1971), "Multiquadric equations of topography"; Micchelli (1986).

    Examples:
        >>> from bayeskern.kernels import Multiquadric
        >>> print(Multiquadric()([0.0, 1.0]).round(3))
        [[1.    1.414]
         [1.414 1.   ]]
    """

    positive_definite: ClassVar[bool] = False

    def profile(self, u: jax.Array) -> jax.Array:
        return jnp.sqrt(1.0 + u)
