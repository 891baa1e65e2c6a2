"""Missing values of a series, predicted from all values before and after them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeskern.core import validation
from bayeskern.core.formatting import counted, short
from bayeskern.core.plotting import figure
from bayeskern.forecast.combine.predictive import predictive_between
from bayeskern.forecast.forecast import forecast
from bayeskern.forecast.model.configuration import Request, configure
from bayeskern.forecast.model.structural_model import StructuralModel
from bayeskern.forecast.result import Forecast
from bayeskern.forecast.show.interval_table import IntervalTable
from bayeskern.forecast.show.plot import FORECAST_COLOR, HISTORY_COLOR, finish, short_name
from bayeskern.forecast.show.saving import csv_text, write_files
from bayeskern.prediction.quantile_average import QuantileAverage
from bayeskern.prediction.response_mixture import ResponseMixture
from bayeskern.series.reading import read_series
from bayeskern.series.series import Series

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class FilledSeries:
    """A series with predictions of its missing values. Returned by `fill_gaps`.

    The predictive distribution of the missing values conditions on all observed values, before and
    after them. It averages over the structures of the forecast and their hyperparameters.

    Attributes:
        forecast: The forecast of the series, with its structures and draws.
        level: Probability of the central intervals.
    """

    forecast: Forecast
    level: float

    @property
    def series(self) -> Series:
        """The series, with NaN at each missing step."""
        return self.forecast.series

    @property
    def times(self) -> np.ndarray:
        """All times, (n,); naive UTC if the series has a time zone."""
        return self.series.times

    @property
    def missing(self) -> np.ndarray:
        """Mask of the missing values, (n,)."""
        return ~self.series.observed

    @cached_property
    def _predictive(self) -> QuantileAverage | ResponseMixture:
        """Predictive distribution of the m missing values."""
        f, count = self.forecast, int(self.missing.sum())
        if not f.parts:
            zeros = np.zeros((1, count))
            unit = partial(np.eye, count)
            return QuantileAverage([1.0], [f.scale], zeros, zeros, correlation=unit)
        x = self.series.calendar.positions(self.times[self.missing])
        return predictive_between(f.parts, x, f.seed)

    def quantile(self, q: float) -> np.ndarray:
        """The series with a quantile in place of each missing value.

        Args:
            q: A probability in (0, 1).

        Returns:
            Shape (n,).
        """
        (probability,) = np.ravel(validation.probabilities(q))
        return self._completed(lambda: self._predictive.quantile(float(probability)))

    @cached_property
    def values(self) -> np.ndarray:
        """The series with the median in place of each missing value, (n,)."""
        return self.quantile(0.5)

    @cached_property
    def interval(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the intervals, (n,) each; the value where known."""
        tail = 0.5 * (1.0 - self.level)
        return self.quantile(tail), self.quantile(1.0 - tail)

    def sample(self, n: int = 1, seed: int = 0) -> np.ndarray:
        """Completed series, with joint draws of all missing values: multiple imputation.

        Args:
            n: Number of series.
            seed: Random seed.

        Returns:
            Shape (n, number of times).
        """
        n, seed = validation.positive_integer(n, "n"), validation.seed(seed)
        completed = np.tile(self.series.values, (n, 1))
        if self.missing.any():
            completed[:, self.missing] = self._predictive.sample(n, seed)
        return completed

    def _completed(self, predictions: Callable[[], np.ndarray]) -> np.ndarray:
        """Values of the series, with `predictions()`, (m,), in place of missing ones."""
        values = self.series.values.copy()
        if self.missing.any():
            values[self.missing] = predictions()
        return values

    def to_frame(self) -> pd.DataFrame:
        """Data frame of all times, with columns value, lower, upper and filled."""
        import pandas as pd  # slow to import

        lower, upper = self.interval
        columns = {"value": self.values, "lower": lower, "upper": upper, "filled": self.missing}
        index = self.series.calendar.index(self.times, self.series.time_name)
        return pd.DataFrame(columns, index=index)

    @property
    def _title(self) -> str:
        return f"{counted(int(self.missing.sum()), 'missing value')} filled"

    @property
    def _table(self) -> IntervalTable:
        """Table of the predictions."""
        rows, (lower, upper) = self.missing, self.interval
        columns, ends = {"median": self.values[rows]}, (lower[rows], upper[rows])
        return IntervalTable(self.series, self.times[rows], columns, ends, self.values)

    def plot(self, ax: Axes | None = None) -> Figure:
        """Plot the series, and the predictions of its missing values with their intervals."""
        ax = figure().subplots() if ax is None else ax
        series, missing, (lower, upper) = self.series, self.missing, self.interval
        x = series.calendar.wall(self.times)
        ax.plot(x, series.values, color=HISTORY_COLOR, linewidth=1.0, label="observed")
        # Lines join predictions to the observed values on both sides of a gap.
        beside = missing | np.append(missing[1:], False) | np.append(False, missing[:-1])
        median, low, high = (np.where(beside, y, np.nan) for y in (self.values, lower, upper))
        label = f"{100 * self.level:.6g} % interval given all observed values"
        ax.fill_between(x, low, high, color=FORECAST_COLOR, alpha=0.25, linewidth=0, label=label)
        ax.plot(x, median, color=FORECAST_COLOR, linewidth=1.2)
        size = 3.5 if missing.sum() <= 150 else 1.5
        style = {"color": FORECAST_COLOR, "marker": "o", "markersize": size, "linestyle": "none"}
        ax.plot(x[missing], self.values[missing], label="predicted", **style)
        title = f"{short_name(series.name)}: {self._title}"
        return finish(ax, x, series, title, series.calendar.description)

    def export(self, folder: str | Path) -> list[Path]:
        """Write filled.csv and filled.png; return their paths."""
        table = self.to_frame()
        table.index = self.forecast.time_labels(self.times)
        table.index.name = self.series.time_name
        return write_files(folder, {"filled.csv": csv_text(table), "filled.png": self.plot()})

    def _repr_html_(self) -> str:
        """The result in a notebook."""
        return self._table.page(self._title, self.plot())

    def __repr__(self) -> str:
        count, name = int(self.missing.sum()), short(self.series.value_name, 80)
        filled = f"{counted(count, 'missing value')} of {name} filled"
        level = f"{100 * self.level:.6g} % intervals given all observed values"
        head = f"{filled}, {len(self.values) - count} observed"
        return self._table.text(head, level, self.forecast.problem)


