"""Gaussian effects of a regression: products with the design, factors, draws.

The linear predictor is eta = offset + Z b with b = T u and u ~ N(0, I), where the root T of the
prior covariance depends on the scales. The columns of Z are those of the dense terms, X (n, k), and
for each grouping factor the columns of its effects, which are 0 in the rows of other groups. Given
weights w of the rows, the precision of u given y is

    H = I + T' Z' diag(w) Z T.

The effects of the largest factor are independent of each other given the rest. They are eliminated
block by block: with H = [A C; C' B] and A block-diagonal, H = R'R, R = [L' U; 0 M'], A = L L',
U = L^-1 C and B - U'U = M M' (Bates, Maechler, Bolker and Walker 2015, section 3). The cost is
O(G q r^2 + r^3) for G groups with q effects and r other effects, whatever the number of rows, once
Z'Z is known.
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.linalg import solve_triangular

# Roots T of the prior covariances: of the dense terms and of one group of each factor, (k,) for a
# diagonal root and (k, m) otherwise.
type Roots = tuple[tuple[Array, ...], tuple[Array, ...]]


class Factor(eqx.Module):
    """Columns of the effects of one grouping factor.

    Attributes:
        codes: Group of each row, (n,); `groups` for a row of no known group.
        Z: Columns of the effects of a group, (n, q).
        groups: Number of groups G.
    """

    codes: Array
    Z: Array
    groups: int = eqx.field(static=True)

    def __matmul__(self, b: Array) -> Array:
        """Contribution to the linear predictor, (n,), of effects b (G, q)."""
        rows = b.at[self.codes].get(mode="fill", fill_value=0.0)
        return jnp.sum(self.Z * rows, axis=-1)

    def sums(self, rows: Array) -> Array:
        """Z'rows for rows (n, ...): (G, q, ...)."""
        products = self.Z.reshape(*self.Z.shape, *(1,) * (rows.ndim - 1)) * rows[:, None]
        return jax.ops.segment_sum(products, self.codes, self.groups)


class Effects(eqx.Module):
    """Effects u, or b = T u, by term.

    Attributes:
        dense: Effects of the dense terms together, (k,).
        groups: Effects of each factor, (G, q).
    """

    dense: Array
    groups: tuple[Array, ...]


class Products(eqx.Module):
    """Z'WZ, Z'WY and Y'WY for weighted rows, where R are all columns but those of the factor A.

    Attributes:
        AA: (G, q, q); AR: (G, q, r); RR: (r, r); AY: (G, q, c); RY: (r, c); YY: (c, c). With a
            `SparseCross`, AR has the dense terms only, (G, 1, k).
        sparse: The entries of a `SparseCross`, (e,); None without one.
    """

    AA: Array
    AR: Array
    RR: Array
    AY: Array
    RY: Array
    YY: Array
    sparse: Array | None = None


