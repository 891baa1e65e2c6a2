"""The log likelihood of latent functions, with its gradient and curvature.

C latent functions at n rows are an array f (C, n); a likelihood takes them as (n,) or (n, C).
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp

from bayeskern.likelihoods.base import Likelihood


class LogLikelihood(eqx.Module):
    """log p(y | f) with its derivatives in f (C, n); rows are independent given f.

    Every leaf is an array.
    """

    likelihood: Likelihood
    y: jax.Array
    extra: dict[str, jax.Array]

    @classmethod
    def of(cls, likelihood: Likelihood, y, extra: dict) -> LogLikelihood:
        extra = {name: jnp.asarray(value) for name, value in extra.items()}
        return cls(jax.tree.map(jnp.asarray, likelihood), jnp.asarray(y), extra)

    @property
    def concave(self) -> bool:
        return self.likelihood.log_concave

    def log_densities(self, f):
        """log p(y_i | f_i): (n,)."""
        return self.likelihood.distribution(eta(self.likelihood, f), **self.extra).log_prob(self.y)

    def log_density(self, f):
        """log p(y | f), a number."""
        return jnp.sum(self.log_densities(f))

    def gradient(self, f):
        """d log p(y | f) / df: (C, n)."""
        return jax.grad(self.log_density)(f)

    def curvature(self, f):
        """W = -d2 log p(y_i | f_i) / df_i df_i': (C, C, n).

        For one latent function it is at least 0 where the likelihood is known to be log-concave.
        """
        # Rows are independent, so that one direction gives the derivatives in all of them.
        directions = jnp.eye(f.shape[0], dtype=f.dtype)[:, :, None] * jnp.ones_like(f)
        W = -jax.vmap(lambda e: jax.jvp(self.gradient, (f,), (e,))[1])(directions)
        return jnp.maximum(W, 0.0) if self.concave and f.shape[0] == 1 else W


def eta(likelihood, f):
    """Latent functions (C, n) as the likelihood takes them: (n,), or (n, C)."""
    return f[0] if likelihood.outputs is None else f.T


def count_latents(likelihood) -> int:
    """How many latent functions a likelihood has."""
    return likelihood.outputs or 1
