"""Laplace's approximation of a latent Gaussian process: its mode, its evidence, their derivatives.

f ~ N(m, K), y ~ p(y | f). With the mode f^ of p(f | y), the gradient a = d log p(y | f^) / df and
the curvature W = -d2 log p(y | f^) / df2 the posterior is about N(f^, (K^-1 + W)^-1), and

    log q(y) = log p(y | f^) - 1/2 a' (f^ - m) - 1/2 log |I + K W|

(Rasmussen and Williams 2006, sections 3.4 and 5.5). What derivatives need of K and W are
R = (K + W^-1)^-1 and the posterior variances S, neither of which needs K^-1 or W^-1:

    dR = -R dK R + (I - R K) dW (I - K R),    d log |I + K W| = tr(R dK) + tr(S dW).

Where log p(y | f) is not concave, W may be negative. The evidence then has W as it is, and is -inf
unless K^-1 + W is positive definite; on the way to the mode negative eigenvalues of W count as 0
where K^-1 + W is not, which still leads upwards.

Arrays: K (C, n, n), one covariance for each of C latent functions; m, f and a (C, n); W and S
(C, C, n), a block for each row; R (C n, C n).
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import block_diag, cho_solve

from bayeskern.gp.latent.laplace_factor import (
    DiagonalFactor,
    LaplaceFactor,
    factorizer,
    mul,
    positive_part,
    row_blocks,
    times,
)
from bayeskern.gp.latent.log_likelihood import LogLikelihood
from bayeskern.linalg import lapack
from bayeskern.linalg.dense import computed_once

# The most factorizations of a search, and the most halvings of a step.
FACTORS, HALVINGS = 60, 40
# A step takes O(n^2) with an old factor, O(n^3) with a new one. A factor is kept as long as each
# step with it multiplies the decrement, about twice the distance of the log posterior from its
# maximum, by at most this.
CONTRACTION = 0.1
# Newton's method goes on until the decrement is below the first; the mode counts as found if the
# decrement is below the second.
CONVERGED, ACCEPTED = 1e-20, 1e-8


class LatentMode(NamedTuple):
    """f: the mode; weights: K^-1 (f - m); both (C, n).

    value: log p(y | f) - 1/2 (f - m)' K^-1 (f - m). decrement: r' (K^-1 + W)^-1 r with r the
    gradient of `value`, about twice the distance of `value` from its maximum; NaN where it failed.
    factors, steps: the numbers of factorizations and of Newton steps.
    """

    f: jax.Array
    weights: jax.Array
    value: jax.Array
    gradient_norm: jax.Array
    decrement: jax.Array
    factors: jax.Array
    steps: jax.Array

    @property
    def found(self):
        return self.decrement < ACCEPTED


def find_mode(K, m, log_likelihood: LogLikelihood) -> LatentMode:
    """Newton's method with a line search, so that the log posterior never falls.

    Rasmussen and Williams (2006), algorithms 3.1 and 3.3, in terms of a = K^-1 (f - m), with
    several steps for each factor as long as the decrement falls fast enough (CONTRACTION).
    """
    factor_at = factorizer(K, log_likelihood.concave)
    return search(lambda v: mul(K, v), factor_at, m, log_likelihood)


def search(
    multiply, factor_at, m, log_likelihood: LogLikelihood, contraction: float = CONTRACTION
) -> LatentMode:
    """`find_mode` for K by what it does: v -> K v, and W -> a `LaplaceFactor`."""

    def value_at(f, a):
        return log_likelihood.log_density(f) - 0.5 * jnp.sum(a * (f - m))

    def step(mode, da, df):
        """Move along (da, df) as far as the log posterior rises: the mode, and whether it moved."""
        slack = 1e-14 * (1.0 + jnp.abs(mode.value))

        def too_long(state):
            t, value = state
            rises_enough = value - mode.value >= 1e-4 * t * mode.decrement - slack
            return ~rises_enough & (t > 0.5**HALVINGS)

        def halved(state):
            t = 0.5 * state[0]
            return t, value_at(mode.f + t * df, mode.weights + t * da)

        # The loop halves t before it evaluates, so that the first step is t = 1.
        zero = jnp.zeros((), m.dtype)
        t, value = jax.lax.while_loop(too_long, halved, (zero + 2.0, zero - jnp.inf))
        moved = mode._replace(
            f=mode.f + t * df, weights=mode.weights + t * da, value=value, steps=mode.steps + 1
        )
        return moved, t > 0.5**HALVINGS

    def with_one_factor(state):
        mode, _ = state
        factor = _upward(factor_at, log_likelihood.curvature(mode.f), log_likelihood.concave)

        def newton_step(state):
            mode, first, _, _ = state
            r = log_likelihood.gradient(mode.f) - mode.weights
            da = factor.newton_direction(multiply, r)
            df = multiply(da)
            # Rounding may push what is nearly 0 below it.
            decrement = jnp.abs(jnp.sum(r * df))
            go_on = (decrement > CONVERGED) & (decrement <= contraction * mode.decrement)
            mode = mode._replace(gradient_norm=jnp.linalg.norm(r), decrement=decrement)
            moved, rose = jax.lax.cond(go_on, step, lambda mode, *_: (mode, True), mode, da, df)
            return moved, jnp.where(jnp.isinf(first), decrement, first), go_on & rose, rose

        # The first decrement of a factor has nothing to be compared with.
        start = mode._replace(decrement=jnp.full_like(mode.decrement, jnp.inf))
        mode, first, _, rose = jax.lax.while_loop(
            lambda state: state[2], newton_step, (start, start.decrement, True, True)
        )
        # Once the decrement is as small as rounding allows, it goes up and down without end.
        stalled = (mode.decrement < ACCEPTED) & (mode.decrement > 0.25 * first)
        again = (mode.decrement > CONVERGED) & ~stalled & rose & (mode.factors + 1 < FACTORS)
        return mode._replace(factors=mode.factors + 1), again

    nan = jnp.full((), jnp.nan, m.dtype)
    start = LatentMode(m, jnp.zeros_like(m), log_likelihood.log_density(m), nan, nan, 0, 0)
    mode, _ = jax.lax.while_loop(
        lambda state: state[1], with_one_factor, (start, jnp.isfinite(start.value))
    )
    return mode


def _upward(factor_at, W, concave) -> LaplaceFactor:
    """A factor at W; at its positive part where K^-1 + W is not positive definite."""
    factor = factor_at(W)
    if concave:
        return factor
    usable = jnp.isfinite(factor.logdet())
    return jax.lax.cond(usable, lambda: factor, lambda: factor_at(positive_part(W)))


# -- the evidence ----------------------------------------------------------------------------------


@jax.custom_jvp
def log_evidence(K, m, log_likelihood: LogLikelihood):
    """Laplace's approximation of log p(y), twice differentiable in all of its arguments.

    -inf, with a gradient of 0, where there is no mode to be found. The derivative is written by
    hand (Rasmussen and Williams 2006, algorithm 5.1); differentiating through Newton's steps would
    cost several times as much.
    """
    mode = find_mode(K, m, log_likelihood)
    W = log_likelihood.curvature(mode.f)
    value = mode.value - 0.5 * factorizer(K, log_likelihood.concave)(W).logdet()
    return jnp.where(mode.found & jnp.isfinite(value), value, -jnp.inf)


@log_evidence.defjvp
def _log_evidence_jvp(primals, tangents):
    (K, m, log_likelihood), (dK, dm, d_likelihood) = primals, tangents
    C, _ = m.shape
    f, R, S, logdet = _solution(K, m, log_likelihood)
    ok = jnp.isfinite(logdet)
    f = jnp.where(ok, f, m)

    def explicit(f, log_likelihood, u):
        """Its gradient in the likelihood is that of the evidence at fixed K; u follows the mode."""
        gradient, W = log_likelihood.gradient(f), log_likelihood.curvature(f)
        return log_likelihood.log_density(f) - 0.5 * jnp.sum(S * W) + jnp.sum(u * gradient)

    a = log_likelihood.gradient(f)
    s = jax.grad(lambda f: -0.5 * jnp.sum(S * log_likelihood.curvature(f)))(f)
    # d f^ = (I - K R) (dK a + dm + K dg), g the gradient of log p(y | f) at f^.
    u = s - (R @ mul(K, s).ravel()).reshape(s.shape)
    gradient_K = 0.5 * (a[:, :, None] * a[:, None, :] - _diagonal_blocks(R, C))
    gradient_K = computed_once(jnp.where(ok, gradient_K + u[:, :, None] * a[:, None], 0.0))
    gradient_m = jnp.where(ok, a + u, 0.0)
    tangent = jnp.sum(gradient_K * dK) + jnp.sum(gradient_m * dm)

    moving, fixed = eqx.partition(log_likelihood, eqx.is_inexact_array)
    Ku = mul(K, u)
    gradient = jax.grad(lambda x: explicit(f, eqx.combine(x, fixed), Ku))(moving)
    is_moving = jax.tree.map(lambda x: x is not None, moving, is_leaf=lambda x: x is None)
    d_moving = eqx.filter(d_likelihood, is_moving)
    for slope, d in zip(jax.tree.leaves(gradient), jax.tree.leaves(d_moving), strict=True):
        tangent += jnp.sum(jnp.where(ok & jnp.isfinite(slope), slope, 0.0) * d)

    value = log_likelihood.log_density(f) - 0.5 * jnp.sum(a * (f - m)) - 0.5 * logdet
    return jnp.where(ok, value, -jnp.inf), tangent


@jax.custom_jvp
def _solution(K, m, log_likelihood):
    """(f^, R, S, log |I + K W|); the last is inf, and R and S are 0, where it fails."""
    mode = find_mode(K, m, log_likelihood)
    W = log_likelihood.curvature(mode.f)
    R, S, logdet = _inverse(K, W, log_likelihood.concave)
    ok = mode.found & jnp.isfinite(logdet)
    return (
        mode.f,
        jnp.where(ok, R, 0.0),
        jnp.where(ok, S, 0.0),
        jnp.where(ok, logdet, jnp.inf),
    )


@_solution.defjvp
def _solution_jvp(primals, tangents):
    (K, m, log_likelihood), (dK, dm, d_likelihood) = primals, tangents
    C, n = m.shape
    f, R, S, logdet = _solution(K, m, log_likelihood)
    a, dg = jax.jvp(lambda o: o.gradient(f), (log_likelihood,), (d_likelihood,))
    v = mul(dK, a) + dm + mul(K, dg)
    df = v - mul(K, (R @ v.ravel()).reshape(C, n))
    _, dW = jax.jvp(lambda f, o: o.curvature(f), (f, log_likelihood), (df, d_likelihood))
    K, dK = _joined(K), _joined(dK)
    A = jnp.eye(C * n, dtype=K.dtype) - R @ K
    dR = A @ times(dW, A.T) - R @ dK @ R
    covariance = K @ A
    dS = row_blocks(A, dK @ A, C) - row_blocks(covariance, times(dW, covariance), C)
    d_logdet = jnp.sum(R * dK) + jnp.sum(S * dW)
    return (f, R, S, logdet), (df, dR, dS, d_logdet)


def _joined(K):
    return K[0] if K.shape[0] == 1 else block_diag(*K)


def _diagonal_blocks(R, C: int):
    """The C diagonal blocks of R: (C, n, n)."""
    if C == 1:
        return R[None]
    n = R.shape[0] // C
    return jnp.einsum("cicj->cij", R.reshape(C, n, C, n))


def _inverse(K, W, concave):
    """R, S and log |I + K W|, which is not finite where K^-1 + W is not positive definite."""
    if K.shape[0] > 1 or not concave:
        factor = factorizer(K, concave)(W)
        covariance = factor.covariance()
        P = covariance.shape[0]
        WS = times(W, covariance)
        dense = times(W, jnp.eye(P, dtype=K.dtype))
        S = jnp.einsum("cidi->cdi", covariance.reshape(*K.shape[:2], *K.shape[:2]))
        return dense - times(W, WS.T), S, factor.logdet()
    root = jnp.sqrt(W[0, 0])
    inverse, logdet = _inverse_of_B(K, W)
    # B^-1 = I - W^1/2 S W^1/2. Where W is 0 nothing that follows depends on S.
    curved = root > 0.0
    S = (1.0 - jnp.diagonal(inverse)) / jnp.where(curved, W[0, 0], 1.0)
    S = jnp.where(curved, S, jnp.diagonal(K[0]))
    return root[:, None] * inverse * root, S[None, None], logdet


def _inverse_of_B(K, W):
    """B^-1 and log |B| for B = I + W^1/2 K W^1/2, K (1, n, n)."""
    n = K.shape[-1]
    if lapack.is_faster(n):
        shapes = [jax.ShapeDtypeStruct(s, K.dtype) for s in ((n, n), ())]
        root = jnp.sqrt(W[0, 0])
        return jax.pure_callback(_by_lapack, shapes, K[0], root, vmap_method="sequential")
    factor = DiagonalFactor.compute(K, W)
    return cho_solve((factor.L, True), jnp.eye(n, dtype=K.dtype)), factor.logdet()


def _by_lapack(K, root):
    """`_inverse_of_B` for NumPy arrays."""
    K, root = np.asarray(K), np.asarray(root)
    B = root[:, None] * K * root
    B[np.diag_indices(len(K))] += 1.0
    L = lapack.cholesky(B)
    if L is None:
        return np.zeros_like(K), np.array(np.nan, K.dtype)
    logdet = lapack.logdet(L)
    return lapack.inverse(L), np.asarray(logdet, K.dtype)
