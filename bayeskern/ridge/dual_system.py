"""The linear systems of kernel ridge: [K + alpha I, u; u', 0] [c; b] = [t; total].

u is the column of an unpenalized constant; without one the system is K + alpha I. A Householder
reflection H with H u = length e_1 takes the constant out exactly and leaves a symmetric matrix M of
size n - 1, the lower right block of H K H, which is positive definite wherever K is so on the
vectors orthogonal to u. One factorization of M + alpha I then serves coefficients, leave-one-out
residuals, degrees of freedom, variances and the evidence.

C denotes the first n x n block of the inverse of the whole matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from bayeskern.ridge import criteria
from bayeskern.ridge.reflection import Reflection
from bayeskern.ridge.regularized_system import (
    Eigendecomposition,
    RegularizedSystem,
    as_column,
)


class Border(NamedTuple):
    """The constant in reflected axes: H, and the first row [corner, row] of H K H."""

    H: Reflection
    corner: float
    row: np.ndarray


def without_constant(K, u) -> tuple[np.ndarray, Border | None]:
    """(M, its border), or (K, None) where u is None. K is written over."""
    if u is None:
        return K, None
    H = Reflection.onto_first_axis(u)
    K = H.conjugate_in_place(K)
    return K[1:, 1:], Border(H, K[0, 0], K[0, 1:].copy())


class DualSpectrum(NamedTuple):
    """The eigendecomposition of M and its border, which serve any alpha."""

    eigen: Eigendecomposition
    border: Border | None

    def at(self, alpha) -> DualSystem:
        return DualSystem(self.eigen.at(alpha), self.border)

    def systems(self, alphas) -> Iterator[tuple[slice, DualSystem]]:
        """The places of several alphas, and their system: all of them at once."""
        yield slice(None), self.at(alphas)

    @property
    def trace(self) -> float:
        """The trace of M."""
        return float(np.sum(self.eigen.values))


class DualSystem:
    """The whole system, from M + alpha I and the border. T: right-hand sides (n,) or (n, k)."""

    def __init__(self, reduced: RegularizedSystem, border: Border | None):
        self.reduced = reduced
        self.border = border

    @property
    def alpha(self):
        return self.reduced.alpha

    @property
    def effective_dof(self):
        """The trace of the matrix that turns t into fitted values: n - alpha tr C."""
        return self.reduced.effective_dof + (self.border is not None)

    def at(self, alpha: float) -> DualSystem:
        """The system with one of its alphas."""
        return DualSystem(self.reduced.at(alpha), self.border)

    def for_loo(self) -> DualSystem:
        """The system with an inverse diagonal that `loo_residuals` may divide by."""
        return DualSystem(self.reduced.for_loo(), self.border)

    def solve(self, T, total=0.0):
        """(c, b) with (K + alpha I) c + u b = T and u'c = total; b is 0 without a constant."""
        if self.border is None:
            return self.reduced.solve(T), np.zeros(np.shape(T)[1:])
        H, corner, row = self.border
        reflected = H(T)
        first = np.broadcast_to(total / H.length, np.shape(T)[1:])
        rest = self.reduced.solve(reflected[1:] - np.multiply.outer(row, first))
        b = (reflected[0] - (corner + self.alpha) * first - row @ rest) / H.length
        return H(np.concatenate([first[None], rest])), b

    def coefficients(self, T):
        """C T."""
        solution = self.reduced.solve(self._reduce(T))
        return solution if self.border is None else self.border.H.lift(solution)

    @cached_property
    def inverse_diagonal(self):
        """diag C: (n,), or (n, k) for k alphas."""
        diagonal = self.reduced.inverse_diagonal
        if self.border is None:
            return diagonal
        H = self.border.H
        return H.lifted_diagonal(diagonal, self.reduced.solve(H.v[1:]))

    def loo_residuals(self, T):
        """t_i minus its prediction from the others: [C t]_i / C_ii."""
        return self.coefficients(T) / as_column(self.inverse_diagonal, T)

    def log_evidence(self, T):
        """log N(t; 0, K + alpha I) of each column; of its part orthogonal to u with a constant."""
        t = self._reduce(T)
        solution = self.reduced.solve(t)
        quadratic = np.sum(as_column(t, solution) * solution, axis=0)
        return criteria.log_evidence(quadratic, self.reduced.logdet(), len(t))

    def _reduce(self, T):
        """T in the axes of M."""
        return T if self.border is None else self.border.H(T)[1:]
