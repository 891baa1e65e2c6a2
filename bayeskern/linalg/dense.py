"""Dense covariance matrices: Cholesky factor, Gaussian log density.

The log density has a hand-written derivative, 1/2 tr((a a' - K^-1) dK) with a = K^-1 r (Rasmussen
and Williams 2006, equation 5.9), which can be differentiated again. It is faster than
differentiation of the Cholesky factor. On a CPU the inverse comes from LAPACK, because JAX has no
potri.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular

from bayeskern.core.threads import blas_threads_for
from bayeskern.core.validation import NotPositiveDefiniteError, is_traced
from bayeskern.kernels.base import Kernel
from bayeskern.linalg import lapack
from bayeskern.linalg.factor import AnyArray, Factor
from bayeskern.linalg.root import MAX_JITTER_GROWTHS, cholesky, is_factored, jitter_scales
from bayeskern.linalg.solver import Cost, Fits, Noise, NoisyGram, Solver

# Entries of a matrix in a product in extended precision at a time (16 MB).
RESIDUAL_NUMBERS = 2**20
# From this matrix size on, recomputing an n x n array is cheaper than fetching it from memory.
RECOMPUTE_MIN_SIZE = 1_000


class DenseFactor(Factor):
    """Lower Cholesky factor of a dense covariance matrix. Created by `compute`.

    Attributes:
        L: Lower Cholesky factor, shape (n, n).
        jitter: Share of each diagonal entry added to it to make the factorization succeed.

    Examples:
        >>> import jax.numpy as jnp
        >>> from bayeskern.linalg import DenseFactor
        >>> factor = DenseFactor.compute(jnp.array([[4.0, 2.0], [2.0, 3.0]]))
        >>> print(factor.solve(jnp.array([2.0, 3.0])).round(4), factor.logdet().round(4))
        [0. 1.] 2.0794
    """

    L: jax.Array
    jitter: jax.Array

    @classmethod
    def compute(cls, K: AnyArray) -> DenseFactor:
        """Factor a matrix, with a jitter only if it cannot be factored without one.

        Args:
            K: Symmetric matrix, shape (n, n).

        Returns:
            The factor.

        Raises:
            NotPositiveDefiniteError: K is not positive definite even with the largest jitter. Under
                `jax.jit` the factor is NaN instead.
        """
        L, jitter = cholesky(K)
        if not is_traced(L) and not np.isfinite(L[-1, -1]):
            raise NotPositiveDefiniteError(_failure_message(np.asarray(K), float(jitter)))
        return cls(L=L, jitter=jitter)

    def solve(self, B: AnyArray) -> jax.Array:
        return cho_solve((self.L, True), B)

    def whiten(self, B: AnyArray) -> jax.Array:
        return solve_triangular(self.L, B, lower=True)

    def sqrt_mul(self, B: AnyArray) -> jax.Array:
        return self.L @ B

    def logdet(self) -> jax.Array:
        return _logdet(self.L)

    def inv_diag(self) -> jax.Array:
        eye = jnp.eye(self.L.shape[0], dtype=self.L.dtype)
        return jnp.sum(jnp.square(self.whiten(eye)), axis=0)


class DenseSolver(Solver):
    """Cholesky factor of the matrix itself, for any kernel and any inputs."""

    name = "dense"
    takes_noise_matrix = True

    def applicability(
        self, kernel: Kernel, X, noise: Noise = 0.0, observed: AnyArray | None = None
    ) -> Fits:
        n = X.shape[0]
        # Operations: potrf and potri. Memory: the matrix, its inverse, and two arrays for the
        # gradient.
        return Fits(Cost(float(n) ** 3, 4.0 * 8.0 * n**2))

    def factor(self, C: NoisyGram) -> DenseFactor:
        return DenseFactor.compute(C.dense())

    def multiply(self, C: NoisyGram, b: AnyArray) -> jax.Array:
        return C.dense() @ b

    def solution_errors(self, C: NoisyGram, weights, r) -> np.ndarray:
        # In extended precision: a rounding error of the product would be as large as one of the
        # solution. Some rows at a time, because products in this precision copy their arguments.
        K = np.asarray(C.dense())
        weights, r = np.asarray(weights, np.longdouble), np.asarray(r, np.longdouble)
        blocks = np.array_split(K, max(1, K.size // RESIDUAL_NUMBERS))
        products = np.concatenate([rows.astype(np.longdouble) @ weights for rows in blocks])
        return (products - r).astype(float)

    def log_density(self, C: NoisyGram, R: AnyArray) -> jax.Array:
        # For many points the gradient recomputes the parts of the kernel: this is as fast as
        # fetching these n x n arrays from memory, and saves much memory.
        large = C.X.shape[0] >= RECOMPUTE_MIN_SIZE
        dense = eqx.filter_checkpoint(NoisyGram.dense) if large else NoisyGram.dense
        density = jnp.vectorize(log_density, excluded=(0,), signature="(n)->()")(dense(C), R)
        return C.without_unobserved(density)


@jax.custom_jvp
def log_density(K: AnyArray, r: AnyArray) -> jax.Array:
    """log N(r; 0, K), the log density of a zero-mean Gaussian.

    It is -1/2 (r' K^-1 r + log |K| + n log 2 pi), and can be differentiated twice.

    Args:
        K: Covariance matrix, symmetric, shape (n, n).
        r: Residuals, the observations minus their mean, shape (n,).

    Returns:
        A number; -inf, with a gradient of 0, if K is not positive definite.

    Examples:
        >>> import jax.numpy as jnp
        >>> from bayeskern.linalg import log_density
        >>> round(float(log_density(jnp.eye(2), jnp.array([1.0, 0.0]))), 4)
        -2.3379
    """
    L, _ = cholesky(K)
    z = solve_triangular(L, r, lower=True)
    value = _gaussian_log_density(z @ z, _logdet(L), r.shape[0])
    return jnp.where(jnp.isfinite(value), value, -jnp.inf)


@log_density.defjvp
def _log_density_jvp(primals, tangents):
    (K, r), (dK, dr) = primals, tangents
    inverse, a, logdet = inverse_and_logdet(K, r)
    gradient = computed_once(0.5 * (a[:, None] * a[None, :] - inverse))
    value = _gaussian_log_density(r @ a, logdet, r.shape[0])
    return value, jnp.sum(gradient * dK) - a @ dr


def computed_once(array: jax.Array) -> jax.Array:
    """Keep XLA from recomputing a small array (..., n, n) for each of its uses.

    XLA would recompute a gradient in K for every hyperparameter. Larger arrays are returned
    unchanged, because fetching them from memory is slower.
    """
    return jax.lax.optimization_barrier(array) if array.shape[-1] < RECOMPUTE_MIN_SIZE else array


def _logdet(L):
    return 2.0 * jnp.sum(jnp.log(jnp.diagonal(L)))


def _gaussian_log_density(quadratic, logdet, n):
    return -0.5 * (quadratic + logdet + n * jnp.log(2.0 * jnp.pi))


@jax.custom_jvp
def inverse_and_logdet(K: AnyArray, r: AnyArray) -> list[jax.Array]:
    """K^-1, K^-1 r and log |K|, which can be differentiated any number of times.

    Args:
        K: Symmetric matrix, shape (n, n).
        r: Right-hand sides, shape (n,) or (n, k).

    Returns:
        Arrays of shapes (n, n), r.shape and (); 0, 0 and inf if K is not positive definite.
    """
    if lapack.is_faster(K.shape[0]):
        shapes = [jax.ShapeDtypeStruct(s, K.dtype) for s in (K.shape, r.shape, ())]
        return jax.pure_callback(_by_lapack, shapes, K, r, vmap_method="sequential")
    L, _ = cholesky(K)
    eye = jnp.eye(K.shape[0], dtype=K.dtype)
    inverse, a = cho_solve((L, True), eye), cho_solve((L, True), r)
    logdet = _logdet(L)
    finite = jnp.isfinite(logdet)
    return [
        jnp.where(finite, inverse, 0.0),
        jnp.where(finite, a, 0.0),
        jnp.where(finite, logdet, jnp.inf),
    ]


@inverse_and_logdet.defjvp
def _inverse_jvp(primals, tangents):
    (K, r), (dK, dr) = primals, tangents
    inverse, a, logdet = inverse_and_logdet(K, r)
    d_inverse = -inverse @ dK @ inverse
    return [inverse, a, logdet], [d_inverse, inverse @ (dr - dK @ a), jnp.sum(inverse * dK)]


def _by_lapack(K, r):
    """`inverse_and_logdet` for NumPy arrays."""
    K, r = np.asarray(K), np.asarray(r)
    variances, unit = np.diagonal(K), K.shape[0] * np.finfo(K.dtype).eps
    growths = range(MAX_JITTER_GROWTHS + 1)
    with blas_threads_for(K.shape[0]):
        for jitter in (0.0, *(unit * 10.0**growth for growth in growths)):
            jittered = K.copy()
            np.fill_diagonal(jittered, variances + jitter * jitter_scales(variances))
            L = lapack.cholesky(jittered)
            if is_factored(L, variances, 0.0 if jitter else unit):
                logdet, a = lapack.logdet(L), lapack.solve(L, r)
                return lapack.inverse(L), a, np.asarray(logdet, K.dtype)
    return np.zeros_like(K), np.zeros_like(r), np.array(np.inf, K.dtype)


def _failure_message(K, jitter) -> str:
    if not np.all(np.isfinite(K)):
        return (
            "the covariance matrix has values that are NaN or infinite. "
            "Check the hyperparameters and the inputs."
        )
    eigenvalues = np.linalg.eigvalsh(K)
    return (
        "the covariance matrix is not positive definite: its eigenvalues range from "
        f"{eigenvalues[0]:.3g} to {eigenvalues[-1]:.3g}, and a jitter of {jitter:.3g} times the "
        "diagonal was not enough. Add noise, shorten the lengthscale, or run "
        "bayeskern.kernels.check_psd(kernel, X)."
    )
