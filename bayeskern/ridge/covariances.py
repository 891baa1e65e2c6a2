"""Systems of kernel ridge from the solvers of covariance matrices that hold no Gram matrix."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from bayeskern.kernels.base import Kernel
from bayeskern.kernels.gram_matrix import blocks, padded
from bayeskern.linalg import NoisyGram, Solver
from bayeskern.ridge.systems import Constant, RidgeFactor, RidgeSystem, as_column


class Covariances(NamedTuple):
    """K at weighted points, and the solver that computes with it.

    Attributes:
        kernel: The kernel.
        solver: The solver, prepared for X.
        X: Points, (n, d).
        u: The square roots of their weights, (n,), above 0.
        constant: Whether a constant is added without penalty.
    """

    kernel: Kernel
    solver: Solver
    X: np.ndarray
    u: np.ndarray
    constant: bool

    def at(self, alpha: float) -> RidgeSystem:
        """The system with one alpha.

        Raises numpy.linalg.LinAlgError if it is singular to rounding.
        """
        constant = Constant(self.u, np.zeros_like(self.u), None) if self.constant else None
        return RidgeSystem(SolverFactor(self, alpha), constant)

    def systems(self, alphas) -> Iterator[tuple[int, RidgeSystem]]:
        """The index of each alpha, and its system, one at a time."""
        return enumerate(map(self.at, alphas))

    @property
    def trace(self) -> float:
        """The trace of S K S, less what the constant takes of it."""
        weights = np.square(self.u)
        trace = float(weights @ np.asarray(self.kernel.evaluate_diag(jnp.asarray(self.X))))
        if not self.constant:
            return trace
        product = _multiply(self.solver, self.kernel, self.X, weights)
        return trace - float(weights @ np.asarray(product)) / np.sum(weights)

    def weighted(self, weights: np.ndarray, X_new: np.ndarray) -> np.ndarray:
        """k(X_new, X) weights, in blocks of X_new (m, d): (m,), or (m, k) for weights (n, k)."""
        sums = np.empty((len(X_new), *np.shape(weights)[1:]))
        for rows in blocks(len(X_new), len(self.X)):
            means = _means(self.solver, self.kernel, self.X, weights, padded(X_new[rows]))
            sums[rows] = np.asarray(means)[: len(X_new[rows])]
        return sums

    def latent_variances(self, system: RidgeSystem, X_new: np.ndarray) -> np.ndarray:
        """The variances of f, with the constant, at X_new (m, d): (m,)."""
        variances = np.empty(len(X_new))
        noise, factor = as_noise(system.alpha, self.u), system.factor.factor
        for rows in blocks(len(X_new), len(self.X)):
            new = padded(X_new[rows])
            block = _variances(self.solver, self.kernel, self.X, noise, factor, new)
            variances[rows] = np.asarray(block)[: len(X_new[rows])]
        if self.constant:
            # The uncertainty of the constant, less the share that f takes back.
            q = system.factor.solve(self.u)
            of_constant = self.weighted(self.u * q, X_new)
            variances += np.square(1.0 - of_constant) / (self.u @ q)
        return variances


class SolverFactor(RidgeFactor):
    """S K S + alpha I = S (K + alpha W^-1) S by a solver's factor of K + alpha W^-1."""

    def __init__(self, covariances: Covariances, alpha: float):
        super().__init__(float(alpha))
        self.u, noise = covariances.u, as_noise(alpha, covariances.u)
        self.factor = _factor(covariances.solver, covariances.kernel, covariances.X, noise)
        self._logdet = float(_logdet(self.factor)) + 2.0 * float(np.sum(np.log(self.u)))
        if not np.isfinite(self._logdet):
            raise np.linalg.LinAlgError(
                f"K + {alpha:g} I is singular to rounding. Take a larger alpha, or solver='eigen'."
            )

    def solve(self, B):
        u = as_column(self.u, B)
        return np.asarray(_solve(self.factor, B / u)) / u

    @cached_property
    def inverse_diagonal(self):
        return np.asarray(_inv_diag(self.factor)) / np.square(self.u)

    def logdet(self):
        return self._logdet


def as_noise(alpha, u: np.ndarray) -> np.ndarray:
    """alpha W^-1: a number where all weights are 1, otherwise (n,)."""
    weights = np.square(u)
    return alpha / weights if np.any(weights != 1.0) else np.asarray(alpha)


@eqx.filter_jit
def _factor(solver, kernel, X, noise):
    return solver.factor(NoisyGram(kernel, X, noise))


@eqx.filter_jit
def _solve(factor, T):
    return factor.solve(T)


@eqx.filter_jit
def _inv_diag(factor):
    return factor.inv_diag()


@eqx.filter_jit
def _logdet(factor):
    return factor.logdet()


@eqx.filter_jit
def _multiply(solver, kernel, X, b):
    return solver.multiply(NoisyGram(kernel, X, 0.0), b)


@eqx.filter_jit
def _variances(solver, kernel, X, noise, factor, X_new):
    return solver.variance(NoisyGram(kernel, X, noise), None, factor, X_new)


@eqx.filter_jit
def _means(solver, kernel, X, weights, X_new):
    def mean(weights):
        # Exact solvers compute the mean from the weights, without noise and residuals.
        return solver.mean(NoisyGram(kernel, X, 0.0), None, None, weights, X_new)

    if weights.ndim == 1:
        return mean(weights)
    return jnp.stack([mean(w) for w in weights.T], axis=1)
