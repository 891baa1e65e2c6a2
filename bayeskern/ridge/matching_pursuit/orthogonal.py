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
# More atoms than this part of them are read as fast as all.
MANY = 64


class MatchingPath(NamedTuple):
    """What a pursuit went through: k = 0, 1, ... atoms."""

    #: the atoms, in the order in which they were taken: (steps,)
    atoms: np.ndarray
    #: |y - f|^2 after k atoms: (steps + 1,)
    residual_squares: np.ndarray
    #: mean squared error of leaving one row out, given the atoms: (steps + 1,)
    loo_errors: np.ndarray
    #: the columns taken are Q R, and R b = Q'y; the first column is 1 where there is an intercept
    R: np.ndarray
    Qy: np.ndarray
    #: what was taken off the atoms before: (steps,)
    means: np.ndarray

    def coefficients(self, k: int) -> tuple[float, np.ndarray]:
        """The intercept (0 where there is none) and the coefficients of the first k atoms: (k,)."""
        if not 0 <= k <= len(self.atoms):
            raise ValueError(f"k must be from 0 to the {len(self.atoms)} atoms taken, got {k!r}.")
        before = len(self.Qy) - len(self.atoms)
        size = k + before
        b = solve_triangular(self.R[:size, :size], self.Qy[:size]) if size else self.Qy[:0]
        b, level = b[before:], b[0] if before else 0.0
        return float(level - self.means[:k] @ b), b


class Pursuit:
    """Orthogonal matching pursuit of y: (n,) in a dictionary of p atoms, step by step.

    inside: (n,), the rows whose squares are minimised (all by default); fit and residual are
    followed at the others too. columns: (p,), the atoms that may be taken (all by default).
    """

    def __init__(self, dictionary: Dictionary, y, intercept=False, inside=None, columns=None):
        n = len(y)
        self._dictionary, self._atoms = dictionary, dictionary.atoms
        self._inside = np.ones(n) if inside is None else inside.astype(float)
        self._squares = np.einsum("i,ij,ij->j", self._inside, self._atoms, self._atoms)
        self.taken: list[int] = []
        # The rows of Q are the orthonormal directions of the atoms taken.
        self.Q, self._R, self._Qy = np.empty((16, n)), np.zeros((16, 16)), np.empty(16)
        self._size = 0
        self._leverage = np.zeros(n)
        self.residual, self._left_out = y.copy(), y.copy()
        self._of_y = self._inside @ np.square(y)
        if intercept:
            self._append(*self._direction(np.ones(n)))
        # |phi|, centred if there is an intercept; 0 for atoms that are not to be taken (again).
        beyond = self._beyond()
        independent = beyond > n * EPS * self._squares
        allowed = self._squares > 0.0 if columns is None else columns & (self._squares > 0.0)
        self._lengths = np.sqrt(beyond, out=np.zeros_like(beyond), where=allowed & independent)
        self._passed = allowed & ~independent
        self.squares: list[float] = []
        self.loo_errors: list[float] = []
        self._record()

    def step(self) -> bool:
        """Take one more atom; False if none is left that would explain anything."""
        while True:
            if self.squares[-1] <= len(self.residual) * EPS**2 * self._of_y:
                return False
            best = self._dictionary.best(self._inside * self.residual, self._lengths)
            if best is None:
                return False
            q, column = self._direction(self._atoms[:, best])
            if column[-1] > DEPENDENT * np.sqrt(self._squares[best]):
                break
            # Where one depends on those taken there are more: they are found together.
            dependent = self._beyond() <= len(self.residual) * EPS * self._squares
            dependent[best] = True
            self._passed |= dependent & (self._lengths > 0.0)
            self._lengths[dependent] = 0.0
        self._append(q, column)
        self.taken.append(best)
        self._lengths[best] = 0.0
        self._record()
        return True

    def squares_outside(self) -> float:
        """The sum of squared residuals of the rows that are not inside."""
        return float((1.0 - self._inside) @ np.square(self.residual))

    def path(self) -> MatchingPath:
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
        """What was passed over, if anything was."""
        if not self._passed.any():
            return None
        return (
            f"{np.sum(self._passed)} atoms were passed over, as they depend linearly, to rounding, "
            f"on those taken: the first is atom {np.argmax(self._passed)}."
        )

    def _beyond(self) -> np.ndarray:
        """|phi|^2 of what each atom has beyond the span of those taken, to rounding: (p,)."""
        shared = (self.Q[: self._size] * self._inside) @ self._atoms
        return np.maximum(self._squares - np.sum(np.square(shared), axis=0), 0.0)

    def _direction(self, column):
        """The part of a column beyond the span, made a unit vector, and its coordinates."""
        Q, left, along = self.Q[: self._size], column, np.zeros(self._size)
        length, before = self._length(left), np.inf
        # Once more where little was left, since that little had rounding errors in the span. Twice
        # is enough (Giraud, Langou and Rozloznik 2005).
        for _ in range(2):
            if length > 0.5 * before:
                break
            # Without threads. These products are too small for them: on a busy machine threads
            # that wait for one another cost more than all the rest.
            more = np.vecdot(Q, self._inside * left)
            left, along = left - np.einsum("k,kn->n", more, Q), along + more
            before, length = length, self._length(left)
        return left / length if length > 0.0 else left, np.append(along, length)

    def _length(self, column) -> float:
        return float(np.sqrt(self._inside @ np.square(column)))

    def _append(self, q, column) -> None:
        k = self._size
        if k == len(self.Q):
            self.Q = np.concatenate([self.Q, np.empty_like(self.Q)])
            self._R = np.pad(self._R, (0, k))
            self._Qy = np.concatenate([self._Qy, np.empty(k)])
        inside = self._inside * q
        along = inside @ self.residual
        self.Q[k], self._R[: k + 1, k], self._Qy[k] = q, column, along
        self._size = k + 1
        self.residual -= along * q
        self._leverage += inside * q

    def _record(self) -> None:
        self.squares.append(float(self._inside @ np.square(self.residual)))
        # What a row alone determines says nothing of it once it is left out: its error stays.
        left = 1.0 - self._leverage
        shared = left > len(left) * EPS
        np.divide(self.residual, left, out=self._left_out, where=shared)
        self.loo_errors.append(float(np.mean(np.square(self._left_out))))


