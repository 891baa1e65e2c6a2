"""Values outside their leave-one-out predictive intervals."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeskern.core import validation
from bayeskern.core.formatting import short
from bayeskern.core.plotting import figure
from bayeskern.forecast.combine.predictive import predictive_of_others
from bayeskern.forecast.forecast import forecast
from bayeskern.forecast.result import Forecast
from bayeskern.forecast.show.interval_table import IntervalTable
from bayeskern.forecast.show.plot import (
    FORECAST_COLOR,
    HISTORY_COLOR,
    NAIVE_COLOR,
    finish,
    short_name,
)
from bayeskern.forecast.show.saving import csv_text, write_files
from bayeskern.prediction.quantile_average import QuantileAverage
from bayeskern.prediction.response_mixture import ResponseMixture

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
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

    @property
    def _title(self) -> str:
        return f"{self.outside.sum()} of {len(self.values)} values stand out"

    @property
    def _table(self) -> IntervalTable:
        """Table of the values outside."""
        rows, (lower, upper) = self.outside, self.interval
        columns = {"value": self.values[rows], "median": self.median[rows]}
        ends = lower[rows], upper[rows]
        return IntervalTable(self.forecast.series, self.times[rows], columns, ends, self.values)

    def to_frame(self) -> pd.DataFrame:
        """Data frame of the values outside, with columns value, median, lower and upper."""
        import pandas as pd  # slow to import

        (lower, upper), series = self.interval, self.forecast.series
        columns = {"value": self.values, "median": self.median, "lower": lower, "upper": upper}
        index = series.calendar.index(self.times, series.time_name)
        return pd.DataFrame(columns, index=index).loc[self.outside]

    def plot(self, ax: Axes | None = None) -> Figure:
        """Plot the values over their intervals, and mark the values outside."""
        ax = figure().subplots() if ax is None else ax
        series, outside = self.forecast.series, self.outside
        x = series.calendar.wall(self.times)
        lower, upper = self.interval
        label = f"{100 * self.level:.6g} % interval given all others"
        ax.fill_between(x, lower, upper, color=FORECAST_COLOR, alpha=0.2, linewidth=0, label=label)
        name = short_name(series.value_name)
        ax.plot(x, self.values, color=HISTORY_COLOR, linewidth=1.0, label=name)
        points = x[outside], self.values[outside]
        ax.scatter(*points, s=30, color=NAIVE_COLOR, zorder=3, label="outside")
        title = f"{short_name(series.name)}: {self._title}"
        return finish(ax, x, series, title, series.calendar.description)

    def export(self, folder: str | Path) -> list[Path]:
        """Write anomalies.csv and anomalies.png; return their paths."""
        table = self.to_frame()
        table.index = self.forecast.time_labels(self.times[self.outside])
        table.index.name = self.forecast.series.time_name
        contents = {"anomalies.csv": csv_text(table), "anomalies.png": self.plot()}
        return write_files(folder, contents)

    def _repr_html_(self) -> str:
        """The result in a notebook."""
        return self._table.page(self._title, self.plot())

    def __repr__(self) -> str:
        f, count = self.forecast, len(self.values)
        head = (
            f"{self.outside.sum()} of {count} values of {short(f.series.value_name, 80)} stand out"
        )
        by_chance = f"{(1.0 - self.level) * count:.2g} would by chance"
        level = f"outside of {100 * self.level:.6g} % intervals given all others; {by_chance}"
        return self._table.text(head, level, f.problem)


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
