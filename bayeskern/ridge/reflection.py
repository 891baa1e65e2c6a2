"""A Householder reflection, which takes an unpenalized constant out of kernel ridge.

The functions serve NumPy and traced JAX arrays alike, but for `conjugate_in_place`, which is for
NumPy alone.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np


class Reflection(NamedTuple):
    """H = I - t v v', t = 2 / v'v, with H u = length e_1."""

    v: np.ndarray | jax.Array
    t: float | jax.Array
    length: float | jax.Array

    @classmethod
    def onto_first_axis(cls, u) -> Reflection:
        """The reflection of u: (n,), whose first entry is positive."""
        xp = u.__array_namespace__()
        # The sign with which nothing cancels in v (Golub and Van Loan 2013, section 5.1.3).
        length = -xp.sqrt(u @ u)
        v = xp.concatenate([u[:1] - length, u[1:]])
        return cls(v, 2.0 / (v @ v), length)

    def __call__(self, B):
        """H B for B: (n,) or (n, k)."""
        xp = self.v.__array_namespace__()
        return B - xp.multiply.outer(self.v, self.t * (self.v @ B))

    def conjugate(self, K):
        """H K H for K: (n, n) symmetric."""
        w = self._update(K)
        return K - self.v[:, None] * w - w[:, None] * self.v

    def conjugate_in_place(self, K):
        """H K H, written over a NumPy array K."""
        w = self._update(K)
        # Row by row, since an outer product would be as large as K.
        for i in range(len(K)):
            K[i] -= self.v[i] * w
            K[i] -= w[i] * self.v
        return K

    def lift(self, B):
        """H [0; B] for B: (n - 1,) or (n - 1, k)."""
        return self(_below_zero(B))

    def lifted_diagonal(self, diagonal, Av):
        """The diagonal of H [0, 0; 0, A] H, for A: (n - 1, n - 1) symmetric.

        diagonal: that of A, (n - 1,), or (n - 1, k) for k matrices; Av: A v[1:], of the same shape.
        """
        v = self.v.reshape(-1, *[1] * (diagonal.ndim - 1))
        Av = _below_zero(Av)
        return _below_zero(diagonal) - 2 * self.t * v * Av + (self.t * v) ** 2 * (self.v @ Av)

    def _update(self, K):
        """w with H K H = K - v w' - w v'."""
        w = self.t * (K @ self.v)
        return w - (0.5 * self.t * (self.v @ w)) * self.v


def _below_zero(B):
    """A row of zeros with B below it."""
    xp = B.__array_namespace__()
    return xp.concatenate([xp.zeros((1, *B.shape[1:])), B])
