"""The linear systems of kernel ridge: [K + alpha I, u; u', 0] [c; b] = [t; total].

u is the column of an unpenalised constant; without one the system is K + alpha I. A Householder
reflection H with H u = |u| e_1 takes the constant out exactly: what is left is a symmetric matrix M
of size n - 1, the lower right block of H K H, which is positive definite wherever K is so on the
vectors orthogonal to u. One factorisation of M then serves coefficients, leave-one-out residuals,
degrees of freedom, variances and the evidence.

In what follows C is the first n x n block of the inverse of the whole matrix.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, eigh, lapack

EPS = np.finfo(float).eps
LOG_2PI = np.log(2.0 * np.pi)


class Reflection(NamedTuple):
    """H = I - t v v', t = 2 / v'v, with H u = length e_1."""

    v: np.ndarray
    t: float
    length: float

    @classmethod
    def of(cls, u) -> Reflection:
        # The sign with which nothing cancels in v (Golub and Van Loan 2013, section 5.1.3).
        length = -np.copysign(np.linalg.norm(u), u[0])
        v = u.copy()
        v[0] -= length
        return cls(v, 2.0 / (v @ v), length)

    def __call__(self, B):
        """H B for B (n,) or (n, k)."""
        return B - np.multiply.outer(self.v, self.t * (self.v @ B))

    def both_sides(self, K):
        """H K H for K symmetric, in place: a change of rank two."""
        w = self.t * (K @ self.v)
        w -= (0.5 * self.t * (self.v @ w)) * self.v
        # Row by row, since an outer product would be as large as K.
        for i in range(len(K)):
            K[i] -= self.v[i] * w
            K[i] -= w[i] * self.v
        return K


class Border(NamedTuple):
    """The constant in reflected axes: H, and the first row [corner, row] of H K H."""

    H: Reflection
    corner: float
    row: np.ndarray


def without_constant(K, u) -> tuple[np.ndarray, Border | None]:
    """(M, its border), or (K, None) where u is None. K is written over."""
    if u is None:
        return K, None
    H = Reflection.of(u)
    K = H.both_sides(K)
    return K[1:, 1:], Border(H, K[0, 0], K[0, 1:].copy())


class System(ABC):
    """M + alpha I with a known inverse. T: right-hand sides (n,) or (n, k)."""

    def __init__(self, alpha, border: Border | None):
        self.alpha = alpha
        self.border = border

    @abstractmethod
    def inner(self, T):
        """(M + alpha I)^-1 T."""

    @abstractmethod
    def diagonal(self):
        """The diagonal of (M + alpha I)^-1."""

    @abstractmethod
    def logdet(self):
        """log |M + alpha I|."""

    @property
    @abstractmethod
    def effective_dof(self):
        """The trace of the matrix that turns t into fitted values: n - alpha tr C."""

    @abstractmethod
    def at(self, alpha: float) -> System:
        """The same system with one of its alphas."""

    def for_loo(self) -> System:
        """The same, with what `loo_residuals` may divide by."""
        return self

    # -- with the constant -----------------------------------------------------------------------

    def solve(self, T, total=0.0):
        """(c, b) with (K + alpha I) c + u b = T and u'c = total; b is 0 without a constant."""
        if self.border is None:
            return self.inner(T), np.zeros(np.shape(T)[1:])
        H, corner, row = self.border
        reflected = H(T)
        first = np.broadcast_to(total / H.length, np.shape(T)[1:])
        rest = self.inner(reflected[1:] - np.multiply.outer(row, first))
        b = (reflected[0] - (corner + self.alpha) * first - row @ rest) / H.length
        return H(np.concatenate([first[None], rest])), b

    def coefficients(self, T):
        """C T."""
        return self._lift(self.inner(self.shorten(T)))

    @cached_property
    def inverse_diagonal(self):
        """diag C: (n,), or (n, k) for k alphas."""
        diagonal = self.diagonal()
        if self.border is None:
            return diagonal
        # diag(H [0, 0; 0, A] H), with A the inverse of M + alpha I.
        H = self.border.H
        v = H.v.reshape(-1, *[1] * (diagonal.ndim - 1))
        Av = _below_zero(self.inner(H.v[1:]))
        return _below_zero(diagonal) - 2 * H.t * v * Av + np.square(H.t * v) * (H.v @ Av)

    def loo_residuals(self, T):
        """t_i minus its prediction from the others: [C t]_i / C_ii."""
        return self.coefficients(T) / _like(self.inverse_diagonal, T)

    def log_evidence(self, T):
        """log N(t; 0, K + alpha I) of each column; of its part orthogonal to u with a constant."""
        t = self.shorten(T)
        solved = self.inner(t)
        missed = np.sum(_like(t, solved) * solved, axis=0)
        return -0.5 * (missed + self.logdet() + len(t) * LOG_2PI)

    def shorten(self, T):
        """T in the axes of M."""
        return T if self.border is None else self.border.H(T)[1:]

    def _lift(self, rest):
        return rest if self.border is None else self.border.H(_below_zero(rest))


