"""Comparison of forecasts and of models of statsforecast on one series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from bayeskern.core.formatting import aligned, counted, printable
from bayeskern.forecast.evaluate.scores import (
    SCORED_PROBABILITIES,
    joined,
    rows_of_means,
    score,
)
from bayeskern.forecast.fit.rolling import Origin
from bayeskern.forecast.result import Forecast
from bayeskern.series.series import Series

if TYPE_CHECKING:
    import pandas as pd


@runtime_checkable
class Peer(Protocol):
    """A model of statsforecast, or any object with the same `forecast` method."""

    def forecast(self, y: np.ndarray, h: int, level: list[float]) -> Mapping[str, np.ndarray]:
        """Forecasts (h,) by name.

        The names are "mean" and, for each level in percent, the ends of the interval, such as
        "lo-80" and "hi-80".
        """
        ...


@dataclass(frozen=True, eq=False)
class ForecastComparison:
    """Scores of forecasts from the same origins, as `compare` returns them.

    Attributes:
        series: Name of the series.
        steps: Horizon of each forecast, in steps.
        origins: Number of origins.
        count: Number of values that are scored.
        table: Scores by model: mae, rmse and crps in the units of the series; and coverage_80 and
            others, the shares of values inside the central intervals.
    """

    series: str
    steps: int
    origins: int
    count: int
    table: dict[str, dict[str, float]]

    def to_frame(self) -> pd.DataFrame:
        """The table as a pandas data frame, with a row for each model."""
        import pandas as pd  # slow to import

        return pd.DataFrame.from_dict(self.table, orient="index")

    def __repr__(self) -> str:
        head = (
            f"{printable(self.series)}: forecasts of {counted(self.steps, 'step')} from "
            f"{counted(self.origins, 'past date')}, {counted(self.count, 'value')}"
        )
        return "\n".join([head, "", *aligned(rows_of_means(self.table))])


def compare_forecasts(models: Mapping[str, Any]) -> ForecastComparison:
    """Score forecasts and models of statsforecast from the same origins.

    The origins are those of the rolling-origin evaluation behind the verdict on a forecast.

    Args:
        models: Forecasts and models of statsforecast, by name.

    Returns:
        Scores of each model, and of the seasonal naive forecast.

    Raises:
        ValueError: If the forecasts are of several series or horizons, if the series is too short
            for past forecasts, or if a model of statsforecast cannot forecast it.
        TypeError: If a model is neither a forecast nor a model of statsforecast.
    """
    forecasts = {name: model for name, model in models.items() if isinstance(model, Forecast)}
    first, f = next(iter(forecasts.items()))
    for name, other in forecasts.items():
        if other.horizon != f.horizon or not _are_same(other.series, f.series):
            raise ValueError(
                f"{first} and {name} must be forecasts of the same series and horizon; got "
                f"{f.horizon} steps of {f.series.name} and {other.horizon} steps of "
                f"{other.series.name}."
            )
    evaluation = f.past_scores
    if evaluation is None or f.combination is None:
        raise ValueError(
            f"{f.series.name} is too short or constant, so there are no past forecasts to score."
        )
    table = {}
    for name, model in models.items():
        if not isinstance(model, Forecast):
            table[name] = _score_peer(name, model, f.series, f.combination.origins)
        elif model.past_scores is not None:
            table[name] = model.past_scores.ours.means
    table["seasonal naive"] = evaluation.naive.means
    return ForecastComparison(
        f.series.name, evaluation.steps, len(evaluation.origins), evaluation.count, table
    )


def _are_same(first: Series, second: Series) -> bool:
    return np.array_equal(first.times, second.times) and np.array_equal(
        first.values, second.values, equal_nan=True
    )


def _score_peer(
    name: str, model: Any, series: Series, origins: Sequence[Origin]
) -> dict[str, float]:
    if not isinstance(model, Peer):
        raise TypeError(
            f"{name} must be a forecast of bk.forecast, or a model of statsforecast such as "
            f"statsforecast.models.AutoETS(season_length=12); got {type(model).__name__}."
        )
    y, on_grid = series.values[series.observed], series.on_grid()
    steps = series.calendar.steps()[series.observed]
    scored = []
    for origin in origins:
        past = on_grid[: steps[origin.count - 1] + 1]
        if np.isnan(past).any():
            raise ValueError(
                f"{name} needs a series without gaps, and this one has missing values or times."
            )
        try:
            quantiles = _quantiles(model, past, int(origin.steps[-1]) + 1)
        except Exception as error:
            # Models raise errors of many types, which do not name the model.
            raise ValueError(f"{name} cannot forecast this series: {error}") from error
        if not np.all(np.isfinite(quantiles)):
            raise ValueError(f"{name} has a forecast of this series that is not finite.")
        scored.append(score(quantiles[:, origin.steps], y[origin.ahead]))
    return joined(scored).means


def _quantiles(model: Peer, past: np.ndarray, ahead: int) -> np.ndarray:
    """Quantiles of a peer at SCORED_PROBABILITIES: (probabilities, ahead)."""
    # The p-quantile is an end of the |200 p - 100| % interval. The mean stands in for the median.
    widths = np.round(200.0 * np.abs(SCORED_PROBABILITIES - 0.5), 10)
    levels = sorted({*widths.tolist()} - {0.0})
    forecasts = model.forecast(y=past, h=ahead, level=levels)
    rows = []
    for p, width in zip(SCORED_PROBABILITIES, widths.tolist(), strict=True):
        key = "mean" if width == 0.0 else f"{'lo' if p < 0.5 else 'hi'}-{width}"
        rows.append(np.asarray(forecasts[key], float))
    return np.stack(rows)
