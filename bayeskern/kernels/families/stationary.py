"""Stationary kernels: functions of r^2 = |L^-1 (x - z)|^2, and white noise.

Rasmussen and Williams (2006), section 4.2.1.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from numpyro.distributions import constraints

from bayeskern import hyperparameters as hyper
from bayeskern.hyperparameters import Hyperparameter, hyperparameter
from bayeskern.kernels import column_groups, feature_maps, metrics, spectral_density
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.column_groups import Columns
from bayeskern.kernels.families.profiles import InverseMultiquadricLags, RBFLags, power
from bayeskern.kernels.means.boxes import Boxes
from bayeskern.kernels.means.lags import LagFunction, mean_in_closed_form
from bayeskern.kernels.state_space.space import StateSpace


class Stationary(Kernel):
    """Base of k(x, z) = variance * f(r^2), with f(0) = 1 and r = |x - z| / lengthscale.

    A subclass defines `profile` and, for random Fourier features, `mixing`.

    Args:
        lengthscale: Distance over which the function changes, in the units of the inputs: a
            number; a vector (d,), one for each dimension (automatic relevance determination); or
            a lower triangular matrix L (d, d), with r = |L^-1 (x - z)|.
        variance: Prior variance k(x, x), in the squared units of the output.
    """

    lengthscale: Hyperparameter = hyperparameter(1.0, constraints.real, scalar=False)
    variance: Hyperparameter = hyperparameter(1.0)

    has_spectrum: ClassVar[bool] = False
    depends_on_lag: ClassVar[bool] = True

    @abstractmethod
    def profile(self, u: jax.Array) -> jax.Array:
        """Profile f of u = r^2, elementwise."""

    def mixing(self, key: jax.Array, n: int) -> jax.Array:
        """Draw the precisions g >= 0 of a Gaussian scale mixture, f(u) = E exp(-g u / 2).

        A radial function is positive definite in every dimension if and only if it is such a
        mixture of RBF profiles (Schoenberg 1938, theorem 2).

        Args:
            key: A JAX random key.
            n: Number of draws.

        Returns:
            Array of shape (n,).

        Raises:
            ValueError: The subclass does not define this method.
        """
        raise spectral_density.no_spectral_density(self)

    def spectrum(self, u: jax.Array, d: int) -> jax.Array:
        """Spectral density of the kernel in d dimensions with variance and lengthscale 1.

        It is the integral of f(|t|^2) cos(w't) over t, as a function of u = |w|^2. Kernels with
        `has_spectrum` define it.

        Args:
            u: Squared norms of the frequencies.
            d: Dimension of the points.

        Returns:
            Array of the shape of u.

        Raises:
            ValueError: The kernel has no spectral density in closed form.
        """
        raise ValueError(
            f"{self!r} has no spectral density in closed form; use RBF or a Matern kernel."
        )

    def lag_function(self) -> LagFunction | None:
        """The profile as a function of the lag, with its integrals; None if they are unknown."""
        return None

    def evaluate_means(self, X: Boxes, Z: Boxes) -> jax.Array:
        function = self.lag_function()
        if function is None or X.d > 1 or not X.columns:
            return super().evaluate_means(X, Z)
        scale = jnp.reshape(self.lengthscale, ())
        X, Z = X.divided_by(scale), Z.divided_by(scale)
        h, g = X.sides, Z.sides.T
        return self.variance * mean_in_closed_form(function, X.lower - Z.lower.T - g, h, g)

    def spectral_density(self, W: Float[Array, "m d"]) -> Float[Array, " m"]:
        """Spectral density S: k(x, z) is (2 pi)^-d times the integral of S(w) cos(w'(x - z)).

        Args:
            W: Frequencies in radians per unit of the inputs, shape (m, d).

        Returns:
            Array of shape (m,).

        References:
            Rasmussen and Williams (2006), equation 4.5, with frequencies in radians.
        """
        d = W.shape[1]
        # L maps scaled to original coordinates: S(w) = |det L| S_1(L'w).
        L = jnp.linalg.inv(metrics.scale(jnp.eye(d), self.lengthscale).T)
        u = jnp.sum(jnp.square(W @ L), axis=1)
        return self.variance * jnp.abs(jnp.linalg.det(L)) * self.spectrum(u, d)

    def frequencies(self, key: jax.Array, n: int, d: int, orthogonal: bool = False) -> jax.Array:
        key_direction, key_mixing = jax.random.split(key)
        g = self.mixing(key_mixing, n)
        w = jnp.sqrt(g)[:, None] * spectral_density.gaussian(key_direction, n, d, orthogonal)
        # w'L^-1 (x - z) = (L^-T w)'(x - z), and scaling the unit vectors gives L^-T.
        return w @ metrics.scale(jnp.eye(d), self.lengthscale).T

    def own_hyperparameters(self) -> list[tuple]:
        # A number or a vector must be positive; a Cholesky factor, only on its diagonal.
        matrix = len(hyper.shape(self.lengthscale)) == 2
        lengthscale = constraints.lower_cholesky if matrix else constraints.positive
        return [
            (name, path, lengthscale if name == "lengthscale" else constraint)
            for name, path, constraint in super().own_hyperparameters()
        ]

    def evaluate(self, X: jax.Array, Z: jax.Array | None = None) -> jax.Array:
        X, Z = metrics.center(X, Z)
        X = metrics.scale(X, self.lengthscale)
        Z = None if Z is None else metrics.scale(Z, self.lengthscale)
        return self.variance * self.profile(metrics.squared_distance(X, Z))

    def evaluate_diag(self, X: jax.Array) -> jax.Array:
        return jnp.broadcast_to(self.variance, X.shape[:1])


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

    features_are_a_series: ClassVar[bool] = True
    has_spectrum: ClassVar[bool] = True

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

    alpha: Hyperparameter = hyperparameter(1.0)

    def profile(self, u: jax.Array) -> jax.Array:
        return jnp.exp(-self.alpha * jnp.log1p(0.5 * u / self.alpha))

    def mixing(self, key: jax.Array, n: int) -> jax.Array:
        return jax.random.gamma(key, self.alpha, (n,)) / self.alpha


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

    def profile(self, u: jax.Array) -> jax.Array:
        return 1.0 / jnp.sqrt(1.0 + u)

    def lag_function(self) -> LagFunction:
        return InverseMultiquadricLags()

    def mixing(self, key: jax.Array, n: int) -> jax.Array:
        return 2.0 * jax.random.gamma(key, 0.5, (n,))


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


class White(Kernel):
    """White noise: `variance` on the diagonal of k(X), and 0 elsewhere.

    k(X, Z) is 0 even if Z equals X, because noise at a new observation is independent.

    Args:
        variance: The variance of the noise, in the squared units of the output.

    References:
        Rasmussen and Williams (2006), section 4.2.3.

    Examples:
        >>> from bayeskern.kernels import White
        >>> print(White(0.5)([1.0, 2.0]))
        [[0.5 0. ]
         [0.  0.5]]
    """

    is_a_function: ClassVar[bool] = False
    takes_levels: ClassVar[bool] = True
    is_differentiable: ClassVar[bool] = False

    variance: Hyperparameter = hyperparameter(1.0)

    def evaluate(self, X: jax.Array, Z: jax.Array | None = None) -> jax.Array:
        if Z is None:
            return self.variance * jnp.eye(X.shape[0], dtype=X.dtype)
        return jnp.zeros((X.shape[0], Z.shape[0]), X.dtype)

    def evaluate_diag(self, X: jax.Array) -> jax.Array:
        return jnp.broadcast_to(self.variance, X.shape[:1])

    def evaluate_means(self, X: Boxes, Z: Boxes) -> jax.Array:
        if not X.columns:
            return super().evaluate_means(X, Z)
        raise ValueError(
            f"{self!r} has no mean over an interval: white noise is not a function of a point. "
            "Remove it, and pass its variance as the noise of the model."
        )

    def state_space(self) -> StateSpace:
        return StateSpace((), (self.variance,))

    def features(self, X: jax.Array, degree: int | None) -> jax.Array:
        raise ValueError(
            f"{self!r} has no feature map: white noise is not a function of a point. Remove it, "
            "and pass its variance as the noise of the model."
        )
