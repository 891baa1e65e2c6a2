"""Conditioning sets of Vecchia's approximation: order, nearest predecessors.

In maximin order each point is as far as possible from its predecessors: the first points are spread
over the whole region, and later points fill the gaps. Guinness (2018), "Permutation and grouping
methods for sharpening Gaussian process approximations", sections 3 and 4. The functions take NumPy
arrays and are deterministic.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.spatial import KDTree

from bayeskern.core.validation import is_traced
from bayeskern.kernels.base import Kernel

# Columns are divided by the distance at which the correlation has fallen to this value.
SCALE_CORRELATION = 0.9


def column_scales(kernel: Kernel, X: np.ndarray) -> np.ndarray:
    """Divisors (d,) of the columns, so that strongly correlated points are close.

    The divisor of a column is the distance at which the correlation with the median point has
    fallen to 0.9; if a hyperparameter is unknown, the sd of the column. The divisor of a column
    that the kernel ignores is infinite.

    Args:
        kernel: The kernel; a hyperparameter that is NaN or traced is unknown.
        X: Inputs, (n, d).
    """
    sds = X.std(axis=0)
    sds = np.where(sds > 0.0, sds, np.inf)
    numbers, rest = eqx.partition(kernel, eqx.is_inexact_array)
    is_known = all(not is_traced(x) and np.all(np.isfinite(x)) for x in jax.tree.leaves(numbers))
    # Evaluate the kernel now, even under `jit`.
    with jax.ensure_compile_time_eval():
        if is_known:
            scales = [_correlation_length(kernel, X, i, sd) for i, sd in enumerate(sds)]
        else:
            # Hyperparameters of 1: the columns that the kernel uses do not depend on the values.
            kernel = eqx.combine(jax.tree.map(lambda x: np.ones(x.shape), numbers), rest)
            scales = np.where([_uses(kernel, X, i) for i in range(len(sds))], sds, np.inf)
    return np.asarray(scales) if np.any(np.isfinite(scales)) else sds


def _correlation_length(kernel: Kernel, X, column: int, sd: float) -> float:
    """Distance along a column at which the correlation with the median point has fallen to 0.9."""
    if not np.isfinite(sd):
        return np.inf
    middle, distances = np.median(X, axis=0), sd * np.geomspace(1e-4, 1e3, 500)
    points = np.tile(middle, (len(distances), 1))
    points[:, column] += distances
    middle = jnp.asarray(middle[None])
    covariances = np.asarray(kernel.evaluate(middle, jnp.asarray(points)))[0]
    # k(x, x), not k(x): the variance without white noise.
    variance = np.asarray(kernel.evaluate(middle, middle))[0, 0]
    has_fallen = covariances < SCALE_CORRELATION * variance
    return float(distances[np.argmax(has_fallen)]) if has_fallen.any() else np.inf


def _uses(kernel: Kernel, X, column: int) -> bool:
    """True if the kernel depends on a column."""
    point = X[:1].copy()
    point[0, column] = np.nan
    return bool(np.isnan(np.asarray(kernel.evaluate(jnp.asarray(point), jnp.asarray(X[:1])))[0, 0]))


def maximin_order(X: np.ndarray) -> np.ndarray:
    """Approximate maximin order (n,) of the rows of scaled X (n, d).

    A random order is sorted twice by the distance to the nearest predecessor, largest first; more
    rounds do not improve it.
    """
    order = np.random.default_rng(0).permutation(len(X))
    for _ in range(2):
        distances, _ = nearest_before(X[order], 1)
        order = order[np.argsort(-distances[:, 0], kind="stable")]
    return order


def nearest_before(X: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray]:
    """The m nearest predecessors of each point, nearest first.

    Args:
        X: Scaled points in order, (n, d).
        m: Number of predecessors.

    Returns:
        Distances and rows, both (n, m). If a point has fewer than m predecessors, the remaining
        distances are infinite and the remaining rows are its own.
    """
    n = len(X)
    distances, closest = np.full((n, m), np.inf), np.tile(np.arange(n)[:, None], m)
    stop = 0
    while stop < n:
        # Each tree holds the points up to `stop`, and is searched for about its last fifth.
        start, stop = stop, min(n, max(stop + 2 * m, int(1.25 * stop)))
        tree, rows, k = KDTree(X[:stop]), np.arange(start, stop), 2 + m + m // 2
        while len(rows):
            lengths, candidates = nearest(tree, X[rows], k)
            is_before = candidates < rows[:, None]
            complete = is_before.sum(axis=1) >= np.minimum(rows, m)
            # A stable sort puts predecessors first, still sorted by distance.
            chosen = np.argsort(~is_before[complete], axis=1, kind="stable")[:, :m]
            is_before, lengths, candidates = (
                np.take_along_axis(values[complete], chosen, axis=1)
                for values in (is_before, lengths, candidates)
            )
            own, places = rows[complete], slice(0, chosen.shape[1])
            distances[own, places] = np.where(is_before, lengths, np.inf)
            closest[own, places] = np.where(is_before, candidates, own[:, None])
            rows, k = rows[~complete], 2 * k
    return distances, closest


def nearest(tree: KDTree, points: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Distances and rows, (n_points, m), of the m nearest points of a tree, or of all."""
    distances, rows = tree.query(points, [*range(1, min(m, tree.n) + 1)], workers=-1)  # pyright: ignore[reportArgumentType]
    return np.asarray(distances), np.asarray(rows)
