"""Block-diagonal matrices with repeated blocks: transitions of state-space models."""

from __future__ import annotations

import operator
from functools import reduce
from itertools import accumulate, pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import block_diag
from jaxtyping import Array, Float


class Weighted(eqx.Module):
    """Covariance matrix with diagonal blocks B_i x diag(w_i), Kronecker products.

    Attributes:
        blocks: B_i, shapes (b_i, b_i).
        weights: w_i, shapes (m_i,).
    """

    blocks: tuple[jax.Array, ...]
    weights: tuple[jax.Array, ...]

    def dense(self) -> Float[Array, "s s"]:
        """The matrix itself."""
        pairs = zip(self.blocks, self.weights, strict=True)
        return block_diag(*(jnp.kron(B, jnp.diag(w)) for B, w in pairs))

    def times(self, X: Float[Array, " s *n"]) -> Float[Array, " s *n"]:
        """Product by sums of columns, with a vector or a matrix."""
        copies = tuple(map(len, self.weights))
        product = Repeated(self.blocks, copies).times(X)
        scale = [jnp.tile(w, len(B)) for B, w in zip(self.blocks, self.weights, strict=True)]
        return jnp.concatenate(scale).reshape(-1, *(1,) * (X.ndim - 1)) * product

    def propagated(self, A: Repeated, Q: Weighted) -> Weighted:
        """A M A' + Q for this matrix M, with blocks of the same sizes and weights."""
        triples = zip(A.blocks, self.blocks, Q.blocks, strict=True)
        blocks = tuple(_times(_times(a, B), a.T) + noise for a, B, noise in triples)
        return Weighted(blocks, self.weights)


class Repeated(eqx.Module):
    """Matrix with diagonal blocks B_i x I; x is the Kronecker product.

    For blocks of size b, a product with an s x s matrix takes s^2 b operations, not s^3.

    Attributes:
        blocks: B_i, shapes (b_i, b_i).
        copies: Sizes m_i of the identities.
    """

    blocks: tuple[jax.Array, ...]
    copies: tuple[int, ...] = eqx.field(static=True)

    # Makes NumPy and JAX arrays on the left defer to __rmatmul__.
    __array_ufunc__ = None

    @property
    def T(self) -> Repeated:
        """Transpose."""
        return Repeated(tuple(B.T for B in self.blocks), self.copies)

    def __matmul__(self, X: Float[Array, " s *n"]) -> Float[Array, " s *n"]:
        return self.blocks[0] @ X if self.copies == (1,) else self.times(X)

    def times(self, X: Float[Array, " s *n"]) -> Float[Array, " s *n"]:
        """Product by sums of columns: faster under `jax.vmap`, slower for single blocks."""
        parts = [
            _times(B, rows.reshape(len(B), m, *X.shape[1:])).reshape(rows.shape)
            for B, m, rows in zip(self.blocks, self.copies, self._split(X), strict=True)
        ]
        return jnp.concatenate(parts)

    def __rmatmul__(self, X: Float[Array, "n s"]) -> Float[Array, "n s"]:
        return (self.T @ X.T).T

    def slope(self, C: Float[Array, "s n"], X: Float[Array, "s n"]) -> Repeated:
        """Derivative of tr(C'A X) with respect to the blocks of this matrix A."""
        if self.copies == (1,):
            return Repeated((C @ X.T,), self.copies)
        parts = zip(self.blocks, self.copies, self._split(C), self._split(X), strict=True)
        slopes = [
            _products(*(rows.reshape(len(B), m, -1) for rows in (c, x))) for B, m, c, x in parts
        ]
        return Repeated(tuple(slopes), self.copies)

    def _split(self, X) -> list[jax.Array]:
        return _split(X, [len(B) * m for B, m in zip(self.blocks, self.copies, strict=True)])

    def after(self, first: Repeated) -> Repeated:
        """Product A B of this matrix A and B = `first`, with blocks of the same sizes."""
        pairs = zip(self.blocks, first.blocks, strict=True)
        return Repeated(tuple(_times(A, B) for A, B in pairs), self.copies)


def _split(X, sizes: list[int]) -> list[jax.Array]:
    """Rows of X in groups of these sizes."""
    return [X[i:j] for i, j in pairwise(accumulate(sizes, initial=0))]


def _times(B, X) -> jax.Array:
    """B (b, b) times X (b, m, ...), as sums that XLA vectorises."""
    columns = B.reshape(*B.shape, *(1,) * (X.ndim - 1))
    return reduce(operator.add, (columns[:, j] * X[j] for j in range(len(B))))


def _products(C, X):
    """Matrix (b, b) of the sums of C[i] * X[j], for arrays (b, m, n)."""
    pairs = jnp.stack([jnp.stack([jnp.sum(c * x, axis=0) for x in X]) for c in C])
    # In two steps: XLA does not vectorise a sum over both axes at once.
    return jnp.sum(jax.lax.optimization_barrier(pairs), axis=-1)
