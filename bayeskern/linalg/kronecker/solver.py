"""Solver for full grids and kernels that are products over the axes."""

from __future__ import annotations

import math
from functools import reduce

import equinox as eqx
import jax
import jax.numpy as jnp

from bayeskern.core.validation import is_traced
from bayeskern.hyperparameters.values import shape
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.column_groups import Columns
from bayeskern.kernels.components import part_of
from bayeskern.linalg.factor import AnyArray, Factor
from bayeskern.linalg.kronecker.factor import (
    KroneckerFactor,
    contract,
    explained,
    log_density,
    product,
)
from bayeskern.linalg.kronecker.grid import Grid, NoGridError
from bayeskern.linalg.solver import Cost, Fits, Noise, NoisyGram, Refused, Solver, difference


class KroneckerSolver(Solver):
    """Kronecker products, for full grids and kernels that are products over the axes.

    Attributes:
        axes: For each axis, rows of X with its points; empty until prepared.
        rows: Row of X of each cell of the grid, shape (n,); None until prepared.
        columns: Columns of each axis.
    """

    axes: tuple[jax.Array, ...] = ()
    rows: jax.Array | None = None
    columns: tuple[Columns, ...] = eqx.field(static=True, default=())

    name = "kronecker"

    def applicability(
        self, kernel: Kernel, X, noise: Noise = 0.0, observed: AnyArray | None = None
    ) -> Fits | Refused:
        if shape(noise) != ():
            return Refused("the noise differs from point to point")
        if observed is not None:
            return Refused("a mask says that only some points of the grid are observed")
        if self.rows is not None:
            is_same = self._is_prepared_for(X)
            sizes = tuple(map(len, self.axes))
            return _fits(sizes) if is_same else Refused("the solver is prepared for another grid")
        if X.shape[1] == 1:
            return Refused("there is one input, and a grid has two axes or more")
        for node in kernel.nodes():
            if isinstance(node, Kernel) and not node.is_a_function:
                return Refused(
                    f"{node!r} is white noise, not a product over axes: pass its variance as noise"
                )
        groups = _groups(kernel, X)
        if len(groups) < 2:
            return Refused(f"{kernel!r} is not a product of kernels of different columns")
        if is_traced(X):
            return Refused("a grid cannot be recognised in inputs that JAX traces")
        try:
            return _fits(Grid.of(X, groups).sizes)
        except NoGridError as reason:
            return Refused(str(reason))

    def prepare(self, kernel: Kernel, X) -> KroneckerSolver:
        grid = Grid.of(X, _groups(kernel, X))
        axes = tuple(map(jnp.asarray, grid.axes))
        return KroneckerSolver(axes, jnp.asarray(grid.rows), grid.columns)

    def factor(self, C: NoisyGram) -> KroneckerFactor:
        return KroneckerFactor.compute(self._grams(C.kernel, C.X), C.noise, self._rows)

    def mean(
        self, C: NoisyGram, part: str | None, factor: Factor | None, r, weights, X_new
    ) -> jax.Array:
        cells = weights[self._rows].reshape([len(axis) for axis in self.axes])
        return contract(cells, self._grams(part_of(C.kernel, part), C.X, X_new))

    def variance(self, C: NoisyGram, part: str | None, factor: Factor, X_new) -> jax.Array:
        assert isinstance(factor, KroneckerFactor)
        kernel = part_of(C.kernel, part)
        cross = self._grams(kernel, C.X, X_new)
        reduction = explained(factor.spectrum, factor.grams, factor.noise, cross)
        return difference(kernel.evaluate_diag(X_new), reduction)

    def multiply(self, C: NoisyGram, b: AnyArray) -> jax.Array:
        Kb = product(self._grams(C.kernel, C.X), C.noise, b[self._rows][:, None])[:, 0]
        return jnp.zeros_like(Kb).at[self._rows].set(Kb, unique_indices=True)

    def log_density(self, C: NoisyGram, R: AnyArray) -> jax.Array:
        return log_density(self._grams(C.kernel, C.X), C.noise, R[..., self._rows])

    @property
    def _rows(self) -> jax.Array:
        if self.rows is None:
            raise ValueError(
                "the solver does not know the grid of the points; prepare it with "
                "solver.prepare(kernel, X)."
            )
        return self.rows

    def _grams(self, kernel: Kernel, X, X_new=None) -> tuple[jax.Array, ...]:
        """Gram matrices of the axes; their Kronecker product is k(X) in the order of the grid.

        If X_new (m, d) is given, Gram matrices between X_new and the axes, shapes (m, n_g).
        """
        grams, factors = [], kernel.by_columns(X.shape[1])
        for columns, axis in zip(self.columns, self.axes, strict=True):
            points = (X[axis],) if X_new is None else (X_new, X[axis])
            kernels = [factors.pop(group) for group in [*factors] if {*group} <= {*columns}]
            ones = jnp.ones((len(points[0]), len(axis)))
            grams.append(reduce(jnp.multiply, (k.evaluate(*points) for k in kernels), ones))
        if factors:
            names = ", ".join(map(repr, factors.values()))
            raise ValueError(
                f"{names} depends on columns of several axes of the prepared grid; prepare the "
                "solver for this kernel."
            )
        return tuple(grams)

    def _is_prepared_for(self, X) -> bool:
        if is_traced(X) or is_traced(self.rows):
            return X.shape[0] == len(self._rows)
        return Grid(self.columns, self.axes, self._rows).is_of(X)


def _fits(sizes: tuple[int, ...]) -> Fits:
    n = math.prod(sizes)
    # Operations: eigenvectors of each axis; about twenty products with its matrices, for the value
    # and the gradient. Memory: 11 vectors of all cells, 7 matrices per axis.
    operations = sum(25.0 * size**3 + 40.0 * n * size for size in sizes)
    return Fits(Cost(operations, 8.0 * (11.0 * n + 7.0 * sum(size**2 for size in sizes))))


def _groups(kernel: Kernel, X) -> list[Columns]:
    """Column groups: the columns of each factor, and each unused column by itself."""
    d = X.shape[1]
    groups = [columns for columns in kernel.by_columns(d) if columns]
    used = {column for columns in groups for column in columns}
    return [*groups, *((column,) for column in range(d) if column not in used)]
