"""Triangular roots of covariances and of inverse Hessians, repaired where they are not positive."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

# Curvature, relative to that along the axes, below which there is none.
MIN_CURVATURE = 1e-10


def inverse_root_of(hessian: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lower triangular L with L L' = H^-1, H (d, d) made positive definite where it is not.

    The Hessian is scaled to a unit diagonal first, so that scales of 1e4 beside 1e-3 do no harm.
    A direction without curvature gets an sd a thousand times that along the axes; a negative
    curvature is replaced by its absolute value.

    Returns:
        L, and the eigenvalues (d,) and eigenvectors (d, d) of the scaled Hessian before repair.
    """
    size = diagonal_sizes(hessian)
    values, vectors = np.linalg.eigh(hessian / np.outer(size, size))
    sound = np.all(values > MIN_CURVATURE)
    positive = values if sound else np.maximum(np.abs(values), 1e-6)
    return triangular_root((vectors / np.sqrt(positive)) / size[:, None]), values, vectors


def diagonal_sizes(hessian: np.ndarray) -> np.ndarray:
    """sqrt |H_ii|, which scale the diagonal to 1 or -1: (d,).

    A thousandth of the largest where the diagonal is zero.
    """
    size = np.sqrt(np.abs(np.diag(hessian)))
    return np.where(size > 0, size, max(1.0, size.max()) * 1e-3)


def robust_cholesky(covariance: ArrayLike) -> np.ndarray:
    """Cholesky factor of a covariance (d, d), with eigenvalues of the correlation >= 1e-12."""
    covariance = np.asarray(covariance)
    size = np.sqrt(np.maximum(np.diag(covariance), np.finfo(float).tiny))
    correlation = covariance / np.outer(size, size)
    values, vectors = np.linalg.eigh(0.5 * (correlation + correlation.T))
    return size[:, None] * triangular_root(vectors * np.sqrt(np.maximum(values, 1e-12)))


def triangular_root(root: np.ndarray) -> np.ndarray:
    """Lower triangular L with a positive diagonal and L L' = root root'.

    Computed by QR, which unlike Cholesky keeps the smallest directions.
    """
    r = np.linalg.qr(root.T, mode="r")
    return (r * np.where(np.diag(r) < 0, -1.0, 1.0)[:, None]).T
