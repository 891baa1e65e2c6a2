"""Priors of latent Gaussian processes: base class, and dense covariance matrices.

C latent functions at n points form an array (C, n). `root` and `moments` leave out the prior means.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.linalg import solve_triangular

from bayeskern.gp.latent import laplace
from bayeskern.gp.latent.laplace import LaplaceApproximation
from bayeskern.gp.latent.laplace_factor import (
    BlockFactor,
    DenseCovariance,
    DiagonalFactor,
    LaplaceFactor,
    LatentCovariance,
    NoiseFreeFactor,
)
from bayeskern.gp.latent.log_likelihood import LogLikelihood
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.components import component as component_of
from bayeskern.linalg.dense import RECOMPUTE_MIN_SIZE, computed_once
from bayeskern.linalg.root import draw
from bayeskern.linalg.solver import difference

LatentFactor = LaplaceFactor | NoiseFreeFactor
DenseLatentFactor = DiagonalFactor | BlockFactor | NoiseFreeFactor


class LatentPoints(NamedTuple):
    """Points X (m, d) at which latent functions are evaluated.

    component: (c, name) to replace latent function c by its additive component `name`.
    """

    X: Array
    component: tuple[int, str] | None = None


class LatentPrior(eqx.Module):
    """Prior of C latent functions at X (n, d), with one kernel for all or each."""

    kernels: eqx.AbstractVar[tuple[Kernel, ...]]
    X: eqx.AbstractVar[Array]

    @property
    @abstractmethod
    def covariance(self) -> LatentCovariance:
        """Covariance K of the latent functions at X."""

    def log_marginal(self, m: Array, log_likelihood: LogLikelihood) -> Array:
        """Laplace's approximation of log p(y), for prior means m (C, n)."""
        return _log_marginal(self.covariance, m, log_likelihood)

    def approximate(self, m: Array, log_likelihood: LogLikelihood) -> LaplaceApproximation:
        """Laplace's approximation of the posterior of f, for prior means m (C, n)."""
        return _approximate(self.covariance, m, log_likelihood)

    def log_ratio(
        self, posterior: LaplaceApproximation, key: Array, size: int
    ) -> tuple[Array, Array]:
        """Draws of f from Laplace's approximation q, with log weights log [p(y, f) / (q(f) Z)].

        Z is Laplace's approximation of p(y).

        Returns:
            Draws (size, C, points), at a few thousand of the n points at most, and the log weights
            (size,).
        """
        d = _approximate_deviations(self, posterior, key, size)
        return posterior.mode.f + d, _log_weights(posterior, d)

    @abstractmethod
    def root(self, white: Array) -> Array:
        """L white, (..., C, n), with K = L L': turns normal draws into draws of f."""

    @abstractmethod
    def noise_free(self, white: Array) -> tuple[Array, LatentFactor]:
        """Weights K^-1 f for f = L white, and a factor of K^-1."""

    @abstractmethod
    def moments(
        self, weights: Array, factor: LatentFactor, at: LatentPoints
    ) -> tuple[Array, Array]:
        """Posterior means (C, m) and covariances (C, C, m) at each point.

        weights: K^-1 f of the mode or of the known f, (C, n).
        factor: From `approximate` or `noise_free`.
        """

    @abstractmethod
    def deviations(self, factor: LatentFactor, at: LatentPoints, key: Array, size: int) -> Array:
        """Joint posterior draws minus the posterior mean: (size, C, m)."""

    @abstractmethod
    def approximate_deviations(
        self, posterior: LaplaceApproximation, key: Array, size: int
    ) -> Array:
        """Joint draws at X from Laplace's approximation, minus the mode: (size, C, n)."""


_log_marginal = jax.jit(laplace.log_marginal)
_approximate = jax.jit(laplace.approximate)


@eqx.filter_jit
def _approximate_deviations(
    prior: LatentPrior, posterior: LaplaceApproximation, key: Array, size: int
) -> Array:
    return prior.approximate_deviations(posterior, key, size)


