"""Spectral mixture kernel: a spectral density that is a mixture of Gaussians."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
from numpyro.distributions import constraints

from bayeskern.hyperparameters import Hyperparameter, hyperparameter
from bayeskern.kernels import metrics, spectral_density
from bayeskern.kernels.base import Kernel


class SpectralMixture(Kernel):
    """Spectral mixture kernel, whose spectral density is a mixture of Q Gaussians.

    k(x, z) = sum_q w_q prod_i exp(-2 pi^2 t_i^2 s_qi^2) cos(2 pi t_i m_qi), with t = x - z, weights
    w, means m and scales s.

    Args:
        weights: Variances of the Q components, shape (Q,), in the squared units of the output.
        means: Mean frequencies of the components, in cycles per unit of the input: shape (Q, d), or
            (Q, 1) for the same frequencies in all dimensions.
        scales: Standard deviations of the frequencies, in the same units and shapes.

    References:
        Wilson and Adams (2013), "Gaussian process kernels for pattern discovery and
        extrapolation", equation 12.

    Examples:
        Two waves: one of period 2 that decays slowly, and one of period 1/3 that decays fast.

        >>> from bayeskern.kernels import SpectralMixture
        >>> kernel = SpectralMixture([1.0, 0.5], means=[[0.5], [3.0]], scales=[[0.01], [1.0]])
        >>> print(kernel([0.0, 2.0]).round(3))
        [[1.5   0.992]
         [0.992 1.5  ]]
    """

    offers: ClassVar[tuple[str, ...]] = ("frequencies",)
    depends_on_lag: ClassVar[bool] = True

    weights: Hyperparameter = hyperparameter((1.0,), scalar=False)
    means: Hyperparameter = hyperparameter(((1.0,),), constraints.nonnegative, scalar=False)
    scales: Hyperparameter = hyperparameter(((1.0,),), scalar=False)

    def evaluate(self, X: jax.Array, Z: jax.Array | None = None) -> jax.Array:
        self._check_shapes(X)
        X, Z = metrics.center(X, Z)
        among_X, Z = Z is None, X if Z is None else Z
        total = jnp.zeros(())
        for q in range(self.weights.shape[0]):
            scales = jnp.broadcast_to(self.scales[q], X.shape[1:])
            means = jnp.broadcast_to(self.means[q], X.shape[1:])
            u = metrics.squared_distance(X * scales, None if among_X else Z * scales)
            term = self.weights[q] * jnp.exp(-2.0 * jnp.pi**2 * u)
            for d in range(X.shape[1]):
                term = term * jnp.cos(2.0 * jnp.pi * means[d] * (X[:, None, d] - Z[None, :, d]))
            total = total + term
        return total

    def evaluate_diag(self, X: jax.Array) -> jax.Array:
        self._check_shapes(X)
        return jnp.broadcast_to(jnp.sum(self.weights), X.shape[:1])

    def frequencies(self, key: jax.Array, n: int, d: int, orthogonal: bool = False) -> jax.Array:
        self._check_shapes(jnp.zeros((1, d)))
        key_component, key_sign, key_spread = jax.random.split(key, 3)
        q = jax.random.categorical(key_component, jnp.log(self.weights), shape=(n,))
        # A product of cosines over the dimensions: the sign of each mean is independent.
        means = jax.random.rademacher(key_sign, (n, d)) * self.means[q]
        spread = self.scales[q] * spectral_density.gaussian(key_spread, n, d, orthogonal)
        return 2.0 * jnp.pi * (means + spread)

    def _check_shapes(self, X):
        # Checked here, because JAX clamps an index that is out of range.
        weights, d = jnp.shape(self.weights), X.shape[1]
        for name, shape in (("means", jnp.shape(self.means)), ("scales", jnp.shape(self.scales))):
            if len(weights) != 1 or shape not in ((*weights, 1), (*weights, d)):
                raise ValueError(
                    f"weights has shape {weights} and {name} has shape {shape}; for points of {d} "
                    f"dimensions give weights of shape (Q,) and {name} of shape (Q, {d}) or (Q, 1)."
                )
