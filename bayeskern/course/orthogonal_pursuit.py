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
        R: The upper triangular factor of the QR factorisation of the chosen columns, preceded by a
            column of ones if there is an intercept. The coefficients b solve R b = Q'y.
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
        b, intercept = b[constants:], b[0] if constants else 0.0
        return float(intercept - self.means[:k] @ b), b


class OrthogonalPursuit:
    """Orthogonal matching pursuit of y, step by step.

    Args:
        dictionary: The p atoms.
        y: Targets, (n,).
        intercept: True to fit an intercept.
        train: True for each row to be fitted, (n,); None means all. The residuals of the other rows
            are updated too.
        columns: True for each atom that may be chosen, (p,); None means all.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        y: np.ndarray,
        intercept: bool = False,
        train: np.ndarray | None = None,
        columns: np.ndarray | None = None,
    ):
        n = len(y)
        self._dictionary, self._atoms = dictionary, dictionary.atoms
        self._train = np.ones(n) if train is None else train.astype(float)
        self._squares = np.einsum("i,ij,ij->j", self._train, self._atoms, self._atoms)
        self.taken: list[int] = []
        # The rows of Q are the orthonormal directions of the atoms taken.
        self.Q = np.empty((0, n))
        self._columns_of_R: list[np.ndarray] = []
        self._Qy: list[float] = []
        self._leverage = np.zeros(n)
        self.residual, self._loo_residual = y.copy(), y.copy()
        self._y_squares = self._train @ np.square(y)
        if intercept:
            self._append(*self._direction(np.ones(n)))
        # |phi|, centered if there is an intercept; 0 for atoms that are excluded or already taken.
        remainder = self._remainder_squares()
        independent = remainder > n * np.finfo(float).eps * self._squares
        allowed = self._squares > 0.0 if columns is None else columns & (self._squares > 0.0)
        self._lengths = np.sqrt(
            remainder, out=np.zeros_like(remainder), where=allowed & independent
        )
        self._skipped = allowed & ~independent
        self.squares: list[float] = []
        self.loo_errors: list[float] = []
        self._record()

    def step(self) -> bool:
        """Take one more atom; False if no atom is left that would lower the residual."""
        eps, n = np.finfo(float).eps, len(self.residual)
        while self.squares[-1] > n * eps**2 * self._y_squares:
            best = self._dictionary.best(self._train * self.residual, self._lengths)
            if best is None:
                return False
            q, column = self._direction(self._atoms[:, best])
            # Any closer to the span of the taken atoms, an atom depends on them up to rounding.
            if column[-1] > np.sqrt(eps * self._squares[best]):
                self._append(q, column)
                self.taken.append(best)
                self._lengths[best] = 0.0
                self._record()
                return True
            # Other atoms may be dependent as well: skip them all at once.
            dependent = self._remainder_squares() <= n * eps * self._squares
            dependent[best] = True
            self._skipped |= dependent & (self._lengths > 0.0)
            self._lengths[dependent] = 0.0
        return False

    def test_squares(self) -> float:
        """The sum of squared residuals of the rows that are not fitted."""
        return float((1.0 - self._train) @ np.square(self.residual))

    def path(self) -> MatchingPath:
        """The path so far, with means of 0."""
        R = np.zeros((len(self.Q), len(self.Q)))
        for k, column in enumerate(self._columns_of_R):
            R[: k + 1, k] = column
        return MatchingPath(
            np.array(self.taken, int),
            np.array(self.squares),
            np.array(self.loo_errors),
            R,
            np.array(self._Qy),
            np.zeros(len(self.taken)),
        )

    def remark(self) -> str | None:
        """A sentence on the atoms skipped as linearly dependent; None if there are none."""
        if not self._skipped.any():
            return None
        return (
            f"{np.sum(self._skipped)} atoms were skipped, because they are linearly dependent on "
            f"the chosen atoms up to rounding; the first is atom {np.argmax(self._skipped)}."
        )

    def _remainder_squares(self) -> np.ndarray:
        """|phi|^2 of the part of each atom that is orthogonal to the atoms taken: (p,)."""
        projections = (self.Q * self._train) @ self._atoms
        return np.maximum(self._squares - np.sum(np.square(projections), axis=0), 0.0)

    def _direction(self, column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The normalised part of a column orthogonal to Q, and the new column of R."""
        remainder, coordinates = column, np.zeros(len(self.Q))
        length = self._length(column)
        for _ in range(2):
            # Without BLAS threads, which cost more than such small products on a busy machine.
            projection = np.vecdot(self.Q, self._train * remainder)
            remainder = remainder - np.einsum("k,kn->n", projection, self.Q)
            coordinates = coordinates + projection
            previous_length, length = length, self._length(remainder)
            # If little is left after the first pass, a second removes rounding errors in the span
            # of Q. Two passes are enough (Giraud, Langou and Rozloznik 2005).
            if length > 0.5 * previous_length:
                break
        unit = remainder / length if length > 0.0 else remainder
        return unit, np.append(coordinates, length)

    def _length(self, column) -> float:
        return float(np.sqrt(self._train @ np.square(column)))

    def _append(self, q, column) -> None:
        train_q = self._train * q
        projection = train_q @ self.residual
        self.Q = np.vstack([self.Q, q])
        self._columns_of_R.append(column)
        self._Qy.append(projection)
        self.residual -= projection * q
        self._leverage += train_q * q

    def _record(self) -> None:
        self.squares.append(float(self._train @ np.square(self.residual)))
        # A row of leverage 1 has no leave-one-out residual: it keeps its previous one.
        margin = 1.0 - self._leverage
        has_margin = margin > len(margin) * np.finfo(float).eps
        np.divide(self.residual, margin, out=self._loo_residual, where=has_margin)
        self.loo_errors.append(float(np.mean(np.square(self._loo_residual))))


