"""Means of kernels over pairs of intervals by Gauss-Legendre quadrature.

All intervals lie along one column. The kernel may have a kink at x = z only. The inner integral,
over z, is divided at the point closest to x. The outer integral, over x, is divided at the points
closest to the ends of the interval of z.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce

import jax
import jax.numpy as jnp

from bayeskern.core.quadrature import unit_nodes
from bayeskern.kernels.function import CovarianceFunction
from bayeskern.kernels.means.boxes import Boxes
from bayeskern.kernels.means.lags import mean_by_quadrature


def mean_of_kernel(kernel: CovarianceFunction, X: Boxes, Z: Boxes) -> jax.Array:
    """Means of a kernel over pairs of intervals: (n, m).

    Args:
        kernel: The kernel.
        X: n boxes with sides along one column.
        Z: m boxes with sides along the same column.

    Raises:
        ValueError: There are sides along several columns.
    """
    column = _only_column(kernel, X)
    is_of_lag = all(getattr(node, "depends_on_lag", False) for node in kernel.nodes())
    mean = _mean_over_lags if is_of_lag else _mean_over_pairs
    return mean(kernel.evaluate, column, X, Z)


def mean_of_features(kernel: CovarianceFunction, X: Boxes) -> jax.Array:
    """Means of features of a kernel over boxes with sides along one column: (n, m)."""
    if not X.columns:
        return kernel.features(X.lower, None)
    column = _only_column(kernel, X)
    step = jnp.zeros(X.d).at[column].set(1.0) * X.sides
    u, w = unit_nodes(X.nodes)
    weighted = (b * kernel.features(X.lower + a * step, None) for a, b in zip(u, w, strict=True))
    return reduce(operator.add, weighted)


def _only_column(kernel: CovarianceFunction, X: Boxes) -> int:
    if len(X.columns) > 1:
        raise ValueError(
            f"{kernel!r} is not a product of kernels of single columns, so it has no means over "
            f"boxes with sides in the columns {list(X.columns)}. Use intervals along one column, "
            "or a product of kernels, k1.on([0]) * k2.on([1])."
        )
    return max(X.columns)


def _mean_over_lags(evaluate: Callable, column: int, X: Boxes, Z: Boxes) -> jax.Array:
    """Means of a kernel that depends on x - z alone."""
    lag = X.lower[:, None, :] - Z.lower[None, :, :]
    origin, shape = jnp.zeros((1, X.d)), lag.shape[:2]

    def k(r):
        points = lag.at[:, :, column].set(r).reshape(-1, X.d)
        return evaluate(points, origin).reshape(shape)

    h, g = X.sides[:, None, column], Z.sides[None, :, column]
    return mean_by_quadrature(k, lag[:, :, column] - g, h, g, X.nodes)


def _mean_over_pairs(evaluate: Callable, column: int, X: Boxes, Z: Boxes) -> jax.Array:
    """Means of any kernel."""
    n, m = len(X.lower), len(Z.lower)
    a, h = X.lower[:, None, column], X.sides[:, None, column]
    c, g = Z.lower[None, :, column], Z.sides[None, :, column]
    safe_h, safe_g = jnp.where(h > 0.0, h, 1.0), jnp.where(g > 0.0, g, 1.0)
    cuts = [jnp.zeros((n, m)), *(jnp.clip((z - a) / safe_h, 0.0, 1.0) for z in (c, c + g)), 1.0]
    u, w = unit_nodes(X.nodes)
    at_x = jnp.broadcast_to(X.lower[:, None], (n, m, X.d))
    at_z = jnp.broadcast_to(Z.lower[None], (n, m, X.d))
    of_pair = jax.vmap(lambda x, z: evaluate(x[None], z[None])[0, 0])

    def k(x, z):
        """k at n x m pairs, whose points have the coordinates x and z along the column."""
        xs, zs = at_x.at[:, :, column].set(x), at_z.at[:, :, column].set(z)
        return of_pair(xs.reshape(-1, X.d), zs.reshape(-1, X.d)).reshape(n, m)

    @jax.checkpoint
    def add(total, node):
        # Indices of the outer piece, and of the outer and inner nodes.
        piece, i, j = node
        start = jnp.take(stops, piece, axis=0)
        width = jnp.take(stops, piece + 1, axis=0) - start
        x = a + h * (start + width * u[i])
        kink = jnp.clip((x - c) / safe_g, 0.0, 1.0)
        below, above = kink * u[j], kink + (1.0 - kink) * u[j]
        inner = kink * k(x, c + g * below) + (1.0 - kink) * k(x, c + g * above)
        return total + w[i] * w[j] * width * inner, None

    stops = jnp.stack([jnp.broadcast_to(cut, (n, m)) for cut in cuts])
    index = jnp.meshgrid(jnp.arange(3), jnp.arange(len(u)), jnp.arange(len(u)), indexing="ij")
    total, _ = jax.lax.scan(add, jnp.zeros((n, m)), tuple(i.ravel() for i in index))
    return total
