"""Interface of a factored covariance matrix."""

from __future__ import annotations

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

# Solvers and factors accept NumPy and JAX arrays, and return JAX arrays.
AnyArray = jax.Array | np.ndarray


class Factor(eqx.Module):
    """Positive definite matrix K = L L' of size n, factored once and used many times.

    Attributes:
        jitter: Share of each diagonal entry added to it to make the factorization succeed.
    """

    jitter: eqx.AbstractVar[jax.Array]

    def solve(self, B: AnyArray) -> jax.Array:
        """K^-1 B."""
        W = self.whiten(jnp.asarray(B))
        (solution,) = jax.linear_transpose(self.whiten, W)(W)
        return solution

    @abstractmethod
    def whiten(self, B: Float[Array, "n *m"]) -> Float[Array, "n *m"]:
        """L^-1 B, so that |L^-1 b|^2 = b' K^-1 b."""

    @abstractmethod
    def sqrt_mul(self, B: Float[Array, "n *m"]) -> Float[Array, "n *m"]:
        """L B; if B has independent N(0, 1) entries, the columns have covariance K."""

    @abstractmethod
    def logdet(self) -> Float[Array, ""]:
        """log |K|."""

    @abstractmethod
    def inv_diag(self) -> Float[Array, " n"]:
        """Diagonal of K^-1."""


def scale_rows(scale: AnyArray, B: AnyArray) -> jax.Array:
    """diag(scale) B, for B (n,) or (n, k)."""
    return (jnp.asarray(scale) * jnp.asarray(B).T).T
