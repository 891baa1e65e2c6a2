"""Triangular roots of covariances and of inverse Hessians, which are repaired where needed."""

from __future__ import annotations

import numpy as np

from bayeskern.inference.optimization.modes import CURVED, Optimum, diagonal_sizes


def inverse_hessian_root(optimum: Optimum) -> tuple[np.ndarray, str | None]:
    """A lower triangular L with L L' = H^-1, and a sentence on what was repaired, or None.

    It is that of `inverse_root_of`.
    """
    if not np.all(np.isfinite(optimum.hessian)):
        unit = np.eye(len(optimum.z))
        return unit, "The Hessian at the mode is not finite; a unit covariance stands in."
    tril, values, vectors = inverse_root_of(optimum.hessian)
    wrong = ~(values > CURVED)
    if not wrong.any():
        return tril, None
    main = np.argmax(np.abs(vectors[:, wrong]), axis=0)
    shown = ", ".join(
        f"it {'rises' if value < -CURVED else 'is flat'} along {optimum.coordinates[i]}"
        for i, value in zip(main, values[wrong], strict=True)
    )
    return tril, (
        f"The Hessian at the mode had to be repaired ({shown}): the draws mean nothing there. "
        "Give that site a proper prior, or take method='nuts'."
    )


def inverse_root_of(hessian: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A lower triangular L with L L' = H^-1, H (d, d) made positive where it is not.

    The Hessian is brought to a unit diagonal first, so that scales of 1e4 beside 1e-3 do no harm.
    A direction without curvature gets an sd a thousand times that along the axes; a negative
    curvature is replaced by its absolute value.

    Returns:
        L, and the eigenvalues (d,) and eigenvectors (d, d) in units of the diagonal, as they were.
    """
    size = diagonal_sizes(hessian)
    values, vectors = np.linalg.eigh(hessian / np.outer(size, size))
    positive = values if np.all(values > CURVED) else np.maximum(np.abs(values), 1e-6)
    return triangular_root((vectors / np.sqrt(positive)) / size[:, None]), values, vectors


def robust_cholesky(covariance) -> np.ndarray:
    """A Cholesky factor of a covariance (d, d), with eigenvalues of the correlation >= 1e-12."""
    size = np.sqrt(np.maximum(np.diag(covariance), np.finfo(float).tiny))
    correlation = covariance / np.outer(size, size)
    values, vectors = np.linalg.eigh(0.5 * (correlation + correlation.T))
    return size[:, None] * triangular_root(vectors * np.sqrt(np.maximum(values, 1e-12)))


def triangular_root(root) -> np.ndarray:
    """L, lower triangular with a positive diagonal, with L L' = root root'.

    By QR, so that no direction is too small for it, as it would be for Cholesky.
    """
    r = np.linalg.qr(root.T, mode="r")
    return (r * np.where(np.diag(r) < 0, -1.0, 1.0)[:, None]).T
