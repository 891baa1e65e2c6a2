"""Forecasts and backtests as plain values, for JSON and experiment trackers."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeskern.forecast.data.series import Series
from bayeskern.forecast.show.totals import columns_of_table

if TYPE_CHECKING:
    from bayeskern.forecast.backtest import Backtest
    from bayeskern.forecast.result import Forecast


def record_of_forecast(f: Forecast, levels: float | Sequence[float]) -> dict[str, Any]:
    """Result of `Forecast.to_dict`."""
    lengths = [f.series.calendar.in_words(period) for period in f.seasons.values()]
    likelihood = f.choices.likelihood
    table = columns_of_table(levels, f.quantile, f.mean, f.sd)
    record = {
        "version": version("bayeskern"),
        "series": _series(f.series),
        "model": {
            "horizon": f.horizon,
            "seed": f.seed,
            "seasons": " and ".join(lengths) or "none",
            "scale": f.described,
            "structure": f.structures_in_words if f.parts else "constant",
            "likelihood": None if likelihood is None else likelihood.title,
        },
        "weights": f.weights,
        "verdict": f.trust.verdict,
        "advice": f.trust.advice,
        "remarks": f.remarks,
        "metrics": _finite(f.trust.evidence),
        "forecast": {"times": _times(f.series, f.times)} | table,
    }
    return _plain(record)


def record_of_backtest(result: Backtest, levels: float | Sequence[float]) -> dict[str, Any]:
    """Result of `Backtest.to_dict`."""
    prefixes = {"forecast": "", "seasonal naive": "seasonal_naive_"}
    folds = []
    for fold in result.folds:
        f, pick = fold.forecast, fold.pick
        table = columns_of_table(levels, f.quantile, f.mean, f.sd)
        folds.append(
            {
                "cutoff": _times(result.series, result.series.times[[fold.count - 1]])[0],
                "times": _times(result.series, fold.times),
                "actual": fold.actual,
                **{name: column[pick] for name, column in table.items()},
            }
        )
    record = {
        "version": version("bayeskern"),
        "series": _series(result.series),
        "model": {
            "horizon": max(fold.forecast.horizon for fold in result.folds),
            "seed": result.folds[-1].forecast.seed,
            "season": result.season,
        },
        "remarks": result.remarks,
        "metrics": _finite(
            {
                f"{prefixes[model]}{name}": value
                for model, scores in result.scores.items()
                for name, value in scores.items()
            }
        ),
        "folds": folds,
    }
    return _plain(record)


def _series(series: Series) -> dict[str, Any]:
    """Facts about a series."""
    first, last = _times(series, series.times[[0, -1]])
    return {
        "name": series.name,
        "values": series.value_name,
        "times": series.time_name,
        "frequency": series.calendar.description,
        "time_zone": series.calendar.tz,
        "count": int(series.observed.sum()),
        "first": first,
        "last": last,
    }


def _times(series: Series, times: np.ndarray) -> list[Any]:
    """Times as ISO 8601 text, with the offset in a time zone; numbers as numbers."""
    calendar = series.calendar
    if calendar.kind == "number":
        return times.tolist()
    if calendar.tz is None:
        return calendar.labels(times)
    return [time.isoformat() for time in calendar.index(times, series.time_name)]


def _finite(metrics: dict[str, float]) -> dict[str, float]:
    """Finite metrics, because trackers reject None."""
    return {name: value for name, value in metrics.items() if np.isfinite(value)}


def _plain(value: Any) -> Any:
    """Nested dictionaries, lists and scalars without NumPy; None if not finite."""
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
