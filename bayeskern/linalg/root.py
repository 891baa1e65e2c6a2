"""Square roots of covariance matrices, also of those that are singular up to rounding."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from bayeskern.linalg.factor import AnyArray

# The jitter of a matrix that cannot be factored starts at n eps of each diagonal entry, the size of
# rounding errors, and grows tenfold at most this many times: to about 2e-7 of the diagonal for
# 1,000 points in float64.
MAX_JITTER_GROWTHS = 6


@jax.custom_jvp
def cholesky(K: AnyArray) -> tuple[jax.Array, jax.Array]:
    """(L, jitter) with L L' = K + jitter diag(K), and jitter 0 unless K cannot be factored.

    The error of a Cholesky factorization is relative to each row's own diagonal entry, and so is
    the jitter: rows may have any scale. Higham (2002), "Accuracy and Stability of Numerical
    Algorithms", theorems 10.5 and 10.7. L is NaN if the largest jitter is too small.
    """
    # The rounding error of a pivot relative to its diagonal entry.
    unit = jnp.asarray(K.shape[0] * jnp.finfo(K.dtype).eps, K.dtype)
    variances = jnp.diagonal(K)

    def attempt(jitter):
        jittered = K + jnp.diag(jitter * jitter_scales(variances))
        return jnp.linalg.cholesky(jittered, symmetrize_input=False), jitter

    def failed(state):
        (L, _), growths = state
        return ~jnp.isfinite(L[-1, -1]) & (growths < MAX_JITTER_GROWTHS)

    def grow(state):
        (_, jitter), growths = state
        return attempt(10.0 * jitter), growths + 1

    L = jnp.linalg.cholesky(K, symmetrize_input=False)
    return jax.lax.cond(
        is_factored(L, variances, unit),
        lambda: (L, jnp.zeros_like(unit)),
        lambda: jax.lax.while_loop(failed, grow, (attempt(unit), 0))[0],
    )


def is_factored(L, variances, unit):
    """True if each pivot exceeds `unit` times its diagonal entry. For NumPy and JAX arrays."""
    return (L.diagonal() ** 2 > unit * variances).all()


def jitter_scales(variances):
    """The diagonal of K; where it is 0, its smallest positive entry. For NumPy and JAX arrays."""
    is_zero = variances == 0.0
    return variances + is_zero * (variances + is_zero * variances.max()).min()


@cholesky.defjvp
def _cholesky_jvp(primals, tangents):
    (K,), (dK,) = primals, tangents
    L, jitter = cholesky(K)
    # dL = L Phi(L^-1 dK L^-T), where Phi takes the lower triangle and halves its diagonal.
    S = solve_triangular(L, solve_triangular(L, dK, lower=True).T, lower=True)
    return (L, jitter), (
        L @ (jnp.tril(S) - 0.5 * jnp.diag(jnp.diagonal(S))),
        jnp.zeros_like(jitter),
    )


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
    # The covariance of a smooth function is singular up to rounding: a jitter of 1e-7 of the
    # variances at most. Eigenvectors take much longer; they are for indefinite rounding errors.
    L, _ = cholesky(K)
    root = jax.lax.cond(jnp.all(jnp.isfinite(L)), lambda: L, lambda: square_root(K))
    return jax.random.normal(key, (size, K.shape[0]), K.dtype) @ root.T
