"""The linear systems of kernel ridge where the solver of a covariance matrix does without it.

They are those of `dual_system`, [S K S + alpha I, u; u', 0] with S = diag(u) and u the square roots
of the weights, from one factor of A = K + alpha W^-1: (S K S + alpha I)^-1 = S^-1 A^-1 S^-1.
"""

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
from bayeskern.ridge import criteria
from bayeskern.ridge.regularized_system import as_column


class Covariances(NamedTuple):
    """K at points of some weight, and the solver that computes with it.

    X: (n, d); sqrt_weights: (n,), above 0; constant: whether a constant is added without penalty.
    """

    kernel: Kernel
    solver: Solver
    X: np.ndarray
    sqrt_weights: np.ndarray
    constant: bool

    def at(self, alpha: float) -> FactoredSystem:
        """The system with one alpha.

        Raises numpy.linalg.LinAlgError if it is singular to rounding.
        """
        return FactoredSystem(self, alpha)

    def systems(self, alphas) -> Iterator[tuple[int, FactoredSystem]]:
        """The place of each alpha among several, and its system, one at a time."""
        return enumerate(map(self.at, alphas))

    def noise(self, alpha: float):
        """alpha W^-1, as `as_noise` has it."""
        return as_noise(alpha, self.sqrt_weights)

    @property
    def trace(self) -> float:
        """The trace of S K S, less what the constant takes of it."""
        weights = np.square(self.sqrt_weights)
        trace = float(weights @ np.asarray(self.kernel.evaluate_diag(self.X)))
        if not self.constant:
            return trace
        product = _multiply(self.solver, self.kernel, self.X, weights)
        return trace - float(weights @ np.asarray(product)) / np.sum(weights)


class FactoredSystem:
    """The system with one alpha. T: right-hand sides (n,) or (n, k)."""

    def __init__(self, covariances: Covariances, alpha: float):
        self.covariances, self.alpha = covariances, float(alpha)
        noise = covariances.noise(self.alpha)
        self.factor = _factor(covariances.solver, covariances.kernel, covariances.X, noise)
        self._logdet = float(_logdet(self.factor))
        if not np.isfinite(self._logdet):
            raise np.linalg.LinAlgError(
                f"K + {alpha:g} I is singular to rounding. Take a larger alpha, or solver='eigen'."
            )

    @property
    def effective_dof(self) -> float:
        """The trace of the matrix that turns t into fitted values: n - alpha tr C."""
        return len(self.inverse_diagonal) - self.alpha * float(np.sum(self.inverse_diagonal))

    def at(self, alpha: float) -> FactoredSystem:
        return self

    def for_loo(self) -> FactoredSystem:
        return self

    def solve(self, T, total=0.0):
        """(c, b) with (S K S + alpha I) c + u b = T and u'c = total; b is 0 without a constant."""
        c = self._without_constant(T)
        if not self.covariances.constant:
            return c, np.zeros(np.shape(T)[1:])
        return beside_constant(c, self._of_constant, self.covariances.sqrt_weights, total)

    def coefficients(self, T):
        """C T, C the first n x n block of the inverse."""
        return self.solve(T)[0]

    @cached_property
    def inverse_diagonal(self) -> np.ndarray:
        """diag C: (n,)."""
        u = self.covariances.sqrt_weights
        diagonal = np.asarray(_inv_diag(self.factor)) / np.square(u)
        if not self.covariances.constant:
            return diagonal
        return diagonal - np.square(self._of_constant) / (u @ self._of_constant)

    def loo_residuals(self, T):
        """t_i minus its prediction from the others: [C t]_i / C_ii."""
        return self.coefficients(T) / as_column(self.inverse_diagonal, T)

    def log_evidence(self, t) -> float:
        """log N(t; 0, S K S + alpha I) of t (n,); of its part orthogonal to u with a constant."""
        u, n = self.covariances.sqrt_weights, len(t)
        logdet = self._logdet + 2.0 * np.sum(np.log(u))
        if self.covariances.constant:
            logdet += np.log((u @ self._of_constant) / (u @ u))
        quadratic = t @ self.coefficients(t)
        return criteria.log_evidence(quadratic, logdet, n - self.covariances.constant)

    def latent_variances(self, X_new) -> np.ndarray:
        """The variances of f, and of the constant, at X_new (m, d): (m,)."""
        kernel, solver, X, u, constant = self.covariances
        variances, noise = np.empty(len(X_new)), self.covariances.noise(self.alpha)
        for rows in blocks(len(X_new), len(X)):
            new = padded(X_new[rows])
            found = _variances(solver, kernel, X, noise, self.factor, new)
            variances[rows] = np.asarray(found)[: len(X_new[rows])]
        if constant:
            # What the data do not say of the constant, of which f takes back its own share.
            of_constant = weighted_covariances(self.covariances, u * self._of_constant, X_new)
            variances += np.square(1.0 - of_constant) / (u @ self._of_constant)
        return variances

    @cached_property
    def _of_constant(self) -> np.ndarray:
        """(S K S + alpha I)^-1 u: (n,)."""
        return self._without_constant(self.covariances.sqrt_weights)

    def _without_constant(self, T):
        u = as_column(self.covariances.sqrt_weights, T)
        return np.asarray(_solve(self.factor, T / u)) / u


def as_noise(alpha: float, sqrt_weights):
    """alpha W^-1: a number where all weigh 1, otherwise (n,)."""
    weights = np.square(sqrt_weights)
    return alpha / weights if np.any(weights != 1.0) else np.asarray(alpha)


def beside_constant(c, of_constant, u, total=0.0):
    """(c, b) of the system with a constant, from the solutions c of T and `of_constant` of u."""
    b = (u @ c - total) / (u @ of_constant)
    return c - np.multiply.outer(of_constant, b), b


def weighted_covariances(covariances: Covariances, weights, X_new) -> np.ndarray:
    """k(X_new, X) weights for weights (n,): (m,), for (n, k): (m, k), in blocks of X_new (m, d)."""
    kernel, solver, X, *_ = covariances
    sums = np.empty((len(X_new), *np.shape(weights)[1:]))
    for rows in blocks(len(X_new), len(X)):
        found = _means(solver, kernel, X, weights, padded(X_new[rows]))
        sums[rows] = np.asarray(found)[: len(X_new[rows])]
    return sums


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
        # Exact solvers go by the weights: they need neither noise nor residuals.
        return solver.mean(NoisyGram(kernel, X, 0.0), None, None, weights, X_new)

    if weights.ndim == 1:
        return mean(weights)
    return jnp.stack([mean(w) for w in weights.T], axis=1)
