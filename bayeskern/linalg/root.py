"""Square roots of covariance matrices that are semidefinite up to rounding."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from bayeskern.linalg.factor import AnyArray


def square_root(K: AnyArray) -> jax.Array:
    """Matrix A with A A' = K for K (..., n, n), from eigenvectors.

    Negative eigenvalues are replaced by 0: if the data determine f up to rounding, the posterior
    covariance consists of rounding errors, some eigenvalues are slightly negative, and a Cholesky
    factorization fails.
    """
    values, vectors = jnp.linalg.eigh(K)
    return vectors * jnp.sqrt(jnp.maximum(values, 0.0))[..., None, :]


def draw(K: AnyArray, key: jax.Array, size: int) -> jax.Array:
    """Draws from N(0, K) for K (n, n): (size, n)."""
    L = jnp.linalg.cholesky(K)
    # Eigenvectors take longer: they are only computed if the Cholesky factorization fails.
    root = jax.lax.cond(jnp.all(jnp.isfinite(L)), lambda: L, lambda: square_root(K))
    return jax.random.normal(key, (size, K.shape[0]), K.dtype) @ root.T
