"""Triangular roots of covariances and inverse Hessians, repaired where needed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

# Curvature, relative to that along the axes, below which there is none.
MIN_CURVATURE = 1e-10


class ScaledEigen(NamedTuple):
    """Eigendecomposition of a Hessian that is scaled to a unit diagonal.

    Scales of 1e4 beside 1e-3 do no harm to it.

    Attributes:
        values: Eigenvalues, ascending, (d,).
        vectors: Eigenvectors, (d, d).
        size: sqrt |H_ii|, by which the Hessian is scaled, (d,).
    """

    values: np.ndarray
    vectors: np.ndarray
    size: np.ndarray

    @classmethod
    def of(cls, hessian: np.ndarray) -> ScaledEigen:
        """Decomposition of a Hessian (d, d)."""
        size = np.sqrt(np.abs(np.diag(hessian)))
        # A thousandth of the largest where the diagonal is zero.
        size = np.where(size > 0, size, max(1.0, size.max()) * 1e-3)
        values, vectors = np.linalg.eigh(hessian / np.outer(size, size))
        return cls(values, vectors, size)

    def inverse_root(self) -> np.ndarray:
        """Lower triangular L with L L' = H^-1, H made positive definite where it is not.

        A direction without curvature gets an sd a thousand times that along the axes; a negative
        curvature is replaced by its absolute value.
        """
        sound = np.all(self.values > MIN_CURVATURE)
        positive = self.values if sound else np.maximum(np.abs(self.values), 1e-6)
        return triangular_root((self.vectors / np.sqrt(positive)) / self.size[:, None])


def robust_cholesky(covariance: ArrayLike) -> np.ndarray:
    """Cholesky factor of a covariance with eigenvalues of the correlation >= 1e-12."""
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
