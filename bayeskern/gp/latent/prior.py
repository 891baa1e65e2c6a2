"""Latent Gaussian processes before data: what is asked of their covariance matrices, and by whom.

C functions at n points are arrays (C, n), here without their prior means. A component is (c, name):
one of the additive components of the function c.
"""

from __future__ import annotations

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from bayeskern.gp.latent import laplace
from bayeskern.gp.latent.laplace import LatentMode
from bayeskern.gp.latent.laplace_factor import (
    BlockFactor,
    LaplaceFactor,
    NoiseFreeFactor,
    cholesky,
    factorizer,
    repeat_kernels,
)
from bayeskern.gp.latent.log_likelihood import LogLikelihood
from bayeskern.gp.prior import above_rounding
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.components import component as component_of
from bayeskern.linalg.dense import RECOMPUTE_MIN_SIZE
from bayeskern.linalg.root import draw


class LatentPrior(eqx.Module):
    """C latent functions at X (n, d), with covariance matrices K: one kernel, or one for each."""

    kernels: eqx.AbstractVar[tuple[Kernel, ...]]
    X: eqx.AbstractVar[jax.Array]

    @abstractmethod
    def root(self, white):
        """L white with K = L L', which turns normal draws (..., C, n) into draws of f."""

    @abstractmethod
    def log_evidence(self, m, log_likelihood: LogLikelihood):
        """Laplace's approximation of log p(y), for prior means m (C, n); see `newton`."""

    @abstractmethod
    def approximate(
        self, m, log_likelihood: LogLikelihood
    ) -> tuple[LatentMode, jax.Array, LaplaceFactor]:
        """The mode of f, the curvature W there, and (K + W^-1)^-1, factored."""

    @abstractmethod
    def noise_free(self, white) -> tuple[jax.Array, LaplaceFactor]:
        """K^-1 f of f = L white, and K^-1, factored."""

    @abstractmethod
    def moments(self, weights, factor: LaplaceFactor, X_new, component=None):
        """Means (C, m) at X_new given data, and the C x C covariances at each point: (C, C, m).

        weights: K^-1 f, (C, n); factor: as `approximate` or `noise_free` returned it.
        """

    @abstractmethod
    def deviations(self, factor: LaplaceFactor, X_new, key, size: int, component=None):
        """Joint draws at X_new given data, without their means: (size, C, m)."""

    @abstractmethod
    def log_ratio(self, mode: LatentMode, W, factor: LaplaceFactor, log_likelihood, key, size: int):
        """Draws of f from the approximation q, of evidence Z, and log [p(y, f) / (q(f) Z)].

        (size, C, points) and (size,): the points are those of X, or some of very many.
        """


class DensePrior(LatentPrior):
    """Covariance matrices (C, n, n) and their Cholesky factors: any kernels, any likelihood."""

    kernels: tuple[Kernel, ...]
    X: jax.Array
    C: int = eqx.field(static=True)

    def root(self, white):
        return jnp.einsum("cij,...cj->...ci", cholesky(self._covariances()), white)

    def log_evidence(self, m, log_likelihood):
        large = self.X.shape[0] >= RECOMPUTE_MIN_SIZE
        compute = eqx.filter_checkpoint(_covariances) if large else _covariances
        return _log_evidence(compute(self.kernels, self.X, self.C), m, log_likelihood)

    def approximate(self, m, log_likelihood):
        return _approximation(self._covariances(), m, log_likelihood)

    def noise_free(self, white):
        roots = cholesky(self._covariances())
        solve_transposed = jax.vmap(lambda L, w: solve_triangular(L, w, lower=True, trans=1))
        return solve_transposed(roots, white), NoiseFreeFactor(roots)

    def moments(self, weights, factor, X_new, component=None):
        # Rasmussen and Williams (2006), algorithm 3.2.
        kernels, cross = self._across(X_new, component)
        mean = jnp.einsum("cn,cnm->cm", weights, cross)
        prior = jnp.stack([k.evaluate_diag(X_new) for k in kernels])
        same = jnp.eye(self.C)
        remaining = jnp.einsum("cm,cd->cdm", prior, same) - factor.quadratic_forms(cross)
        on_diagonal = same.astype(bool)[:, :, None]
        variances = above_rounding(remaining, prior[:, None])
        return mean, jnp.where(on_diagonal, variances, remaining)

    def deviations(self, factor, X_new, key, size, component=None):
        kernels, cross = self._across(X_new, component)
        prior = jnp.stack([k.evaluate(X_new) for k in kernels])
        explained = factor.quadratic_forms(cross, joint=True)
        remaining = jnp.einsum("cij,cd->cidj", prior, jnp.eye(self.C)) - explained
        drawn = draw(remaining.reshape(self.C * len(X_new), -1), key, size)
        return drawn.reshape(size, self.C, -1)

    def log_ratio(self, mode, W, factor, log_likelihood, key, size):
        return _log_ratio(self._covariances(), mode, W, factor, log_likelihood, key, size)

    def _covariances(self):
        return _covariances(self.kernels, self.X, self.C)

    def _across(self, X_new, component):
        """The kernels, one of them replaced by its component, and each k(X, X_new): (C, n, m)."""
        kernels = list(repeat_kernels(self.kernels, self.C))
        if component is not None:
            c, name = component
            kernels[c] = component_of(kernels[c], name)
        return kernels, jnp.stack([k.evaluate(self.X, X_new) for k in kernels])


def _covariances(kernels, X, C: int):
    """K, one for each of C latent functions: (C, n, n)."""
    K = jnp.stack([k.evaluate(X) for k in kernels])
    return K if len(kernels) == C else jnp.broadcast_to(K, (C, *K.shape[1:]))


_log_evidence = jax.jit(laplace.log_evidence)


@jax.jit
def _approximation(K, m, log_likelihood):
    mode = laplace.find_mode(K, m, log_likelihood)
    W = log_likelihood.curvature(mode.f)
    return mode, W, factorizer(K, log_likelihood.concave)(W)


@eqx.filter_jit
def _log_ratio(K, mode, W, factor, log_likelihood, key, size):
    """In coordinates v = L^-1 (f - m), so that K need not be inverted."""
    roots, shape = cholesky(K), mode.f.shape
    M = BlockFactor.compute(roots, W).M
    center = jnp.einsum("cji,cj->ci", roots, mode.weights)
    white = jax.random.normal(key, (size, mode.f.size), mode.f.dtype)
    deviations = solve_triangular(M, white.T, lower=True, trans=1).T.reshape(size, *shape)
    f = mode.f + jnp.einsum("cij,ncj->nci", roots, deviations)
    v = center + deviations
    log_p = jax.lax.map(log_likelihood.log_density, f)
    log_p = log_p - 0.5 * jnp.sum(jnp.square(v), (1, 2))
    log_q = -0.5 * jnp.sum(jnp.square(white), 1) + jnp.sum(jnp.log(jnp.diagonal(M)))
    evidence = mode.value - 0.5 * factor.logdet()
    return f, log_p - log_q - evidence
