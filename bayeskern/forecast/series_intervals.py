"""Predictive intervals over a fitted series, with a table of selected values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bayeskern.core.formatting import printable_lines, short
from bayeskern.forecast.result import Forecast
from bayeskern.forecast.show import html
from bayeskern.forecast.show.printing import number_format, right_aligned, rounded
from bayeskern.forecast.show.saving import csv_text, write_files

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Largest number of rows of the tables on the terminal and in notebooks.
MAX_PRINTED_ROWS, MAX_PAGE_ROWS = 20, 12


@dataclass(frozen=True, eq=False, repr=False)
class SeriesIntervals(ABC):
    """Values of a fitted series with their intervals; some values are selected for tables.

    Attributes:
        forecast: The forecast of the series, with its structures and draws.
        level: Probability of the central intervals.
    """

    forecast: Forecast
    level: float

    # Name of the files of `export`.
    file_name: ClassVar[str]

    @property
    @abstractmethod
    def times(self) -> np.ndarray:
        """Times of the values, (n,)."""

    @property
    @abstractmethod
    def values(self) -> np.ndarray:
        """The values, (n,)."""

    @property
    @abstractmethod
    def interval(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the intervals, (n,) each."""

    @property
    @abstractmethod
    def _selected(self) -> np.ndarray:
        """Mask of the values in tables, (n,)."""

    @property
    @abstractmethod
    def _columns(self) -> dict[str, np.ndarray]:
        """Columns of tables besides the interval, (n,) each."""

    @property
    @abstractmethod
    def _title(self) -> str:
        """Number of selected values, in words."""

    @property
    @abstractmethod
    def _facts(self) -> tuple[str, str]:
        """First line of the summary, without the name of the series; text on the level."""

    @abstractmethod
    def to_frame(self) -> pd.DataFrame:
        """Data frame of the values with their intervals."""

    @abstractmethod
    def plot(self, ax: Axes | None = None) -> Figure:
        """Plot the values with their intervals."""

    def _write(self, folder: str | Path, times: np.ndarray) -> list[Path]:
        """Write the frame, whose rows are at `times`, and the plot; return their paths."""
        table = self.to_frame()
        table.index = self.forecast.time_labels(times)
        table.index.name = self.forecast.series.time_name
        name = self.file_name
        return write_files(folder, {f"{name}.csv": csv_text(table), f"{name}.png": self.plot()})

    def _repr_html_(self) -> str:
        """The result in a notebook."""
        series, rows = self.forecast.series, np.flatnonzero(self._selected)
        shown, table = rows[:MAX_PAGE_ROWS], ""
        if len(rows):
            digits = int(2 - np.floor(np.log10(float(np.std(self.values)) or 1.0)))
            lower, upper = self.interval
            columns = self._columns | {"lower": lower, "upper": upper}
            numbers = np.column_stack([*columns.values()])[shown].tolist()
            cells = [
                [label, *(rounded(value, digits) for value in row)]
                for label, row in zip(
                    self.forecast.time_labels(self.times[shown]), numbers, strict=True
                )
            ]
            note = f"and {len(rows) - len(shown)} more" if len(rows) > len(shown) else ""
            table = html.table([series.time_name, *columns], cells, note)
        return html.page(f"{series.name}: {self._title}", self.plot(), table, series.remarks)

    def __repr__(self) -> str:
        f, rows = self.forecast, np.flatnonzero(self._selected)
        show, (lower, upper), (head, level) = number_format(self.values), self.interval, self._facts
        lines = [
            f"{short(f.series.name, 80)}: {head}",
            f"  level     {level}",
            *([f"  problem   {f.problem}"] if f.problem else []),
            *(f"  remark    {remark}" for remark in f.series.remarks),
        ]
        cells = [[f.series.time_name, *self._columns, "interval"]]
        for i in rows[:MAX_PRINTED_ROWS]:
            numbers = [show(float(column[i])) for column in self._columns.values()]
            ends = f"{show(float(lower[i]))} to {show(float(upper[i]))}"
            cells.append([f.time_labels(self.times[[i]])[0], *numbers, ends])
        lines += ["", *right_aligned(cells)] if len(rows) else []
        if len(rows) > MAX_PRINTED_ROWS:
            lines.append(f"  and {len(rows) - MAX_PRINTED_ROWS} more")
        return printable_lines("\n".join(lines))
