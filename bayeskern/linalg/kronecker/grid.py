"""Inputs that are a full product grid, in NumPy: its axes, and where each of its cells stands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from bayeskern.kernels.column_groups import Columns, joined

# Of more groups of columns than this it is not tried which of them make one axis together.
MOST_JOINED = 10


class NoGridError(ValueError):
    """The inputs are no full product grid."""


class Grid(NamedTuple):
    """Inputs X (n, d) that have each cell of a product of axes once, their rows in any order.

    Attributes:
        columns: The columns that each axis is made of.
        axes: Which rows of X have the points of each axis, (n_1,), (n_2,), ...
        rows: Which row of X has each cell, the last axis changing fastest, (n,).
    """

    columns: tuple[Columns, ...]
    axes: tuple[np.ndarray, ...]
    rows: np.ndarray

    @classmethod
    def of(cls, X, groups: Sequence[Columns]) -> Grid:
        """The grid of most axes, each of which is made of one or more of the groups of columns.

        Raises:
            NoGridError: A cell is missing or stands twice, naming it.
        """
        # Of 0.0 and -0.0, which are equal, only the first.
        points = _Points(np.asarray(X) + 0.0)
        groups = sorted(groups)
        n = len(points.X)
        if points.distinct(joined(groups)) < n:
            raise NoGridError(f"the point {points.repeated()} stands twice in the inputs")
        axes = points.axes(groups)
        if len(axes) < 2:
            raise NoGridError(points.missing(groups))
        first, index = zip(*(points.of(columns) for columns in axes), strict=True)
        rows = np.empty(n, int)
        rows[np.ravel_multi_index(index, [len(f) for f in first])] = np.arange(n)
        return cls(tuple(axes), first, rows)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many points the axes have."""
        return tuple(len(axis) for axis in self.axes)

    def is_of(self, X) -> bool:
        """Whether it is the grid of these inputs."""
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
    """Inputs X (n, d), and which of their points differ in some of the columns."""

    def __init__(self, X):
        self.X, self._seen = X, {}

    def of(self, columns: Columns) -> tuple[np.ndarray, np.ndarray]:
        """A row with each of the points in these columns, and which of them each row has: (n,)."""
        if columns not in self._seen:
            values = self.X[:, columns[0]] if len(columns) == 1 else self.X[:, list(columns)]
            _, first, index = np.unique(values, return_index=True, return_inverse=True, axis=0)
            self._seen[columns] = first, index.reshape(-1)
        return self._seen[columns]

    def distinct(self, columns: Columns) -> int:
        return len(self.of(columns)[0]) if columns else 1

    def axes(self, groups: Sequence[Columns]) -> list[Columns]:
        """The finest axes that the groups of columns can be joined to, one axis if there are none.

        Points are the product of what they are in some columns and in the others if there are as
        many of them as of both multiplied.
        """
        if not groups:
            return []
        first, *others = groups
        most = range(len(others) + 1 if len(groups) <= MOST_JOINED else 1)
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
        """A point that stands twice."""
        _, index = self.of(tuple(range(self.X.shape[1])))
        again = np.flatnonzero(np.bincount(index) > 1)[0]
        return tuple(self.X[index == again][0].tolist())

    def missing(self, groups: Sequence[Columns]) -> str:
        """Which cell the grid of the groups lacks."""
        first, index = zip(*(self.of(columns) for columns in groups), strict=True)
        sizes, n = [len(f) for f in first], len(self.X)
        found = np.array(index)[:, np.lexsort(index[::-1])]
        # Up to the cell that is missing, the rows are the cells in their order.
        wanted, left = np.empty((len(sizes), n + 1), int), np.arange(n + 1)
        for i in reversed(range(len(sizes))):
            left, wanted[i] = np.divmod(left, sizes[i])
        differs = np.flatnonzero((wanted[:, :n] != found).any(axis=0))
        cell = wanted[:, differs[0] if len(differs) else n]
        point = np.empty(self.X.shape[1])
        for columns, rows, i in zip(groups, first, cell, strict=True):
            point[list(columns)] = self.X[rows[i]][list(columns)]
        shape = " x ".join(f"{size:,}" for size in sizes)
        return f"the grid of {shape} lacks the cell {tuple(point.tolist())}"