class SparseCross(eqx.Module):
    """Places of the nonzero entries of Z_A'WZ for factors with one effect in each group.

    Attributes:
        entry_of_row: Entry to which each row adds, for each other factor: (F - 1, n).
        group: Group of A of each entry, (e,).
        column: Column of each entry among the effects of the other factors, (e,).
        first, second: Pairs of entries in the same group of A, (p,): the products in U'U.
        place: Row-major place of each pair in the lower triangle of U'U, (p,).
    """

    entry_of_row: Array
    group: Array
    column: Array
    first: Array
    second: Array
    place: Array

    @classmethod
    def of(cls, factors: Sequence[Factor]) -> SparseCross | None:
        """Places of the entries; None if a dense matrix is as fast."""
        if len(factors) < 2 or any(factor.Z.shape[1] > 1 for factor in factors):
            return None
        A, others = np.asarray(factors[0].codes), factors[1:]
        starts = np.cumsum([0, *(factor.groups for factor in others)])
        pairs = zip(starts, others, strict=False)
        columns = [start + np.asarray(factor.codes) for start, factor in pairs]
        keys = [A * starts[-1] + column for column in columns]
        entries, entry_of_row = np.unique(np.concatenate(keys), return_inverse=True)
        group, column = entries // starts[-1], entries % starts[-1]
        sizes = np.bincount(group, minlength=factors[0].groups)
        if SPARSE_GAIN * np.sum(sizes**2) > factors[0].groups * starts[-1] ** 2:
            return None
        # Entries are sorted by group: entry i is paired with itself and those after it.
        ends = np.cumsum(sizes)[group]
        counts = ends - np.arange(len(group))
        first = np.repeat(np.arange(len(group)), counts)
        second = first + np.arange(len(first)) - np.repeat(np.cumsum(counts) - counts, counts)
        # The lower triangle alone is read: columns grow with the entries of a group.
        place = column[second] * starts[-1] + column[first]
        # Sorted places are added one after the other in memory.
        order = np.argsort(place, kind="stable")
        pairs = first[order], second[order], place[order]
        arrays = (entry_of_row.reshape(len(others), -1), group, column, *pairs)
        return cls(*(jnp.asarray(array, jnp.int32) for array in arrays))

    def products(self, A: Factor, others: Sequence[Factor], w: Array) -> Array:
        """Entries of Z_A'WZ, (e,)."""
        values = jnp.stack([w * A.Z[:, 0] * factor.Z[:, 0] for factor in others])
        return jax.ops.segment_sum(values.ravel(), self.entry_of_row.ravel(), len(self.group))

    def subtract_square(self, B: Array, dense: Array, u: Array) -> Array:
        """B - U'U for U with dense columns (G, k) and these entries u (e,)."""
        k = dense.shape[1]
        B = B.at[:k, :k].add(-dense.T @ dense)
        cross = jax.ops.segment_sum(u[:, None] * dense[self.group], self.column, len(B) - k)
        B = B.at[k:, :k].add(-cross)
        products = _at(u, self.first) * _at(u, self.second)
        size = len(B) - k
        sums = jax.ops.segment_sum(products, self.place, size * size, indices_are_sorted=True)
        return B.at[k:, k:].add(-sums.reshape(size, size))

    def times(self, S: Array, w: Array) -> Array:
        """sum_j S[i, j] w_j over the entries j in the group of each entry i, for symmetric S."""
        values = _at(S.ravel(), self.place)
        sums = jax.ops.segment_sum(values * _at(w, self.second), self.first, len(w))
        others = jnp.where(self.first == self.second, 0.0, values * _at(w, self.first))
        return sums + jax.ops.segment_sum(others, self.second, len(w))


def _at(x: Array, indices: Array) -> Array:
    return x.at[indices].get(mode="promise_in_bounds")


# A sparse cross product is used if it has this many times fewer products than a dense one: its
# products are scattered one by one, and both take the same time at 160.
SPARSE_GAIN = 200


class Design(eqx.Module):
    """Columns of all effects.

    Attributes:
        dense: Columns of the dense terms, (n, k).
        factors: Grouping factors; the first one, A, is eliminated.
        sizes: Numbers of columns of each dense term.
        cross: Places of the products of the first factor and the others, if they are few.
    """

    dense: Array
    factors: tuple[Factor, ...]
    sizes: tuple[int, ...] = eqx.field(static=True)
    cross: SparseCross | None = None

    def __matmul__(self, b: Effects) -> Array:
        """Linear predictor without offset: (n,)."""
        parts = (factor @ value for factor, value in zip(self.factors, b.groups, strict=True))
        return sum(parts, self.dense @ b.dense)

    def shapes(self) -> Effects:
        """Zeros in the shapes of b."""
        groups = (jnp.zeros((factor.groups, factor.Z.shape[1])) for factor in self.factors)
        return Effects(jnp.zeros(self.dense.shape[1]), tuple(groups))

    def transposed(self, rows: Array) -> Effects:
        """Z'rows for rows (n,)."""
        return Effects(self.dense.T @ rows, tuple(factor.sums(rows) for factor in self.factors))

    def products(self, w: Array, Y: Array) -> Products:
        """Products for row weights w (n,) and columns Y (n, c)."""
        X, others = self.dense, self.factors[1:]
        weighted = w[:, None] * X
        RR = [[X.T @ weighted, *(_flat(factor.sums(weighted)).T for factor in others)]]
        for i, first in enumerate(others):
            row = [RR[0][i + 1].T]
            row += [RR[j + 1][i + 1].T for j in range(i)]
            row += [_cross(first, second, w) for second in others[i:]]
            RR.append(row)
        WY = w[:, None] * Y
        RY = [X.T @ WY, *(_flat(factor.sums(WY)) for factor in others)]
        sparse = None
        if self.factors:
            A = self.factors[0]
            AA = A.sums(w[:, None] * A.Z)
            if self.cross is not None:
                sparse, others = self.cross.products(A, others, w), ()
            crosses = (_cross(A, factor, w).reshape(*AA.shape[:2], -1) for factor in others)
            AR = jnp.concatenate([A.sums(weighted), *crosses], axis=2)
            AY = A.sums(WY)
        else:
            AA, AR = jnp.zeros((0, 1, 1)), jnp.zeros((0, 1, sum(map(_width, others), X.shape[1])))
            AY = jnp.zeros((0, 1, Y.shape[1]))
        return Products(AA, AR, jnp.block(RR), AY, jnp.concatenate(RY), Y.T @ WY, sparse)


