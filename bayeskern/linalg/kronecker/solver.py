"""The solver of full grids: where it fits, what it costs, and what it is made of."""

from __future__ import annotations

from functools import reduce

import equinox as eqx
import jax
import jax.numpy as jnp

from bayeskern.core.validation import is_traced
from bayeskern.hyperparameters.values import shape
from bayeskern.kernels.column_groups import Columns
from bayeskern.kernels.components import part_of
from bayeskern.linalg.factor import Cost, Solver
from bayeskern.linalg.kronecker.factor import (
    KroneckerFactor,
    contract,
    explained,
    log_density,
    product,
)
from bayeskern.linalg.kronecker.grid import Grid, NoGridError


class KroneckerSolver(Solver):
    """Kronecker products: inputs that are a full grid, a kernel that is a product over its axes.

    Attributes:
        axes: The rows of the inputs that have the points of each axis, once it is prepared.
        rows: Which row of the inputs has each cell, (n,).
        columns: The columns of each axis.
    """

    axes: tuple[jax.Array, ...] = ()
    rows: jax.Array | None = None
    columns: tuple[Columns, ...] = eqx.field(static=True, default=())

    name = "kronecker"

    def obstacle(self, kernel, X):
        if X.shape[1] == 1:
            return "there is one input, and a grid has two axes or more"
        for node in kernel.nodes():
            if not node.is_a_function:
                return f"{node!r} is no product over axes: give its variance as the noise"
        if len(_groups(kernel, X)) < 2:
            return f"{kernel!r} is no product of kernels of different columns"
        if is_traced(X):
            return "whether the inputs are a grid cannot be seen while compiling"
        try:
            Grid.of(X, _groups(kernel, X))
        except NoGridError as reason:
            return str(reason)
        return None

    def misfit(self, X, noise, observed):
        if shape(noise) != ():
            return "the noise differs from point to point"
        if observed is not None:
            return "a mask says that only some points of the grid are observed"
        if self.rows is not None and not self._is_prepared_for(X):
            return "it is prepared for another grid"
        return None

    def cost(self, kernel, X):
        sizes = Grid.of(X, _groups(kernel, X)).sizes
        n = X.shape[0]
        # Eigenvectors; about twenty products with the matrices of the axes, there and back.
        operations = sum(25.0 * m**3 + 40.0 * n * m for m in sizes)
        return Cost(operations, 8.0 * (11.0 * n + 7.0 * sum(m**2 for m in sizes)))

    def prepare(self, kernel, X):
        grid = Grid.of(X, _groups(kernel, X))
        return KroneckerSolver(
            tuple(map(jnp.asarray, grid.axes)), jnp.asarray(grid.rows), grid.columns
        )

    def factor(self, kernel, X, noise, observed=None):
        return KroneckerFactor.compute(self._grams(kernel, X), noise, self.rows)

    def mean(self, kernel, part, X, noise, r, weights, X_new, observed=None):
        cells = weights[self.rows].reshape([len(axis) for axis in self.axes])
        return contract(cells, self._grams(part_of(kernel, part), X, X_new))

    def variance(self, kernel, part, X, noise, factor, X_new, observed=None):
        kernel = part_of(kernel, part)
        cross = self._grams(kernel, X, X_new)
        return kernel.evaluate_diag(X_new) - explained(
            factor.spectrum, factor.grams, factor.noise, cross
        )

    def multiply(self, kernel, X, noise, b, observed=None):
        Kb = product(self._grams(kernel, X), noise, b[self.rows][:, None])[:, 0]
        return jnp.zeros_like(Kb).at[self.rows].set(Kb, unique_indices=True)

    def log_density(self, kernel, X, noise, R, observed=None):
        return log_density(self._grams(kernel, X), noise, R[..., self.rows])

    def _grams(self, kernel, X, X_new=None) -> tuple[jax.Array, ...]:
        """The Gram matrices of the axes, whose Kronecker product is k(X) in the grid's order.

        With X_new (m, d) those between X_new and the axes, (m, n_g).
        """
        grams, factors = [], kernel.by_columns(X.shape[1])
        for columns, axis in zip(self.columns, self.axes, strict=True):
            points = (X[axis],) if X_new is None else (X_new, X[axis])
            on_axis = [factors.pop(group) for group in [*factors] if {*group} <= {*columns}]
            ones = jnp.ones((len(points[0]), len(axis)))
            grams.append(reduce(jnp.multiply, (k.evaluate(*points) for k in on_axis), ones))
        if factors:
            across = ", ".join(map(repr, factors.values()))
            raise ValueError(f"{across} reaches across the axes of the grid that was prepared.")
        return tuple(grams)

    def _is_prepared_for(self, X) -> bool:
        if is_traced(X) or is_traced(self.rows):
            return X.shape[0] == self.rows.shape[0]
        return Grid(self.columns, self.axes, self.rows).is_of(X)


def _groups(kernel, X) -> list[Columns]:
    """The columns of each factor of the kernel, and those that it does not look at one by one."""
    d = X.shape[1]
    groups = [columns for columns in kernel.by_columns(d) if columns]
    seen = {column for columns in groups for column in columns}
    return [*groups, *((column,) for column in range(d) if column not in seen)]
