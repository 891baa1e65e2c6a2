"""Detection of full product grids in inputs: axes of the grid, row of each cell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, product, zip_longest
from typing import NamedTuple

import numpy as np

from bayeskern.kernels.column_groups import Columns, joined
from bayeskern.linalg.factor import AnyArray

# With more groups of columns, groups are not joined into axes: the search would take too long.
MAX_SEARCHED_GROUPS = 10


class NoGridError(ValueError):
    """The inputs are not a full product grid."""


class Grid(NamedTuple):
    """Grid of inputs X (n, d): each combination of points of the axes is one row.

    Attributes:
        columns: Columns of each axis.
        axes: For each axis, rows of X with its points, shapes (n_1,), (n_2,), ...
        rows: Row of X of each cell of the grid, the last axis changing fastest, shape (n,).
    """

    columns: tuple[Columns, ...]
    axes: tuple[AnyArray, ...]
    rows: AnyArray

    @classmethod
    def of(cls, X: AnyArray, groups: Sequence[Columns]) -> Grid:
        """Grid with as many axes as possible; an axis consists of whole groups of columns.

        Raises:
            NoGridError: A cell is missing or repeated; the message names it.
        """
        # Adding 0.0 turns -0.0 into 0.0, so that np.unique treats them alike.
        points = _Points(np.asarray(X) + 0.0)
        groups = sorted(groups)
        n = len(points.X)
        if points.distinct(joined(groups)) < n:
            raise NoGridError(f"the point {points.repeated()} occurs twice in the inputs")
        axes = points.axes(groups)
        if len(axes) < 2:
            raise NoGridError(points.missing(groups))
        first, index = zip(*(points.of(columns) for columns in axes), strict=True)
        rows = np.empty(n, int)
        rows[np.ravel_multi_index(index, [len(f) for f in first])] = np.arange(n)
        return cls(tuple(axes), first, rows)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of points of the axes."""
        return tuple(len(axis) for axis in self.axes)

    def is_of(self, X: AnyArray) -> bool:
        """True if the inputs have this grid."""
        X = np.asarray(X)
        if len(X) != len(self.rows):
            return False
        cells = X[self.rows].reshape(*self.sizes, -1)
        for i, (columns, axis) in enumerate(zip(self.columns, self.axes, strict=True)):
            along = np.moveaxis(cells[..., list(columns)], i, -2)
            if not np.array_equal(along, np.broadcast_to(X[axis][:, list(columns)], along.shape)):
                return False
        return True


class _Points:
    """Inputs X (n, d), and their distinct points in subsets of the columns."""

    def __init__(self, X: np.ndarray):
        self.X, self._cache = X, {}

    def of(self, columns: Columns) -> tuple[np.ndarray, np.ndarray]:
        """Distinct points in these columns: a row of each, and the index of every row's point."""
        if columns not in self._cache:
            values = self.X[:, columns[0]] if len(columns) == 1 else self.X[:, list(columns)]
            _, first, index = np.unique(values, return_index=True, return_inverse=True, axis=0)
            self._cache[columns] = first, index.reshape(-1)
        return self._cache[columns]

    def distinct(self, columns: Columns) -> int:
        """Number of distinct points in these columns."""
        return len(self.of(columns)[0]) if columns else 1

    def axes(self, groups: Sequence[Columns]) -> list[Columns]:
        """Columns of as many axes as possible; one axis if the points are no product.

        The points are a product over two sets of columns if their number is the product of the
        numbers of distinct points in each set.
        """
        if not groups:
            return []
        first, *others = groups
        # The first axis: the first group, joined with as few other groups as possible.
        sizes = range(len(others) + 1 if len(groups) <= MAX_SEARCHED_GROUPS else 1)
        for added in (added for size in sizes for added in combinations(others, size)):
            rest = [group for group in others if group not in added]
            if self._is_product([first, *added], rest, self.distinct(joined(groups))):
                return [joined([first, *added]), *self.axes(rest)]
        return [joined(groups)]

    def _is_product(self, groups, rest, n: int) -> bool:
        # A cheap test first: a set has at least as many distinct points as each of its groups.
        bounds = (max((self.distinct(g) for g in side), default=1) for side in (groups, rest))
        if math.prod(bounds) > n:
            return False
        return self.distinct(joined(groups)) * self.distinct(joined(rest)) == n

    def repeated(self) -> tuple[float, ...]:
        """A point that occurs twice."""
        _, index = self.of(tuple(range(self.X.shape[1])))
        repeated = np.flatnonzero(np.bincount(index) > 1)[0]
        return tuple(self.X[index == repeated][0].tolist())

    def missing(self, groups: Sequence[Columns]) -> str:
        """Clause that names the first missing cell of the grid of the groups."""
        first, index = zip(*(self.of(columns) for columns in groups), strict=True)
        sizes = [len(f) for f in first]
        # Up to the first missing cell, the sorted rows and the cells in order are equal.
        occupied = map(tuple, np.transpose(index)[np.lexsort(index[::-1])])
        pairs = zip_longest(product(*map(range, sizes)), occupied)
        cell = next(cell for cell, row in pairs if cell != row)
        point = np.empty(self.X.shape[1])
        for columns, rows, i in zip(groups, first, cell, strict=True):
            point[list(columns)] = self.X[rows[i]][list(columns)]
        shape = " x ".join(f"{size:,}" for size in sizes)
        return f"the grid of {shape} lacks the cell {tuple(point.tolist())}"
