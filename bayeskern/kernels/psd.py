"""Numerical check that a function of two points is a kernel."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bayeskern.core import validation
from bayeskern.core.validation import NotPositiveDefiniteError
from bayeskern.kernels.base import Kernel


def check_psd(kernel: Kernel, X: ArrayLike) -> float:
    """Check that a kernel is symmetric and positive semi-definite on given points.

    Passing the check proves nothing about other points.

    Args:
        kernel: A kernel whose hyperparameters are numbers.
        X: Points, shape (n, d) or (n,), or a data frame.

    Returns:
        Smallest eigenvalue of k(X), divided by the largest.

    Raises:
        NotPositiveDefiniteError: k(X) is not symmetric, its diagonal differs from k.diag(X), or it
            has an eigenvalue below -10 n eps times the largest.
        ValueError: k(X) has values that are NaN or infinite.

    Examples:
        >>> import jax.numpy as jnp
        >>> import bayeskern as bk
        >>> from bayeskern.kernels import RBF, Custom
        >>> bool(bk.check_psd(RBF(), [0.0, 1.0, 2.0]) > 0.0)
        True
        >>> distance = Custom(lambda x, z: jnp.abs(x - z).sum())
        >>> bk.check_psd(distance, [0.0, 1.0])
        Traceback (most recent call last):
            ...
        bayeskern.core.validation.NotPositiveDefiniteError: Custom(custom) is not positive \
semi-definite: on 2 points its smallest eigenvalue is -1, the largest 1.
    """
    K = np.asarray(kernel(X))
    validation.finite(K, "k(X)")
    largest_entry, n = np.max(np.abs(K)), K.shape[0]
    tolerance = 10.0 * n * np.finfo(K.dtype).eps
    asymmetry = np.max(np.abs(K - K.T))
    if asymmetry > tolerance * largest_entry:
        raise NotPositiveDefiniteError(
            f"{kernel!r} is not symmetric: k(x, z) and k(z, x) differ by up to {asymmetry:.3g}."
        )
    diagonal_error = np.max(np.abs(np.diag(K) - np.asarray(kernel.diag(X))))
    if diagonal_error > tolerance * largest_entry:
        raise NotPositiveDefiniteError(
            f"k.diag(X) differs from the diagonal of k(X) by {diagonal_error:.3g}."
        )
    eigenvalues = np.linalg.eigvalsh(K)
    relative_smallest = eigenvalues[0] / max(eigenvalues[-1], np.finfo(float).tiny)
    if relative_smallest < -tolerance:
        raise NotPositiveDefiniteError(
            f"{kernel!r} is not positive semi-definite: on {n} points its smallest eigenvalue "
            f"is {eigenvalues[0]:.3g}, the largest {eigenvalues[-1]:.3g}."
        )
    return float(relative_smallest)
