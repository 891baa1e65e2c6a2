"""RBF kernel: infinitely smooth functions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf

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
        return feature_maps.gaussian_series(self, X, degree, self.variance)

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