class Cholesky(System):
    """By the Cholesky factor of M + alpha I, for one alpha. M is written over.

    Raises numpy.linalg.LinAlgError if M + alpha I is not positive definite to rounding.
    """

    def __init__(self, M, border, alpha):
        super().__init__(alpha, border)
        M[np.diag_indices_from(M)] += alpha
        # The transpose of a C-ordered symmetric matrix is the same matrix in LAPACK's order.
        self.L, info = lapack.dpotrf(M.T, lower=1, clean=0, overwrite_a=1)
        pivots = np.diagonal(self.L)
        if info != 0 or np.min(pivots) ** 2 <= len(pivots) * EPS * np.max(pivots) ** 2:
            raise np.linalg.LinAlgError(f"K + {alpha:g} I is singular to rounding.")

    def at(self, alpha):
        return self

    def inner(self, T):
        return cho_solve((self.L, True), T)

    def diagonal(self):
        A, _ = lapack.dpotri(self.L, lower=1)
        return np.diagonal(A).copy()

    def logdet(self):
        return 2.0 * np.sum(np.log(np.diagonal(self.L)))

    @property
    def effective_dof(self):
        return len(self.inverse_diagonal) - self.alpha * np.sum(self.inverse_diagonal)


class Spectrum(NamedTuple):
    """M = V diag(values) V', from which any alpha follows."""

    values: np.ndarray
    V: np.ndarray
    border: Border | None

    @classmethod
    def of(cls, M, border) -> Spectrum:
        """M is written over."""
        # The transpose is the same matrix in LAPACK's order, which saves a copy.
        values, V = eigh(M.T, driver="evd", overwrite_a=True, check_finite=False)
        return cls(values, V, border)

    def at(self, alpha) -> Spectral:
        return Spectral(self, alpha)


class Spectral(System):
    """By the eigenvectors of M, for one alpha or one for each of k columns.

    Axes in which values + alpha is rounding are left out, so that of several solutions the shortest
    is found. `for_loo` keeps them, with the least value that can be told from 0: a residual
    [C t]_i / C_ii has a limit there, in which both grow without bound.
    """

    def __init__(self, spectrum: Spectrum, alpha, keep_all: bool = False):
        super().__init__(alpha, spectrum.border)
        self.spectrum = spectrum
        values = spectrum.values.reshape(-1, *[1] * np.ndim(alpha))
        floor = len(values) * EPS * np.max(np.abs(values) + alpha, axis=0)
        self.sums = np.maximum(values + alpha, floor)
        kept = values + alpha > floor
        self.rank = int(np.min(np.sum(kept, axis=0)))
        self.weights = np.where(kept | keep_all, 1.0 / np.where(self.sums > 0, self.sums, 1.0), 0.0)
        self._dof = np.sum(np.where(kept, values / np.where(kept, self.sums, 1.0), 0.0), axis=0)

    def at(self, alpha):
        return self.spectrum.at(alpha)

    def inner(self, T):
        V = self.spectrum.V
        return V @ (_like(V.T @ T, self.weights) * _like(self.weights, T))

    def diagonal(self):
        parts = np.array_split(self.spectrum.V, 16)
        return np.concatenate([np.square(V) @ self.weights for V in parts])

    def logdet(self):
        return np.sum(np.log(self.sums), axis=0)

    @property
    def effective_dof(self):
        return self._dof + (self.border is not None)

    def for_loo(self):
        return Spectral(self.spectrum, self.alpha, keep_all=True)


def _below_zero(rest):
    return np.concatenate([np.zeros((1, *rest.shape[1:])), rest])


def _like(array, other):
    """An array (n,) as a column where the other has columns."""
    return array[:, None] if np.ndim(array) < np.ndim(other) else array
