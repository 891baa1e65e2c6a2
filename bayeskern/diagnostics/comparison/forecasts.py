"""Forecasts of one series beside one another, and beside models of statsforecast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bayeskern.core.formatting import aligned, counted
from bayeskern.forecast.data.series import Series
from bayeskern.forecast.evaluate.scores import COVERAGES, WANTED, Scores, joined, score
from bayeskern.forecast.fit.rolling import Origin
from bayeskern.forecast.result import Forecast

NAIVE = "seasonal naive"
MEASURES = ("mae", "rmse", "crps", *(f"coverage_{100 * level:g}" for level in COVERAGES))


class Peer(Protocol):
    """A model of statsforecast, or what forecasts as one does."""

    def forecast(self, y, h: int, level: list[float]) -> Mapping[str, np.ndarray]:
        """Forecasts by name: "mean" and, for each level in percent, "lo-80" and "hi-80": (h,)."""


@dataclass(frozen=True, eq=False)
class ForecastComparison:
    """Forecasts from the same past dates, scored by what came true. `compare` returns it.

    Attributes:
        series: The name of the series.
        steps: How many steps ahead each forecast went.
        origins: From how many past dates.
        count: How many values there were to compare with.
        table: Model -> mae, rmse and crps in the units of the series, coverage_80 and so on, the
            share of values inside the central intervals.
    """

    series: str
    steps: int
    origins: int
    count: int
    table: dict[str, dict[str, float]]

    def to_frame(self):
        """The table as a pandas data frame, with a row for each model."""
        import pandas as pd  # slow to import

        return pd.DataFrame.from_dict(self.table, orient="index", columns=list(MEASURES))

    def __repr__(self) -> str:
        head = (
            f"{self.series}: forecasts of {counted(self.steps, 'step')} from "
            f"{counted(self.origins, 'past date')}, {counted(self.count, 'value')}"
        )
        rows = [("", *MEASURES)]
        for name, row in self.table.items():
            rows.append((name, *(_shown(measure, row[measure]) for measure in MEASURES)))
        return "\n".join([head, "", *aligned(rows)])


def _shown(measure: str, value: float) -> str:
    return f"{100.0 * value:.0f} %" if measure.startswith("coverage") else f"{value:.4g}"


def compare_forecasts(models: Mapping[str, Forecast | Peer]) -> ForecastComparison:
    """Score forecasts and peers from the same past dates of the series.

    They are the dates that the verdict on a forecast rests on, `Forecast.look_back`.

    Raises:
        ValueError: If the forecasts are of several series or horizons, if the series is too short
            to look back, or if a peer can forecast none of it.
        TypeError: If a model is neither a forecast nor one of statsforecast.
    """
    forecasts = {name: model for name, model in models.items() if isinstance(model, Forecast)}
    first, f = next(iter(forecasts.items()))
    for name, other in forecasts.items():
        if other.horizon != f.horizon or not _same(other.series, f.series):
            raise ValueError(
                f"{first} and {name} are forecasts of other series or horizons: only forecasts of "
                "the same values, as many steps ahead, can be put side by side."
            )
    if f.look_back is None:
        raise ValueError(f"{f.series.name} is too short, or constant: there is no looking back.")
    table = {}
    for name, model in models.items():
        if isinstance(model, Forecast):
            table[name] = _row(model.look_back.ours)
        else:
            table[name] = _of_peer(name, model, f.series, f.combination.origins)
    table[NAIVE] = _row(f.look_back.naive)
    back = f.look_back
    return ForecastComparison(f.series.name, back.steps, len(back.origins), back.count, table)


def _same(one: Series, other: Series) -> bool:
    return np.array_equal(one.times, other.times) and np.array_equal(
        one.values, other.values, equal_nan=True
    )


def _row(scores: Scores) -> dict[str, float]:
    inside = {f"coverage_{100 * c:g}": float(np.mean(v)) for c, v in scores.inside.items()}
    return {
        "mae": float(np.mean(np.abs(scores.errors))),
        "rmse": float(np.sqrt(np.mean(np.square(scores.errors)))),
        "crps": float(np.mean(scores.crps)),
        **inside,
    }


def _of_peer(name: str, model: Peer, series: Series, origins: Sequence[Origin]) -> dict[str, float]:
    if not callable(getattr(model, "forecast", None)):
        raise TypeError(
            f"{name} is a {type(model).__name__}; wanted a forecast of bk.forecast, or a model of "
            "statsforecast, such as statsforecast.models.AutoETS(season_length=12)."
        )
    y, on_grid = series.values[series.observed], series.on_grid()
    steps = series.calendar.steps()[series.observed]
    scored = []
    for origin in origins:
        past = on_grid[: steps[origin.count - 1] + 1]
        if np.isnan(past).any():
            raise ValueError(
                f"{name} takes series without gaps, and this one has missing values or times."
            )
        try:
            quantiles = _quantiles(model, past, int(origin.steps[-1]) + 1)
        except Exception as error:
            # Each model has errors of its own, and they do not name it.
            raise ValueError(f"{name} has no forecast of this series: {error}") from error
        if not np.all(np.isfinite(quantiles)):
            raise ValueError(f"{name} has a forecast of this series that is not finite.")
        scored.append(score(quantiles[:, origin.steps], y[origin.ahead]))
    return _row(joined(scored))


def _quantiles(model: Peer, past: np.ndarray, ahead: int) -> np.ndarray:
    """The quantiles at WANTED, from intervals: (len(WANTED), ahead)."""
    widths = np.round(200.0 * np.abs(WANTED - 0.5), 10)
    levels = sorted({*widths.tolist()} - {0.0})
    found = model.forecast(y=past, h=ahead, level=levels)
    rows = []
    for p, width in zip(WANTED, widths.tolist(), strict=True):
        key = "mean" if width == 0.0 else f"{'lo' if p < 0.5 else 'hi'}-{width}"
        rows.append(np.asarray(found[key], float))
    return np.stack(rows)
