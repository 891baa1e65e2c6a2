"""Solving with K + diag(1 / e), where e may be 0 in some rows and huge in others."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve


class Shifted:
    """K + diag(1 / e), factored once, bordered by ones if there is an intercept.

    K: (n, n) positive semidefinite, e: (n,) nonnegative. With S = diag(sqrt e) its inverse is
    S (1 + S K S)^-1 S, in which nothing is divided by e (Rasmussen and Williams 2006, equation
    3.26).
    """

    def __init__(self, K, e, intercept: bool):
        self.s = np.sqrt(e)
        self.factor = self._factor(K)
        self.of_one = self._inverse(np.ones(len(K))) if intercept else None

    def solve(self, v, total=0.0):
        """(b, c) with (K + diag(1 / e)) b + c = v and sum b = total; c = 0 without an intercept.

        v: (n,); b: (n,).
        """
        b = self._inverse(v)
        if self.of_one is None:
            return b, 0.0
        c = (b.sum() - total) / self.of_one.sum()
        return b - c * self.of_one, c

    def _inverse(self, v):
        return self.s * cho_solve(self.factor, self.s * v, check_finite=False)

    def _factor(self, K):
        jitter = 0.0
        while True:
            B = self.s[:, None] * K
            B *= self.s
            diagonal = B.diagonal().copy()
            np.fill_diagonal(B, diagonal + 1.0 + jitter)
            try:
                return cho_factor(B, lower=True, overwrite_a=True, check_finite=False)
            except np.linalg.LinAlgError:
                # S K S is positive semidefinite, but for its rounding.
                floor = len(K) * np.finfo(float).eps * np.max(diagonal)
                jitter = max(10.0 * jitter, floor)
                if not np.isfinite(jitter):
                    raise
