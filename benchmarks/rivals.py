"""Forecasts of bayeskern and of its rivals: functions from a series to quantiles at LEVELS."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
from tqdm import tqdm

import bayeskern as bk
from bayeskern.core.files import atomic_write
from bayeskern.forecast.evaluate.seasonal_naive import SeasonalNaive
from bayeskern.forecast.model import learned
from bayeskern.forecast.model.learned import ANY
from benchmarks.corpus import Series

LEVELS = np.array([0.025, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.975])

# Series -> quantiles, or quantiles and a verdict.
Model = Callable[[Series], np.ndarray | tuple[np.ndarray, str]]


def bayeskern(series: Series) -> tuple[np.ndarray, str]:
    """Quantiles and verdict."""
    forecast = bk.forecast(series.dated, len(series.y))
    return forecast.quantile(LEVELS), forecast.trust.verdict


@contextmanager
def kind_left_out(series: Series, tables: dict[str, dict]) -> Iterator[None]:
    """Context with weights and widths learned without the kind of a series.

    tables: Kind -> frequency, or ANY -> entries that replace those of the shipped table.
    """
    shipped, others = learned.table(), tables[series.cell.split("/")[0]]
    # A frequency of this kind alone has the entry of other frequencies.
    changed = {name: shipped[name if name in others else ANY] for name in shipped}
    changed = {name: entry | others.get(name, others[ANY]) for name, entry in changed.items()}
    with patch.object(learned, "table", lambda: changed):
        learned.learned.cache_clear()
        try:
            yield
        finally:
            learned.learned.cache_clear()


def seasonal_naive(series: Series) -> np.ndarray:
    return SeasonalNaive.from_values(series.x, len(series.y), series.season).quantile(LEVELS)


STATSFORECAST_VALUES = 2_000
STATSFORECAST_PERCENTS = [95, 80, 60, 40, 20]


def statsforecast_quantiles(model, series: Series) -> np.ndarray:
    """Quantiles from the bounds of two-sided intervals; the mean forecast is the median."""
    x = series.x[-STATSFORECAST_VALUES:]
    forecast = model.forecast(y=x, h=len(series.y), level=STATSFORECAST_PERCENTS)
    bounds = [[forecast[f"{side}-{p}"] for p in STATSFORECAST_PERCENTS] for side in ("lo", "hi")]
    # A multiplicative season below zero exchanges the bounds.
    lower, upper = np.min(bounds, axis=0), np.max(bounds, axis=0)
    return np.vstack([lower, forecast["mean"], upper[::-1]])


def auto_ets(series: Series) -> np.ndarray:
    from statsforecast.models import AutoETS

    return statsforecast_quantiles(AutoETS(season_length=series.season), series)


def auto_theta(series: Series) -> np.ndarray:
    from statsforecast.models import AutoTheta

    return statsforecast_quantiles(AutoTheta(season_length=series.season), series)


def auto_ces(series: Series) -> np.ndarray:
    from statsforecast.models import AutoCES

    return statsforecast_quantiles(AutoCES(season_length=series.season), series)


# Season of a series -> seasons of MSTL, if the series has more than two.
MSTL_SEASONS = {7: (7, 365), 24: (24, 168), 52: (52,)}


def mstl(series: Series) -> np.ndarray:
    from statsforecast.models import MSTL

    seasons = [m for m in MSTL_SEASONS[series.period] if len(series.x) > 2 * m]
    return statsforecast_quantiles(MSTL(seasons), series)


def has_mstl(series: Series) -> bool:
    return series.period in MSTL_SEASONS and len(series.x) > 2 * series.period


NAIVE = "seasonal naive"
COMBINED = ("AutoETS", "AutoTheta", "AutoCES")
MEDIAN_OF_COMBINED = "median of the three"
RIVALS: dict[str, Model] = {
    NAIVE: seasonal_naive,
    "AutoETS": auto_ets,
    "AutoTheta": auto_theta,
    "AutoCES": auto_ces,
    "MSTL": mstl,
}


@dataclass(frozen=True)
class Forecast:
    """Quantiles (len(LEVELS), h), processor seconds, and whether seasonal naive stands in.

    The verdict is empty for rivals.
    """

    quantiles: np.ndarray
    seconds: float
    failed: bool = False
    verdict: str = ""


def run(name: str, model: Model, series: Series) -> Forecast:
    """Forecast of a model, or the seasonal naive forecast if the model fails."""
    start = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = model(series)
        quantiles, verdict = result if isinstance(result, tuple) else (result, "")
        if not np.all(np.isfinite(quantiles)):
            raise ArithmeticError("a quantile is not finite")
    except Exception as error:
        tqdm.write(f"{name} failed on {series.id}: {error!r}", file=sys.stderr)
        return Forecast(seasonal_naive(series), time.process_time() - start, failed=True)
    return Forecast(quantiles, time.process_time() - start, verdict=verdict)


class RivalCache:
    """Forecasts of the rivals, kept in an npz file.

    Keys are "ID/MODEL" for the quantiles, shape (len(LEVELS), h), "ID/MODEL/run" for processor
    seconds and failure (0 or 1), and "levels". A file with other levels is refused.
    """

    WRITE_INTERVAL_S = 60.0

    def __init__(self, path: Path | None):
        self.path = path
        self.arrays = {"levels": LEVELS}
        self.written = time.monotonic()
        self.changed = False
        if path is not None and path.exists():
            with np.load(path) as file:
                self.arrays = dict(file)
            if not np.array_equal(self.arrays["levels"], LEVELS):
                raise ValueError(f"{path} has the levels {self.arrays['levels']}; delete it.")

    def forecast(self, name: str, series: Series) -> Forecast:
        """Cached forecast of a rival, run first if it is missing."""
        key = f"{series.id}/{name}"
        if key not in self.arrays:
            result = run(name, RIVALS[name], series)
            self.arrays[key] = result.quantiles
            self.arrays[f"{key}/run"] = np.array([result.seconds, result.failed])
            self.changed = True
        seconds, failed = self.arrays[f"{key}/run"]
        return Forecast(self.arrays[key], float(seconds), bool(failed))

    def of(self, series: Series) -> RivalCache:
        """A cache in memory with the entries of one series."""
        cache, prefix = RivalCache(None), f"{series.id}/"
        cache.arrays |= {key: x for key, x in self.arrays.items() if key.startswith(prefix)}
        return cache

    def add(self, other: RivalCache) -> None:
        """Take over the entries of another cache."""
        self.changed |= other.changed
        self.arrays |= other.arrays
        if time.monotonic() - self.written > self.WRITE_INTERVAL_S:
            self.write()

    def write(self) -> None:
        """Replace the file as a whole."""
        if self.path is None or not self.changed:
            return
        with atomic_write(self.path) as temporary, temporary.open("wb") as file:
            np.savez(file, **self.arrays)
        self.written, self.changed = time.monotonic(), False


def rival_forecasts(series: Series, cache: RivalCache) -> dict[str, Forecast]:
    """Rival -> its forecast; MSTL only where it applies."""
    names = [name for name in RIVALS if name != "MSTL" or has_mstl(series)]
    forecasts = {name: cache.forecast(name, series) for name in names}
    parts = [forecasts[name] for name in COMBINED]
    forecasts[MEDIAN_OF_COMBINED] = Forecast(
        np.median([part.quantiles for part in parts], axis=0),
        sum(part.seconds for part in parts),
        any(part.failed for part in parts),
    )
    return forecasts
