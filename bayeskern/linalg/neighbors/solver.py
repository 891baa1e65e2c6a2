"""Vecchia's approximation as a solver: points are conditioned on neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve
from jax.sharding import Mesh
from scipy.spatial import KDTree

from bayeskern.core.cache import ResultCache
from bayeskern.core.sharding import current_mesh
from bayeskern.core.validation import is_traced
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.components import part_of
from bayeskern.linalg.dense import DenseFactor
from bayeskern.linalg.factor import AnyArray, Factor
from bayeskern.linalg.neighbors.conditioning_sets import (
    column_scales,
    maximin_order,
    nearest,
    nearest_before,
)
from bayeskern.linalg.neighbors.factor import (
    BLOCK_NUMBERS,
    NeighborBlocks,
    NeighborsFactor,
    conditional,
    log_density,
)
from bayeskern.linalg.solver import Cost, Fits, Noise, NoisyGram, Refused, Solver, difference

# Cache of the latest search trees: new points arrive in chunks.
_trees = ResultCache(4)
# Predictions use this multiple of `m` neighbours, because each is computed only once. In five
# dimensions it more than halves the loss of the approximation.
NEW_POINT_RATIO = 4


class NeighborsSolver(Solver):
    """Vecchia's approximation: each point is conditioned on its nearest neighbours.

    It takes O(n m^3) operations for any kernel, stationary or not, and any inputs. `error_estimate`
    quantifies the loss. Unobserved rows can be neighbours of rows of X, but not of new points.

    Attributes:
        m: Number of neighbours.
        scale: Divisors of the columns of X for distances, shape (d,).
        order: Order of the rows, shape (n,); each row is conditioned on preceding rows.
        neighbors: Nearest preceding rows of each row, shape (n, m), padded with the row's own
            number.
        mesh: Devices over which the log density is divided; None for a single device.
    """

    m: int = eqx.field(static=True, default=30)
    scale: jax.Array | None = None
    order: jax.Array | None = None
    neighbors: jax.Array | None = None
    mesh: Mesh | None = eqx.field(static=True, default=None)

    name = "neighbors"
    approximate = True

    def applicability(
        self, kernel: Kernel, X, noise: Noise = 0.0, observed: AnyArray | None = None
    ) -> Fits | Refused:
        if not kernel.is_of_points:
            return Refused("rows that are means or derivatives have no nearest points")
        if self.neighbors is None and is_traced(X):
            return Refused(
                "the search for neighbours needs known inputs, and JAX traces these inputs. "
                "GPRegression prepares the solver itself; for GaussianProcess prepare it outside "
                "of the model, bayeskern.linalg.solver_of(kernel, X, 'neighbors'), and pass it as "
                "solver"
            )
        n, m = X.shape[0], min(self.m, X.shape[0])
        # Operations: for each point, m x m factorisations and solutions, and the covariances of the
        # neighbours with their derivatives. Memory: the row numbers, and the arrays of one block.
        operations = n * (m**3 + 200.0 * m**2)
        return Fits(Cost(operations, 8.0 * (1.5 * n * m + 10.0 * max(BLOCK_NUMBERS, m**2))))

    def prepare(self, kernel: Kernel, X) -> NeighborsSolver:
        X = np.asarray(X)
        scale = column_scales(kernel, X)
        order = maximin_order(X / scale)
        _, before = nearest_before(X[order] / scale, max(1, min(self.m, len(X) - 1)))
        neighbors = np.empty(before.shape, np.int32)
        neighbors[order] = order[before]
        return NeighborsSolver(
            self.m,
            jnp.asarray(scale),
            jnp.asarray(order.astype(np.int32)),
            jnp.asarray(neighbors),
            current_mesh(),
        )

    def factor(self, C: NoisyGram) -> NeighborsFactor:
        _, order, neighbors = self._prepared_for(C.X)
        return NeighborsFactor.compute(C, neighbors, order)

    def mean(
        self, C: NoisyGram, part: str | None, factor: Factor | None, r, weights, X_new
    ) -> jax.Array:
        rows, b, _ = self._given_nearest(C, part, X_new)
        return jnp.sum(b * jnp.asarray(r)[rows], axis=1)

    def variance(self, C: NoisyGram, part: str | None, factor: Factor | None, X_new) -> jax.Array:
        return self._given_nearest(C, part, X_new)[2]

    def covariance(self, C: NoisyGram, part: str | None, factor: Factor | None, X_new) -> jax.Array:
        # The covariance matrix of the errors f_i - b_i'y_N(i) of new points i with neighbours N(i),
        # k_ij - b_i'k(N(i), j) - k(i, N(j)) b_j + b_i'C(N(i), N(j)) b_j. It is positive
        # semidefinite for any neighbours, and has the diagonal of `variance`.
        rows, b, _ = self._given_nearest(C, part, X_new)
        kernel, target, X = C.kernel, part_of(C.kernel, part), C.X
        neighbors = X[rows.ravel()]
        # Variance of the noise and of white noise in the kernel, which rows do not share.
        smooth = jax.vmap(lambda x: kernel.evaluate(x[None], x[None])[0, 0])(neighbors)
        noise = kernel.evaluate_diag(neighbors) - smooth + C.noise_of_rows()[rows.ravel()]

        def of_point(point):
            b_i, rows_i = point
            C_i = kernel.evaluate(X[rows_i], neighbors)
            C_i = C_i + jnp.where(rows_i[:, None] == rows.ravel(), noise, 0.0)
            explained = jnp.sum((b_i @ C_i).reshape(rows.shape) * b, axis=1)
            return explained, b_i @ target.evaluate(X[rows_i], X_new)

        explained, cross = jax.lax.map(of_point, (b, rows))
        return target.evaluate(X_new) - cross - cross.T + explained

    def multiply(self, C: NoisyGram, b: AnyArray) -> jax.Array:
        # Uses the approximate matrix; k(X) + noise I would take n^2 operations.
        factor = self.factor(C)
        return factor.sqrt_mul(factor.sqrt_transpose_mul(b))

    def log_density(self, C: NoisyGram, R: AnyArray) -> jax.Array:
        blocks = NeighborBlocks.of(self._prepared_for(C.X)[2], C.observed)
        density = partial(log_density, C.kernel, C.X, C.noise, blocks=blocks, mesh=self.mesh)
        return jnp.vectorize(density, signature="(n)->()")(R)

    def error_estimate(self, C: NoisyGram) -> float:
        # The Kullback-Leibler divergence of the approximation is sum_i 1/2 log(d_i / s_i), with
        # d_i the variance of y_i given its neighbours, and s_i the variance given all preceding
        # rows, a pivot of the dense matrix.
        scale, order, neighbors = self._prepared_for(C.X)
        X, noise = C.X, C.noise_of_rows()
        observed = np.ones(len(X), bool) if C.observed is None else np.asarray(C.observed)

        def of_point(at_rows, is_used):
            X, noise = at_rows
            return conditional(C.kernel, X, noise, is_used)[1]

        rows, pivots = [], []
        for patch, inner in _patches(np.asarray(X / scale), np.asarray(order)):
            rows.append(patch[inner])
            C_patch = NoisyGram(C.kernel, X[patch], noise[patch], jnp.asarray(observed[patch]))
            pivots.append(_pivots(C_patch)[inner])
        rows = np.concatenate(rows)
        d = NeighborBlocks.of(neighbors[rows], observed, rows).map(of_point, (X, noise))
        losses = 0.5 * jnp.log(d / jnp.concatenate(pivots))[observed[rows]]
        return float(jnp.mean(losses)) if len(losses) else 0.0

    def _prepared_for(self, X) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Scale, order and neighbours; raises ValueError if X has another number of points."""
        scale, order, neighbors = self.scale, self.order, self.neighbors
        if scale is None or order is None or neighbors is None or len(order) != X.shape[0]:
            raise ValueError(
                f"the solver does not know the neighbours of these {X.shape[0]:,} points; prepare "
                "it with solver.prepare(kernel, X)."
            )
        return scale, order, neighbors

    def _given_nearest(self, C: NoisyGram, part: str | None, X_new):
        """Condition each new point on y at its k nearest observed points.

        Returns:
            Rows of the nearest points and weights b of their y, both (n_new, k), and the
            conditional variance of f, or of its component, (n_new,).
        """
        X, observed = jnp.asarray(C.X), None if C.observed is None else jnp.asarray(C.observed)
        rows = self._nearest(X, X_new, observed)
        target, noise = part_of(C.kernel, part), C.noise_of_rows()

        def of_point(point):
            x, rows = point
            is_used = jnp.ones(rows.shape, bool) if observed is None else observed[rows]
            among = NoisyGram(C.kernel, X[rows], noise[rows], is_used).dense()
            c = jnp.where(is_used, target.evaluate(X[rows], x[None])[:, 0], 0.0)
            b = solve(among, c, assume_a="pos")
            return b, difference(target.evaluate_diag(x[None])[0], c @ b)

        size = max(1, BLOCK_NUMBERS // rows.shape[1] ** 2)
        return rows, *jax.lax.map(of_point, (X_new, rows), batch_size=min(size, len(X_new)))

    def _nearest(self, X, X_new, observed) -> jax.Array:
        """Rows of the k observed points nearest to each new point: (n_new, k).

        A callback, because JAX has no search trees, which are much faster than all distances.
        """
        scale, *_ = self._prepared_for(X)
        is_used = jnp.ones(X.shape[0], bool) if observed is None else observed
        k = min(NEW_POINT_RATIO * self.m, X.shape[0])
        rows = jax.ShapeDtypeStruct((X_new.shape[0], k), jnp.int32)
        scaled = jax.lax.stop_gradient((X / scale, X_new / scale))
        return jax.pure_callback(
            partial(_look_up, k), rows, *scaled, is_used, vmap_method="sequential"
        )


def _look_up(k: int, X, X_new, is_used) -> np.ndarray:
    """`NeighborsSolver._nearest` for NumPy arrays of scaled points."""
    X, X_new, is_used = map(np.asarray, (X, X_new, is_used))
    used_rows = np.flatnonzero(is_used)
    if len(used_rows) == 0:
        return np.zeros((len(X_new), k), np.int32)
    tree = _trees.recall((X.tobytes(), is_used.tobytes()), lambda: KDTree(X[used_rows]))
    _, closest = nearest(tree, X_new, k)
    # If fewer than k rows are observed, pad with an unobserved row.
    rest = np.full((len(X_new), k - closest.shape[1]), np.argmin(is_used))
    return np.concatenate([used_rows[closest], rest], axis=1).astype(np.int32)


@eqx.filter_jit
def _pivots(C: NoisyGram) -> jax.Array:
    """Variance of each value given all preceding rows; NaN if there is no Cholesky factor."""
    return jnp.square(jnp.diagonal(DenseFactor.compute(C.dense()).L))


# Number of patches, and of nearby points in a patch, from whose dense matrix the loss is estimated.
PATCHES, PATCH_SIZE = 4, 2_000


def _patches(X: np.ndarray, order: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Patches of nearby points: rows sorted by `order`, and indices of their central points.

    A single patch of all points if they are few. X: scaled, (n, d).
    """
    position = np.argsort(order)
    if len(X) <= PATCH_SIZE:
        yield order, np.arange(len(X))
        return
    tree = KDTree(X)
    for center in np.random.default_rng(0).choice(len(X), PATCHES, replace=False):
        _, closest = nearest(tree, X[center], PATCH_SIZE)
        sorting = np.argsort(position[closest])
        # `closest` is sorted by distance: its first tenth are the central points.
        yield closest[sorting], np.flatnonzero(sorting < PATCH_SIZE // 10)
