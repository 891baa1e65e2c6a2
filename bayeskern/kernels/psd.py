"""Is this function a kernel? A numerical look at one set of points."""

from __future__ import annotations

import numpy as np

from bayeskern.core import validation
from bayeskern.core.validation import NotPositiveDefiniteError


def check_psd(kernel, X) -> float:
    """Return the smallest eigenvalue of k(X), relative to the largest.

    Raises NotPositiveDefiniteError if k(X) is not symmetric, has a diagonal other than k.diag(X),
    or has an eigenvalue below -n eps times the largest. X: (n, d); a pass is evidence for these
    points, not a proof.
    """
    K = np.asarray(kernel(X))
    validation.finite(K, "k(X)")
    size, n = np.max(np.abs(K)), K.shape[0]
    tolerance = 10.0 * n * np.finfo(K.dtype).eps
    asymmetry = np.max(np.abs(K - K.T))
    if asymmetry > tolerance * size:
        raise NotPositiveDefiniteError(
            f"{kernel!r} is not symmetric: k(x, z) and k(z, x) differ by up to {asymmetry:.3g}."
        )
    off = np.max(np.abs(np.diag(K) - np.asarray(kernel.diag(X))))
    if off > tolerance * size:
        raise NotPositiveDefiniteError(f"k.diag(X) differs from the diagonal of k(X) by {off:.3g}.")
    eigenvalues = np.linalg.eigvalsh(K)
    smallest = eigenvalues[0] / max(eigenvalues[-1], np.finfo(float).tiny)
    if smallest < -tolerance:
        raise NotPositiveDefiniteError(
            f"{kernel!r} is not positive semi-definite: on {n} points its smallest eigenvalue "
            f"is {eigenvalues[0]:.3g}, the largest {eigenvalues[-1]:.3g}."
        )
    return float(smallest)
