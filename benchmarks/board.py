"""Forecast accuracy of bayeskern and statsforecast on M1 and on a corpus of 8,000 series.

    uv run python -m benchmarks.board [--data FOLDER] [--limit N] [--every K] [--half judge]
        [--cells M1/yearly business-industry/weekly] [--peers PEERS.npz] [--output SCORES.json]

The folder holds m1.csv (Makridakis et al., 1982) and corpus.csv.gz. Each pair of kind and period of
the corpus with at least 20 series is a cell. Priors may be learned on one half of the corpus
(`learn`) and are judged on the other (`judge`): a hash of the id decides, for M1 too.

Protocol
    The last h values of each series are held out once. The point forecast is the median.

MASE
    Mean absolute error over the in-sample mean of |y_t - y_(t-m)|, averaged over series; m is the
    season, or 1 for a series no longer than a season. Series with a zero or undefined scale are
    left out of the MASE and of the interval scores only.
WQL
    Weighted quantile loss at the levels 0.1, ..., 0.9: twice the pinball loss, summed over series
    and steps, divided by the sum of |y|, averaged over levels. Large series dominate it.
IS 80, IS 95
    Interval score of the central interval (Gneiting and Raftery, 2007, "Strictly proper scoring
    rules, prediction, and estimation", section 6.2), on the scale of the MASE.
cov 80, cov 95
    Share of the held-out values inside the central interval: over the whole horizon, and over its
    first and last third. Intervals whose ends have a probability of their own, as in series of
    counts, hold more than they promise.
CPU s
    Median processor time per series. Models are compiled on one short series beforehand.
dMASE, dWQL
    Score of a rival minus that of bayeskern on the same series, with its standard error:
    positive where bayeskern is better. The standard error of dWQL is a jackknife over series.
failed
    Series on which the model raised an error or returned a non-finite value. The seasonal naive
    forecast stands in for it.

Rivals
    Seasonal naive; AutoETS, AutoTheta and AutoCES of statsforecast, and the median of the three,
    quantile by quantile (Petropoulos and Svetunkov, 2020, "A simple combination of univariate
    models"). Daily and weekly data add MSTL: seasons 7 and 365 for more than 730 daily values, else
    7; season 52 for more than 104 weekly values. MSTL omits series of up to two seasons: see its n,
    and compare it by dMASE and dWQL. Weekly data keep season 52 in every rival: statsforecast 2.0
    fits it within seconds, and season 1 had the higher MASE and interval scores in most trials.
    Series no longer than a season have season 1. statsforecast is given the last 2,000 values:
    AutoCES takes half a minute for 4,500. The mean forecast stands for its median.

--peers names a cache of the rivals' quantiles. Missing entries are computed and added. Bayeskern is
always run.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
from tqdm import tqdm

import bayeskern as bk
from bayeskern.core.files import atomic_write
from bayeskern.forecast.evaluate.seasonal_naive import SeasonalNaive

LEVELS = np.array([0.025, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.975])
WQL_LEVELS = slice(1, -1)
MEDIAN = 5
# Percent -> indices of the bounds of the central interval.
INTERVALS = {80: (1, 9), 95: (0, 10)}
MIN_CELL_SERIES = 20
PERIODS = ("yearly", "quarterly", "monthly", "weekly", "daily")
FREQUENCIES = {
    "yearly": "YS",
    "biannually": "6MS",
    "quarterly": "QS",
    "monthly": "MS",
    "weekly": "W-SUN",
    "daily": "D",
}
M1_SEASONS = {"yearly": 1, "quarterly": 4, "monthly": 12}
HALVES = ("learn", "judge")

# MASE and WQL of all series by the same protocol: the zero-shot benchmark of Chronos (27 data sets,
# three of them M1), github.com/autogluon/fev, benchmarks/chronos_zeroshot/results.
# All quantiles of its seasonal naive are the point forecast, hence the larger WQL than ours.
PUBLISHED = {
    "M1/monthly": {
        "seasonal naive": (1.314, 0.191),
        "AutoETS": (1.089, 0.165),
        "AutoARIMA": (1.114, 0.154),
        "AutoTheta": (1.092, 0.159),
        "Chronos-Bolt base": (1.100, 0.139),
        "TiRex": (1.060, 0.132),
        "TimesFM 1": (1.068, 0.123),
        "TimesFM 2": (1.052, 0.130),
        "Moirai large": (1.137, 0.168),
    },
    "M1/quarterly": {
        "seasonal naive": (2.078, 0.150),
        "AutoETS": (1.661, 0.085),
        "AutoARIMA": (1.689, 0.088),
        "AutoTheta": (1.667, 0.082),
        "Chronos-Bolt base": (1.773, 0.101),
        "TiRex": (1.674, 0.100),
        "TimesFM 1": (1.670, 0.087),
        "TimesFM 2": (1.711, 0.113),
        "Moirai large": (1.736, 0.110),
    },
    "M1/yearly": {
        "seasonal naive": (4.894, 0.209),
        "AutoETS": (3.957, 0.139),
        "AutoARIMA": (3.486, 0.133),
        "AutoTheta": (3.659, 0.137),
        "Chronos-Bolt base": (4.404, 0.151),
        "TiRex": (3.703, 0.131),
        "TimesFM 1": (4.004, 0.163),
        "TimesFM 2": (3.596, 0.145),
        "Moirai large": (4.023, 0.126),
    },
}


# Loading


@dataclass(frozen=True)
class Series:
    """One series, divided into a training and a held-out part.

    Attributes:
        id: Its id in the file.
        cell: Name of its cell, such as "economics/weekly".
        x: Training part, shape (n,).
        y: Held-out part, shape (h,).
        period: Length of its season in steps; 1 for yearly data.
    """

    id: str
    cell: str
    x: np.ndarray
    y: np.ndarray
    period: int

    @property
    def season(self) -> int:
        """Season of the rivals and of the MASE scale: `period`, or 1 if n <= period."""
        return self.period if len(self.x) > self.period else 1

    @property
    def dated(self) -> pd.Series:
        """The training part at dates of its frequency."""
        frequency = FREQUENCIES[self.cell.split("/")[1]]
        return pd.Series(self.x, pd.date_range("1900-01-01", periods=len(self.x), freq=frequency))

    @property
    def half(self) -> str:
        """Half of the corpus by the parity of the SHA-256 hash of the id."""
        return HALVES[int(hashlib.sha256(self.id.encode()).hexdigest(), 16) % 2]


def values(text: str) -> np.ndarray:
    return np.array(text.split(";"), float)


def load_m1(path: Path) -> Iterable[Series]:
    """Series of m1.csv in the order of the file."""
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            period = row["period"].lower()
            x, y = values(row["x"]), values(row["xx"])
            yield Series(row["st"], f"M1/{period}", x, y, M1_SEASONS[period])


def load_corpus(path: Path) -> Iterable[Series]:
    """Series of corpus.csv.gz in the order of the file."""
    with gzip.open(path, "rt", newline="") as file:
        for row in csv.DictReader(file):
            cell = f"{row['kind']}/{row['period']}"
            x, y = values(row["x"]), values(row["xx"])
            yield Series(row["id"], cell, x, y, int(row["season"]))


def load(folder: Path) -> dict[str, list[Series]]:
    """Cell -> all its series; M1 first, weekly and daily data last."""
    csv.field_size_limit(1 << 30)
    cells: dict[str, list[Series]] = {}
    for series in chain(load_m1(folder / "m1.csv"), load_corpus(folder / "corpus.csv.gz")):
        cells.setdefault(series.cell, []).append(series)

    def cost(cell: str):
        kind, period = cell.split("/")
        return kind != "M1", PERIODS.index(period), kind != "inventory", kind

    kept = [cell for cell, series in cells.items() if len(series) >= MIN_CELL_SERIES]
    return {cell: cells[cell] for cell in sorted(kept, key=cost)}


def select(series: list[Series], half: str, limit: int | None, every: int) -> list[Series]:
    """Series of a cell to forecast: of a half, every so many of them, at most `limit`."""
    return [s for s in series if half in ("both", s.half)][::every][:limit]


# Forecasts: functions from a series to quantiles, shape (len(LEVELS), h)

Model = Callable[[Series], np.ndarray]


def bayeskern(series: Series) -> np.ndarray:
    forecast = bk.forecast(series.dated, len(series.y))
    return forecast.quantile(LEVELS)


def seasonal_naive(series: Series) -> np.ndarray:
    return SeasonalNaive.of(series.x, len(series.y), series.season).quantile(LEVELS)


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


def mstl(series: Series) -> np.ndarray:
    from statsforecast.models import MSTL

    long_daily = series.period == 7 and len(series.x) > 2 * 365
    return statsforecast_quantiles(MSTL([7, 365] if long_daily else [series.period]), series)


def has_mstl(series: Series) -> bool:
    return series.period in (7, 52) and len(series.x) > 2 * series.period


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
    """Quantiles (len(LEVELS), h), processor seconds, and whether seasonal naive stands in."""

    quantiles: np.ndarray
    seconds: float
    failed: bool = False


def run(name: str, model: Model, series: Series) -> Forecast:
    """Forecast of a model, or the seasonal naive forecast if the model fails."""
    start = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            quantiles = np.asarray(model(series), float)
        if not np.all(np.isfinite(quantiles)):
            raise ArithmeticError("a quantile is not finite")
    except Exception as error:
        tqdm.write(f"{name} failed on {series.id}: {error!r}", file=sys.stderr)
        return Forecast(seasonal_naive(series), time.process_time() - start, failed=True)
    return Forecast(quantiles, time.process_time() - start)


def warm_up(models: dict[str, Model]) -> None:
    """Compile every model on a short series; a model that fails here stops the benchmark."""
    x = 10.0 + np.sin(np.arange(60.0)) + np.arange(60.0) % 7
    for model in models.values():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model(Series("warm-up", "warm-up/daily", x, x[:6], 7))


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
            if time.monotonic() - self.written > self.WRITE_INTERVAL_S:
                self.write()
        seconds, failed = self.arrays[f"{key}/run"]
        return Forecast(self.arrays[key], float(seconds), bool(failed))

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


# Scores


def mase_scale(series: Series) -> float:
    """In-sample mean absolute seasonal difference; NaN if it is zero or undefined."""
    differences = np.abs(series.x[series.season :] - series.x[: -series.season])
    scale = np.mean(differences) if len(differences) else np.nan
    return float(scale) if scale > 0 else np.nan


def score(series: Series, forecast: Forecast) -> dict[str, float]:
    """Scores of one forecast. The WQL is in parts: "loss" and "size" are summed over series."""
    y, q, scale = series.y, forecast.quantiles, mase_scale(series)
    error = y - q[WQL_LEVELS]
    level = LEVELS[WQL_LEVELS, None]
    third = max(1, round(len(y) / 3))
    scores = {
        "MASE": np.mean(np.abs(y - q[MEDIAN])) / scale,
        "loss": np.mean(np.sum(2.0 * np.maximum(level * error, (level - 1.0) * error), axis=1)),
        "size": np.sum(np.abs(y)),
    }
    for percent, (low, high) in INTERVALS.items():
        lower, upper = q[low], q[high]
        miss = np.maximum(lower - y, 0.0) + np.maximum(y - upper, 0.0)
        inside = (lower <= y) & (y <= upper)
        interval_score = upper - lower + 2.0 / (1.0 - percent / 100.0) * miss
        scores[f"IS {percent}"] = np.mean(interval_score) / scale
        scores[f"cov {percent}"] = np.mean(inside)
        scores[f"cov {percent} first third"] = np.mean(inside[:third])
        scores[f"cov {percent} last third"] = np.mean(inside[-third:])
    scores |= {"CPU s": forecast.seconds, "failed": float(forecast.failed)}
    return {name: float(value) for name, value in scores.items()}


# Model -> id -> scores
Scores = dict[str, dict[str, dict[str, float]]]


def column(scores: dict[str, dict[str, float]], name: str, ids: Iterable[str]) -> np.ndarray:
    return np.array([scores[i][name] for i in ids])


def ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator else np.nan


def mean(numbers: np.ndarray) -> float:
    """Mean of the numbers that are not NaN; NaN if there are none."""
    defined = numbers[~np.isnan(numbers)]
    return float(np.mean(defined)) if len(defined) else np.nan


def mase_difference(own: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """Mean of other - own over series, and its standard error."""
    difference = other - own
    difference = difference[~np.isnan(difference)]
    if len(difference) < 2:
        return mean(difference), np.nan
    return mean(difference), float(np.std(difference, ddof=1) / np.sqrt(len(difference)))


def wql_difference(own, other, size: np.ndarray) -> tuple[float, float]:
    """Difference other - own of pooled losses over size, and its jackknife standard error."""
    difference, n = other - own, len(size)
    rest = np.sum(size) - size
    if n < 2 or np.any(rest <= 0):
        return ratio(np.sum(difference), np.sum(size)), np.nan
    without = (np.sum(difference) - difference) / rest
    error = np.sqrt((n - 1) / n * np.sum(np.square(without - np.mean(without))))
    return float(np.sum(difference) / np.sum(size)), float(error)


def summary(scores: Scores, reference: str | None = "bayeskern") -> dict[str, dict[str, float]]:
    """Model -> its scores over all its series, and differences to the reference model."""
    rows = {}
    for model, of_series in scores.items():
        ids = list(of_series)
        columns = {name: column(of_series, name, ids) for name in of_series[ids[0]]}
        loss, size = columns.pop("loss"), columns.pop("size")
        seconds, failed = columns.pop("CPU s"), columns.pop("failed")
        row = {"n": len(ids), "WQL": ratio(np.sum(loss), np.sum(size))}
        row["largest share of WQL"] = ratio(np.max(loss), np.sum(loss))
        row |= {name: mean(numbers) for name, numbers in columns.items()}
        row |= {"CPU s": float(np.median(seconds)), "failed": int(np.sum(failed))}
        if reference is not None and model != reference:
            own = scores[reference]
            row["dMASE"], row["dMASE se"] = mase_difference(
                column(own, "MASE", ids), columns["MASE"]
            )
            row["dWQL"], row["dWQL se"] = wql_difference(column(own, "loss", ids), loss, size)
        rows[model] = row
    return rows


# Table


def number(value: float, digits: int) -> str:
    """Fixed-point number, or a power of ten if it has more than four integer digits."""
    return f"{value:.1e}" if abs(value) >= 1e4 else f"{value:.{digits}f}"


def difference(row: dict[str, float], name: str) -> str:
    """Difference to bayeskern with its standard error; blank for bayeskern."""
    if name not in row:
        return ""
    sign = "+" if row[name] >= 0 else ""
    return f"{sign}{number(row[name], 3)} ({number(row[f'{name} se'], 3)})"


HEADER = (
    f"  {'model':<20}{'n':>5}{'MASE':>8}{'WQL':>8}{'IS 80':>8}{'IS 95':>8}"
    f"{'cov 80 (thirds)':>18}{'cov 95 (thirds)':>18}{'CPU s':>8}{'dMASE (se)':>17}"
    f"{'dWQL (se)':>17}{'failed':>8}"
)


def table(cell: str, rows: dict[str, dict[str, float]]) -> str:
    """Lines of one cell: a row per model, and the published figures."""
    lines = [cell, HEADER]
    for model, row in rows.items():
        coverage = [
            f"{row[f'cov {p}']:.2f} ({row[f'cov {p} first third']:.2f} "
            f"{row[f'cov {p} last third']:.2f})"
            for p in INTERVALS
        ]
        lines.append(
            f"  {model:<20}{row['n']:5d}{number(row['MASE'], 3):>8}{number(row['WQL'], 3):>8}"
            f"{number(row['IS 80'], 2):>8}{number(row['IS 95'], 2):>8}"
            f"{coverage[0]:>18}{coverage[1]:>18}{row['CPU s']:8.3f}"
            f"{difference(row, 'dMASE'):>17}{difference(row, 'dWQL'):>17}{row['failed']:8d}"
        )
    if cell in PUBLISHED:
        lines.append("  published, all series")
        for model, (mase, wql) in PUBLISHED[cell].items():
            lines.append(f"  {model:<25}{mase:8.3f}{wql:8.3f}")
    return "\n".join(lines)


def conclusion(cells: dict[str, dict[str, dict[str, float]]]) -> str:
    """Cells where bayeskern has the best score, and where it is clearly behind a rival.

    Rivals with forecasts of all series of a cell count.
    """
    best, behind, above = dict.fromkeys(("MASE", "WQL", "IS 80", "IS 95"), 0), [], []
    for cell, rows in cells.items():
        own = rows["bayeskern"]
        rivals = {m: row for m, row in rows.items() if m != "bayeskern" and row["n"] == own["n"]}
        share = f"{100.0 * own['largest share of WQL']:.0f} % of it by one series"
        for name in best:
            best[name] += all(own[name] <= row[name] for row in rivals.values())
        for name, remark in (("MASE", ""), ("WQL", f", {share}")):
            behind += [
                f"{name} of {cell} ({model}{remark})"
                for model, row in rivals.items()
                if row[f"d{name}"] < -2.0 * row[f"d{name} se"]
            ]
            if own[name] > rows["seasonal naive"][name]:
                above.append(f"{name} of {cell}{remark}")
    counts = ", ".join(f"{name} {count}" for name, count in best.items())
    return "\n".join(
        [
            f"best of the models with forecasts of all series, of {len(cells)} cells: {counts}",
            f"behind by more than two standard errors: {'; '.join(behind) or 'nowhere'}",
            f"above seasonal naive: {'; '.join(above) or 'nowhere'}",
        ]
    )


def score_cell(series: list[Series], cache: RivalCache) -> Scores:
    """Scores of bayeskern and its rivals on the series of a cell."""
    scores: Scores = {}
    for s in tqdm(series, desc=series[0].cell):
        forecasts = {"bayeskern": run("bayeskern", bayeskern, s)} | rival_forecasts(s, cache)
        for model, forecast in forecasts.items():
            scores.setdefault(model, {})[s.id] = score(s, forecast)
    cache.write()
    return scores


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/forecasting"))
    parser.add_argument("--limit", type=int, help="series per cell, the first of the file")
    parser.add_argument("--every", type=int, default=1, help="thinning interval of M1")
    parser.add_argument("--cells", nargs="+", help="such as M1/yearly economics/weekly")
    parser.add_argument("--half", choices=[*HALVES, "both"], default="both", help="of the corpus")
    parser.add_argument("--peers", type=Path, help="npz cache of the rivals' quantiles")
    parser.add_argument("--output", type=Path, help="JSON file for the scores")
    arguments = parser.parse_args()
    cells = load(arguments.data)
    unknown = set(arguments.cells or ()) - set(cells)
    if unknown:
        parser.error(f"unknown cells {sorted(unknown)}; the cells are {', '.join(cells)}")
    cache = RivalCache(arguments.peers)
    warm_up({"bayeskern": bayeskern} | RIVALS)
    output = {
        "versions": {name: version(name) for name in ("bayeskern", "statsforecast", "jax")},
        "half": arguments.half,
        "cells": {},
    }
    for cell in arguments.cells or cells:
        series = select(cells[cell], arguments.half, arguments.limit, arguments.every)
        if not series:
            continue
        rows = summary(score_cell(series, cache))
        print(table(cell, rows), end="\n\n", flush=True)
        output["cells"][cell] = rows
        if arguments.output is not None:
            with atomic_write(arguments.output) as temporary:
                temporary.write_text(json.dumps(output, indent=1))
    print(conclusion(output["cells"]))


if __name__ == "__main__":
    main()
