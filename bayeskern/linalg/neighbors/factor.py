"""Vecchia's approximation of a covariance matrix.

For any order of the points, the density of y is the product of the densities of each y_i given all
preceding values. The approximation conditions y_i on its neighbours N(i) only, the m nearest
preceding points. With C = k(X) + noise I:

    E[y_i | y_N(i)] = b_i'y_N(i),  b_i = C_N(i)^-1 c_i,  Var[y_i | y_N(i)] = d_i = C_ii - c_i'b_i,

where c_i are the covariances of y_i with its neighbours. The result is a Gaussian with precision
(I - B)'D^-1 (I - B), where D has the diagonal d_i, row i of B holds b_i, and each row of I - B has
m + 1 nonzero entries. Vecchia (1988), "Estimation and model
identification for continuous spatial processes"; Katzfuss and Guinness (2021), "A general framework
for Vecchia approximations of Gaussian processes".
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve
from jax.sharding import Mesh
from jax.typing import ArrayLike

from bayeskern.core.sharding import sum_over
from bayeskern.core.validation import NotPositiveDefiniteError, is_traced
from bayeskern.kernels.base import Kernel
from bayeskern.linalg.factor import AnyArray, Factor, scale_rows
from bayeskern.linalg.solver import NoisyGram

# Largest number of covariances in a block of points, so that they fit in the processor's cache.
BLOCK_NUMBERS = 2**16


class NeighborBlocks(eqx.Module):
    """Points with their neighbours, in blocks of equal size.

    Attributes:
        rows: Row numbers of the neighbours of each point, then its own, (blocks, size, m + 1).
        is_used: Mask of the rows that are used, same shape; False for unobserved rows and padding.
        n: Number of points.
    """

    rows: jax.Array
    is_used: jax.Array
    n: int = eqx.field(static=True)

    @classmethod
    def of(
        cls,
        neighbors: AnyArray,
        observed: AnyArray | None = None,
        own: AnyArray | None = None,
    ) -> NeighborBlocks:
        """Blocks of the points with row numbers `own`, by default of all points.

        Args:
            neighbors: Rows of the neighbours, (n, m), padded with the point's own row.
            observed: Mask of the observed rows; None for all.
            own: Row numbers of the points, (n,).
        """
        n, m = neighbors.shape
        own = jnp.arange(n) if own is None else jnp.asarray(own)
        rows = jnp.concatenate([neighbors, own[:, None].astype(neighbors.dtype)], axis=1)
        is_used = (rows != own[:, None]) | (jnp.arange(m + 1) == m)
        if observed is not None:
            is_used &= jnp.asarray(observed)[rows]
        return cls(in_blocks(rows), in_blocks(is_used), n)

    def map(self, function: Callable, by_row):
        """Apply function(values at the point's rows, mask) to each point: arrays (n, ...).

        by_row: pytree of arrays with a value for each row of X.
        """

        def of_block(block):
            rows, is_used = block
            return jax.vmap(function)(_take(by_row, rows), is_used)

        by_row = jax.tree.map(jnp.asarray, by_row)
        results = jax.lax.map(of_block, (self.rows, self.is_used))
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[: self.n], results)


def in_blocks(rows: jax.Array) -> jax.Array:
    """Rows (n, width) in blocks (blocks, size, width), padded with zeros."""
    n, width = rows.shape
    size = max(1, min(n, BLOCK_NUMBERS // width**2))
    return jnp.pad(rows, [(0, -n % size), (0, 0)]).reshape(-1, size, width)


def conditional(
    kernel: Kernel, X: jax.Array, noise: ArrayLike, is_used: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Weights b (m,) and variance d of y at the last point, given y at the others.

    X: (m + 1, d). noise: () or (m + 1,). is_used: mask of the rows that are used, (m + 1,).
    d is NaN if it is within rounding error.
    """
    C = NoisyGram(kernel, X, noise, is_used).dense()
    c, own = C[:-1, -1], C[-1, -1]
    b = solve(C[:-1, :-1], c, assume_a="pos")
    d = own - c @ b
    rounding = len(C) * jnp.finfo(C.dtype).eps * jax.lax.stop_gradient(own)
    return b, jnp.where(d > rounding, d, jnp.nan)


# -- the log density -------------------------------------------------------------------------------


def log_density(
    kernel: Kernel,
    X: AnyArray,
    noise: ArrayLike,
    r: AnyArray,
    blocks: NeighborBlocks,
    mesh: Mesh | None = None,
) -> jax.Array:
    """log N(r; 0, K) of residuals r (n,), where K approximates k(X) + noise I.

    Args:
        kernel: A kernel whose hyperparameters are numbers.
        X: Points, shape (n, d).
        noise: Noise variance, a number or shape (n,).
        r: Residuals, shape (n,).
        blocks: The points with their neighbours.
        mesh: Devices over which the blocks are divided.

    Returns:
        A number; -inf, with a gradient of 0, if K is not positive definite.
    """
    varies = jnp.ndim(noise) == 1
    shared, by_row = (kernel, None if varies else noise), (X, noise if varies else None, r)
    count = jnp.sum(blocks.is_used[..., -1])
    density = _log_density(shared, jax.tree.map(jnp.asarray, by_row), blocks, mesh)
    return density - 0.5 * count * jnp.log(2.0 * jnp.pi)


@eqx.filter_custom_jvp
def _log_density(shared, by_row, blocks, mesh):
    """Log density without its constant.

    shared: (kernel, noise variance of all rows or None). by_row: (X, noise variance of each row or
    None, r).
    """

    def add(arguments, total, block):
        (shared, by_row), (rows, is_used) = arguments, block
        return total + _of_block(shared, _take(by_row, rows), is_used)

    arguments = shared, by_row
    total = sum_over(add, jnp.zeros(()), arguments, (blocks.rows, blocks.is_used), mesh)
    return jnp.where(jnp.isfinite(total), total, -jnp.inf)


@_log_density.def_jvp
def _log_density_jvp(primals, tangents):
    # The gradient of each block is computed with its value, while its covariances are in memory.
    # Gradients in shared arguments are summed over blocks; gradients in rows are added at the rows.
    shared, by_row, blocks, mesh = primals
    d_shared, d_by_row, *_ = tangents
    has_tangent = jax.tree.map(
        lambda d: d is not None, (d_shared, d_by_row), is_leaf=lambda d: d is None
    )

    def add(arguments, sums, block):
        (shared, by_row), (rows, is_used) = arguments, block
        differentiated, constant = eqx.partition((shared, _take(by_row, rows)), has_tangent)

        def density(differentiated):
            shared, at_rows = eqx.combine(differentiated, constant)
            return _of_block(shared, at_rows, is_used)

        value, (g_block, g_at_rows) = jax.value_and_grad(density)(differentiated)
        total, g_shared, g_by_row = sums
        g_by_row = jax.tree.map(lambda x, g: x.at[rows].add(g), g_by_row, g_at_rows)
        return total + value, jax.tree.map(jnp.add, g_shared, g_block), g_by_row

    zeros = jax.tree.map(jnp.zeros_like, (jnp.zeros(()), d_shared, d_by_row))
    arguments, items = (shared, by_row), (blocks.rows, blocks.is_used)
    total, *gradient = sum_over(add, zeros, arguments, items, mesh)
    finite = jnp.isfinite(total)
    pairs = zip(*map(jax.tree.leaves, (gradient, [d_shared, d_by_row])), strict=True)
    slope = sum((jnp.sum(jnp.where(finite, g, 0.0) * d) for g, d in pairs), jnp.zeros(()))
    return jnp.where(finite, total, -jnp.inf), slope


def _of_block(shared, at_rows, is_used):
    """-1/2 sum_i (e_i^2 / d_i + log d_i), e_i = r_i - b_i'r_N(i), over the points of a block."""
    (kernel, noise), (X, noises, r) = shared, at_rows
    noise, axis = (noise, None) if noises is None else (noises, 0)
    b, d = jax.vmap(conditional, (None, 0, axis, 0))(kernel, X, noise, is_used)
    r = jnp.where(is_used, r, 0.0)
    e = r[:, -1] - jnp.sum(b * r[:, :-1], axis=1)
    return -0.5 * jnp.sum(e * e / d + jnp.log(d))


def _take(by_row, rows):
    return jax.tree.map(lambda x: x[rows], by_row)


# -- the factor ------------------------------------------------------------------------------------


class NeighborsFactor(Factor):
    """Vecchia's approximation of a covariance matrix. Created by `compute`.

    L^-1 = D^-1/2 (I - B), with rows and columns in the order of the inputs; permuted by `order`, L
    is lower triangular. Products take O(n m) time per column.

    Attributes:
        b: Weights of the neighbours of each point, shape (n, m).
        sd: Standard deviations of the points given their neighbours, shape (n,).
        neighbors: Row numbers of the neighbours, shape (n, m).
        order: Order of the points, shape (n,).
        jitter: 0.
    """

    b: jax.Array
    sd: jax.Array
    neighbors: jax.Array
    order: jax.Array
    jitter: jax.Array

    @classmethod
    def compute(cls, C: NoisyGram, neighbors: jax.Array, order: jax.Array) -> NeighborsFactor:
        """Factor the approximation of k(X) + noise I.

        Raises:
            NotPositiveDefiniteError: A value is determined by its neighbours up to rounding. Under
                `jax.jit` its sd is NaN instead.
        """

        def of_point(at_rows, is_used):
            X, noise = at_rows
            return conditional(C.kernel, X, noise, is_used)

        by_row = (C.X, C.noise_of_rows())
        b, d = NeighborBlocks.of(neighbors, C.observed).map(of_point, by_row)
        sd = jnp.sqrt(d)
        if not is_traced(sd) and not np.all(np.isfinite(sd)):
            first = int(np.argmax(~np.isfinite(sd)))
            raise NotPositiveDefiniteError(
                f"the value at X[{first}] = {np.asarray(C.X[first])} is determined by its "
                "neighbours up to rounding, so their covariance matrix cannot be factored. "
                "Increase the noise, or remove repeated points."
            )
        return cls(b=b, sd=sd, neighbors=neighbors, order=order, jitter=jnp.zeros(()))

    def whiten(self, B: AnyArray) -> jax.Array:
        def subtract(rest, neighbor):
            b, rows = neighbor
            return rest - scale_rows(b, B[rows]), None

        B = jnp.asarray(B)
        # Loop over neighbours, for all points at once: no array is larger than B.
        rest, _ = jax.lax.scan(subtract, B, (self.b.T, self.neighbors.T))
        return scale_rows(1.0 / self.sd, rest)

    def sqrt_mul(self, B: AnyArray) -> jax.Array:
        def append(Y, point):
            row, b, neighbors, own = point
            return Y.at[row].set(own + b @ Y[neighbors]), None

        own = scale_rows(self.sd, B)
        Y, _ = jax.lax.scan(append, jnp.zeros_like(own), self._in_order(own))
        return Y

    def sqrt_transpose_mul(self, B: AnyArray) -> jax.Array:
        """L'B."""

        def distribute(Y, point):
            row, b, neighbors, _ = point
            return Y.at[neighbors].add(jnp.multiply.outer(b, Y[row])), None

        Y, _ = jax.lax.scan(distribute, B, self._in_order(B), reverse=True)
        return scale_rows(self.sd, Y)

    def _in_order(self, B):
        rows = (self.b, self.neighbors, B)
        return self.order, *(x[self.order] for x in rows)

    def logdet(self) -> jax.Array:
        return 2.0 * jnp.sum(jnp.log(self.sd))

    def inv_diag(self) -> jax.Array:
        precision = 1.0 / jnp.square(self.sd)
        return precision.at[self.neighbors].add(jnp.square(self.b) * precision[:, None])
