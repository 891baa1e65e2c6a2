"""Log likelihood of latent functions, with its gradient and curvature.

C latent functions at n rows form an array f (C, n); a likelihood takes them as (n,) or (n, C).
"""

from __future__ import annotations

from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from bayeskern.likelihoods.base import Likelihood


class LogLikelihood(eqx.Module):
    """log p(y | f) with its derivatives in f (C, n); rows are independent given f.

    Every leaf of this pytree is an array, so that JAX can differentiate in all of them.
    """

    likelihood: Likelihood
    y: Array
    extra: dict[str, Array]

    @classmethod
    def of(
        cls, likelihood: Likelihood, y: ArrayLike, extra: Mapping[str, ArrayLike]
    ) -> LogLikelihood:
        """Log likelihood of y, with numbers converted to arrays."""
        arrays = {name: jnp.asarray(value) for name, value in extra.items()}
        return cls(jax.tree.map(jnp.asarray, likelihood), jnp.asarray(y), arrays)

    @property
    def concave(self) -> bool:
        """True if log p(y | f) is known to be concave in f."""
        return self.likelihood.log_concave

    def log_densities(self, f: Array) -> Array:
        """log p(y_i | f_i): (n,)."""
        distribution = self.likelihood.distribution(eta(self.likelihood, f), **self.extra)
        return jnp.asarray(distribution.log_prob(self.y))

    def log_density(self, f: Array) -> Array:
        """log p(y | f), a number."""
        return jnp.sum(self.log_densities(f))

    def gradient(self, f: Array) -> Array:
        """d log p(y | f) / df: (C, n)."""
        return jax.grad(self.log_density)(f)

    def curvature(self, f: Array) -> Array:
        """W = -d2 log p(y_i | f_i) / df_i df_i': (C, C, n).

        At least 0 for one latent function and a likelihood that is known to be log-concave.
        """
        # Rows are independent: direction e_c in all rows at once gives column c of every block.
        directions = jnp.eye(f.shape[0], dtype=f.dtype)[:, :, None] * jnp.ones_like(f)
        W = -jax.vmap(lambda e: jax.jvp(self.gradient, (f,), (e,))[1])(directions)
        return jnp.maximum(W, 0.0) if self.concave and f.shape[0] == 1 else W


def eta(likelihood: Likelihood, f: Array) -> Array:
    """Reshape latent functions (C, n) as the likelihood takes them: (n,), or (n, C)."""
    return f[0] if likelihood.outputs is None else f.T


def count_latents(likelihood: Likelihood) -> int:
    """Number of latent functions of a likelihood."""
    return likelihood.outputs or 1
