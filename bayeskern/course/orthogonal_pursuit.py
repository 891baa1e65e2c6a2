"""Orthogonal matching pursuit, step by step, by a QR factorisation that grows.

Mallat and Zhang (1993); Pati, Rezaiifar and Krishnaprasad (1993) for refitting all coefficients.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

EPS = np.finfo(float).eps
# An atom this near to the span of others, relative to its length, is one of them to rounding.
DEPENDENT = np.sqrt(EPS)
# Up to 1 / FEW of the atoms are read one by one, since that is faster than all of them.
FEW = 64


class MatchingPath(NamedTuple):
    """The path of a matching pursuit over k = 0, 1, ... atoms.

    Attributes:
        atoms: The atoms, in the order in which they were taken, (steps,).
        residual_squares: |y - f|^2 after k atoms, (steps + 1,).
        loo_errors: The mean squared leave-one-out error given the first k atoms, (steps + 1,).
        R: Upper triangular: the columns taken are Q R, the first of which is 1 where there is an
            intercept, and R b = Q'y.
        Qy: Q'y.
        means: What was subtracted from the atoms beforehand, (steps,).
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
            k: From 0 to the number of atoms taken.

        Returns:
            The intercept (0 where there is none) and the coefficients, (k,).

        Raises:
            ValueError: If k is not such a number.
        """
        if not 0 <= k <= len(self.atoms):
            raise ValueError(f"k must be from 0 to the {len(self.atoms)} atoms taken, got {k!r}.")
        constants = len(self.Qy) - len(self.atoms)
        size = k + constants
        b = solve_triangular(self.R[:size, :size], self.Qy[:size]) if size else self.Qy[:0]
        b, level = b[constants:], b[0] if constants else 0.0
        return float(level - self.means[:k] @ b), b


class OrthogonalPursuit:
    """Orthogonal matching pursuit of y: (n,) in a dictionary of p atoms, step by step.

    train: (n,), whether the squares of a row are minimized (all by default); fit and residual are
    followed in the other rows too. columns: (p,), the atoms that may be taken (all by default).
    """

    def __init__(self, dictionary: Dictionary, y, intercept=False, train=None, columns=None):
        n = len(y)
        self._dictionary, self._atoms = dictionary, dictionary.atoms
        self._train = np.ones(n) if train is None else train.astype(float)
        self._squares = np.einsum("i,ij,ij->j", self._train, self._atoms, self._atoms)
        self.taken: list[int] = []
        # The rows of Q are the orthonormal directions of the atoms taken.
        self.Q, self._R, self._Qy = np.empty((16, n)), np.zeros((16, 16)), np.empty(16)
        self._size = 0
        self._leverage = np.zeros(n)
        self.residual, self._loo_residual = y.copy(), y.copy()
        self._y_squares = self._train @ np.square(y)
        if intercept:
            self._append(*self._direction(np.ones(n)))
        # |phi|, centered if there is an intercept; 0 for atoms that are not to be taken (again).
        remainder = self._remainder_squares()
        independent = remainder > n * EPS * self._squares
        allowed = self._squares > 0.0 if columns is None else columns & (self._squares > 0.0)
        self._lengths = np.sqrt(
            remainder, out=np.zeros_like(remainder), where=allowed & independent
        )
        self._passed_over = allowed & ~independent
        self.squares: list[float] = []
        self.loo_errors: list[float] = []
        self._record()

    def step(self) -> bool:
        """Take one more atom; False if no atom left would explain anything."""
        while True:
            if self.squares[-1] <= len(self.residual) * EPS**2 * self._y_squares:
                return False
            best = self._dictionary.best(self._train * self.residual, self._lengths)
            if best is None:
                return False
            q, column = self._direction(self._atoms[:, best])
            if column[-1] > DEPENDENT * np.sqrt(self._squares[best]):
                break
            # Where one atom depends on those taken, others do too: they are found together.
            dependent = self._remainder_squares() <= len(self.residual) * EPS * self._squares
            dependent[best] = True
            self._passed_over |= dependent & (self._lengths > 0.0)
            self._lengths[dependent] = 0.0
        self._append(q, column)
        self.taken.append(best)
        self._lengths[best] = 0.0
        self._record()
        return True

    def test_squares(self) -> float:
        """The sum of squared residuals of the rows that are not for training."""
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
        """A sentence on the atoms that were passed over; None if there are none."""
        if not self._passed_over.any():
            return None
        return (
            f"{np.sum(self._passed_over)} atoms were passed over, as they depend linearly, to "
            f"rounding, on those taken: the first is atom {np.argmax(self._passed_over)}."
        )

    def _remainder_squares(self) -> np.ndarray:
        """|phi|^2 of each atom's part orthogonal to the atoms taken, to rounding: (p,)."""
        shared = (self.Q[: self._size] * self._train) @ self._atoms
        return np.maximum(self._squares - np.sum(np.square(shared), axis=0), 0.0)

    def _direction(self, column):
        """The part of a column orthogonal to the atoms taken, as a unit vector, and coordinates."""
        Q, remainder, coordinates = self.Q[: self._size], column, np.zeros(self._size)
        length, previous_length = self._length(remainder), np.inf
        # A second pass where little was left, since that little had rounding errors in the span.
        # Two passes are enough (Giraud, Langou and Rozloznik 2005).
        for _ in range(2):
            if length > 0.5 * previous_length:
                break
            # Without threads. These products are too small for them: on a busy machine threads
            # that wait for one another cost more than all the rest.
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
        # A fit that one row alone determines says nothing of that row: its error stays as it was.
        margin = 1.0 - self._leverage
        np.divide(self.residual, margin, out=self._loo_residual, where=margin > len(margin) * EPS)
        self.loo_errors.append(float(np.mean(np.square(self._loo_residual))))


