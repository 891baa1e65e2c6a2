"""Linear systems of kernel ridge regression, from one factor of the Gram matrix.

With u the square roots of the sample weights, S = diag(u) and A = S K S + alpha I, the dual
coefficients c and the unpenalised constant b solve

    [A, u; u', 0] [c; b] = [t; total].

Without a constant the system is A c = t. C denotes the first n x n block of the inverse, which is
A^-1 - q q' / (u'q) with q = A^-1 u; C t are the dual coefficients, and the leave-one-out residuals
are [C t]_i / C_ii (Rasmussen and Williams 2006, equation 5.12).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from bayeskern.linalg import lapack


class RidgeFactor(ABC):
    """A factor of M + alpha I, M (n, n) symmetric; alpha: a number, or (k,) for k columns."""

    def __init__(self, alpha: float | np.ndarray):
        self.alpha = alpha

    @abstractmethod
    def solve(self, B: np.ndarray) -> np.ndarray:
        """(M + alpha I)^-1 B for B: (n,) or (n, k)."""

    @property
    @abstractmethod
    def inverse_diagonal(self) -> np.ndarray:
        """The diagonal of (M + alpha I)^-1: (n,), or (n, k) for k alphas."""

    @abstractmethod
    def logdet(self) -> float | np.ndarray:
        """log |M + alpha I|: a number, or (k,)."""

    @property
    def effective_dof(self) -> float | np.ndarray:
        """The trace of M (M + alpha I)^-1: a number, or (k,)."""
        diagonal = self.inverse_diagonal
        return len(diagonal) - self.alpha * np.sum(diagonal, axis=0)

    def at(self, alpha: float) -> RidgeFactor:
        """The factor for one of the alphas."""
        return self

    def for_loo(self) -> RidgeFactor:
        """A factor whose inverse diagonal has no zeros, as leave-one-out residuals need."""
        return self


class CholeskyFactor(RidgeFactor):
    """The Cholesky factor of M + alpha I for one alpha. M is overwritten.

    Raises numpy.linalg.LinAlgError if M + alpha I is singular to rounding.
    """

    def __init__(self, M: np.ndarray, alpha: float):
        super().__init__(alpha)
        M[np.diag_indices_from(M)] += alpha
        variances = np.diagonal(M).copy()
        L = lapack.cholesky(M)
        # A pivot within the rounding error of its own diagonal entry is unknown; rows may have any
        # scale. Also true for NaN.
        if not np.min(np.square(np.diagonal(L)) / variances) > len(M) * np.finfo(float).eps:
            raise np.linalg.LinAlgError(f"K + {alpha:g} I is singular to rounding.")
        self.L = L

    def solve(self, B: np.ndarray) -> np.ndarray:
        return lapack.solve(self.L, B)

    @cached_property
    def inverse_diagonal(self) -> np.ndarray:
        return np.diagonal(lapack.inverse_triangle(self.L)).copy()

    def logdet(self) -> float | np.ndarray:
        return lapack.logdet(self.L)


class Eigendecomposition(NamedTuple):
    """M = V diag(values) V', from which M + alpha I follows for any alpha."""

    values: np.ndarray
    V: np.ndarray

    @classmethod
    def of(cls, M: np.ndarray) -> Eigendecomposition:
        """Decompose a symmetric M (n, n), which is overwritten."""
        # The transpose is the same matrix in Fortran order, which saves a copy.
        return cls(*eigh(M.T, driver="evd", overwrite_a=True, check_finite=False))

    def at(self, alpha: float | np.ndarray) -> EigenFactor:
        """The factor of M + alpha I, for one alpha or for several, (k,)."""
        return EigenFactor(self, alpha)


