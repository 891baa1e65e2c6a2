"""Square roots of covariance matrices that are semidefinite up to rounding."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from bayeskern.linalg.factor import AnyArray


def square_root(K: AnyArray) -> jax.Array:
    """A with A A' = K for K (..., n, n), from eigenvectors.

    Negative eigenvalues count as 0.

    Where the data determine everything, a posterior covariance is rounding error with eigenvalues
    slightly below 0, on which a Cholesky factorization fails.
    """
    values, vectors = jnp.linalg.eigh(K)
    return vectors * jnp.sqrt(jnp.maximum(values, 0.0))[..., None, :]


def draw(K: AnyArray, key: jax.Array, size: int) -> jax.Array:
    """Draws from N(0, K), K (n, n): (size, n)."""
    L = jnp.linalg.cholesky(K)
    # Eigenvectors take longer, and are only used where the Cholesky factor fails.
    root = jax.lax.cond(jnp.all(jnp.isfinite(L)), lambda: L, lambda: square_root(K))
    return jax.random.normal(key, (size, K.shape[0]), K.dtype) @ root.T
