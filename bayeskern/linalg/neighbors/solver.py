"""Solver by Vecchia's approximation: points are conditioned on neighbours."""

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

from bayeskern.core.memory import Memory
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
from bayeskern.linalg.solver import Cost, Fits, Noise, NoisyGram, Refused, Solver

# Search trees of the last inputs, since new points come chunk after chunk.
_trees = Memory(4)
# New points get this multiple of the neighbours of old ones, since each is computed only once. In
# five dimensions that halves the loss of the approximation, and more.
NEW_POINT_NEIGHBORS_RATIO = 4
# The loss of the approximation is estimated from dense matrices of patches of points close to one
# another: the size of a patch, and the number of patches.
PATCH_SIZE, PATCHES = 2000, 4


class NeighborsSolver(Solver):
    """Vecchia's approximation: each point is conditioned on its nearest neighbours.

    It takes n m^3 operations, for any inputs. Any kernel has such an approximation, stationary or
    not; `error_estimate` quantifies its loss. Rows that are not observed can be neighbours of old
    points, but not of new ones.

    Attributes:
        m: Number of neighbours.
        scale: Divisors of the columns of X for distances, shape (d,).
        order: Order of the rows; each is conditioned on rows that precede it, shape (n,).
        neighbors: Nearest preceding rows of each row, shape (n, m). A row's own number fills the
            places that are left.
        mesh: Devices that the log density is shared out over, or None for one.
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
        if self.neighbors is None and is_traced(X):
            return Refused(
                "the search for neighbours needs known inputs, and these are being traced by JAX. "
                "GPRegression searches by itself; for GaussianProcess prepare the solver "
                "beforehand, bayeskern.linalg.solver_of(kernel, X, 'neighbors'), and pass it as "
                "solver"
            )
        n, m = X.shape[0], min(self.m, X.shape[0])
        # Factors and solutions of the neighbours of each point, and their covariances with their
        # derivative; the rows, and the arrays of one block.
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

    def mean(self, C: NoisyGram, part: str | None, r, weights, X_new) -> jax.Array:
        rows, b, _ = self._given_nearest(C, part, X_new)
        return jnp.sum(b * jnp.asarray(r)[rows], axis=1)

    def variance(self, C: NoisyGram, part: str | None, factor: Factor | None, X_new) -> jax.Array:
        return self._given_nearest(C, part, X_new)[2]

    def covariance(self, C: NoisyGram, part: str | None, factor: Factor | None, X_new) -> jax.Array:
        # The covariance of the errors f_i - b_i'y_N(i), each with its own neighbours. Its diagonal
        # is that of `variance`, and it is a covariance matrix for any neighbours.
        rows, b, _ = self._given_nearest(C, part, X_new)
        kernel, target, X = C.kernel, part_of(C.kernel, part), C.X
        neighbors = X[rows.ravel()]
        # The part of y that a second point at the same inputs does not share.
        shared = jax.vmap(lambda x: kernel.evaluate(x[None], x[None])[0, 0])(neighbors)
        own = kernel.evaluate_diag(neighbors) - shared + C.noise_of_rows()[rows.ravel()]

        def of_point(point):
            b_i, rows_i = point
            among = kernel.evaluate(X[rows_i], neighbors)
            among = among + jnp.where(rows_i[:, None] == rows.ravel(), own, 0.0)
            weighted = jnp.sum((b_i @ among).reshape(rows.shape) * b, axis=1)
            return weighted, b_i @ target.evaluate(X[rows_i], X_new)

        among, cross = jax.lax.map(of_point, (b, rows))
        return target.evaluate(X_new) - cross - cross.T + among

    def multiply(self, C: NoisyGram, b: AnyArray) -> jax.Array:
        # With the approximate matrix; k(X) + noise I would take n^2 operations.
        factor = self.factor(C)
        return factor.sqrt_mul(factor.sqrt_transpose_mul(b))

    def log_density(self, C: NoisyGram, R: AnyArray) -> jax.Array:
        blocks = NeighborBlocks.of(self._prepared_for(C.X)[2], C.observed)
        density = partial(log_density, C.kernel, C.X, C.noise, blocks=blocks, mesh=self.mesh)
        return jnp.vectorize(density, signature="(n)->()")(R)

    def error_estimate(self, C: NoisyGram) -> float:
        # The Kullback-Leibler divergence of the approximation is the sum of 1/2 log d_i / s_i, with
        # s_i the variance of y_i given all rows before it: a pivot of the dense matrix.
        scale, order, neighbors = self._prepared_for(C.X)
        X, noise = C.X, C.noise_of_rows()
        observed = np.ones(len(X), bool) if C.observed is None else np.asarray(C.observed)

        def of_point(at_rows, counts):
            X, noise = at_rows
            return conditional(C.kernel, X, noise, counts)[1]

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
        """Scale, order and neighbours, if they are those of inputs like X."""
        scale, order, neighbors = self.scale, self.order, self.neighbors
        if scale is None or order is None or neighbors is None or len(order) != X.shape[0]:
            raise ValueError(
                f"the solver does not know the neighbors of these {X.shape[0]:,} points: prepare "
                "it for the inputs, solver.prepare(kernel, X)."
            )
        return scale, order, neighbors

    def _given_nearest(self, C: NoisyGram, part: str | None, X_new):
        """Each new point conditioned on y at the k points nearest to it.

        Returns:
            The rows of these points and the weights b of y there, both (n_new, k), and the variance
            of f, or of its component, (n_new,).
        """
        X, observed = jnp.asarray(C.X), None if C.observed is None else jnp.asarray(C.observed)
        rows = self._nearest(X, X_new, observed)
        target, noise = part_of(C.kernel, part), C.noise_of_rows()

        def of_point(point):
            x, rows = point
            counts = jnp.ones(rows.shape, bool) if observed is None else observed[rows]
            among = NoisyGram(C.kernel, X[rows], noise[rows], counts).dense()
            c = jnp.where(counts, target.evaluate(X[rows], x[None])[:, 0], 0.0)
            b = solve(among, c, assume_a="pos")
            return b, target.evaluate_diag(x[None])[0] - c @ b

        size = max(1, BLOCK_NUMBERS // rows.shape[1] ** 2)
        return rows, *jax.lax.map(of_point, (X_new, rows), batch_size=min(size, len(X_new)))

    def _nearest(self, X, X_new, observed) -> jax.Array:
        """Rows of the k observed points nearest to each new point: (n_new, k).

        A tree finds them in a fraction of the time that all distances would take, but outside of
        JAX.
        """
        scale, *_ = self._prepared_for(X)
        counts = jnp.ones(X.shape[0], bool) if observed is None else observed
        k = min(NEW_POINT_NEIGHBORS_RATIO * self.m, X.shape[0])
        rows = jax.ShapeDtypeStruct((X_new.shape[0], k), jnp.int32)
        scaled = jax.lax.stop_gradient((X / scale, X_new / scale))
        return jax.pure_callback(
            partial(_look_up, k), rows, *scaled, counts, vmap_method="sequential"
        )


def _look_up(k: int, X, X_new, counts) -> np.ndarray:
    """`NeighborsSolver._nearest` for NumPy arrays of scaled points."""
    X, X_new, counts = map(np.asarray, (X, X_new, counts))
    counted = np.flatnonzero(counts)
    if len(counted) == 0:
        return np.zeros((len(X_new), k), np.int32)
    tree = _trees.recall((X.tobytes(), counts.tobytes()), lambda: KDTree(X[counted]))
    _, closest = nearest(tree, X_new, k)
    # Where fewer than k rows count, a row that does not count fills the rest.
    rest = np.full((len(X_new), k - closest.shape[1]), np.argmin(counts))
    return np.concatenate([counted[closest], rest], axis=1).astype(np.int32)


@eqx.filter_jit
def _pivots(C: NoisyGram) -> jax.Array:
    """Variance of each value given all rows before it; NaN where there is no Cholesky factor."""
    return jnp.square(jnp.diagonal(DenseFactor.compute(C.dense()).L))


def _patches(X: np.ndarray, order: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Patches of points close to one another, in order, and the places of their central points.

    One patch of all points, if they are few. X: scaled, (n, d).
    """
    place = np.argsort(order)
    if len(X) <= PATCH_SIZE:
        yield order, np.arange(len(X))
        return
    tree = KDTree(X)
    for center in np.random.default_rng(0).choice(len(X), PATCHES, replace=False):
        _, closest = nearest(tree, X[center], PATCH_SIZE)
        in_order = np.argsort(place[closest])
        yield closest[in_order], np.flatnonzero(in_order < PATCH_SIZE // 10)
