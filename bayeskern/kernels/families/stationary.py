"""Base class of stationary kernels, functions of r^2 = |L^-1 (x - z)|^2.

Rasmussen and Williams (2006), section 4.2.1.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from numpyro.distributions import constraints

from bayeskern import hyperparameters as hyper
from bayeskern.hyperparameters import Hyperparameter, hyperparameter
from bayeskern.kernels import metrics, spectral_density
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.means.boxes import Boxes
from bayeskern.kernels.means.lags import LagFunction, mean_in_closed_form


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

    is_radial: ClassVar[bool] = True
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
        "spectrum" in `offers` define it.

        Args:
            u: Squared norms of the frequencies.
            d: Dimension of the points.

        Returns:
            Array of the shape of u.

        Raises:
            ValueError: The kernel has no spectral density in closed form.
        """
        raise spectral_density.no_closed_form(self)

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
