"""What scikit-learn estimators that hold a kernel share: reading it, and its Gram matrices."""

from __future__ import annotations

from collections.abc import Iterator

import equinox as eqx
import jax
import numpy as np
from numpyro.distributions import Distribution
from sklearn.base import BaseEstimator

from bayeskern.hyperparameters import Free
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.stationary import RBF

# A block of a Gram matrix that is used up at once has about this many entries.
BLOCK = 4_000_000


class KernelEstimator(BaseEstimator):
    """An estimator with a `kernel`, of which None means RBF()."""

    def _concrete_kernel(self, positive_definite: bool = True, free: bool = False) -> Kernel:
        """The kernel, its columns found by the names that `fit` saw.

        Raises TypeError unless it is a kernel of numbers, or of numbers and `Free` values where
        those are allowed, and ValueError if it ought to be positive definite and is not.
        """
        kernel = RBF() if self.kernel is None else self.kernel
        if not isinstance(kernel, Kernel):
            raise TypeError(
                f"kernel must be a bayeskern kernel, such as RBF(), got {type(kernel).__name__}."
            )
        names = getattr(self, "feature_names_in_", None)
        kernel = kernel.resolve(None if names is None else tuple(map(str, names)))
        unknown = Distribution if free else Distribution | Free
        waiting = [n for n, v in kernel.hyperparameters().items() if isinstance(v, unknown)]
        if waiting:
            raise TypeError(
                f"{', '.join(waiting)} of {kernel!r} have no value yet, but {type(self).__name__} "
                "wants a kernel of numbers. Give it numbers, or a kernel fitted elsewhere, "
                'kernel.at(posterior.point("mean")). KernelRidge(optimize="loo") finds what is '
                "marked with Free(start)."
            )
        if positive_definite:
            for node in kernel.nodes():
                if not node.positive_definite:
                    raise ValueError(
                        f"{node!r} is not positive definite, so it has no feature space for "
                        f"{type(self).__name__}. InverseMultiquadric is the positive definite "
                        "relative; KernelRidge takes Multiquadric too."
                    )
        return kernel


def gram(kernel: Kernel, X, Z=None) -> np.ndarray:
    """k(X, Z): (n, m), or k(X) where Z is None, as an array that may be written to.

    Raises ValueError where the kernel overflows.
    """
    K = _gram(kernel, X, None) if Z is None else _gram(kernel, _filled_up(X), Z)
    return _finite(kernel, np.array(np.asarray(K)[: len(X)]))


def diagonal(kernel: Kernel, X) -> np.ndarray:
    """k(x, x) for two points that are equal but not the same: (n,), without white noise."""
    return np.array(_diagonal(kernel, X))


def gram_times(kernel: Kernel, X, Z, B) -> np.ndarray:
    """k(X, Z) B: (n,) or (n, k), block by block of rows of X; k(X, Z) is never held as a whole."""
    out = np.empty((len(X), *np.shape(B)[1:]))
    for rows in blocks(len(X), len(Z)):
        out[rows] = np.asarray(_gram_times(kernel, _filled_up(X[rows]), Z, B))[: len(X[rows])]
    return _finite(kernel, out)


def blocks(n: int, m: int) -> Iterator[slice]:
    """Slices of n rows such that each has about BLOCK entries where a row has m."""
    size = max(256, BLOCK // m)
    return (slice(start, start + size) for start in range(0, n, size))


def _filled_up(X):
    """X and a few more rows, so that only four numbers of rows in each octave are compiled for."""
    step = 1 << max(len(X).bit_length() - 3, 0)
    return np.pad(X, ((0, -len(X) % step), (0, 0)), mode="edge")


def _finite(kernel, K):
    # The sum is not finite if anything is not, and takes no room.
    if not np.isfinite(np.sum(K)) and not np.all(np.isfinite(K)):
        raise ValueError(
            f"{kernel!r} is NaN or infinite at some of these points. Scale the points so that they "
            "are of order 1 beside its lengthscales, or take a kernel that grows less."
        )
    return K


@eqx.filter_jit
def _gram(kernel, X, Z):
    return kernel.evaluate(X, Z)


@eqx.filter_jit
def _diagonal(kernel, X):
    return jax.vmap(lambda x: kernel.evaluate(x[None], x[None])[0, 0])(X)


@eqx.filter_jit
def _gram_times(kernel, X, Z, B):
    return kernel.evaluate(X, Z) @ B