# Maximum number of values in a fit that includes the first gap; the time of a fit is cubic in it.
MAX_FITTED_VALUES = 2_000
# Number of fitted values before the first gap, if available.
VALUES_BEFORE_GAP = 100


def fill_gaps(
    series: Any,
    level: float = 0.95,
    *,
    model: StructuralModel = StructuralModel(),
    **options: Any,
) -> FilledSeries:
    """Predict the missing values of a series from all values before and after them.

    Empty cells count as missing, and so do steps of a regular time axis without a row. Rows without
    a value at the end are predicted by `forecast` instead.

    The fit contains all values from shortly before the first gap on, at most 2000 unless
    `StructuralModel(last=...)` says otherwise; earlier gaps are left out, with a remark.

    Args:
        series: A series, or a source that `forecast` accepts.
        level: Probability of the central intervals.
        model: Further options of the structural model.
        **options: Further arguments of `forecast`: season, trend, regressors, events, seed, ...

    Returns:
        The series with its missing values predicted.

    Raises:
        ValueError: If the series cannot be read or forecast.

    References:
        Rasmussen and Williams (2006), "Gaussian processes for machine learning", section 2.2, on
        the distribution of new values given observed ones.

        Rubin (1987), "Multiple imputation for nonresponse in surveys", on the use of draws.

    Examples:
        ```python
        filled = bk.fill_gaps("meter.csv")
        filled.values, filled.interval  # (n,), and the lower and upper ends
        filled.sample(20)  # completed series, for multiple imputation
        filled.to_frame(), filled.plot()
        ```
    """
    level = validation.level(level)
    series = read_series(series, regressors=options.pop("regressors", None)).with_all_steps()
    _require_regressors(series)
    first = int(np.argmin(series.observed))
    names = [name for name in Request._fields[1:] if name in options]
    request = Request(model, **{name: options[name] for name in names})
    fitted, _ = configure(series, 1, request)
    if model.last is None and fitted.times[0] > series.times[first] and not series.observed[first]:
        needed = int(series.observed[first:].sum()) + VALUES_BEFORE_GAP
        model = replace(model, last=min(needed, MAX_FITTED_VALUES, int(series.observed.sum())))
    result = forecast(series, 1, model=model, **options)
    if not result.parts and not series.observed.all():
        constant = "all observed values are equal: the intervals have no width"
        result = replace(result, series=result.series.with_remarks(constant))
    left_out = int(np.sum(~series.observed & (series.times < result.series.times[0])))
    if left_out:
        begin = result.series.calendar.labels(result.series.times[:1])[0]
        remark = f"{counted(left_out, 'missing value')} before {begin} not filled: outside the fit"
        result = replace(result, series=result.series.with_remarks(remark))
    return FilledSeries(result, level)


def _require_regressors(series: Series) -> None:
    """Raise ValueError if a regressor is unknown at a missing value."""
    gaps = series.times[~series.observed]
    known = (
        np.ones(len(gaps), bool) if series.regressors is None else series.regressors.covers(gaps)
    )
    if series.regressors is not None and not known.all():
        label = series.calendar.labels(gaps[~known][:1])[0]
        raise ValueError(
            f"{' or '.join(series.regressors.columns)} has no value at {label}, where "
            f"{series.value_name} is missing: to fill the gap, add the regressors of that time."
        )
