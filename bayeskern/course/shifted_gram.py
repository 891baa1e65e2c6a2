"""Linear systems with K + diag(1 / e), where e may be 0 in some rows and huge in others."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve


class ShiftedGram:
    """K + diag(1 / e), factored once, bordered by ones if there is an intercept.

    K: (n, n) positive semidefinite; e: (n,) nonnegative. With S = diag(sqrt e) the inverse is
    S (1 + S K S)^-1 S, which divides nothing by e (Rasmussen and Williams 2006, equation 3.26).
    """

    def __init__(self, K, e, intercept: bool):
        self.sqrt_e = np.sqrt(e)
        self.factor = self._factor(K)
        self.inverse_times_ones = self._solve(np.ones(len(K))) if intercept else None

    def solve(self, v, total=0.0):
        """(b, c) with (K + diag(1 / e)) b + c = v and sum b = total; c = 0 without an intercept.

        v: (n,); b: (n,).
        """
        b = self._solve(v)
        if self.inverse_times_ones is None:
            return b, 0.0
        c = (b.sum() - total) / self.inverse_times_ones.sum()
        return b - c * self.inverse_times_ones, c

    def _solve(self, v):
        return self.sqrt_e * cho_solve(self.factor, self.sqrt_e * v, check_finite=False)

    def _factor(self, K):
        jitter = 0.0
        while True:
            B = self.sqrt_e[:, None] * K
            B *= self.sqrt_e
            diagonal = B.diagonal().copy()
            np.fill_diagonal(B, diagonal + 1.0 + jitter)
            try:
                return cho_factor(B, lower=True, overwrite_a=True, check_finite=False)
            except np.linalg.LinAlgError:
                # S K S is positive semidefinite but for its rounding.
                floor = len(K) * np.finfo(float).eps * np.max(diagonal)
                jitter = max(10.0 * jitter, floor)
                if not np.isfinite(jitter):
                    raise
