"""Triangular roots of covariances and inverse Hessians, repaired if needed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

# Eigenvalues of the scaled Hessian below this count as zero.
MIN_CURVATURE = 1e-10


class ScaledEigen(NamedTuple):
    """Eigendecomposition of a Hessian that is scaled to a unit diagonal.

    Scaling keeps it accurate if the scales of the parameters differ widely.

    Attributes:
        values: Eigenvalues, ascending, (d,).
        vectors: Eigenvectors, (d, d).
        size: sqrt |H_ii|, (d,); the scaled Hessian is H_ij / (size_i size_j).
    """

    values: np.ndarray
    vectors: np.ndarray
    size: np.ndarray

    @classmethod
    def from_hessian(cls, hessian: np.ndarray) -> ScaledEigen:
        """Decomposition of a Hessian (d, d)."""
        size = np.sqrt(np.abs(np.diag(hessian)))
        # A zero on the diagonal gives no scale: use a thousandth of the largest scale.
        size = np.where(size > 0, size, max(1.0, size.max()) * 1e-3)
        values, vectors = np.linalg.eigh(hessian / np.outer(size, size))
        return cls(values, vectors, size)

    def inverse_root(self) -> np.ndarray:
        """Lower triangular L with L L' = H^-1, with H made positive definite if needed.

        A direction without curvature gets an sd of 1,000 in units of 1 / size; a negative curvature
        is replaced by its absolute value.
        """
        is_definite = np.all(self.values > MIN_CURVATURE)
        positive = self.values if is_definite else np.maximum(np.abs(self.values), 1e-6)
        return triangular_root((self.vectors / np.sqrt(positive)) / self.size[:, None])


def robust_cholesky(covariance: ArrayLike) -> np.ndarray:
    """Cholesky factor of a covariance, with eigenvalues of its correlation >= 1e-12.

    Smaller eigenvalues are raised to 1e-12.
    """
    covariance = np.asarray(covariance)
    size = np.sqrt(np.maximum(np.diag(covariance), np.finfo(float).tiny))
    correlation = covariance / np.outer(size, size)
    values, vectors = np.linalg.eigh(0.5 * (correlation + correlation.T))
    return size[:, None] * triangular_root(vectors * np.sqrt(np.maximum(values, 1e-12)))


def triangular_root(root: np.ndarray) -> np.ndarray:
    """Lower triangular L with a positive diagonal and L L' = root root'.

    Computed by QR, which unlike Cholesky keeps small singular values accurate.
    """
    r = np.linalg.qr(root.T, mode="r")
    return (r * np.where(np.diag(r) < 0, -1.0, 1.0)[:, None]).T
