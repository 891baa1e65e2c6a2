"""Log integral of a Gaussian function of all effects, with its gradient in closed form.

    log integral exp(h'u - 1/2 u'Hu) du / (2 pi)^(k / 2) = 1/2 h'H^-1 h - 1/2 log |H|

With u ~ N(H^-1 h, H^-1), its derivatives are E[u] with respect to h and -1/2 E[uu'] with respect to
H. Only the blocks of E[uu'] that H has are computed, and no factor is differentiated.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.linalg import cho_solve

from bayeskern.formula.field import Blocks, Effects, Precision, solve_blocks


@jax.custom_vjp
def log_integral(blocks: Blocks, h: Effects) -> Array:
    """Log integral of exp(h'u - 1/2 u'Hu) over all effects u, without the constant.

    Args:
        blocks: The precision H.
        h: Coefficients of u.
    """
    return _forward(blocks, h)[0]


def _forward(blocks: Blocks, h: Effects) -> tuple[Array, tuple[Precision, Effects]]:
    precision = Precision.of(blocks, jax.tree.map(jnp.zeros_like, h))
    whitened = precision.whiten(h)
    square = sum(jnp.sum(jnp.square(part)) for part in whitened)
    return 0.5 * (square - precision.logdet()), (precision, precision.unwhiten(whitened))


def _backward(residuals: tuple[Precision, Effects], cotangent: Array) -> tuple[Blocks, Effects]:
    precision, mean = residuals
    x, rest = precision.join(mean)
    S = cho_solve((precision.M, True), jnp.eye(len(precision.M)))
    identity = jnp.broadcast_to(jnp.eye(x.shape[1]), precision.L.shape)
    inverse = solve_blocks(precision.L, solve_blocks(precision.L, identity), trans=1)
    # W = L'^-1 U, so that cov(u_A, u_R) = -W S and cov(u_A) = (LL')^-1 + W S W'.
    W, cross, k = solve_blocks(precision.L, precision.U, trans=1), precision.cross, 0
    entries = None
    if cross is None or precision.u is None:
        covariances = -W @ S
        AA = inverse - covariances @ jnp.swapaxes(W, 1, 2)
        products = x[:, :, None] * rest
    else:
        k = W.shape[-1]
        w = precision.u / precision.L[cross.group, 0, 0]
        columns = cross.column + k
        sums = jax.ops.segment_sum(w[:, None] * S[columns, :k], cross.group, len(x))
        covariances = -W @ S[:k, :k] - sums[:, None]
        by_dense = jnp.sum(W[cross.group, 0] * S[columns, :k], axis=1)
        of_entries = -by_dense - cross.times(S[k:, k:], w)
        shares = jax.ops.segment_sum(of_entries * w, cross.group, len(x))
        AA = inverse - covariances @ jnp.swapaxes(W, 1, 2) - shares[:, None, None]
        products = x[:, :, None] * rest[:k]
        entries = -cotangent * (of_entries + x[cross.group, 0] * rest[columns])
    AA = AA + x[:, :, None] * x[:, None, :]
    gradient = Blocks(
        -0.5 * cotangent * AA,
        -cotangent * (covariances + products),
        entries,
        -0.5 * cotangent * (S + jnp.outer(rest, rest)),
        None,
    )
    return gradient, jax.tree.map(lambda u: cotangent * u, mean)


log_integral.defvjp(_forward, _backward)