@jax.jit
def _log_weights(posterior: LaplaceApproximation, d: Array) -> Array:
    """Log weights log [p(y, f + d) / (q(f + d) Z)] for d (size, C, n) at the mode f.

    The prior cancels, which leaves log p(y | f + d) minus its quadratic approximation at f.
    """
    log_likelihood, mode, W, _ = posterior
    g, at_mode = log_likelihood.gradient(mode.f), log_likelihood.log_density(mode.f)

    def remainder(d):
        quadratic = jnp.sum(g * d) - 0.5 * jnp.einsum("ci,cdi,di->", d, W, d)
        return log_likelihood.log_density(mode.f + d) - at_mode - quadratic

    return jax.lax.map(remainder, d)


class DensePrior(LatentPrior):
    """Prior with dense covariance matrices (C, n, n), for any kernels and likelihood."""

    kernels: tuple[Kernel, ...]
    X: Array
    C: int = eqx.field(static=True)

    @property
    def covariance(self) -> DenseCovariance:
        large = self.X.shape[0] >= RECOMPUTE_MIN_SIZE
        compute = eqx.filter_checkpoint(_covariances) if large else _covariances
        return DenseCovariance(computed_once(compute(self.kernels, self.X, self.C)))

    def root(self, white: Array) -> Array:
        return jnp.einsum("cij,...cj->...ci", self.covariance.roots(), white)

    def noise_free(self, white: Array) -> tuple[Array, NoiseFreeFactor]:
        roots = self.covariance.roots()
        solve_transposed = jax.vmap(lambda L, w: solve_triangular(L, w, lower=True, trans=1))
        return solve_transposed(roots, white), NoiseFreeFactor(roots)

    def moments(
        self, weights: Array, factor: DenseLatentFactor, at: LatentPoints
    ) -> tuple[Array, Array]:
        # Rasmussen and Williams (2006), algorithm 3.2.
        kernels, cross = self._kernels_and_cross(at)
        mean = jnp.einsum("cn,cnm->cm", weights, cross)
        prior = jnp.stack([k.evaluate_diag(at.X) for k in kernels])
        eye = jnp.eye(self.C)
        reduction = factor.quadratic_forms(cross)
        # Only the variances, on the diagonal, have to be positive.
        variances = difference(prior[:, None], reduction)
        return mean, jnp.where(eye.astype(bool)[:, :, None], variances, -reduction)

    def deviations(
        self, factor: DenseLatentFactor, at: LatentPoints, key: Array, size: int
    ) -> Array:
        kernels, cross = self._kernels_and_cross(at)
        prior = jnp.stack([k.evaluate(at.X) for k in kernels])
        explained = factor.quadratic_forms(cross, joint=True)
        covariance = jnp.einsum("cij,cd->cidj", prior, jnp.eye(self.C)) - explained
        draws = draw(covariance.reshape(self.C * len(at.X), -1), key, size)
        return draws.reshape(size, self.C, -1)

    def approximate_deviations(
        self, posterior: LaplaceApproximation, key: Array, size: int
    ) -> Array:
        # f = L v has covariance (K^-1 + W)^-1 if v ~ N(0, (I + L' W L)^-1), where K = L L'.
        roots = self.covariance.roots()
        C, n, _ = roots.shape
        white = jax.random.normal(key, (size, C * n), roots.dtype)
        M = BlockFactor.compute(roots, posterior.W).M
        v = solve_triangular(M, white.T, lower=True, trans=1).T.reshape(size, C, n)
        return jnp.einsum("cij,ncj->nci", roots, v)

    def _kernels_and_cross(self, at: LatentPoints) -> tuple[list[Kernel], Array]:
        """Kernels, with the component of `at` in place, and k(X, X_new) (C, n, m)."""
        kernels = list(repeat_kernels(self.kernels, self.C))
        if at.component is not None:
            c, name = at.component
            kernels[c] = component_of(kernels[c], name)
        return kernels, jnp.stack([k.evaluate(self.X, at.X) for k in kernels])


def repeat_kernels(kernels: tuple[Kernel, ...], C: int) -> tuple[Kernel, ...]:
    """One kernel for each of C latent functions."""
    return kernels if len(kernels) == C else kernels * C


def _covariances(kernels: tuple[Kernel, ...], X: Array, C: int) -> Array:
    """Covariance matrix of each of C latent functions: (C, n, n)."""
    K = jnp.stack([k.evaluate(X) for k in kernels])
    return K if len(kernels) == C else jnp.broadcast_to(K, (C, *K.shape[1:]))
