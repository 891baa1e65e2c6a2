"""Symmetric systems M + alpha I, by a Cholesky factor or by eigenvectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, eigh

from bayeskern.linalg import lapack

EPS = np.finfo(float).eps


class RegularizedSystem(ABC):
    """M + alpha I for M: (m, m) symmetric; alpha is a number, or (k,) for k right-hand sides."""

    def __init__(self, alpha):
        self.alpha = alpha

    @abstractmethod
    def solve(self, B):
        """(M + alpha I)^-1 B for B: (m,) or (m, k)."""

    @property
    @abstractmethod
    def inverse_diagonal(self):
        """The diagonal of (M + alpha I)^-1: (m,), or (m, k) for k alphas."""

    @abstractmethod
    def logdet(self):
        """log |M + alpha I|: a number, or (k,)."""

    @property
    @abstractmethod
    def effective_dof(self):
        """The trace of M (M + alpha I)^-1: a number, or (k,)."""

    @abstractmethod
    def at(self, alpha: float) -> RegularizedSystem:
        """The system with one of its alphas."""

    def for_loo(self) -> RegularizedSystem:
        """The system as leave-one-out residuals need it, which divide by the inverse diagonal."""
        return self


class CholeskySystem(RegularizedSystem):
    """M + alpha I by its Cholesky factor, for one alpha. M is written over.

    Raises numpy.linalg.LinAlgError if M + alpha I is not positive definite to rounding.
    """

    def __init__(self, M, alpha: float):
        super().__init__(alpha)
        M[np.diag_indices_from(M)] += alpha
        self.L = lapack.cholesky(M)
        if self.L is None or _is_singular(np.diagonal(self.L)):
            raise np.linalg.LinAlgError(f"K + {alpha:g} I is singular to rounding.")

    def at(self, alpha):
        return self

    def solve(self, B):
        return cho_solve((self.L, True), B)

    @cached_property
    def inverse_diagonal(self):
        return np.diagonal(lapack.inverse_triangle(self.L)).copy()

    def logdet(self):
        return lapack.logdet(self.L)

    @property
    def effective_dof(self):
        return len(self.L) - self.alpha * np.sum(self.inverse_diagonal)


def _is_singular(pivots) -> bool:
    return np.min(pivots) ** 2 <= len(pivots) * EPS * np.max(pivots) ** 2


class Eigendecomposition(NamedTuple):
    """M = V diag(values) V', which serves any alpha."""

    values: np.ndarray
    V: np.ndarray

    @classmethod
    def of(cls, M) -> Eigendecomposition:
        """M: (m, m) symmetric, which is written over."""
        # The transpose is the same matrix in LAPACK's order, which saves a copy.
        return cls(*eigh(M.T, driver="evd", overwrite_a=True, check_finite=False))

    def at(self, alpha) -> EigenSystem:
        return EigenSystem(self, alpha)


class EigenSystem(RegularizedSystem):
    """M + alpha I by the eigenvectors of M, for one alpha or one for each of k columns.

    Eigenvectors for which values + alpha is 0 to rounding are left out, so that `solve` finds the
    shortest of several solutions. `for_loo` keeps them, with the least value that differs from 0:
    a residual [C t]_i / C_ii has a limit there, in which both grow without bound.
    """

    def __init__(self, eigen: Eigendecomposition, alpha, keep_all: bool = False):
        super().__init__(alpha)
        self.eigen = eigen
        values = eigen.values.reshape(-1, *[1] * np.ndim(alpha))
        floor = len(values) * EPS * np.max(np.abs(values) + alpha, axis=0)
        #: the eigenvalues of M + alpha I, bounded from below
        self.shifted_values = np.maximum(values + alpha, floor)
        kept = values + alpha > floor
        self.rank = int(np.min(np.sum(kept, axis=0)))
        nonzero = np.where(self.shifted_values > 0, self.shifted_values, 1.0)
        #: those of its inverse, 0 for the eigenvectors left out
        self.inverse_values = np.where(kept | keep_all, 1.0 / nonzero, 0.0)
        shrinkage = np.where(kept, values / np.where(kept, self.shifted_values, 1.0), 0.0)
        self._effective_dof = np.sum(shrinkage, axis=0)

    def at(self, alpha):
        return self.eigen.at(alpha)

    def solve(self, B):
        V = self.eigen.V
        return V @ (as_column(V.T @ B, self.inverse_values) * as_column(self.inverse_values, B))

    @property
    def inverse_diagonal(self):
        # In parts, since the squares of V are as large as V.
        parts = np.array_split(self.eigen.V, 16)
        return np.concatenate([np.square(V) @ self.inverse_values for V in parts])

    def logdet(self):
        return np.sum(np.log(self.shifted_values), axis=0)

    @property
    def effective_dof(self):
        return self._effective_dof

    def for_loo(self):
        return EigenSystem(self.eigen, self.alpha, keep_all=True)


def as_column(array, other):
    """An array (n,) as a column where the other has columns."""
    return array[:, None] if np.ndim(array) < np.ndim(other) else array
