"""A table of values of a series with their intervals, as text and as a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayeskern.core.formatting import printable_lines, short
from bayeskern.forecast.show import html
from bayeskern.forecast.show.printing import number_format, right_aligned, rounded
from bayeskern.series.series import Series

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Largest number of rows on the terminal and in notebooks.
MAX_PRINTED_ROWS, MAX_PAGE_ROWS = 20, 12


@dataclass(frozen=True, eq=False)
class IntervalTable:
    """Values at some times of a series, with their intervals.

    Attributes:
        series: The series.
        times: Times of the rows, (m,).
        columns: Numbers by name, (m,) each.
        interval: Lower and upper ends, (m,) each.
        values: Values of the series, whose spread determines the number of digits.
    """

    series: Series
    times: np.ndarray
    columns: dict[str, np.ndarray]
    interval: tuple[np.ndarray, np.ndarray]
    values: np.ndarray

    def text(self, head: str, level: str, problem: str | None) -> str:
        """Lines with a head, the level, a problem, the remarks on the series and the table."""
        show, (lower, upper) = number_format(self.values), self.interval
        lines = [
            f"{short(self.series.name, 80)}: {head}",
            f"  level     {level}",
            *([f"  problem   {problem}"] if problem else []),
            *(f"  remark    {remark}" for remark in self.series.remarks),
        ]
        cells = [[self.series.time_name, *self.columns, "interval"]]
        for i in range(min(len(self.times), MAX_PRINTED_ROWS)):
            numbers = [show(float(column[i])) for column in self.columns.values()]
            ends = f"{show(float(lower[i]))} to {show(float(upper[i]))}"
            cells.append([*self.series.calendar.labels(self.times[[i]]), *numbers, ends])
        lines += ["", *right_aligned(cells)] if len(self.times) else []
        if len(self.times) > MAX_PRINTED_ROWS:
            lines.append(f"  and {len(self.times) - MAX_PRINTED_ROWS} more")
        return printable_lines("\n".join(lines))

    def page(self, title: str, figure: Figure) -> str:
        """Block of HTML with a title, the remarks on the series, a picture and the table."""
        rows, table = self.times[:MAX_PAGE_ROWS], ""
        if len(rows):
            digits = int(2 - np.floor(np.log10(float(np.std(self.values)) or 1.0)))
            lower, upper = self.interval
            columns = self.columns | {"lower": lower, "upper": upper}
            numbers = np.column_stack([*columns.values()])[: len(rows)].tolist()
            labels = self.series.calendar.labels(rows)
            cells = [
                [label, *(rounded(value, digits) for value in row)]
                for label, row in zip(labels, numbers, strict=True)
            ]
            left_out = len(self.times) - len(rows)
            note = f"and {left_out} more" if left_out else ""
            table = html.table([self.series.time_name, *columns], cells, note)
        return html.page(f"{self.series.name}: {title}", figure, table, self.series.remarks)