class Dictionary:
    """Atoms as columns: (n, p). The best is looked for in single precision, and found in double.

    To read the atoms from memory is what a step costs, and in single precision they are half as
    long. Once too many come too near to the best to be told apart in it, double is used alone.
    """

    def __init__(self, atoms):
        self.atoms = atoms
        # Products of unit vectors in single precision have errors up to this, all but surely
        # (Higham and Mary 2019, section 3, lambda = 8).
        self._error = 8.0 * np.sqrt(len(atoms)) * np.finfo(np.float32).eps
        # Of length 1 they neither overflow nor vanish.
        lengths = np.sqrt(np.einsum("ij,ij->j", atoms, atoms))
        self._lengths = np.where(lengths > 0.0, lengths, 1.0)
        self._single = np.empty(atoms.shape, np.float32)
        np.divide(atoms, self._lengths, out=self._single, casting="same_kind")

    def best(self, r, lengths) -> int | None:
        """The atom with the largest |phi'r| / length, or None if all phi'r are 0.

        r: (n,), lengths: (p,), 0 for atoms that are not wanted.
        """
        rivals = np.flatnonzero(lengths)
        if not len(rivals):
            return None
        if self._single is not None:
            rivals = self._near_the_best(r, lengths, rivals)
        few = len(rivals) <= len(lengths) // MANY
        products = r @ self.atoms[:, rivals] if few else (r @ self.atoms)[rivals]
        gains = np.abs(products) / lengths[rivals]
        best = np.argmax(gains)
        return int(rivals[best]) if gains[best] > 0.0 else None

    def _near_the_best(self, r, lengths, rivals) -> np.ndarray:
        """Those of the rivals that may be the best as far as single precision can tell."""
        factors = self._lengths[rivals] / lengths[rivals]
        unit = (r / np.linalg.norm(r)).astype(np.float32)
        rough, error = np.abs(unit @ self._single)[rivals] * factors, self._error * factors
        near = rivals[rough + error >= np.max(rough - error)]
        if len(near) > max(8, len(lengths) // MANY):
            self._single = None
        return near
