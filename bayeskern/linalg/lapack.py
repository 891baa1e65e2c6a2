"""Cholesky factors and inverses of NumPy arrays by LAPACK; JAX has no potri.

JAX programs call these functions through a callback if `is_faster`.
"""

from __future__ import annotations

import jax
import numpy as np
from scipy.linalg import get_lapack_funcs

# Matrix size below which the callback costs more than LAPACK saves.
MIN_CALLBACK_SIZE = 150


def is_faster(n: int) -> bool:
    """True if a callback to LAPACK is faster than XLA for an n x n matrix."""
    return n >= MIN_CALLBACK_SIZE and jax.default_backend() == "cpu"


def cholesky(A: np.ndarray) -> np.ndarray | None:
    """Lower Cholesky factor of a symmetric matrix; None if not positive definite.

    A may be overwritten. The entries above the diagonal of the factor are undefined.
    """
    (potrf,) = get_lapack_funcs(("potrf",), (A,))
    # The transpose of a C-ordered symmetric matrix is the same matrix in Fortran order.
    L, info = potrf(A.T, lower=1, clean=0, overwrite_a=1)
    return L if info == 0 else None


def logdet(L: np.ndarray) -> float:
    """log |L L'|."""
    return 2.0 * float(np.sum(np.log(np.diagonal(L))))


def solve(L: np.ndarray, B: np.ndarray) -> np.ndarray:
    """(L L')^-1 B."""
    (potrs,) = get_lapack_funcs(("potrs",), (L, B))
    solution, _ = potrs(L, B, lower=1)
    return solution


def inverse_triangle(L: np.ndarray, overwrite: bool = False) -> np.ndarray:
    """Lower triangle of (L L')^-1; the entries above the diagonal are undefined."""
    (potri,) = get_lapack_funcs(("potri",), (L,))
    triangle, _ = potri(L, lower=1, overwrite_c=overwrite)
    return triangle


def inverse(L: np.ndarray) -> np.ndarray:
    """(L L')^-1, C-ordered. L is overwritten."""
    upper = inverse_triangle(L, overwrite=True).T
    return np.where(np.tri(len(upper), k=-1, dtype=bool), upper.T, upper)
