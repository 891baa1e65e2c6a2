"""Values that stand out: outside of what all other values of the series say of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from bayeskern.core import validation
from bayeskern.core.files import atomic_write
from bayeskern.forecast.combine.predictive import predictive_of_others
from bayeskern.forecast.forecast import forecast
from bayeskern.forecast.result import Forecast
from bayeskern.forecast.show import plot
from bayeskern.forecast.show.printing import number_format
from bayeskern.prediction.quantile_average import QuantileAverage
from bayeskern.prediction.response_mixture import ResponseMixture

# The most of them that are shown.
ROWS = 20


@dataclass(frozen=True, eq=False)
class Anomalies:
    """The values of a series, and those that lie outside of their leave-one-out intervals.

    Each value is left out in turn, and foretold from all others before and after it by the
    structures of the forecast, averaged over them and their hyperparameters. Returned by
    `anomalies`.

    Attributes:
        forecast: The forecast of the series, whose structures and draws these are.
        level: The probability of the central intervals.
    """

    forecast: Forecast
    level: float

    @cached_property
    def _others(self) -> QuantileAverage | ResponseMixture:
        return predictive_of_others(self.forecast.parts, self.forecast.seed)

    @property
    def times(self) -> np.ndarray:
        """The times of the values that were fitted, (n,)."""
        return self.forecast.series.times[self.forecast.series.observed]

    @property
    def values(self) -> np.ndarray:
        """The values that were fitted, (n,)."""
        return self.forecast.series.values[self.forecast.series.observed]

    @cached_property
    def median(self) -> np.ndarray:
        """The median of each value given all others, (n,)."""
        if not self.forecast.parts:
            return self.values
        return self._others.quantile(0.5)

    @cached_property
    def interval(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the interval of each value given all others, (n,) both."""
        if not self.forecast.parts:
            return self.values, self.values
        tail = 0.5 * (1.0 - self.level)
        lower, upper = self._others.quantile([tail, 1.0 - tail])
        return lower, upper

    @property
    def outside(self) -> np.ndarray:
        """Which values lie outside of their intervals, (n,)."""
        lower, upper = self.interval
        return (self.values < lower) | (self.values > upper)

    def to_frame(self):
        """A pandas frame with a row for each value outside: value, median, lower and upper."""
        import pandas as pd  # slow to import

        pick, (lower, upper) = self.outside, self.interval
        zone, name = self.forecast.series.calendar.tz, self.forecast.series.time_name
        index = pd.Index(self.times[pick], name=name)
        if zone is not None:
            index = index.tz_localize("UTC").tz_convert(zone)
        columns = {"value": self.values, "median": self.median, "lower": lower, "upper": upper}
        return pd.DataFrame({key: column[pick] for key, column in columns.items()}, index=index)

    def plot(self, ax=None):
        """The values over their intervals, those outside marked; returns the figure."""
        return plot.anomalies(self, ax)

    def save(self, folder) -> list[Path]:
        """Write anomalies.csv and anomalies.png; returns their paths."""
        paths = [Path(folder) / "anomalies.csv", Path(folder) / "anomalies.png"]
        table = self.to_frame()
        table.index = self.forecast.time_labels(self.times[self.outside])
        table.index.name = self.forecast.series.time_name
        with atomic_write(paths[0]) as path:
            table.to_csv(path, float_format="%.10g", lineterminator="\n")
        with atomic_write(paths[1]) as path:
            self.plot().savefig(path)
        return paths

    def __repr__(self) -> str:
        f, pick = self.forecast, np.flatnonzero(self.outside)
        show = number_format(self.values)
        chance = f"{(1.0 - self.level) * len(self.values):.2g} would by chance"
        head = [
            f"{f.series.name}: {len(pick)} of {len(self.values)} values of {f.series.value_name} "
            "stand out",
            f"  level     outside of {100 * self.level:.6g} % intervals given all others; {chance}",
            *([f"  problem   {f.problem}"] if f.problem else []),
            *(f"  remark    {remark}" for remark in f.series.remarks),
        ]
        cells = [[f.series.time_name, "value", "median", "interval"]]
        for i in pick[:ROWS]:
            interval = f"{show(self.interval[0][i])} to {show(self.interval[1][i])}"
            label = f.time_labels(self.times[[i]])[0]
            cells.append([label, show(self.values[i]), show(self.median[i]), interval])
        widths = [max(len(row[i]) for row in cells) for i in range(4)]
        rows = [
            "  " + "  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
            for row in cells[: None if len(pick) else 0]
        ]
        more = [f"  and {len(pick) - ROWS} more"] if len(pick) > ROWS else []
        return "\n".join([*head, *([""] if rows else []), *rows, *more])


def anomalies(series, level: float = 0.999, **options) -> Anomalies:
    """Find the values of a series that all others speak against.

    Args:
        series: What `forecast` takes.
        level: The probability of the central leave-one-out intervals; of ordinary values a share
            of 1 - level lies outside as well.
        **options: Further arguments of `forecast`: season, trend, model, seed, ...

    Returns:
        The values with their intervals, and those outside.

    Raises:
        ValueError: As `forecast`.

    References:
        Sundararajan and Keerthi (2001), "Predictive approaches for choosing hyperparameters in
        Gaussian processes", on the leave-one-out distributions.

    Examples:
        ```python
        found = bk.anomalies("meter.csv")
        found.to_frame()
        found.plot()
        ```
    """
    level = validation.level(level)
    return Anomalies(forecast(series, 1, **options), level)
