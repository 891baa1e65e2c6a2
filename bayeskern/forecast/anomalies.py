"""Values outside their leave-one-out predictive intervals."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeskern.core import validation
from bayeskern.core.formatting import printable_lines, short
from bayeskern.forecast.combine.predictive import predictive_of_others
from bayeskern.forecast.forecast import forecast
from bayeskern.forecast.result import Forecast
from bayeskern.forecast.show import html, plot
from bayeskern.forecast.show.printing import number_format, right_aligned
from bayeskern.forecast.show.saving import csv_text, write_files
from bayeskern.prediction.quantile_average import QuantileAverage
from bayeskern.prediction.response_mixture import ResponseMixture

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Anomalies:
    """Values of a series with their leave-one-out intervals. Returned by `anomalies`.

    Each value is predicted from all earlier and later values, by the average over the structures of
    the forecast and their hyperparameters.

    Attributes:
        forecast: The forecast of the series, with its structures and draws.
        level: Probability of the central intervals.
    """

    forecast: Forecast
    level: float

    @cached_property
    def _predictive(self) -> QuantileAverage | ResponseMixture:
        """Leave-one-out predictive distributions of all values."""
        return predictive_of_others(self.forecast.parts, self.forecast.seed)

    @property
    def times(self) -> np.ndarray:
        """Times of the fitted values, (n,)."""
        return self.forecast.series.times[self.forecast.series.observed]

    @property
    def values(self) -> np.ndarray:
        """Fitted values, (n,)."""
        return self.forecast.series.values[self.forecast.series.observed]

    @cached_property
    def median(self) -> np.ndarray:
        """Leave-one-out median of each value, (n,)."""
        return self._predictive.quantile(0.5) if self.forecast.parts else self.values

    @cached_property
    def interval(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the leave-one-out intervals, (n,) each."""
        if not self.forecast.parts:
            return self.values, self.values
        tail = 0.5 * (1.0 - self.level)
        lower, upper = self._predictive.quantile([tail, 1.0 - tail])
        return lower, upper

    @property
    def outside(self) -> np.ndarray:
        """Mask of the values outside their intervals, (n,)."""
        lower, upper = self.interval
        return (self.values < lower) | (self.values > upper)

    def to_frame(self) -> pd.DataFrame:
        """Data frame of the values outside, with columns value, median, lower and upper."""
        import pandas as pd  # slow to import

        (lower, upper), series = self.interval, self.forecast.series
        columns = {"value": self.values, "median": self.median, "lower": lower, "upper": upper}
        index = series.calendar.index(self.times, series.time_name)
        return pd.DataFrame(columns, index=index).loc[self.outside]

    def plot(self, ax: Axes | None = None) -> Figure:
        """Plot the values over their intervals, and mark the values outside."""
        return plot.anomalies(self, ax)

    def export(self, folder: str | Path) -> list[Path]:
        """Write anomalies.csv and anomalies.png; return their paths."""
        table = self.to_frame()
        table.index = self.forecast.time_labels(self.times[self.outside])
        table.index.name = self.forecast.series.time_name
        contents = {"anomalies.csv": csv_text(table), "anomalies.png": self.plot()}
        return write_files(folder, contents)

    def _repr_html_(self) -> str:
        """The result in a notebook."""
        return html.of_anomalies(self)

    def __repr__(self) -> str:
        f, rows, max_rows = self.forecast, np.flatnonzero(self.outside), 20
        show, (lower, upper) = number_format(self.values), self.interval
        by_chance = f"{(1.0 - self.level) * len(self.values):.2g} would by chance"
        lines = [
            f"{short(f.series.name, 80)}: {len(rows)} of {len(self.values)} values of "
            f"{short(f.series.value_name, 80)} stand out",
            f"  level     outside of {100 * self.level:.6g} % intervals given all others; "
            f"{by_chance}",
            *([f"  problem   {f.problem}"] if f.problem else []),
            *(f"  remark    {remark}" for remark in f.series.remarks),
        ]
        if not len(rows):
            return printable_lines("\n".join(lines))
        cells = [[f.series.time_name, "value", "median", "interval"]]
        for i in rows[:max_rows]:
            value, median, low, high = (
                show(float(number))
                for number in (self.values[i], self.median[i], lower[i], upper[i])
            )
            label = f.time_labels(self.times[[i]])[0]
            cells.append([label, value, median, f"{low} to {high}"])
        lines += ["", *right_aligned(cells)]
        if len(rows) > max_rows:
            lines.append(f"  and {len(rows) - max_rows} more")
        return printable_lines("\n".join(lines))


def anomalies(series: Any, level: float = 0.999, **options: Any) -> Anomalies:
    """Find values of a series that are improbable given all other values.

    Args:
        series: A series, or a source that `forecast` accepts.
        level: Probability of the central leave-one-out intervals. By chance, a share 1 - level of
            ordinary values lies outside.
        **options: Further arguments of `forecast`: season, trend, model, seed, ...

    Returns:
        The values with their intervals.

    Raises:
        ValueError: If the series cannot be read or forecast.

    References:
        Sundararajan and Keerthi (2001), "Predictive approaches for choosing hyperparameters in
        Gaussian processes", on the leave-one-out distributions.

    Examples:
        ```python
        result = bk.anomalies("meter.csv")
        result.to_frame()
        result.plot()
        ```
    """
    level = validation.level(level)
    return Anomalies(forecast(series, 1, **options), level)
