"""RBF kernel and its scale mixtures, stationary kernels without a state-space model.

Rasmussen and Williams (2006), section 4.2.1; Micchelli (1986), "Interpolation of scattered data".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf
from numpyro.distributions import constraints

from bayeskern.hyperparameters import Hyperparameter, hyperparameter
from bayeskern.kernels import column_groups, feature_maps, metrics
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.column_groups import Columns
from bayeskern.kernels.families.stationary import Stationary
from bayeskern.kernels.means.lags import LagFunction
from bayeskern.kernels.pairs import with_slopes


class RBF(Stationary):
    """Squared-exponential or Gaussian kernel, k(x, z) = variance * exp(-r^2 / 2).

    r is the Euclidean distance |x - z| divided by the lengthscale. Functions drawn from it are
    infinitely smooth; `Matern52` and `Matern32` are rougher. The form exp(-gamma |x - z|^2) has
    lengthscale 1 / sqrt(2 gamma).

    Args:
        lengthscale: Distance over which the function changes, in the units of the inputs; 1 by
            default. A number; a vector (d,), one for each dimension (automatic relevance
            determination, ARD); or a lower triangular matrix L (d, d), with r = |L^-1 (x - z)|.
        variance: Prior variance k(x, x) of the function, in the squared units of the output; 1
            by default.

    Both may also be a prior, given as a NumPyro distribution, which `infer` turns into a posterior;
    or `Free(init)`, to be estimated without a prior.

    References:
        Rasmussen and Williams (2006), "Gaussian processes for machine learning", equation 4.9.

    Examples:
        >>> import numpyro.distributions as dist
        >>> from bayeskern.kernels import RBF
        >>> kernel = RBF(lengthscale=2.0, variance=3.0)
        >>> print(kernel([0.0, 2.0, 4.0]).round(3))
        [[3.    1.82  0.406]
         [1.82  3.    1.82 ]
         [0.406 1.82  3.   ]]
        >>> RBF(lengthscale=dist.LogNormal(0.0, 1.0)) + 2.0 * RBF(lengthscale=[1.0, 10.0])
        RBF(lengthscale=LogNormal(0.0, 1.0), variance=1.0) + 2.0 * RBF(lengthscale=[1.0, 10.0], \
variance=1.0)
    """

    offers: ClassVar[tuple[str, ...]] = ("frequencies", "spectrum", "means", "numpy_gram")
    sentence: ClassVar[str] = "varies very smoothly over about {lengthscale}"
    features_are_a_series: ClassVar[bool] = True

    def profile(self, u: jax.Array) -> jax.Array:
        return jnp.exp(-0.5 * u)

    def spectrum(self, u: jax.Array, d: int) -> jax.Array:
        return (2.0 * math.pi) ** (0.5 * d) * jnp.exp(-0.5 * u)

    def lag_function(self) -> LagFunction:
        return RBFLags()

    def mixing(self, key: jax.Array, n: int) -> jax.Array:
        return jnp.ones(n)

    def features(self, X: jax.Array, degree: int | None) -> jax.Array:
        # exp(-|x - z|^2 / 2) = exp(-|x|^2 / 2) exp(-|z|^2 / 2) sum_a x^a z^a / a!
        assert degree is not None, "feature_map checks the degree"
        X = metrics.scale(X, self.lengthscale)
        # The column of ones makes monomials of lower degree a choice of `degree` factors too.
        phi = jnp.concatenate([jnp.ones_like(X[:, :1]), X], axis=1)
        n, m = phi.shape
        factors, repeats = feature_maps.monomials(self, n, m, degree)
        factorials = np.prod(np.where(factors == 0, 1.0, repeats), axis=1)
        bump = jnp.sqrt(self.variance) * jnp.exp(-0.5 * jnp.sum(X * X, axis=1))
        # The bump comes first: it keeps high powers of distant points from overflowing.
        return feature_maps.multiply_out(phi, factors, bump[:, None] / np.sqrt(factorials))

    def by_columns(self, d: int) -> dict[Columns, Kernel]:
        if jnp.ndim(self.lengthscale) == 2:
            return super().by_columns(d)
        return column_groups.one_by_one(self, ("lengthscale",), d)

    @staticmethod
    def numpy_gram(parts, values, pairs):
        lengthscale, variance = next(values), next(values)
        squares = pairs.squared_lag / lengthscale**2
        unit = np.exp(-0.5 * squares)
        K = variance * unit
        return with_slopes(K, [lambda: K * squares / lengthscale, lambda: unit])


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