class EigenFactor(RidgeFactor):
    """M + alpha I by the eigenvectors of M, for one alpha or for each of k alphas.

    Eigenvectors whose eigenvalue plus alpha is 0 up to rounding are dropped, so that `solve` finds
    the shortest of several solutions. `for_loo` keeps them, with the smallest value above rounding:
    numerator and denominator of [C t]_i / C_ii grow without bound, but their ratio has a limit.
    """

    def __init__(self, eigen: Eigendecomposition, alpha, keep_all: bool = False):
        super().__init__(alpha)
        self.eigen = eigen
        values = eigen.values.reshape(-1, *[1] * np.ndim(alpha))
        floor = len(values) * np.finfo(float).eps * np.max(np.abs(values) + alpha, axis=0)
        is_kept = values + alpha > floor
        self._bounded = np.maximum(values + alpha, floor)
        nonzero = np.where(self._bounded > 0.0, self._bounded, 1.0)
        #: 1 / (eigenvalue + alpha), and 0 for dropped eigenvectors
        self.inverse_values = np.where(is_kept | keep_all, 1.0 / nonzero, 0.0)
        self.rank = int(np.min(np.sum(is_kept, axis=0)))

    def solve(self, B: np.ndarray) -> np.ndarray:
        V = self.eigen.V
        return V @ (as_column(V.T @ B, self.inverse_values) * as_column(self.inverse_values, B))

    @property
    def inverse_diagonal(self) -> np.ndarray:
        # In blocks of rows, because the squares of V take as much memory as V.
        row_blocks = np.array_split(self.eigen.V, 16)
        return np.concatenate([np.square(V) @ self.inverse_values for V in row_blocks])

    def logdet(self) -> float | np.ndarray:
        return np.sum(np.log(self._bounded), axis=0)

    @property
    def effective_dof(self) -> float | np.ndarray:
        return self.eigen.values @ self.inverse_values

    def at(self, alpha: float) -> RidgeFactor:
        return self.eigen.at(alpha)

    def for_loo(self) -> RidgeFactor:
        return EigenFactor(self.eigen, self.alpha, keep_all=True)


class UnpenalisedConstant(NamedTuple):
    """The column u of an unpenalised constant, and the vector v that centers the matrix.

    The matrix that is factored is M = S K S - (u v' + v u') / |u|.

    Attributes:
        u: The square roots of the weights, (n,).
        v: The vector v, (n,); 0 if M is S K S itself.
        spread: The eigenvalue of M for the eigenvector u; None if M is S K S itself.
    """

    u: np.ndarray
    v: np.ndarray
    spread: float | None


def centering(K, u):
    """(unit, v, spread) that center K as M = K - unit v' - v unit', with unit = u / |u|.

    M has the eigenvector unit with the eigenvalue spread, about the mean of the other eigenvalues.
    w'M w = w'K w for all w orthogonal to u, so M is positive definite if K is for these vectors.
    For NumPy and JAX arrays.
    """
    unit = u / (u @ u) ** 0.5
    product = K @ unit
    spread = abs(K.trace() - unit @ product) / len(u)
    # spread is 0 if K is constant: any positive number will do.
    spread = spread + (spread == 0.0)
    return unit, product - 0.5 * (unit @ product + spread) * unit, spread


def without_constant(
    K: np.ndarray, u: np.ndarray | None
) -> tuple[np.ndarray, UnpenalisedConstant | None]:
    """Center K in place; return it and the constant, or (K, None) if u is None."""
    if u is None:
        return K, None
    unit, v, spread = centering(K, u)
    # Row by row, because an outer product would be as large as K.
    for i in range(len(K)):
        K[i] -= unit[i] * v
        K[i] -= v[i] * unit
    return K, UnpenalisedConstant(u, v, float(spread))


