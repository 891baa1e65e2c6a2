"""Gram matrices as NumPy arrays, whole or block by block."""

from __future__ import annotations

from collections.abc import Iterator

import equinox as eqx
import jax
import numpy as np

from bayeskern.kernels.base import Kernel

# Entries of a block of a Gram matrix.
BLOCK_ENTRIES = 4_000_000


def gram(kernel: Kernel, X: np.ndarray, Z: np.ndarray | None = None) -> np.ndarray:
    """k(X, Z), (n, m), or k(X) if Z is None, as a writable NumPy array.

    Raises ValueError if an entry is NaN or infinite.
    """
    K = _gram(kernel, X, None) if Z is None else _gram(kernel, padded(X), Z)
    return require_finite(kernel, np.array(np.asarray(K)[: len(X)]))


def diagonal(kernel: Kernel, X: np.ndarray) -> np.ndarray:
    """k(x, x) of each row of X, (n,); unlike `k.diag(X)`, without white noise."""
    return np.array(_diagonal(kernel, X))


def gram_times(kernel: Kernel, X: np.ndarray, Z: np.ndarray, B: np.ndarray) -> np.ndarray:
    """k(X, Z) B, (n,) or (n, k), computed by blocks of rows to save memory."""
    out = np.empty((len(X), *np.shape(B)[1:]))
    for rows in blocks(len(X), len(Z)):
        out[rows] = np.asarray(_gram_times(kernel, padded(X[rows]), Z, B))[: len(X[rows])]
    return require_finite(kernel, out)


def blocks(n: int, m: int) -> Iterator[slice]:
    """Row slices of an (n, m) matrix: BLOCK_ENTRIES entries, but at least 256 rows."""
    size = max(256, BLOCK_ENTRIES // m)
    return (slice(start, start + size) for start in range(0, n, size))


def require_finite(kernel: Kernel, K: np.ndarray) -> np.ndarray:
    """The values K of a kernel; ValueError if one is NaN or infinite."""
    # If an entry is not finite, the sum is not finite either, and needs no temporary array.
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.sum(K)
    if not np.isfinite(total) and not np.all(np.isfinite(K)):
        raise ValueError(
            f"{kernel!r} is NaN or infinite at some of these points. Scale the points to the order "
            "of its lengthscales, or use a kernel that grows more slowly."
        )
    return K


def padded(X: np.ndarray) -> np.ndarray:
    """X padded with copies of its last row, to limit recompilation.

    The number of rows is rounded up to one of four values per power of 2.
    """
    step = 1 << max(len(X).bit_length() - 3, 0)
    return np.pad(X, ((0, -len(X) % step), (0, 0)), mode="edge")


@eqx.filter_jit
def _gram(kernel, X, Z):
    return kernel.evaluate(X, Z)


@eqx.filter_jit
def _diagonal(kernel, X):
    return jax.vmap(lambda x: kernel.evaluate(x[None], x[None])[0, 0])(X)


@eqx.filter_jit
def _gram_times(kernel, X, Z, B):
    return kernel.evaluate(X, Z) @ B