class Dictionary:
    """Atoms as columns: (n, p). Single precision narrows down the best atom, double decides.

    A step costs reading the atoms from memory, and in single precision they are half as long. Once
    too many atoms come too near to the best to be told apart in it, only double is used.
    """

    def __init__(self, atoms):
        self.atoms = atoms
        # Products of unit vectors in single precision have errors up to this, all but surely
        # (Higham and Mary 2019, section 3, lambda = 8).
        self._error = 8.0 * np.sqrt(len(atoms)) * np.finfo(np.float32).eps
        # Atoms of length 1 neither overflow nor vanish.
        lengths = np.sqrt(np.einsum("ij,ij->j", atoms, atoms))
        self._lengths = np.where(lengths > 0.0, lengths, 1.0)
        self._single = np.empty(atoms.shape, np.float32)
        np.divide(atoms, self._lengths, out=self._single, casting="same_kind")

    def best(self, r, lengths) -> int | None:
        """The atom with the largest |phi'r| / length, or None if all phi'r are 0.

        r: (n,); lengths: (p,), 0 for atoms that may not be taken.
        """
        candidates = np.flatnonzero(lengths)
        if not len(candidates):
            return None
        if self._single is not None:
            candidates = self._near_the_best(r, lengths, candidates)
        few = len(candidates) <= len(lengths) // FEW
        products = r @ self.atoms[:, candidates] if few else (r @ self.atoms)[candidates]
        gains = np.abs(products) / lengths[candidates]
        best = np.argmax(gains)
        return int(candidates[best]) if gains[best] > 0.0 else None

    def _near_the_best(self, r, lengths, candidates) -> np.ndarray:
        """The candidates that may be the best as far as single precision can tell."""
        factors = self._lengths[candidates] / lengths[candidates]
        unit = (r / np.linalg.norm(r)).astype(np.float32)
        gains, error = np.abs(unit @ self._single)[candidates] * factors, self._error * factors
        near = candidates[gains + error >= np.max(gains - error)]
        if len(near) > max(8, len(lengths) // FEW):
            self._single = None
        return near
