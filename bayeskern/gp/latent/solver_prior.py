"""Laplace's approximation of one latent function by a solver, where no covariance matrix is formed.

As in `newton`: W^-1 is a noise that differs from row to row, and R = (K + W^-1)^-1 is what the
solver factors; rows without curvature do not count. With a state that takes O(n) time. Nickisch,
Solin and Grigorevskiy (2018), "State space Gaussian processes with non-Gaussian likelihood".
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp

from bayeskern.core.batching import evenly
from bayeskern.gp.latent import laplace
from bayeskern.gp.latent.laplace_factor import LaplaceFactor
from bayeskern.gp.latent.log_likelihood import LogLikelihood
from bayeskern.gp.latent.prior import LatentPrior
from bayeskern.gp.prior import above_rounding
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.components import part_of
from bayeskern.linalg import Factor, NoisyGram, Solver

# Less curvature than this is none: its inverse, squared and cubed, has to be a number.
LEAST_CURVATURE = 1e-90
# The variance of the noise that f itself is seen with, relative to that of f: with less, what
# solvers say of other times would be rounding.
JITTER = 1e-10
# A factor is kept as long as each step with it multiplies the decrement by at most this: another
# takes no longer than two steps.
CONTRACTION = 1e-3
# The most points whose latent draws are kept for a verdict.
MOST_POINTS = 2000


class SolverPrior(LatentPrior):
    """One latent function whose K a solver multiplies with and whose K + W^-1 it factors."""

    kernels: tuple[Kernel, ...]
    X: jax.Array
    solver: Solver

    @property
    def kernel(self) -> Kernel:
        return self.kernels[0]

    def multiply(self, v):
        """K v: (1, n)."""
        return self.solver.multiply(NoisyGram(self.kernel, self.X, 0.0), v[0])[None]

    def factor(self, W) -> SolverFactor:
        """(K + W^-1)^-1, factored: W (1, 1, n)."""
        noise, counts = _as_noise(W[0, 0])
        factor = self.solver.factor(NoisyGram(self.kernel, self.X, noise, counts))
        return SolverFactor(noise, counts, factor)

    def half_logdet(self, W):
        """1/2 log |I + K W|, by the derivative that the solver has."""
        noise, counts = _as_noise(W[0, 0])
        C = NoisyGram(self.kernel, self.X, noise, counts)
        density = self.solver.log_density(C, jnp.zeros_like(noise))
        return -density - 0.5 * jnp.sum(jnp.where(counts, jnp.log(2.0 * jnp.pi * noise), 0.0))

    def root(self, white):
        sqrt_mul = self._noise_free_factor().factor.sqrt_mul
        return jnp.vectorize(sqrt_mul, signature="(n)->(n)")(white)

    def log_evidence(self, m, log_likelihood):
        return _log_evidence(self, m, log_likelihood)

    def approximate(self, m, log_likelihood):
        return _approximation(self, m, log_likelihood)

    def noise_free(self, white):
        factor = self._noise_free_factor()
        return factor.solve(factor.factor.sqrt_mul(white[0])[None]), factor

    def moments(self, weights, factor, X_new, component=None):
        name = None if component is None else component[1]
        C = NoisyGram(self.kernel, self.X, factor.noise, factor.counts)
        mean = self.solver.mean(C, name, None, weights[0], X_new)
        variance = self.solver.variance(C, name, factor.factor, X_new)
        prior = part_of(self.kernel, name).evaluate_diag(X_new)
        return mean[None], above_rounding(variance, prior)[None, None]

    def deviations(self, factor, X_new, key, size, component=None):
        name = None if component is None else component[1]
        C = NoisyGram(self.kernel, self.X, factor.noise, factor.counts)
        return self.solver.deviations(C, name, factor.factor, X_new, key, size)[:, None]

    def log_ratio(self, mode, W, factor, log_likelihood, key, size):
        return _log_ratio(self, mode, W, factor, log_likelihood, key, size)

    def _noise_free_factor(self) -> SolverFactor:
        n = self.X.shape[0]
        noise = JITTER * jnp.mean(self.kernel.evaluate_diag(self.X))
        factor = self.solver.factor(NoisyGram(self.kernel, self.X, noise))
        return SolverFactor(jnp.broadcast_to(noise, (n,)), jnp.ones(n, bool), factor)


class SolverFactor(LaplaceFactor):
    """(K + W^-1)^-1 by a factor of K + noise, rows that do not count left out."""

    noise: jax.Array
    counts: jax.Array
    factor: Factor

    def solve(self, v):
        """R v: (1, n)."""
        return jnp.where(self.counts, self.factor.solve(jnp.where(self.counts, v[0], 0.0)), 0.0)[
            None
        ]

    def newton_direction(self, multiply, r):
        return r - self.solve(multiply(r))

    def logdet(self):
        noise = jnp.where(self.counts, self.noise, 1.0)
        return self.factor.logdet() - jnp.sum(jnp.log(noise))


def _as_noise(W):
    """The variances that rows of curvature W (n,) are observed with, and which rows count."""
    counts = W > LEAST_CURVATURE
    return jnp.where(counts, 1.0 / jnp.where(counts, W, 1.0), 1.0), counts


# -- the mathematics, on arrays --------------------------------------------------------------------


@jax.jit
def _log_evidence(prior: SolverPrior, m, log_likelihood: LogLikelihood):
    """-inf, with a gradient of 0, where there is no mode to be found."""
    # Newton's steps are not differentiated through.
    fixed = jax.lax.stop_gradient((prior, m, log_likelihood))
    mode = _find_mode(*fixed)
    # Where none is found, whatever NaN derivatives have is stopped here.
    prior, m, log_likelihood = jax.tree.map(
        lambda moving, fixed: jnp.where(mode.found, moving, fixed),
        (prior, m, log_likelihood),
        fixed,
    )
    f = _follow(mode.f, prior, m, log_likelihood)
    a, W = log_likelihood.gradient(f), log_likelihood.curvature(f)
    value = log_likelihood.log_density(f) - 0.5 * jnp.sum(a * (f - m)) - prior.half_logdet(W)
    return jnp.where(mode.found & jnp.isfinite(value), value, -jnp.inf)


def _find_mode(prior: SolverPrior, m, log_likelihood: LogLikelihood) -> laplace.LatentMode:
    return laplace.search(prior.multiply, prior.factor, m, log_likelihood, CONTRACTION)


@jax.custom_jvp
def _follow(f, prior: SolverPrior, m, log_likelihood: LogLikelihood):
    """The mode f of these arguments, whose derivatives are those of the mode."""
    return f


@_follow.defjvp
def _follow_jvp(primals, tangents):
    (f, prior, m, log_likelihood), (_, d_prior, dm, d_likelihood) = primals, tangents
    f = _follow(f, prior, m, log_likelihood)
    # d f^ = (I - K R) (dK a + dm + K dg), a = g the gradient of log p(y | f) at f^.
    a, dg = jax.jvp(lambda o: o.gradient(f), (log_likelihood,), (d_likelihood,))
    _, dKa = jax.jvp(lambda p: p.multiply(a), (prior,), (d_prior,))
    v = dKa + dm + prior.multiply(dg)
    df = v - prior.multiply(prior.factor(log_likelihood.curvature(f)).solve(v))
    return f, df


@jax.jit
def _approximation(prior: SolverPrior, m, log_likelihood: LogLikelihood):
    mode = _find_mode(prior, m, log_likelihood)
    W = log_likelihood.curvature(mode.f)
    return mode, W, prior.factor(W)


@eqx.filter_jit
def _log_ratio(prior: SolverPrior, mode, W, factor, log_likelihood, key, size: int):
    """The ratio is what log p(y | f) is more than its quadratic approximation at the mode."""
    d = prior.deviations(factor, prior.X, key, size)
    g, at_mode = log_likelihood.gradient(mode.f), log_likelihood.log_density(mode.f)

    def beyond(d):
        quadratic = jnp.sum(g * d) - 0.5 * jnp.sum(W[0] * jnp.square(d))
        return log_likelihood.log_density(mode.f + d) - at_mode - quadratic

    log_ratio = jax.lax.map(beyond, d)
    shown = evenly(prior.X.shape[0], MOST_POINTS)
    return (mode.f + d)[:, :, shown], log_ratio