class Dictionary:
    """Atoms as columns, (n, p), screened in single precision and compared in double.

    A step spends most of its time reading the atoms from memory, which takes half as long in single
    precision. Once too many atoms tie in single precision, only double precision is used.
    """

    def __init__(self, atoms: np.ndarray):
        self.atoms = atoms
        # A probabilistic bound on the error of products of unit vectors in single precision
        # (Higham and Mary 2019, section 3, lambda = 8).
        self._error = 8.0 * np.sqrt(len(atoms)) * np.finfo(np.float32).eps
        # Atoms of length 1 neither overflow nor underflow in single precision.
        lengths = np.sqrt(np.einsum("ij,ij->j", atoms, atoms))
        self._lengths = np.where(lengths > 0.0, lengths, 1.0)
        self._single: np.ndarray | None = np.empty(atoms.shape, np.float32)
        np.divide(atoms, self._lengths, out=self._single, casting="same_kind")

    def best(self, r: np.ndarray, lengths: np.ndarray) -> int | None:
        """The atom with the largest |phi'r| / length, or None if all phi'r are 0.

        r: (n,); lengths: (p,), 0 for atoms that may not be taken.
        """
        candidates = np.flatnonzero(lengths)
        if not len(candidates):
            return None
        # Up to this number of atoms, reading single columns is faster than reading all.
        max_read_singly = len(lengths) // 64
        if self._single is not None:
            candidates = self._screened(self._single, r, lengths, candidates)
            if len(candidates) > max(8, max_read_singly):
                self._single = None
        read_singly = len(candidates) <= max_read_singly
        products = r @ self.atoms[:, candidates] if read_singly else (r @ self.atoms)[candidates]
        gains = np.abs(products) / lengths[candidates]
        best = np.argmax(gains)
        return int(candidates[best]) if gains[best] > 0.0 else None

    def _screened(self, single, r, lengths, candidates) -> np.ndarray:
        """The candidates that may be the best, given the errors of single precision.

        `single` holds unit atoms, so that |phi'r| / length = |unit'r| factor.
        """
        factors = self._lengths[candidates] / lengths[candidates]
        unit = (r / np.linalg.norm(r)).astype(np.float32)
        gains, error = np.abs(unit @ single)[candidates] * factors, self._error * factors
        return candidates[gains + error >= np.max(gains - error)]
