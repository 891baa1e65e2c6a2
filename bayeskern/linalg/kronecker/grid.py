"""Full product grids among inputs: the axes of a grid, and the row of each cell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, product, zip_longest
from typing import NamedTuple

import numpy as np

from bayeskern.kernels.column_groups import Columns, joined
from bayeskern.linalg.factor import AnyArray

# With more groups of columns, the search for groups that form one axis is skipped.
MAX_SEARCHED_GROUPS = 10


class NoGridError(ValueError):
    """The inputs are not a full product grid."""


class Grid(NamedTuple):
    """Inputs X (n, d) that contain each cell of a product of axes once, in any order.

    Attributes:
        columns: Columns of each axis.
        axes: Row numbers of the points of each axis, shapes (n_1,), (n_2,), ...
        rows: Row number of each cell, the last axis changing fastest, shape (n,).
    """

    columns: tuple[Columns, ...]
    axes: tuple[AnyArray, ...]
    rows: AnyArray

    @classmethod
    def of(cls, X: AnyArray, groups: Sequence[Columns]) -> Grid:
        """Grid with the most axes, each made of one or more of the groups of columns.

        Raises:
            NoGridError: A cell, which the message names, is missing or repeated.
        """
        # -0.0 becomes 0.0, which is equal.
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
    """Inputs X (n, d), and their distinct points in some of the columns."""

    def __init__(self, X: np.ndarray):
        self.X, self._cache = X, {}

    def of(self, columns: Columns) -> tuple[np.ndarray, np.ndarray]:
        """Rows of the distinct points in these columns, and the point of each row."""
        if columns not in self._cache:
            values = self.X[:, columns[0]] if len(columns) == 1 else self.X[:, list(columns)]
            _, first, index = np.unique(values, return_index=True, return_inverse=True, axis=0)
            self._cache[columns] = first, index.reshape(-1)
        return self._cache[columns]

    def distinct(self, columns: Columns) -> int:
        return len(self.of(columns)[0]) if columns else 1

    def axes(self, groups: Sequence[Columns]) -> list[Columns]:
        """Finest axes into which the groups of columns can be joined; else one axis.

        Points are a product over two sets of columns if their number is the product of the numbers
        of distinct points in either set.
        """
        if not groups:
            return []
        first, *others = groups
        most = range(len(others) + 1 if len(groups) <= MAX_SEARCHED_GROUPS else 1)
        for more in (more for size in most for more in combinations(others, size)):
            rest = [group for group in others if group not in more]
            if self._is_product([first, *more], rest, self.distinct(joined(groups))):
                return [joined([first, *more]), *self.axes(rest)]
        return [joined(groups)]

    def _is_product(self, groups, rest, n: int) -> bool:
        at_least = (max((self.distinct(g) for g in side), default=1) for side in (groups, rest))
        if math.prod(at_least) > n:
            return False
        return self.distinct(joined(groups)) * self.distinct(joined(rest)) == n

    def repeated(self) -> tuple[float, ...]:
        """A point that occurs twice."""
        _, index = self.of(tuple(range(self.X.shape[1])))
        again = np.flatnonzero(np.bincount(index) > 1)[0]
        return tuple(self.X[index == again][0].tolist())

    def missing(self, groups: Sequence[Columns]) -> str:
        """Sentence that names the cell that the grid of the groups lacks."""
        first, index = zip(*(self.of(columns) for columns in groups), strict=True)
        sizes = [len(f) for f in first]
        # Before the cell that is missing, the sorted rows are the cells in their order.
        occupied = map(tuple, np.transpose(index)[np.lexsort(index[::-1])])
        pairs = zip_longest(product(*map(range, sizes)), occupied)
        cell = next(cell for cell, row in pairs if cell != row)
        point = np.empty(self.X.shape[1])
        for columns, rows, i in zip(groups, first, cell, strict=True):
            point[list(columns)] = self.X[rows[i]][list(columns)]
        shape = " x ".join(f"{size:,}" for size in sizes)
        return f"the grid of {shape} lacks the cell {tuple(point.tolist())}"
