"""Laplace's approximation of latent Gaussian processes.

f ~ N(m, K), y ~ p(y | f). With the mode f^ of p(f | y), the gradient a = d log p(y | f^) / df and
the curvature W = -d2 log p(y | f^) / df2, the posterior is approximately N(f^, (K^-1 + W)^-1), and

    log q(y) = log p(y | f^) - 1/2 a' (f^ - m) - 1/2 log |I + K W|

(Rasmussen and Williams 2006, sections 3.4 and 5.5). The derivatives need R = (K + W^-1)^-1 and the
posterior variances S, which are computed without K^-1 and W^-1:

    df^ = (I - K R) (dK a + dm + K dg),    d log |I + K W| = tr(R dK) + tr(S dW),

where dg is the change of the gradient at fixed f. If log p(y | f) is not concave, W may be
negative. The log marginal likelihood uses this W, and is -inf unless K^-1 + W is positive definite.
Where it is not, the search for the mode sets negative eigenvalues of W to 0, which still gives an
ascent direction.

Shapes: K (C, n, n), one covariance for each of C latent functions; m, f and a (C, n); W and S
(C, C, n), a C x C block for each row; R (C n, C n).

Forecasts use `bayeskern.engine.laplace_log_marginal` instead, which compiles nothing. If W
may be negative, it approximates the posterior with the Fisher information, so that its log marginal
likelihood differs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from bayeskern.gp.latent.laplace_factor import LaplaceFactor, LatentCovariance
from bayeskern.gp.latent.log_likelihood import LogLikelihood

# A mode is accepted if the decrement is below this.
MAX_DECREMENT = 1e-8


class LatentMode(NamedTuple):
    """Mode of the latent functions.

    Attributes:
        f: The mode, (C, n).
        weights: K^-1 (f - m), (C, n).
        value: log p(y | f) - 1/2 (f - m)' K^-1 (f - m).
        decrement: r' (K^-1 + W)^-1 r, where r is the gradient of `value`: about twice the
            distance of `value` from its maximum; NaN after a failure.
        factors: Number of factorizations.
        steps: Number of Newton steps.
    """

    f: Array
    weights: Array
    value: Array
    decrement: Array
    factors: Array | int
    steps: Array | int

    @property
    def converged(self) -> Array:
        """True if the search converged."""
        return self.decrement < MAX_DECREMENT


# Below this decrement, rounding errors dominate.
CONVERGED_DECREMENT = 1e-20
# Largest number of factorizations.
MAX_FACTORIZATIONS = 60
# Smallest step length of the line search.
MIN_STEP_LENGTH = 0.5**40


def find_mode(covariance: LatentCovariance, m: Array, log_likelihood: LogLikelihood) -> LatentMode:
    """Find the mode by Newton's method with a monotone line search.

    No step lowers the log posterior. Rasmussen and Williams (2006), algorithms 3.1 and 3.3, in
    terms of a = K^-1 (f - m). Each factorization serves several steps.
    """
    factor_at = covariance.factorizer(log_likelihood.concave)

    def value_at(f, a):
        return log_likelihood.log_density(f) - 0.5 * jnp.sum(a * (f - m))

    def step(mode, da, df):
        """Backtrack along (da, df): the new mode, and True if the log posterior rose."""
        slack = 1e-14 * (1.0 + jnp.abs(mode.value))

        def too_long(state):
            t, value = state
            rises_enough = value - mode.value >= 1e-4 * t * mode.decrement - slack
            return ~rises_enough & (t > MIN_STEP_LENGTH)

        def halved(state):
            t = 0.5 * state[0]
            return t, value_at(mode.f + t * df, mode.weights + t * da)

        # The loop halves t before it evaluates, so that the first step is t = 1.
        zero = jnp.zeros((), m.dtype)
        t, value = jax.lax.while_loop(too_long, halved, (zero + 2.0, zero - jnp.inf))
        moved = mode._replace(
            f=mode.f + t * df, weights=mode.weights + t * da, value=value, steps=mode.steps + 1
        )
        return moved, t > MIN_STEP_LENGTH

    def steps_with_one_factor(state):
        mode, _ = state
        factor = _ascent_factor(factor_at, log_likelihood, mode.f)

        def newton_step(state):
            mode, first, _, _ = state
            r = log_likelihood.gradient(mode.f) - mode.weights
            da = factor.newton_direction(covariance.multiply, r)
            df = covariance.multiply(da)
            # Rounding may make a decrement near 0 negative.
            decrement = jnp.abs(jnp.sum(r * df))
            contracts = decrement <= covariance.contraction * mode.decrement
            go_on = (decrement > CONVERGED_DECREMENT) & contracts
            mode = mode._replace(decrement=decrement)
            moved, rose = jax.lax.cond(go_on, step, lambda mode, *_: (mode, True), mode, da, df)
            return moved, jnp.where(jnp.isinf(first), decrement, first), go_on & rose, rose

        # An infinite decrement, so that the first step with a factor always counts as contracting.
        start = mode._replace(decrement=jnp.full_like(mode.decrement, jnp.inf))
        mode, first, _, rose = jax.lax.while_loop(
            lambda state: state[2], newton_step, (start, start.decrement, True, True)
        )
        # Near convergence rounding errors make the decrement fluctuate: stop if it does not shrink.
        stalled = (mode.decrement < MAX_DECREMENT) & (mode.decrement > 0.25 * first)
        again = (mode.decrement > CONVERGED_DECREMENT) & ~stalled & rose
        again &= mode.factors + 1 < MAX_FACTORIZATIONS
        return mode._replace(factors=mode.factors + 1), again

    nan = jnp.full((), jnp.nan, m.dtype)
    start = LatentMode(m, jnp.zeros_like(m), log_likelihood.log_density(m), nan, 0, 0)
    mode, _ = jax.lax.while_loop(
        lambda state: state[1], steps_with_one_factor, (start, jnp.isfinite(start.value))
    )
    return mode


def _ascent_factor(
    factor_at: Callable[[Array], LaplaceFactor], log_likelihood: LogLikelihood, f: Array
) -> LaplaceFactor:
    """Factor for W at f; for its positive part unless K^-1 + W is positive definite."""
    W = log_likelihood.curvature(f)
    factor = factor_at(W)
    if log_likelihood.concave:
        return factor
    usable = jnp.isfinite(factor.logdet())
    return jax.lax.cond(usable, lambda: factor, lambda: factor_at(_positive_part(W)))


def _positive_part(W: Array) -> Array:
    """W with its negative eigenvalues set to 0."""
    if W.shape[0] == 1:
        return jnp.maximum(W, 0.0)
    values, vectors = jnp.linalg.eigh(jnp.moveaxis(W, -1, 0))
    return jnp.einsum("ncd,nd,ned->cen", vectors, jnp.maximum(values, 0.0), vectors)


class LaplaceApproximation(NamedTuple):
    """Posterior N(f^, (K^-1 + W)^-1) of the latent functions.

    Attributes:
        log_likelihood: log p(y | f).
        mode: f^, with diagnostics of the search.
        W: Curvature of the log likelihood at f^, (C, C, n).
        factor: Factor of (K + W^-1)^-1.
    """

    log_likelihood: LogLikelihood
    mode: LatentMode
    W: Array
    factor: LaplaceFactor

    @property
    def usable(self) -> Array:
        """True if a mode was found and K^-1 + W is positive definite there."""
        return self.mode.converged & jnp.isfinite(self.factor.logdet())


def approximate(
    covariance: LatentCovariance, m: Array, log_likelihood: LogLikelihood
) -> LaplaceApproximation:
    """Approximate the posterior of f, for prior means m (C, n)."""
    mode = find_mode(covariance, m, log_likelihood)
    W = log_likelihood.curvature(mode.f)
    factor = covariance.factorizer(log_likelihood.concave)(W)
    return LaplaceApproximation(log_likelihood, mode, W, factor)


def log_marginal(covariance: LatentCovariance, m: Array, log_likelihood: LogLikelihood) -> Array:
    """Laplace's approximation of log p(y), twice differentiable in all arguments.

    -inf, with a gradient of 0, if no mode is found. Newton's steps are not differentiated.
    """
    fixed = jax.lax.stop_gradient((covariance, m, log_likelihood))
    _, mode, _, factor = approximate(*fixed)
    value = mode.value - 0.5 * factor.logdet()
    usable = mode.converged & jnp.isfinite(value)
    # Without a mode, take the constant copies: NaN derivatives then do not reach the arguments.
    arguments = jax.tree.map(
        lambda traced, fixed: jnp.where(usable, traced, fixed),
        (covariance, m, log_likelihood),
        fixed,
    )
    _, value = _with_derivatives(mode.f, value, *arguments)
    return jnp.where(usable, value, -jnp.inf)


@jax.custom_jvp
def _with_derivatives(
    f: Array, value: Array, covariance: LatentCovariance, m: Array, log_likelihood: LogLikelihood
) -> tuple[Array, Array]:
    """Return the mode f and log q(y), with derivatives in the other arguments."""
    return f, value


@_with_derivatives.defjvp
def _with_derivatives_jvp(primals, tangents):
    _, _, covariance, _, log_likelihood = primals
    _, _, d_covariance, dm, d_likelihood = tangents
    f, value = _with_derivatives(*primals)
    # df and d log |I + K W| as in the docstring of this module.
    W = log_likelihood.curvature(f)
    inverse = covariance.inverse(W, log_likelihood.concave)
    a, dg = jax.jvp(lambda o: o.gradient(f), (log_likelihood,), (d_likelihood,))
    _, dKa = jax.jvp(lambda c: c.multiply(a), (covariance,), (d_covariance,))
    v = dKa + dm + covariance.multiply(dg)
    df = v - covariance.multiply(inverse.solve(v))
    _, dW = jax.jvp(lambda f, o: o.curvature(f), (f, log_likelihood), (df, d_likelihood))
    # log p(y | f) - 1/2 a' (f - m) is stationary in f, so that df does not contribute.
    _, d_density = jax.jvp(lambda o: o.log_density(f), (log_likelihood,), (d_likelihood,))
    d_joint = d_density + jnp.sum(a * (0.5 * dKa + dm))
    d_half_logdet = covariance.half_logdet_tangent(inverse, W, d_covariance, dW)
    return (f, value), (df, d_joint - d_half_logdet)
