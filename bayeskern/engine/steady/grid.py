"""Values and linear columns on a regular grid of times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class TimeGrid:
    """Regular grid of times.

    Attributes:
        origin: First time.
        step: Time from one place to the next.
    """

    origin: float
    step: float

    def places(self, x: np.ndarray) -> np.ndarray:
        """Places of times x (q,), counted from 0: (q,) integers.

        Raises:
            ValueError: A time is not on the grid.
        """
        exact = (np.asarray(x, float) - self.origin) / self.step
        places = np.round(exact)
        # Off by more than a thousandth of a step.
        is_off = (np.abs(exact - places) > 1e-3) | (places < 0.0)
        if is_off.any():
            at = int(np.argmax(is_off))
            raise ValueError(
                f"times must lie on the grid of the series, {self.origin:g} + {self.step:g} j with "
                f"j = 0, 1, ...; got {x[at]:g}."
            )
        return places.astype(np.int64)

    def times(self, count: int) -> np.ndarray:
        """The first `count` times, (count,)."""
        return self.origin + self.step * np.arange(count)


@dataclass(frozen=True, eq=False)
class GridColumns:
    """Columns with unknown coefficients: lines of the trend first, then effects.

    Attributes:
        lines: Columns of the trend at times (n,): (n, p).
        effects: Columns of effects at times (n,): (n, k).
        components: Component of each effect, (k,).
        line_count: Number of lines, p.
    """

    lines: Callable[[np.ndarray], np.ndarray]
    effects: Callable[[np.ndarray], np.ndarray] | None
    components: Sequence[str]
    line_count: int

    @property
    def are_lines(self) -> np.ndarray:
        """Mask of the lines, (p + k,)."""
        return np.arange(self.line_count + len(self.components)) < self.line_count

    def of(self, component: str) -> np.ndarray:
        """Mask of the effects of a component, (p + k,)."""
        return np.array([False] * self.line_count + [c == component for c in self.components])

    def at(self, x: np.ndarray) -> np.ndarray:
        """All columns at times x (n,): (n, p + k)."""
        lines = self.lines(x)
        return lines if self.effects is None else np.hstack([lines, self.effects(x)])


@dataclass(frozen=True, eq=False)
class GridData:
    """Values on a grid.

    Attributes:
        places: Increasing places of the values, (n,).
        values: The values, (n,).
        columns: Columns at all places up to the last value, (N, c).
    """

    places: np.ndarray
    values: np.ndarray
    columns: np.ndarray

    @property
    def size(self) -> int:
        """Number of places up to the last value, N."""
        return len(self.columns)

    @cached_property
    def missing(self) -> np.ndarray:
        """Places without a value, (g,)."""
        return np.setdiff1d(np.arange(self.size), self.places)

    @cached_property
    def filled(self) -> np.ndarray:
        """Values, 0 where missing, then the columns: (N, 1 + c)."""
        y = np.zeros(self.size)
        y[self.places] = self.values
        return np.column_stack([y, self.columns])
