"""Laplace's approximation of one latent function, by a solver of K + noise.

The solver factors K + W^-1, where the inverse curvature W^-1 acts as a noise variance of each row;
rows without curvature are masked. A state-space solver takes O(n) time: Nickisch, Solin and
Grigorevskiy (2018), "State space Gaussian processes with non-Gaussian likelihood".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from bayeskern.core.batching import evenly
from bayeskern.gp.latent.laplace import LaplaceApproximation
from bayeskern.gp.latent.laplace_factor import LaplaceFactor, LatentCovariance, Multiply
from bayeskern.gp.latent.prior import LatentPoints, LatentPrior
from bayeskern.kernels.base import Kernel
from bayeskern.linalg import Factor, NoisyGram, Solver
from bayeskern.linalg.root import jitter_scales


class SolverLaplaceFactor(LaplaceFactor):
    """R = (K + W^-1)^-1, from a solver's factor of K + noise.

    Attributes:
        noise: W^-1, (n,).
        mask: Mask of the rows with curvature, (n,).
        factor: Factor of K + noise over the unmasked rows.
    """

    noise: Array
    mask: Array
    factor: Factor

    def solve(self, v: Array) -> Array:
        """R v: (1, n)."""
        solution = self.factor.solve(jnp.where(self.mask, v[0], 0.0))
        return jnp.where(self.mask, solution, 0.0)[None]

    def newton_direction(self, multiply: Multiply, r: Array) -> Array:
        return r - self.solve(multiply(r))

    def logdet(self) -> Array:
        noise = jnp.where(self.mask, self.noise, 1.0)
        return self.factor.logdet() - jnp.sum(jnp.log(noise))


def _noise_and_mask(W: Array) -> tuple[Array, Array]:
    """Noise variances 1 / W for W (1, 1, n), and the mask of rows with W > 0: (n,)."""
    # 1 / W^3, which occurs in derivatives, has to be finite.
    mask = W[0, 0] > 1e-90
    return jnp.where(mask, 1.0 / jnp.where(mask, W[0, 0], 1.0), 1.0), mask


class SolverPrior(LatentPrior, LatentCovariance):
    """One latent function, and its covariance: the solver multiplies and factors."""

    # A new factor costs no more than two steps.
    contraction: ClassVar[float] = 1e-3

    kernels: tuple[Kernel, ...]
    X: Array
    solver: Solver

    @property
    def covariance(self) -> SolverPrior:
        return self

    def _gram(self, noise: Array | float, mask: Array | None = None) -> NoisyGram:
        return NoisyGram(self.kernels[0], self.X, noise, mask)

    # -- the covariance ----------------------------------------------------------------------------

    def multiply(self, v: Array) -> Array:
        return self.solver.multiply(self._gram(0.0), v[0])[None]

    def factorizer(self, concave: bool) -> Callable[[Array], SolverLaplaceFactor]:
        return self._factor

    def inverse(self, W: Array, concave: bool) -> SolverLaplaceFactor:
        return self._factor(W)

    def _factor(self, W: Array) -> SolverLaplaceFactor:
        """Factor (K + W^-1)^-1 for W (1, 1, n)."""
        noise, mask = _noise_and_mask(W)
        return SolverLaplaceFactor(noise, mask, self.solver.factor(self._gram(noise, mask)))

    def half_logdet_tangent(
        self, inverse: SolverLaplaceFactor, W: Array, d_covariance: SolverPrior, dW: Array
    ) -> Array:
        return jax.jvp(SolverPrior._half_logdet, (self, W), (d_covariance, dW))[1]

    def _half_logdet(self, W: Array) -> Array:
        """1/2 log |I + K W|, from the solver's differentiable log N(0; 0, K + W^-1)."""
        noise, mask = _noise_and_mask(W)
        density = self.solver.log_density(self._gram(noise, mask), jnp.zeros_like(noise))
        return -density - 0.5 * jnp.sum(jnp.where(mask, jnp.log(2.0 * jnp.pi * noise), 0.0))

    # -- the latent function ----------------------------------------------------------------------

    def root(self, white: Array) -> Array:
        sqrt_mul = self._noise_free_factor().factor.sqrt_mul
        return jnp.vectorize(sqrt_mul, signature="(n)->(n)")(white)

    def noise_free(self, white: Array) -> tuple[Array, SolverLaplaceFactor]:
        factor = self._noise_free_factor()
        return factor.solve(factor.factor.sqrt_mul(white[0])[None]), factor

    def moments(
        self, weights: Array, factor: SolverLaplaceFactor, at: LatentPoints
    ) -> tuple[Array, Array]:
        C, name = self._gram(factor.noise, factor.mask), _component_name(at)
        mean = self.solver.mean(C, name, None, None, weights[0], at.X)
        variance = self.solver.variance(C, name, factor.factor, at.X)
        return mean[None], variance[None, None]

    def deviations(
        self, factor: SolverLaplaceFactor, at: LatentPoints, key: Array, size: int
    ) -> Array:
        C, name = self._gram(factor.noise, factor.mask), _component_name(at)
        return self.solver.deviations(C, name, factor.factor, at.X, key, size)[:, None]

    def approximate_deviations(
        self, posterior: LaplaceApproximation, key: Array, size: int
    ) -> Array:
        # `approximate` of this class returns a factor by the solver.
        factor: SolverLaplaceFactor = posterior.factor  # pyright: ignore[reportAssignmentType]
        return self.deviations(factor, LatentPoints(self.X), key, size)

    def log_ratio(
        self, posterior: LaplaceApproximation, key: Array, size: int
    ) -> tuple[Array, Array]:
        draws, log_weights = super().log_ratio(posterior, key, size)
        # 2,000 points are enough for a verdict.
        return draws[:, :, evenly(self.X.shape[0], 2000)], log_weights

    def _noise_free_factor(self) -> SolverLaplaceFactor:
        n = self.X.shape[0]
        # With less noise than this, rounding errors dominate the solver's predictions.
        noise = 1e-10 * jitter_scales(self.kernels[0].evaluate_diag(self.X))
        factor = self.solver.factor(self._gram(noise))
        return SolverLaplaceFactor(noise, jnp.ones(n, bool), factor)


def _component_name(at: LatentPoints) -> str | None:
    return None if at.component is None else at.component[1]