def _width(factor: Factor) -> int:
    return factor.groups * factor.Z.shape[1]


def _flat(sums: Array) -> Array:
    """Effects of all groups along one axis: (G q, ...)."""
    return sums.reshape(sums.shape[0] * sums.shape[1], *sums.shape[2:])


def _cross(first: Factor, second: Factor, w: Array) -> Array:
    """Z_1' W Z_2 of two factors: (G_1 q_1, G_2 q_2)."""
    values = w[:, None, None] * first.Z[:, :, None] * second.Z[:, None, :]
    shape = (first.groups, second.groups, first.Z.shape[1], second.Z.shape[1])
    sums = jnp.zeros(shape).at[first.codes, second.codes].add(values, mode="drop")
    return jnp.moveaxis(sums, 2, 1).reshape(_width(first), _width(second))


def split(A: Array, rest: Array, shapes: Effects) -> Effects:
    """Effects from those of the first factor (G, q) and all others (r,), in these shapes."""
    start = len(shapes.dense)
    groups, dense = [A] if shapes.groups else [], rest[:start]
    for zeros in shapes.groups[1:]:
        groups.append(rest[start : start + zeros.size].reshape(zeros.shape))
        start += zeros.size
    return Effects(dense, tuple(groups))


# -- roots of the prior ----------------------------------------------------------------------------


def _times(M: Array, root: Array) -> Array:
    """M T along the last axis."""
    return M * root if root.ndim == 1 else M @ root


def effects_of(u: Effects, roots: Roots, sizes: Sequence[int]) -> Effects:
    """b = T u."""
    dense, start = [], 0
    for root in roots[0]:
        width = root.shape[-1]
        part = u.dense[start : start + width]
        dense.append(root * part if root.ndim == 1 else root @ part)
        start += width
    groups = [_times(value, root.T) for value, root in zip(u.groups, roots[1], strict=True)]
    return Effects(jnp.concatenate(dense), tuple(groups))


def _times_dense(M: Array, roots: Roots, design: Design) -> Array:
    """M T along the last axis, for the effects of the dense terms."""
    parts, start = [], 0
    for root, size in zip(roots[0], design.sizes, strict=True):
        parts.append(_times(M[..., start : start + size], root))
        start += size
    return jnp.concatenate(parts, axis=-1)


def _times_others(M: Array, roots: Roots, design: Design) -> Array:
    """M T along the last axis, for the effects of all terms but the first factor."""
    start = design.dense.shape[1]
    parts = [_times_dense(M[..., :start], roots, design)]
    for root, factor in zip(roots[1][1:], design.factors[1:], strict=True):
        part = M[..., start : start + _width(factor)]
        blocks = part.reshape(*part.shape[:-1], factor.groups, -1)
        parts.append(_times(blocks, root).reshape(*part.shape[:-1], -1))
        start += part.shape[-1]
    return jnp.concatenate(parts, axis=-1)


