"""Orthogonal matching pursuit, step by step, with a growing QR factorisation.

Mallat and Zhang (1993); Pati, Rezaiifar and Krishnaprasad (1993) for refitting all coefficients.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular


class MatchingPath(NamedTuple):
    """The path of a matching pursuit over k = 0, 1, ... atoms.

    Attributes:
        atoms: The atoms, in the order in which they were taken, (steps,).
        residual_squares: |y - f|^2 after k atoms, (steps + 1,).
        loo_errors: The mean squared leave-one-out error given the first k atoms, (steps + 1,).
        R: Upper triangular, with R b = Q'y: the chosen columns are Q R, the first of them 1 if
            there is an intercept.
        Qy: Q'y.
        means: The means that were subtracted from the atoms, (steps,).
    """

    atoms: np.ndarray
    residual_squares: np.ndarray
    loo_errors: np.ndarray
    R: np.ndarray
    Qy: np.ndarray
    means: np.ndarray

    def coefficients(self, k: int) -> tuple[float, np.ndarray]:
        """The coefficients of the first k atoms.

        Args:
            k: From 0 to the number of steps.

        Returns:
            The intercept (0 if there is none) and the coefficients, (k,).

        Raises:
            ValueError: If k is out of range.
        """
        if not 0 <= k <= len(self.atoms):
            raise ValueError(f"k must be from 0 to the {len(self.atoms)} atoms taken, got {k!r}.")
        constants = len(self.Qy) - len(self.atoms)
        size = k + constants
        b = solve_triangular(self.R[:size, :size], self.Qy[:size]) if size else self.Qy[:0]
        b, level = b[constants:], b[0] if constants else 0.0
        return float(level - self.means[:k] @ b), b


class OrthogonalPursuit:
    """Orthogonal matching pursuit of y step by step.

    Args:
        atoms: The atoms as columns, (n, p).
        y: Targets, (n,).
        intercept: Whether there is an intercept.
        train: Whether each row is fitted, (n,); None means all. The residuals of the other rows
            are updated too.
        columns: Whether each atom may be chosen, (p,); None means all.
    """

    def __init__(
        self,
        atoms: np.ndarray,
        y: np.ndarray,
        intercept: bool = False,
        train: np.ndarray | None = None,
        columns: np.ndarray | None = None,
    ):
        n = len(y)
        self._atoms = atoms
        self._train = np.ones(n) if train is None else train.astype(float)
        self._squares = np.einsum("i,ij,ij->j", self._train, atoms, atoms)
        self.taken: list[int] = []
        # The rows of Q are the orthonormal directions of the atoms taken.
        self.Q, self._R, self._Qy = np.empty((16, n)), np.zeros((16, 16)), np.empty(16)
        self._size = 0
        self._leverage = np.zeros(n)
        self.residual, self._loo_residual = y.copy(), y.copy()
        self._y_squares = self._train @ np.square(y)
        if intercept:
            self._append(*self._direction(np.ones(n)))
        # |phi|, centered if there is an intercept; 0 for atoms that may not be taken (again).
        remainder = self._remainder_squares()
        independent = remainder > n * np.finfo(float).eps * self._squares
        allowed = self._squares > 0.0 if columns is None else columns & (self._squares > 0.0)
        self._lengths = np.sqrt(
            remainder, out=np.zeros_like(remainder), where=allowed & independent
        )
        self._passed_over = allowed & ~independent
        self.squares: list[float] = []
        self.loo_errors: list[float] = []
        self._record()

    def step(self) -> bool:
        """Take one more atom; False if no atom is left that would lower the residual."""
        eps, n = np.finfo(float).eps, len(self.residual)
        while self.squares[-1] > n * eps**2 * self._y_squares:
            products = np.abs((self._train * self.residual) @ self._atoms)
            gains = np.zeros_like(products)
            np.divide(products, self._lengths, out=gains, where=self._lengths > 0.0)
            best = int(np.argmax(gains))
            if gains[best] == 0.0:
                return False
            q, column = self._direction(self._atoms[:, best])
            # An atom this close to the span of the others depends on them to rounding.
            if column[-1] > np.sqrt(eps * self._squares[best]):
                self._append(q, column)
                self.taken.append(best)
                self._lengths[best] = 0.0
                self._record()
                return True
            # Other atoms are then dependent as well: they are all left out at once.
            dependent = self._remainder_squares() <= n * eps * self._squares
            dependent[best] = True
            self._passed_over |= dependent & (self._lengths > 0.0)
            self._lengths[dependent] = 0.0
        return False

    def test_squares(self) -> float:
        """The sum of squared residuals of the rows that are not fitted."""
        return float((1.0 - self._train) @ np.square(self.residual))

    def path(self) -> MatchingPath:
        """The path so far, with means of 0."""
        size = self._size
        return MatchingPath(
            np.array(self.taken, int),
            np.array(self.squares),
            np.array(self.loo_errors),
            self._R[:size, :size].copy(),
            self._Qy[:size].copy(),
            np.zeros(len(self.taken)),
        )

    def remark(self) -> str | None:
        """A sentence on the atoms that were left out as dependent; None if there are none."""
        if not self._passed_over.any():
            return None
        return (
            f"{np.sum(self._passed_over)} atoms were passed over, as they depend linearly, to "
            f"rounding, on those taken: the first is atom {np.argmax(self._passed_over)}."
        )

    def _remainder_squares(self) -> np.ndarray:
        """|phi|^2 of the part of each atom that is orthogonal to the atoms taken: (p,)."""
        shared = (self.Q[: self._size] * self._train) @ self._atoms
        return np.maximum(self._squares - np.sum(np.square(shared), axis=0), 0.0)

    def _direction(self, column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The unit vector of the part of a column orthogonal to Q, and the new column of R."""
        Q, remainder, coordinates = self.Q[: self._size], column, np.zeros(self._size)
        length, previous_length = self._length(remainder), np.inf
        # A second pass removes rounding errors in the span if little is left after the first. Two
        # passes are enough (Giraud, Langou and Rozloznik 2005).
        for _ in range(2):
            if length > 0.5 * previous_length:
                break
            # Without BLAS threads, which cost more than such small products on a busy machine.
            projection = np.vecdot(Q, self._train * remainder)
            remainder = remainder - np.einsum("k,kn->n", projection, Q)
            coordinates = coordinates + projection
            previous_length, length = length, self._length(remainder)
        unit = remainder / length if length > 0.0 else remainder
        return unit, np.append(coordinates, length)

    def _length(self, column) -> float:
        return float(np.sqrt(self._train @ np.square(column)))

    def _append(self, q, column) -> None:
        k = self._size
        if k == len(self.Q):
            self.Q = np.concatenate([self.Q, np.empty_like(self.Q)])
            self._R = np.pad(self._R, (0, k))
            self._Qy = np.concatenate([self._Qy, np.empty(k)])
        train_q = self._train * q
        projection = train_q @ self.residual
        self.Q[k], self._R[: k + 1, k], self._Qy[k] = q, column, projection
        self._size = k + 1
        self.residual -= projection * q
        self._leverage += train_q * q

    def _record(self) -> None:
        self.squares.append(float(self._train @ np.square(self.residual)))
        # The fit of a row of leverage 1 has no leave-one-out residual: the last one stays.
        margin = 1.0 - self._leverage
        sound = margin > len(margin) * np.finfo(float).eps
        np.divide(self.residual, margin, out=self._loo_residual, where=sound)
        self.loo_errors.append(float(np.mean(np.square(self._loo_residual))))
