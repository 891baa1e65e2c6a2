"""Triangular roots of covariances and of inverse Hessians, repaired where they are not positive."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bayeskern.inference.optimization.modes import CRITERIA, Optimum, diagonal_sizes


def inverse_hessian_root(optimum: Optimum) -> tuple[np.ndarray, str | None]:
    """Lower triangular L with L L' = H^-1 at a mode, and a sentence on any repair of H.

    L is the root of `inverse_root_of`, or the unit matrix where H is not finite. The sentence is
    None where H is positive definite.
    """
    if not np.all(np.isfinite(optimum.hessian)):
        unit = np.eye(len(optimum.z))
        return unit, "The Hessian at the mode is not finite; a unit covariance stands in."
    tril, values, vectors = inverse_root_of(optimum.hessian)
    repaired = ~(values > CRITERIA.min_curvature)
    if not repaired.any():
        return tril, None
    largest = np.argmax(np.abs(vectors[:, repaired]), axis=0)
    directions = ", ".join(
        f"it {'rises' if value < -CRITERIA.min_curvature else 'is flat'} "
        f"along {optimum.coordinates[i]}"
        for i, value in zip(largest, values[repaired], strict=True)
    )
    return tril, (
        f"The Hessian at the mode had to be repaired ({directions}): the draws mean nothing there. "
        "Give that site a proper prior, or take method='nuts'."
    )


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
    sound = np.all(values > CRITERIA.min_curvature)
    positive = values if sound else np.maximum(np.abs(values), 1e-6)
    return triangular_root((vectors / np.sqrt(positive)) / size[:, None]), values, vectors


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
