"""On which of the points before it each point is conditioned: an order, and the nearest before.

In maximin order each point is as far as can be from those before it, so that the first ones are
spread over the whole and the later ones fill the gaps. Guinness (2018), "Permutation and grouping
methods for sharpening Gaussian process approximations", sections 3 and 4. All of this is for inputs
that are known numbers, in NumPy and deterministic.
"""

from __future__ import annotations

import equinox as eqx
import jax
import numpy as np
from scipy.spatial import KDTree

from bayeskern.core.validation import is_traced

# A random order becomes about maximin in this many rounds; more of them change nothing.
ROUNDS = 2
# A tree holds the points before those that are looked up in it, and these, a quarter of all.
GROWTH = 1.25
# Columns are compared by the distances at which the correlation has fallen to this.
CORRELATION = 0.9


def column_scales(kernel, X: np.ndarray) -> np.ndarray:
    """What the columns are divided by, so that points are near if they are correlated: (d,).

    That is the distance along a column at which the correlation with the middle of the points has
    fallen to 0.9; while a hyperparameter is not known, the column's sd. A column that the kernel
    takes no notice of has an infinite scale.

    Args:
        kernel: The kernel; a hyperparameter that is NaN or traced is not known.
        X: Inputs, (n, d).
    """
    sds = X.std(axis=0)
    sds = np.where(sds > 0.0, sds, np.inf)
    numbers, rest = eqx.partition(kernel, eqx.is_inexact_array)
    is_known = all(not is_traced(x) and np.all(np.isfinite(x)) for x in jax.tree.leaves(numbers))
    # Under jit, too, the kernel is evaluated here and now.
    with jax.ensure_compile_time_eval():
        if is_known:
            found = np.array([_reach(kernel, X, column, sd) for column, sd in enumerate(sds)])
        else:
            # Which values they have does not matter to which columns are looked at.
            kernel = eqx.combine(jax.tree.map(lambda x: np.ones(x.shape), numbers), rest)
            found = np.where([_sees(kernel, X, column) for column in range(len(sds))], sds, np.inf)
    return found if np.any(np.isfinite(found)) else sds


def _reach(kernel, X, column: int, sd: float) -> float:
    """How far the correlation with the middle of the points reaches along a column."""
    if not np.isfinite(sd):
        return np.inf
    middle, distances = np.median(X, axis=0), sd * np.geomspace(1e-4, 1e3, 500)
    along = np.tile(middle, (len(distances), 1))
    along[:, column] += distances
    covariances = np.asarray(kernel.evaluate(middle[None], along))[0]
    # Between points, so that the variance has no part that each point has of its own.
    variance = np.asarray(kernel.evaluate(middle[None], middle[None]))[0, 0]
    has_fallen = covariances < CORRELATION * variance
    return float(distances[np.argmax(has_fallen)]) if has_fallen.any() else np.inf


def _sees(kernel, X, column: int) -> bool:
    """Whether the kernel takes notice of a column."""
    point = X[:1].copy()
    point[0, column] = np.nan
    return bool(np.isnan(np.asarray(kernel.evaluate(point, X[:1]))[0, 0]))


def maximin_order(X: np.ndarray) -> np.ndarray:
    """The rows of X, scaled (n, d), in an order that is about maximin: (n,).

    A random order is sorted by the distances to the nearest point before, and so again.
    """
    order = np.random.default_rng(0).permutation(len(X))
    for _ in range(ROUNDS):
        distances, _ = nearest_before(X[order], 1)
        order = order[np.argsort(-distances[:, 0], kind="stable")]
    return order


def nearest_before(X: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray]:
    """The m nearest of the points before each point, nearest first: distances and rows, (n, m).

    Where there are fewer before, the distances left are infinite and the rows its own.

    Args:
        X: Points in order, scaled, (n, d).
        m: How many.
    """
    n = len(X)
    distances, near = np.full((n, m), np.inf), np.tile(np.arange(n)[:, None], m)
    stop = 0
    while stop < n:
        start, stop = stop, min(n, max(stop + 2 * m, int(GROWTH * stop)))
        tree, rows, k = KDTree(X[:stop]), np.arange(start, stop), 2 + m + m // 2
        while len(rows):
            found, at = nearest(tree, X[rows], k)
            is_before = at < rows[:, None]
            done = is_before.sum(axis=1) >= np.minimum(rows, m)
            # Those before come first, in the order of their distances.
            chosen = np.argsort(~is_before[done], axis=1, kind="stable")[:, :m]
            is_before, found, at = (
                np.take_along_axis(values[done], chosen, axis=1)
                for values in (is_before, found, at)
            )
            distances[rows[done], : chosen.shape[1]] = np.where(is_before, found, np.inf)
            near[rows[done], : chosen.shape[1]] = np.where(is_before, at, rows[done, None])
            rows, k = rows[~done], 2 * k
    return distances, near


def nearest(tree: KDTree, points: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray]:
    """The m nearest points of a tree, or all if it has fewer: distances and rows, (n_points, m)."""
    return tree.query(points, np.arange(1, min(m, tree.n) + 1), workers=-1)
