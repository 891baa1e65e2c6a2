"""Words for a kernel in reports: "repeats every 1 year; it changes over about 60 years"."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bayeskern.core.formatting import abbreviated, number


@dataclass(frozen=True)
class InputAxis:
    """The inputs of a kernel.

    Attributes:
        unit: "years", "steps", or "" if unknown.
        extent: Range of the data along each column.
        names: Names of the columns.
    """

    unit: str
    extent: tuple[float, ...]
    names: tuple[str, ...] = ()

    def name(self, i: int) -> str:
        """Name of a column."""
        return self.names[i] if i < len(self.names) else f"column {i}"

    def value(self, i: int, x: float) -> str:
        """Value of a column, or its level if the column is text."""
        levels = getattr(self.names[i], "levels", ()) if i < len(self.names) else ()
        return str(levels[int(x)]) if levels else number(x)

    def span(self, draws: ArrayLike) -> str:
        """A length along the axis: its median, and its 90 % interval if that is wide."""
        values = np.asarray(draws, float)
        if values.ndim > 2:
            # The lengthscale is a matrix.
            return "a length that depends on the direction"
        if values.ndim == 2:
            texts = [f"{self._in_units(v)} in {self.name(i)}" for i, v in enumerate(values.T)]
            return abbreviated(texts, 6)
        return self._in_units(values)

    def _in_units(self, values: np.ndarray) -> str:
        median, low, high = np.quantile(values, (0.5, 0.05, 0.95))
        size, unit = self._unit(median)
        text = number(median / size)
        # Intervals narrower than 1 % of the median are left out.
        if high - low > 0.01 * median:
            text += f" ({number(low / size)} to {number(high / size)})"
        plural = "s" if self.unit == "years" and text != "1" else ""
        return f"{text} {unit}{plural}".rstrip()

    def _unit(self, length: float) -> tuple[float, str]:
        """Unit of a length: its size along the axis, and its name."""
        if self.unit != "years":
            return 1.0, self.unit
        sizes = {"year": 1.0, "month": 1.0 / 12.0, "day": 1.0 / 365.25, "hour": 1.0 / 8766.0}
        units = (unit for unit, size in sizes.items() if length >= 0.999 * size)
        unit = next(units, "hour")
        return sizes[unit], unit

    def length(self, draws: ArrayLike) -> str:
        """A lengthscale or period in words, with a remark if it is longer than the data."""
        values = np.asarray(draws, float)
        is_single = len(self.extent) == 1 and values.ndim == 1
        is_longer = is_single and np.median(values) >= self.extent[0]
        return self.span(values) + (", longer than the data" if is_longer else "")