class RidgeSystem:
    """The bordered system, from a factor of M + alpha I.

    T stands for right-hand sides, (n,) or (n, k).
    """

    def __init__(self, factor: RidgeFactor, constant: UnpenalisedConstant | None):
        self.factor = factor
        self.constant = constant
        #: the penalty, a number or (k,)
        self.alpha = factor.alpha

    def at(self, alpha: float) -> RidgeSystem:
        """The system for one of the alphas."""
        return RidgeSystem(self.factor.at(alpha), self.constant)

    def for_loo(self) -> RidgeSystem:
        """A system whose inverse diagonal has no zeros."""
        return RidgeSystem(self.factor.for_loo(), self.constant)

    def solve(self, T: np.ndarray, total: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """Solve (S K S + alpha I) c + u b = T, u'c = total; b is 0 without a constant."""
        if self.constant is None:
            return self.factor.solve(T), np.zeros(np.shape(T)[1:])
        # (M + alpha I) c + u g = T - v total / |u|, with g = b + v'c / |u|.
        u, v, _ = self.constant
        q, norm = self._q, np.sqrt(u @ u)
        T = T - as_column(v, T) * (total / norm)
        g = (np.sum(as_column(q, T) * as_column(T, q), axis=0) - total) / (u @ q)
        T = as_column(T, q) - np.multiply.outer(u, g)
        c = self.factor.solve(T)
        return c, g - v @ c / norm

    def coefficients(self, T: np.ndarray) -> np.ndarray:
        """C T."""
        return self.solve(T)[0]

    @cached_property
    def inverse_diagonal(self) -> np.ndarray:
        """The diagonal of C: (n,), or (n, k) for k alphas."""
        diagonal = self.factor.inverse_diagonal
        if self.constant is None:
            return diagonal
        return diagonal - np.square(self._q) / (self.constant.u @ self._q)

    @property
    def effective_dof(self) -> float | np.ndarray:
        """The trace of the matrix that maps t to fitted values: n - alpha tr C."""
        dof = self.factor.effective_dof
        if self.constant is None:
            return dof
        return dof + self.alpha * np.sum(np.square(self._q), axis=0) / (self.constant.u @ self._q)

    def loo_residuals(self, T: np.ndarray) -> np.ndarray:
        """t_i minus its prediction from the other points: [C t]_i / C_ii."""
        return self.coefficients(T) / as_column(self.inverse_diagonal, T)

    def log_marginal_likelihood(self, t: np.ndarray) -> float | np.ndarray:
        """log N(t; 0, S K S + alpha I); with a constant, of the part of t orthogonal to u."""
        coefficients, logdet, dof = self.coefficients(t), self.factor.logdet(), len(t)
        if self.constant is not None:
            u = self.constant.u
            logdet, dof = logdet + np.log((u @ self._q) / (u @ u)), dof - 1
        return gaussian_log_density(t @ coefficients, logdet, dof)

    @cached_property
    def _q(self) -> np.ndarray:
        """(M + alpha I)^-1 u: (n,), or (n, k) for k alphas."""
        assert self.constant is not None
        u, _, spread = self.constant
        if spread is None:
            return self.factor.solve(u)
        return np.multiply.outer(u, 1.0 / (self.alpha + spread))


class RidgeSpectrum(NamedTuple):
    """The eigendecomposition of the centered Gram matrix, for systems of any alpha."""

    eigen: Eigendecomposition
    constant: UnpenalisedConstant | None

    def systems(self, alphas: np.ndarray) -> Iterator[tuple[slice, RidgeSystem]]:
        """Yield (indices of alphas, their system), all alphas at once."""
        yield slice(None), self.at(alphas)

    def at(self, alpha: float | np.ndarray) -> RidgeSystem:
        """The system with one alpha, or several."""
        return RidgeSystem(self.eigen.at(alpha), self.constant)

    @property
    def trace(self) -> float:
        """The trace of S K S, after projecting out the unpenalised constant."""
        spread = 0.0 if self.constant is None else self.constant.spread
        return float(np.sum(self.eigen.values) - (spread or 0.0))


def gaussian_log_density(quadratic, logdet, dof: int):
    """log N(t; 0, A) in `dof` dimensions, from t'A^-1 t and log |A|."""
    return -0.5 * (quadratic + logdet + dof * np.log(2.0 * np.pi))


def as_column(array: np.ndarray, other: np.ndarray) -> np.ndarray:
    """An array (n,) as a column (n, 1) if `other` has columns."""
    return array[:, None] if np.ndim(array) < np.ndim(other) else array
