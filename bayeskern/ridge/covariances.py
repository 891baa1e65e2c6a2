"""Kernel ridge systems by solvers that do not store the Gram matrix."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from bayeskern.core.functions import compiled
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.gram_matrix import blocks, padded
from bayeskern.linalg import Factor, NoisyGram, Solver
from bayeskern.ridge.systems import RidgeFactor, RidgeSystem, UnpenalisedConstant, as_column


class Covariances(NamedTuple):
    """The Gram matrix K of weighted points, represented by a kernel and a solver.

    S = diag(u) and W = S^2, the diagonal matrix of the sample weights.

    Attributes:
        kernel: The kernel.
        solver: The solver, prepared for X.
        X: Points, (n, d).
        u: The square roots of the sample weights, (n,), above 0.
        constant: True if there is an unpenalised constant.
    """

    kernel: Kernel
    solver: Solver
    X: np.ndarray
    u: np.ndarray
    constant: bool

    def at(self, alpha: float) -> RidgeSystem:
        """The ridge system with matrix S K S + alpha I.

        Raises numpy.linalg.LinAlgError if the matrix is singular to rounding.
        """
        constant = (
            UnpenalisedConstant(self.u, np.zeros_like(self.u), None) if self.constant else None
        )
        return RidgeSystem(SolverFactor(self, alpha), constant)

    def systems(self, alphas: np.ndarray) -> Iterator[tuple[int, RidgeSystem]]:
        """Yield the index and the system of each alpha."""
        return enumerate(map(self.at, alphas))

    @property
    def trace(self) -> float:
        """The trace of S K S, after projecting out the unpenalised constant."""
        weights = np.square(self.u)
        trace = float(weights @ np.asarray(self.kernel.evaluate_diag(jnp.asarray(self.X))))
        if not self.constant:
            return trace
        product = compiled(
            self.solver.multiply, NoisyGram(self.kernel, jnp.asarray(self.X), 0.0), weights
        )
        return trace - float(weights @ np.asarray(product)) / np.sum(weights)

    def expansion(self, weights: np.ndarray, X_new: np.ndarray) -> np.ndarray:
        """k(X_new, X) @ weights, in blocks of rows: (m,), or (m, k) for weights (n, k)."""
        sums = np.empty((len(X_new), weights[0].size))
        K = NoisyGram(self.kernel, jnp.asarray(self.X), 0.0)
        for rows in self._blocks(X_new):
            for j, w in enumerate(weights.reshape(len(weights), -1).T):
                # Exact solvers compute the mean from the weights alone: no noise, no residuals.
                means = compiled(self.solver.mean, K, None, None, None, w, padded(X_new[rows]))
                sums[rows, j] = np.asarray(means)[: len(X_new[rows])]
        return sums.reshape(len(X_new), *weights.shape[1:])

    def _blocks(self, X_new: np.ndarray) -> Iterator[slice]:
        """Slices of the new points for which the solver has memory."""
        return blocks(len(X_new), self.solver.numbers_per_point(self.kernel, len(self.X)))

    def latent_variances(self, system: RidgeSystem, X_new: np.ndarray) -> np.ndarray:
        """The posterior variances of f plus the constant at X_new (m, d): (m,)."""
        variances = np.empty(len(X_new))
        assert isinstance(system.factor, SolverFactor)
        K = NoisyGram(self.kernel, jnp.asarray(self.X), system.factor.noise)
        factor = system.factor.factor
        for rows in self._blocks(X_new):
            points = padded(X_new[rows])
            block = compiled(self.solver.variance, K, None, factor, points)
            variances[rows] = np.asarray(block)[: len(X_new[rows])]
        if self.constant:
            # Estimating the constant adds (1 - k'B 1)^2 / 1'B 1 with B = (K + alpha W^-1)^-1
            # (Rasmussen and Williams 2006, equation 2.42); B 1 = S q and 1'B 1 = u'q.
            q = system.factor.solve(self.u)
            kB1 = self.expansion(self.u * q, X_new)
            variances += np.square(1.0 - kB1) / (self.u @ q)
        return variances


class SolverFactor(RidgeFactor):
    """S K S + alpha I = S (K + alpha W^-1) S, from a factor of K + alpha W^-1."""

    def __init__(self, covariances: Covariances, alpha: float):
        super().__init__(float(alpha))
        kernel, solver, X, self.u, _ = covariances
        self.noise = as_noise(alpha, self.u)
        self.factor: Factor = compiled(solver.factor, NoisyGram(kernel, jnp.asarray(X), self.noise))
        logdet = compiled(self.factor.logdet)
        self._logdet = float(logdet) + 2.0 * float(np.sum(np.log(self.u)))
        if not np.isfinite(self._logdet):
            raise np.linalg.LinAlgError(
                f"K + {alpha:g} I is singular to rounding. Use a larger alpha, or solver='eigen'."
            )

    def solve(self, B: np.ndarray) -> np.ndarray:
        u = as_column(self.u, B)
        return np.asarray(compiled(self.factor.solve, B / u)) / u

    @cached_property
    def inverse_diagonal(self) -> np.ndarray:
        return np.asarray(compiled(self.factor.inv_diag)) / np.square(self.u)

    def logdet(self) -> float | np.ndarray:
        return self._logdet


def as_noise(alpha: float | np.ndarray, u: np.ndarray) -> np.ndarray:
    """alpha W^-1 for W = diag(u^2): a number if all weights are 1, otherwise (n,)."""
    weights = np.square(u)
    return alpha / weights if np.any(weights != 1.0) else np.asarray(alpha)
