"""The solver that conditions on neighbours: what it knows of its inputs, and prediction with it."""

from __future__ import annotations

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve
from jax.sharding import Mesh
from scipy.spatial import cKDTree

from bayeskern.core.memory import Memory
from bayeskern.core.sharding import current_mesh
from bayeskern.core.validation import is_traced
from bayeskern.kernels.components import part_of
from bayeskern.linalg.dense import DenseFactor, covariance
from bayeskern.linalg.factor import Cost, Solver
from bayeskern.linalg.neighbors.conditioning_sets import (
    column_scales,
    maximin_order,
    nearest,
    nearest_before,
)
from bayeskern.linalg.neighbors.factor import (
    BLOCK,
    NeighborBlocks,
    NeighborsFactor,
    conditional,
    log_density,
)

# The trees in which the neighbours of new points are looked up, chunk after chunk of them.
TREES = Memory(4)
# New points are given so many times the neighbours, since each is looked at but once. In five
# dimensions that halves what is lost to the approximation, and more.
WIDER = 4
# What is lost to the approximation is seen from dense matrices of so many points near one another,
# in so many places.
PATCH, PATCHES = 2000, 4


class NeighborsSolver(Solver):
    """Each point is conditioned on its nearest neighbours: n m^3 operations, any inputs.

    Any kernel has such an approximation, stationary or not; `loss` says how near it is. Rows that
    are not observed take places among the neighbours, except among those of new points.

    Attributes:
        m: How many neighbours.
        scale: What the columns of X are divided by for distances, (d,).
        order: The rows in the order in which points are conditioned on those before, (n,).
        neighbors: The nearest before each point, (n, m), its own row in the places left.
        mesh: The devices that the log density is shared out over, or None for one.
    """

    m: int = eqx.field(static=True, default=30)
    scale: jax.Array | None = None
    order: jax.Array | None = None
    neighbors: jax.Array | None = None
    mesh: Mesh | None = eqx.field(static=True, default=None)

    name = "neighbors"
    approximate = True

    def obstacle(self, kernel, X):
        if self.neighbors is None and is_traced(X):
            return (
                "neighbors are looked for among inputs that are known, and these are being traced "
                "by JAX. GPRegression looks for them by itself; for GaussianProcess prepare the "
                "solver beforehand, bayeskern.linalg.solver_of(kernel, X, 'neighbors'), and give "
                "it as solver"
            )
        return None

    def cost(self, kernel, X):
        n, m = X.shape[0], min(self.m, X.shape[0])
        # Factors and solutions of the neighbours of each point, and their covariances with their
        # derivative; the rows, and what one block takes.
        operations = n * (m**3 + 200.0 * m**2)
        return Cost(operations, 8.0 * (1.5 * n * m + 10.0 * max(BLOCK, m**2)))

    def prepare(self, kernel, X):
        X = np.asarray(X)
        scale = column_scales(kernel, X)
        order = maximin_order(X / scale)
        _, before = nearest_before(X[order] / scale, max(1, min(self.m, len(X) - 1)))
        neighbors = np.empty(before.shape, np.int32)
        neighbors[order] = order[before]
        given = (scale, order.astype(np.int32), neighbors)
        return NeighborsSolver(self.m, *map(jnp.asarray, given), current_mesh())

    def factor(self, kernel, X, noise, observed=None):
        given = self._prepared_for(X)
        return NeighborsFactor.compute(kernel, X, noise, observed, given.neighbors, given.order)

    def mean(self, kernel, part, X, noise, r, weights, X_new, observed=None):
        rows, b, _ = self._given_nearest(kernel, part, X, noise, X_new, observed)
        return jnp.sum(b * jnp.asarray(r)[rows], axis=1)

    def variance(self, kernel, part, X, noise, factor, X_new, observed=None):
        _, _, variance = self._given_nearest(kernel, part, X, noise, X_new, observed)
        return variance

    def covariance(self, kernel, part, X, noise, factor, X_new, observed=None):
        # Of the errors f_i - b_i'y_N(i), each with neighbours of its own: their variances are those
        # above, and the matrix is a covariance whatever the neighbours are.
        rows, b, _ = self._given_nearest(kernel, part, X, noise, X_new, observed)
        target, near = part_of(kernel, part), X[rows.ravel()]
        # What y at a point has of its own: a second point at the same place has it not.
        shared = jax.vmap(lambda x: kernel.evaluate(x[None], x[None])[0, 0])(near)
        own = kernel.evaluate_diag(near) - shared + _per_row(noise, X)[rows.ravel()]

        def of_point(point):
            b_i, rows_i = point
            C = kernel.evaluate(X[rows_i], near)
            C = C + jnp.where(rows_i[:, None] == rows.ravel(), own, 0.0)
            among = jnp.sum((b_i @ C).reshape(rows.shape) * b, axis=1)
            return among, b_i @ target.evaluate(X[rows_i], X_new)

        among, cross = jax.lax.map(of_point, (b, rows))
        return target.evaluate(X_new) - cross - cross.T + among

    def multiply(self, kernel, X, noise, b, observed=None):
        # With its own matrix, near k(X) + noise I, which would take n^2 operations.
        factor = self.factor(kernel, X, noise, observed)
        return factor.sqrt_mul(factor.sqrt_transpose_mul(b))

    def log_density(self, kernel, X, noise, R, observed=None):
        blocks = NeighborBlocks.of(self._prepared_for(X).neighbors, observed)
        density = partial(log_density, kernel, X, noise, blocks=blocks, mesh=self.mesh)
        return jnp.vectorize(density, signature="(n)->()")(R)

    def loss(self, kernel, X, noise, observed=None):
        # The Kullback-Leibler divergence of the approximation is the sum of 1/2 log d_i / s_i, s_i
        # the variance of y_i given all before it: a pivot of the dense matrix.
        given, noise = self._prepared_for(X), _per_row(noise, X)
        counts = np.ones(len(X), bool) if observed is None else np.asarray(observed)

        def of_point(at_rows, counts):
            return conditional(kernel, *at_rows, counts)[1]

        rows, pivots = [], []
        for patch, inner in _patches(np.asarray(X / given.scale), np.asarray(given.order)):
            rows.append(patch[inner])
            pivots.append(_pivots(kernel, X[patch], noise[patch], counts[patch])[inner])
        rows = np.concatenate(rows)
        d = NeighborBlocks.of(given.neighbors[rows], counts, rows).map(of_point, (X, noise))
        lost = 0.5 * jnp.log(d / jnp.concatenate(pivots))[counts[rows]]
        return float(jnp.mean(lost)) if len(lost) else 0.0

    def _prepared_for(self, X) -> NeighborsSolver:
        if self.neighbors is None:
            raise ValueError(
                "the neighbors of the points are not known: prepare the solver for the inputs, "
                "solver.prepare(kernel, X)."
            )
        if len(self.neighbors) != X.shape[0]:
            raise ValueError(
                f"the neighbors were looked for among {len(self.neighbors):,} points and X has "
                f"{X.shape[0]:,}: prepare the solver for these inputs, solver.prepare(kernel, X)."
            )
        return self

    def _given_nearest(self, kernel, part, X, noise, X_new, observed):
        """Each new point given y at the k points nearest to it.

        Returns:
            The rows of these, the weights b of y there, both (n_new, k), and the variance of f, or
            of its component, (n_new,).
        """
        X, observed = jnp.asarray(X), None if observed is None else jnp.asarray(observed)
        rows = self._nearest(X, X_new, observed)
        target, noise = part_of(kernel, part), _per_row(noise, X)

        def of_point(point):
            x, rows = point
            counts = jnp.ones(rows.shape, bool) if observed is None else observed[rows]
            C = covariance(kernel, X[rows], noise[rows], counts)
            c = jnp.where(counts, target.evaluate(X[rows], x[None])[:, 0], 0.0)
            b = solve(C, c, assume_a="pos")
            return b, target.evaluate_diag(x[None])[0] - c @ b

        size = max(1, BLOCK // rows.shape[1] ** 2)
        return rows, *jax.lax.map(of_point, (X_new, rows), batch_size=min(size, len(X_new)))

    def _nearest(self, X, X_new, observed) -> jax.Array:
        """The rows of the k points, of those that count, nearest to each new one: (n_new, k).

        A tree finds them in a fraction of the time that distances to all points would take, but
        outside of JAX.
        """
        scale = self._prepared_for(X).scale
        counts = jnp.ones(X.shape[0], bool) if observed is None else observed
        rows = jax.ShapeDtypeStruct((X_new.shape[0], min(WIDER * self.m, X.shape[0])), jnp.int32)
        places = jax.lax.stop_gradient((X / scale, X_new / scale))
        return jax.pure_callback(
            partial(_look_up, rows.shape[1]), rows, *places, counts, vmap_method="sequential"
        )


def _look_up(m: int, X, X_new, counts) -> np.ndarray:
    """`NeighborsSolver._nearest` for NumPy arrays, the points scaled."""
    X, X_new, counts = map(np.asarray, (X, X_new, counts))
    among = np.flatnonzero(counts)
    if len(among) == 0:
        return np.zeros((len(X_new), m), np.int32)
    tree = TREES.recall((X.tobytes(), counts.tobytes()), lambda: cKDTree(X[among]))
    _, near = nearest(tree, X_new, m)
    # Where fewer than m count, what is left are rows that do not.
    left = np.full((len(X_new), m - near.shape[1]), np.argmin(counts))
    return np.concatenate([among[near], left], axis=1).astype(np.int32)


@eqx.filter_jit
def _pivots(kernel, X, noise, counts) -> jax.Array:
    """The variance of each value given all before it; NaN where there is no Cholesky factor."""
    return jnp.square(jnp.diagonal(DenseFactor.compute(covariance(kernel, X, noise, counts)).L))


def _patches(X, order):
    """Some of the points that are near one another, in order, and which are in the middle of them.

    All of them, if they are few. X: scaled, (n, d).
    """
    place = np.argsort(order)
    if len(X) <= PATCH:
        yield order, np.arange(len(X))
        return
    tree = cKDTree(X)
    for center in np.random.default_rng(0).choice(len(X), PATCHES, replace=False):
        _, near = nearest(tree, X[center], PATCH)
        in_order = np.argsort(place[near])
        yield near[in_order], np.flatnonzero(in_order < PATCH // 10)


def _per_row(noise, X) -> jax.Array:
    """The noise of each row, for one noise or many: (n,)."""
    return jnp.broadcast_to(noise, X.shape[:1])
