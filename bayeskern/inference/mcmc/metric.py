"""Linear maps to coordinates in which a posterior has about unit covariance."""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core.batching import evenly

# Weight of unit covariance in an update, in draws.
UNIT_DRAWS = 5.0
# A metric of low rank leaves out vectors whose stretch and its inverse are smaller: they may be
# noise.
MIN_STRETCH = 1.4
# Number of draws whose span contains the vectors of a metric of low rank.
BASIS_DRAWS = 50


class Metric(eqx.Module):
    """Linear map z = A u, A = D (I + V (S - I) V').

    NUTS on u with a unit mass matrix is NUTS on z with the inverse mass matrix A A'. The metric is
    diagonal without vectors, of low rank with a few, and dense with d of them.

    Attributes:
        scale: Diagonal of D, (d,).
        vectors: Orthonormal columns V, (d, k); columns that are not needed are zero.
        stretch: Diagonal of S, (k,).
        matrix: A itself, (d, d), if k = d; None otherwise.
        blocks: Number of the block of each coordinate, (d,): coordinates of two blocks are not
            correlated. -1 stands for a block of one coordinate. None for a single block.
    """

    scale: np.ndarray
    vectors: np.ndarray
    stretch: np.ndarray
    matrix: np.ndarray | None
    blocks: tuple[int, ...] | None = eqx.field(static=True, default=None)

    @classmethod
    def of_root(cls, root: np.ndarray, rank: int, blocks: tuple[int, ...] | None = None) -> Metric:
        """Metric of a covariance, as close to it as the rank and the blocks allow.

        Args:
            root: Root R of the covariance R R', (d, d); or the sds, (d,).
            rank: Number of vectors k.
            blocks: Block of each coordinate, as in `Metric`.
        """
        d = len(root)
        if root.ndim == 1 or rank == 0:
            sds = root if root.ndim == 1 else np.sqrt(np.sum(np.square(root), axis=1))
            return cls._of(sds, np.zeros((d, 0)), np.zeros(0), rank, blocks)
        variances = np.sum(np.square(root), axis=1)
        if blocks is not None:
            scale = np.sqrt(variances)
            correlation = _within_blocks(root @ root.T / np.outer(scale, scale), blocks)
            values, vectors = np.linalg.eigh(correlation)
            return cls._of(scale, vectors, np.sqrt(np.maximum(values, 1e-12)), rank, blocks)
        # Scaled like this, the covariance and its inverse have the same diagonal.
        precisions = np.sum(np.square(np.linalg.inv(root)), axis=0)
        scale = np.sqrt(np.sqrt(variances / precisions))
        vectors, stretch, _ = np.linalg.svd(root / scale[:, None])
        return cls._of(scale, vectors, stretch, rank, blocks)

    @classmethod
    def _of(
        cls,
        scale: np.ndarray,
        vectors: np.ndarray,
        stretch: np.ndarray,
        rank: int,
        blocks: tuple[int, ...] | None,
    ) -> Metric:
        """Metric with at most `rank` vectors, whose stretch differs most from 1."""
        d = len(scale)
        stretch = np.maximum(stretch, np.finfo(float).tiny)
        distance = np.abs(np.log(stretch))
        order = np.argsort(-distance, kind="stable")[:rank]
        if rank < d and blocks is None:
            order = order[distance[order] > np.log(MIN_STRETCH)]
        missing = rank - len(order)
        vectors = np.concatenate([vectors[:, order], np.zeros((d, missing))], axis=1)
        stretch = np.concatenate([stretch[order], np.ones(missing)])
        matrix = None
        if rank == d:
            matrix = scale[:, None] * (np.eye(d) + (vectors * (stretch - 1.0)) @ vectors.T)
        return cls(scale, vectors, stretch, matrix, blocks)

    @property
    def rank(self) -> int:
        """Number of vectors k."""
        return self.stretch.shape[-1]

    @property
    def diagonal(self) -> Metric:
        """Diagonal metric with the same sds."""
        sds = np.linalg.norm(self.to_z(np.eye(len(self.scale))), axis=0)
        return Metric.of_root(sds, 0)

    @property
    def is_regular(self) -> bool:
        """True if the map and its inverse are finite."""
        sds = np.concatenate([self.scale, self.stretch])
        return bool(np.all((sds > 1e-100) & (sds < 1e100)) and np.all(np.isfinite(self.vectors)))

    def z(self, u: jax.Array) -> jax.Array:
        """Coordinates z = A u of one point u (d,)."""
        if self.matrix is not None:
            return jnp.asarray(self.matrix) @ u
        if self.rank:
            u = u + self.vectors @ ((self.stretch - 1.0) * (self.vectors.T @ u))
        return jnp.asarray(self.scale) * u

    def gradient_at_z(self, gradient: jax.Array) -> jax.Array:
        """A'^-1 g: gradient in z, from the gradient g (d,) in u at one point."""
        if self.rank:
            share = (1.0 / self.stretch - 1.0) * (self.vectors.T @ gradient)
            gradient = gradient + self.vectors @ share
        return gradient / self.scale

    def to_u(self, z: np.ndarray) -> np.ndarray:
        """Coordinates u = A^-1 z of points z (..., d)."""
        return _inner(z / self.scale, self.vectors, 1.0 / self.stretch)

    def to_z(self, u: np.ndarray) -> np.ndarray:
        """Coordinates z = A u of points u (..., d)."""
        return self.scale * _inner(u, self.vectors, self.stretch)

    def gradient_in_u(self, gradient: np.ndarray) -> np.ndarray:
        """A' g: gradients in u, from gradients g (..., d) in z."""
        return _inner(gradient * self.scale, self.vectors, self.stretch)

    def gradient_in_z(self, gradient: np.ndarray) -> np.ndarray:
        """A'^-1 g: gradients in z, from gradients g (..., d) in u."""
        return _inner(gradient, self.vectors, 1.0 / self.stretch) / self.scale

    def log_ratio(self, other: Metric) -> float:
        """Upper bound, over all directions, of |log| of the ratio of two metrics' sds.

        It is attained for dense metrics of the same scale, and for diagonal ones.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            # Metrics that are not comparable have not settled.
            bound = np.max(np.abs(np.log(other.scale / self.scale)))
            if self.rank:
                # Outside the span of all vectors, both inner maps are the identity.
                columns = np.concatenate([self.vectors, other.vectors], axis=1)
                basis = _basis_of(columns)
                images = _inner(basis.T, other.vectors, other.stretch)
                images = _inner(images, self.vectors, 1.0 / self.stretch) @ basis
                ratios = np.linalg.svd(images, compute_uv=False)
                bound += np.max(np.abs(np.log(ratios)), initial=0.0)
        return float(bound)

    def updated(self, z: np.ndarray, gradient: np.ndarray) -> Metric:
        """Metric of least Fisher divergence at draws.

        The Fisher divergence is the mean squared distance between the gradients of the log
        posterior density and of the log density of a normal distribution. It is least for the
        covariance C with C G C = X, where X is the covariance of the draws and G that of the
        gradients: C is the geometric mean of X and G^-1. A diagonal C has the entries
        sqrt(X_ii / G_ii). In coordinates u, UNIT_DRAWS draws with unit covariance are added.

        Args:
            z: Draws, (n, d).
            gradient: Gradients of the log density there, (n, d).

        Returns:
            The metric, of the same rank and blocks.

        References:
            Seyboldt, Carlson and Carpenter (2026), "Preconditioning Hamiltonian Monte Carlo by
            minimizing Fisher divergence", sections 3.1 to 3.3.
        """
        z, gradient = z - np.mean(z, axis=0), gradient - np.mean(gradient, axis=0)
        metric = self
        if self.matrix is None:
            sums = [np.sum(np.square(x), axis=0) for x in (z / self.scale, gradient * self.scale)]
            factor = np.sqrt(np.sqrt((sums[0] + UNIT_DRAWS) / (sums[1] + UNIT_DRAWS)))
            metric = replace(self, scale=self.scale * factor)
        if not self.rank:
            return metric
        x, g = metric.to_u(z), metric.gradient_in_u(gradient)
        basis = np.eye(len(self.scale))
        if self.blocks is None and self.matrix is None:
            some = evenly(len(x), BASIS_DRAWS)
            basis = _basis_of(np.concatenate([self.vectors, x[some].T, g[some].T], axis=1))
        x, g = x @ basis, g @ basis
        unit = UNIT_DRAWS * np.eye(basis.shape[1])
        (root,) = _powers(_geometric_mean(x.T @ x + unit, g.T @ g + unit, self.blocks), 0.5)
        inner = basis.T @ _inner(basis.T, self.vectors, self.stretch).T
        vectors, stretch, _ = np.linalg.svd(inner @ root)
        return Metric._of(metric.scale, basis @ vectors, stretch, self.rank, self.blocks)

    def fisher_divergence(self, z: np.ndarray, gradient: np.ndarray) -> float:
        """Fisher divergence of the density of u from a standard normal one, per coordinate.

        Args:
            z: Draws minus their mean, (n, d).
            gradient: Gradients of -log p there minus their mean, (n, d).
        """
        return float(np.mean(np.square(self.to_u(z) - self.gradient_in_u(gradient))))

    def widened(self, z: np.ndarray) -> Metric:
        """Metric with the sds of draws z (n, d) where these exceed the sds of the metric.

        Where tails are heavy or narrow regions steep, as along the scale of a funnel, the metric of
        least Fisher divergence has smaller sds than the posterior. Trajectories then turn before
        they have crossed it. A metric of low rank stays as it is, because noise would widen it in
        too many directions.
        """
        if self.rank and self.matrix is None:
            return self
        x = self.to_u(z - np.mean(z, axis=0))
        count = len(x) + UNIT_DRAWS
        if not self.rank:
            variances = (np.sum(np.square(x), axis=0) + UNIT_DRAWS) / count
            return replace(self, scale=self.scale * _wider_sds(variances))
        unit = np.eye(len(self.scale))
        covariance = (x.T @ x + UNIT_DRAWS * unit) / count
        if self.blocks is not None:
            covariance = _within_blocks(covariance, self.blocks)
        variances, vectors = np.linalg.eigh(covariance)
        inner = _inner((vectors * _wider_sds(variances)) @ vectors.T, self.vectors, self.stretch)
        vectors, stretch, _ = np.linalg.svd(inner.T)
        return Metric._of(self.scale, vectors, stretch, self.rank, self.blocks)


# Variance of draws, in units of the metric, above which the metric is widened, and the largest
# variance of a wider metric. Chosen on the horseshoe, nested classes and process of
# `benchmarks.everyday`.
WIDER_VARIANCES = (1.5, 100.0)


def _wider_sds(variances: np.ndarray) -> np.ndarray:
    """Roots of large variances, at most those of a wider metric; 1 for small variances."""
    least, largest = WIDER_VARIANCES
    return np.sqrt(np.where(variances > least, np.minimum(variances, largest), 1.0))


def _basis_of(columns: np.ndarray) -> np.ndarray:
    """Orthonormal basis (d, r) of the span of columns (d, m); columns may be zero."""
    d, m = columns.shape
    if m >= d:
        return np.eye(d)
    size = np.linalg.norm(columns, axis=0)
    used = columns[:, size > 0] / size[size > 0]
    left, values, _ = np.linalg.svd(used, full_matrices=False)
    return left[:, values > 1e-8 * np.max(values, initial=0.0)]


def _inner(x: np.ndarray, vectors: np.ndarray, stretch: np.ndarray) -> np.ndarray:
    """(I + V (S - I) V') x for points x (..., d)."""
    return x + ((x @ vectors) * (stretch - 1.0)) @ vectors.T if len(stretch) else x


def _geometric_mean(x: np.ndarray, g: np.ndarray, blocks: tuple[int, ...] | None) -> np.ndarray:
    """Positive definite C with C G C = X, within blocks."""
    if blocks is not None:
        x, g = _within_blocks(x, blocks), _within_blocks(g, blocks)
    root, inverse_root = _powers(g, 0.5, -0.5)
    (middle,) = _powers(root @ x @ root, 0.5)
    return inverse_root @ middle @ inverse_root


def _powers(matrix: np.ndarray, *exponents: float) -> tuple[np.ndarray, ...]:
    """Powers of a symmetric positive definite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    values = np.maximum(values, values[-1] * np.finfo(float).eps)
    return tuple((vectors * values**exponent) @ vectors.T for exponent in exponents)


def _within_blocks(matrix: np.ndarray, blocks: tuple[int, ...]) -> np.ndarray:
    """Matrix with zeros between blocks, and the unit matrix outside of blocks."""
    block = np.array(blocks)
    same = (block[:, None] == block) & (block >= 0)
    return np.where(same, matrix, np.eye(len(block)))
