"""A hierarchy of series: sums of bottom series."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np

from bayeskern.core.formatting import abbreviated, counted, short, suggestion
from bayeskern.series.reading import columns_of

# Names of the levels of the sum of all series and of the bottom series.
TOTAL, BOTTOM = "total", "bottom"


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """Series that are sums of bottom series.

    Attributes:
        names: Names of the n series: the sums, widest first, then the b bottom series.
        levels: Level of each series.
        sums: Matrix of zeros and ones, (n - b, b): the bottom series of each sum.
    """

    names: tuple[Any, ...]
    levels: tuple[str, ...]
    sums: np.ndarray

    @classmethod
    def read(cls, source: Any) -> Hierarchy:
        """Read a hierarchy.

        Args:
            source: A mapping from each child to its parent, or to several parents; a frame with the
                columns child and parent; or a frame with a row for each bottom series, its name in
                the last column and its groups in the others.

        Raises:
            TypeError: The source is neither a mapping nor a frame.
            ValueError: The parents form a cycle, a cell is empty, or a name has two meanings.
        """
        if isinstance(source, Mapping):
            pairs = [
                (child, parent)
                for child, parents in source.items()
                for parent in (parents if isinstance(parents, list | tuple | set) else [parents])
            ]
            return cls.from_parents(pairs)
        columns = _columns(source)
        if {"child", "parent"} <= columns.keys():
            return cls.from_parents(zip(columns["child"], columns["parent"], strict=True))
        return cls.from_groups(columns)

    @classmethod
    def from_parents(cls, pairs: Iterable[tuple[Any, Any]]) -> Hierarchy:
        """Hierarchy of (child, parent) pairs; a child without a parent is at the top."""
        children: dict[Any, list[Any]] = {}
        for child, parent in pairs:
            if _is_empty(child):
                raise ValueError(f"hierarchy: a child of {parent!r} has no name; fill the cell.")
            children.setdefault(child, [])
            if not _is_empty(parent):
                children.setdefault(parent, []).append(child)
        if not any(children.values()):
            raise ValueError(
                "hierarchy has no parents: give a frame with columns child and parent, a mapping "
                "from child to parent, or a frame of groups such as region and store."
            )
        try:
            # Children come before their parents.
            order = [*TopologicalSorter(children).static_order()]
        except CycleError as error:
            # graphlib lists each node before the node that it is a child of.
            cycle = " -> ".join(map(repr, error.args[1]))
            raise ValueError(
                f"hierarchy has a cycle: {cycle}. Each arrow leads from a child to its parent; "
                "remove one of these rows."
            ) from None
        depth = dict.fromkeys(order, 1)
        leaves: dict[Any, dict[Any, None]] = {}
        for name in order:
            below = [leaves[child] for child in children[name]]
            leaves[name] = dict.fromkeys(leaf for part in below for leaf in part) or {name: None}
        for name in reversed(order):
            for child in children[name]:
                depth[child] = max(depth[child], depth[name] + 1)
        levels = {name: f"level {depth[name]}" if children[name] else BOTTOM for name in children}
        # Bottom series keep the order of the rows.
        widest_first = sorted(
            children, key=lambda name: depth[name] if children[name] else len(order)
        )
        return cls._from_leaves({name: [*leaves[name]] for name in widest_first}, levels)

    @classmethod
    def from_groups(cls, columns: Mapping[str, Sequence[Any]]) -> Hierarchy:
        """Hierarchy of the total, the groups of each column, and the bottom series.

        The last column names the bottom series.
        """
        *groups, bottom = columns
        names = columns[bottom]
        empty = next((name for name in columns if any(map(_is_empty, columns[name]))), None)
        if empty is not None:
            raise ValueError(f"hierarchy: column {empty!r} has an empty cell; fill it in.")
        repeated = next((name for i, name in enumerate(names) if name in names[:i]), None)
        if repeated is not None:
            raise ValueError(
                f"hierarchy: the last column, {bottom!r}, names the bottom series, and has "
                f"{repeated!r} twice. Give one row for each series."
            )
        leaves: dict[Any, list[Any]] = {TOTAL: list(names)}
        levels: dict[Any, str] = {TOTAL: TOTAL}
        for column in groups:
            for group, name in zip(columns[column], names, strict=True):
                if levels.setdefault(group, column) != column or group in names:
                    other = bottom if group in names else levels[group]
                    raise ValueError(
                        f"hierarchy: {group!r} is a name in column {column!r} and in {other!r}; "
                        "rename one of them."
                    )
                leaves.setdefault(group, []).append(name)
        if TOTAL in names:
            raise ValueError(f"hierarchy: {TOTAL!r} names the sum of all series; rename the row.")
        leaves |= {name: [name] for name in names}
        return cls._from_leaves(leaves, levels | dict.fromkeys(names, str(bottom)))

    @classmethod
    def _from_leaves(
        cls, leaves: Mapping[Any, Sequence[Any]], levels: Mapping[Any, str]
    ) -> Hierarchy:
        """Hierarchy from the bottom series of every series, sums in order of level."""
        bottom = [name for name, below in leaves.items() if [*below] == [name]]
        column = {name: j for j, name in enumerate(bottom)}
        upper = [name for name in leaves if name not in column]
        sums = np.zeros((len(upper), len(bottom)))
        for i, name in enumerate(upper):
            sums[i, [column[leaf] for leaf in leaves[name]]] = 1.0
        names = (*upper, *bottom)
        return cls(names, tuple(levels[name] for name in names), sums)

    @property
    def bottom(self) -> tuple[Any, ...]:
        """Names of the bottom series."""
        return self.names[len(self.sums) :]

    @property
    def upper(self) -> tuple[Any, ...]:
        """Names of the sums."""
        return self.names[: len(self.sums)]

    def leaves_of(self, name: Any) -> list[int]:
        """Columns of the bottom series of a sum."""
        return np.flatnonzero(self.sums[self.names.index(name)]).tolist()

    def rows_by_level(self) -> dict[str, list[int]]:
        """Level -> rows of its series, in the order of the names."""
        rows: dict[str, list[int]] = {}
        for row, level in enumerate(self.levels):
            rows.setdefault(level, []).append(row)
        return rows

    def require_forecasts(self, names: Collection[Any]) -> None:
        """Raise ValueError if bottom series and forecasts do not match."""
        missing = [name for name in self.bottom if name not in names]
        if missing:
            raise ValueError(
                f"hierarchy: {_listed(missing)} without a forecast. Forecast the missing series, "
                f"or remove them from the hierarchy.{suggestion(missing[0], names)}"
            )
        unknown = [name for name in names if name not in self.names]
        if unknown:
            raise ValueError(
                f"forecasts: {_listed(unknown)} not in the hierarchy. Add the series to the "
                "hierarchy, or leave out their forecasts."
            )


def _listed(names: Sequence[Any]) -> str:
    """Number of series and the first names: "3 series ('a', 'b', 'c')"."""
    shown = abbreviated((short(repr(name), 60) for name in names), 5)
    return f"{counted(len(names), 'series')} ({shown})"


def _columns(source: Any) -> dict[str, list[Any]]:
    """Columns of a frame by name."""
    try:
        columns = columns_of(source)
    except (TypeError, AttributeError):
        raise TypeError(
            "hierarchy must be a frame with columns child and parent, a mapping from child to "
            "parent, or a frame of groups such as region and store; got a "
            f"{type(source).__name__}."
        ) from None
    if not columns or not next(iter(columns.values())):
        raise ValueError("hierarchy is empty: give a row for each series.")
    return columns


def _is_empty(cell: Any) -> bool:
    """True for a missing cell and for blank text."""
    import pandas as pd  # slow to import

    return not str(cell).strip() if isinstance(cell, str) else bool(pd.isna(cell))