def _both_sides(M: Array, roots: Roots, design: Design) -> Array:
    """T'M T for a symmetric M, for the effects of all terms but the first factor."""
    others = design.factors[1:]
    if any(root.ndim > 1 for root in (*roots[0], *roots[1][1:])):
        return _times_others(_times_others(M, roots, design).T, roots, design)
    pairs = zip(roots[1][1:], others, strict=True)
    scales = [*roots[0], *(jnp.tile(root, factor.groups) for root, factor in pairs)]
    t = jnp.concatenate(scales)
    return M * t * t[:, None]


def transposed_effects(v: Effects, roots: Roots, design: Design) -> Effects:
    """T'v."""
    groups = (_times(value, root) for value, root in zip(v.groups, roots[1], strict=True))
    return Effects(_times_dense(v.dense, roots, design), tuple(groups))


def white_shapes(design: Design, roots: Roots) -> Effects:
    """Zeros in the shapes of u."""
    k = sum(root.shape[-1] for root in roots[0])
    pairs = zip(design.factors, roots[1], strict=True)
    groups = tuple(jnp.zeros((factor.groups, root.shape[-1])) for factor, root in pairs)
    return Effects(jnp.zeros(k), groups)


# -- the factored precision ------------------------------------------------------------------------


class Blocks(eqx.Module):
    """Blocks of the precision H = [A C; C' B] of u.

    Attributes:
        A: Blocks of the first factor, (G, m, m).
        C: (G, m, r); for the dense terms only with a `SparseCross`, (G, 1, k).
        c: Entries of C for the other factors, (e,), with a `SparseCross`.
        B: Precision of the other effects, (r, r).
        cross: Places of the entries.
    """

    A: Array
    C: Array
    c: Array | None
    B: Array
    cross: SparseCross | None

    @classmethod
    def of(cls, products: Products, roots: Roots, design: Design) -> Blocks:
        """Precision for the products of weighted rows."""
        B = _both_sides(products.RR, roots, design)
        B = B + jnp.eye(len(B))
        if not design.factors:
            return cls(jnp.zeros((0, 1, 1)), jnp.zeros((0, 1, len(B))), None, B, None)
        root, cross = roots[1][0], design.cross
        half = _times(jnp.swapaxes(_times(products.AA, root), 1, 2), root)
        C = jnp.swapaxes(_times(jnp.swapaxes(products.AR, 1, 2), root), 1, 2)
        c = None
        if cross is None or products.sparse is None:
            C = _times_others(C, roots, design)
        else:
            C = _times_dense(C, roots, design)
            pairs = zip(design.factors, roots[1], strict=True)
            scales = jnp.concatenate([jnp.full(f.groups, r[0]) for f, r in pairs][1:])
            c = products.sparse * root[0] * scales[cross.column]
        return cls(half + jnp.eye(half.shape[-1]), C, c, B, cross)


class Precision(eqx.Module):
    """Factored precision H = R'R of u.

    Attributes:
        L: Roots of the blocks of A, (G, m, m).
        U: L^-1 C, (G, m, r); for the dense terms only with a `SparseCross`.
        u: Entries of L^-1 C of the other factors, (e,), with a `SparseCross`.
        M: Root of the Schur complement, (r, r).
        shapes: Zeros in the shapes of u.
        cross: Places of the entries.
    """

    L: Array
    U: Array
    u: Array | None
    M: Array
    shapes: Effects
    cross: SparseCross | None

    @classmethod
    def of(cls, blocks: Blocks, shapes: Effects) -> Precision:
        """Factor H of effects u with these shapes."""
        L, cross = _cholesky(blocks.A), blocks.cross
        U = solve_blocks(L, blocks.C)
        if cross is None or blocks.c is None:
            return cls(L, U, None, _root(blocks.B - _flat(U).T @ _flat(U)), shapes, None)
        u = blocks.c / L[cross.group, 0, 0]
        return cls(L, U, u, _root(cross.subtract_square(blocks.B, U[:, 0], u)), shapes, cross)

    def _up(self, rest: Array) -> Array:
        """U v for v (r,): (G, m)."""
        if self.cross is None or self.u is None:
            return self.U @ rest
        k = self.U.shape[-1]
        values = self.u * rest[k:][self.cross.column]
        sums = jax.ops.segment_sum(values, self.cross.group, len(self.L))
        return self.U @ rest[:k] + sums[:, None]

    def _down(self, A: Array) -> Array:
        """U'v for v (G, m): (r,)."""
        dense = jnp.einsum("gmr,gm->r", self.U, A)
        if self.cross is None or self.u is None:
            return dense
        values = self.u * A[self.cross.group, 0]
        others = len(self.M) - len(dense)
        return jnp.concatenate([dense, jax.ops.segment_sum(values, self.cross.column, others)])

    def logdet(self) -> Array:
        """log |H|."""
        blocks = jnp.sum(jnp.log(jnp.diagonal(self.L, axis1=1, axis2=2)))
        return 2.0 * (blocks + jnp.sum(jnp.log(jnp.diagonal(self.M))))

    def join(self, v: Effects) -> tuple[Array, Array]:
        """Effects of the first factor (G, m) and all others (r,)."""
        A = v.groups[0] if v.groups else jnp.zeros((0, 1))
        return A, jnp.concatenate([v.dense, *map(jnp.ravel, v.groups[1:])])

    def whiten(self, v: Effects) -> tuple[Array, Array]:
        """R'^-1 v, in two parts (G, m) and (r,)."""
        A, rest = self.join(v)
        A = solve_blocks(self.L, A[..., None])[..., 0]
        return A, solve_triangular(self.M, rest - self._down(A), lower=True)

    def unwhiten(self, parts: tuple[Array, Array]) -> Effects:
        """R^-1 of two parts (G, m) and (r,)."""
        A, rest = parts
        rest = solve_triangular(self.M, rest, lower=True, trans=1)
        A = solve_blocks(self.L, (A - self._up(rest))[..., None], trans=1)[..., 0]
        return split(A, rest, self.shapes)

    def solve(self, v: Effects) -> Effects:
        """H^-1 v."""
        return self.unwhiten(self.whiten(v))

    @property
    def size(self) -> int:
        """Number of effects u."""
        return self.L.shape[0] * self.L.shape[1] + len(self.M)

    def deviation(self, white: Array) -> Effects:
        """Draw from N(0, H^-1), from a draw of `size` standard normal numbers."""
        A, rest = white[: len(white) - len(self.M)], white[len(white) - len(self.M) :]
        return self.unwhiten((A.reshape(self.L.shape[:2]), rest))


def _root(B: Array) -> Array:
    return jnp.linalg.cholesky(B, symmetrize_input=False)


# Size up to which arrays of matrices are factored element by element: for 10,000 of size 2 it takes
# half the time of that many calls of LAPACK.
MAX_UNROLLED = 3


def _cholesky(A: Array) -> Array:
    """Lower Cholesky factors of an array of matrices (G, m, m)."""
    m = A.shape[-1]
    if m > MAX_UNROLLED:
        return jnp.linalg.cholesky(A, symmetrize_input=False)
    L: list[list[Array]] = [[] for _ in range(m)]
    for i in range(m):
        for j in range(i + 1):
            rest = A[:, i, j] - sum(L[i][k] * L[j][k] for k in range(j))
            L[i].append(jnp.sqrt(rest) if i == j else rest / L[j][j])
    zero = jnp.zeros(len(A))
    return jnp.stack([jnp.stack(row + [zero] * (m - len(row)), -1) for row in L], -2)


def solve_blocks(L: Array, B: Array, trans: int = 0) -> Array:
    """L^-1 B, or L'^-1 B for trans = 1, with lower triangular L (G, m, m) and B (G, m, c)."""
    m = L.shape[-1]
    if m > MAX_UNROLLED:
        return jax.vmap(lambda L, B: solve_triangular(L, B, lower=True, trans=trans))(L, B)
    x: dict[int, Array] = {}
    for i in reversed(range(m)) if trans else range(m):
        known = (x[k] * (L[:, k, i] if trans else L[:, i, k])[:, None] for k in x)
        x[i] = (B[:, i] - sum(known)) / L[:, i, i][:, None]
    return jnp.stack([x[i] for i in range(m)], -2)
