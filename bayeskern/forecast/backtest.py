"""Rolling-origin evaluation: forecast from past dates and look at what came true."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from scipy.special import ndtri

from bayeskern.core import validation
from bayeskern.core.files import atomic_write
from bayeskern.core.progress import Progress
from bayeskern.forecast import plot
from bayeskern.forecast.forecast import Forecast, forecast, require_within_reach
from bayeskern.forecast.reading import read_series
from bayeskern.forecast.series import FEWEST, Series
from bayeskern.forecast.times import parse_times

COVERAGES = (0.5, 0.8, 0.95)
# Mid-points of equal slices of probability, for the CRPS as twice the mean quantile loss.
PROBABILITIES = (np.arange(200) + 0.5) / 200


@dataclass(frozen=True)
class SeasonalNaive:
    """The value one season ago, with the spread of past seasonal differences.

    Hyndman and Athanasopoulos (2021), Forecasting: Principles and Practice, section 5.5: the sd of
    the step h is that of the differences times sqrt(k + 1), with k the full seasons before h.
    """

    mean: np.ndarray
    sd: np.ndarray
    in_sample_mae: float

    @classmethod
    def of(cls, values: np.ndarray, horizon: int, season: int) -> SeasonalNaive:
        """values: regular, NaN where missing; season: 1 for the plain naive forecast."""
        known = values.copy()
        for i in range(season, len(known)):
            if np.isnan(known[i]):
                known[i] = known[i - season]
        last = known[-season:]
        last = np.where(np.isnan(last), np.nanmean(values), last)
        steps = np.arange(horizon)
        differences = seasonal_differences(values, season)
        if len(differences) == 0:
            differences = values[np.isfinite(values)] - np.nanmean(values)
        spread = np.sqrt(np.mean(np.square(differences)))
        sd = spread * np.sqrt(steps // season + 1.0)
        return cls(last[steps % season], sd, float(np.mean(np.abs(differences))))

    def quantile(self, q) -> np.ndarray:
        return self.mean + self.sd * ndtri(np.asarray(q))[..., None]

    def log_density(self, y) -> np.ndarray:
        if not np.any(self.sd):
            return np.where(y == self.mean, np.inf, -np.inf)
        z = (y - self.mean) / self.sd
        return -0.5 * z**2 - np.log(self.sd) - 0.5 * np.log(2.0 * np.pi)


def seasonal_differences(values: np.ndarray, season: int) -> np.ndarray:
    """y_t - y_(t - season), where both are there."""
    differences = values[season:] - values[:-season]
    return differences[np.isfinite(differences)]


@dataclass(frozen=True, eq=False)
class Fold:
    """A forecast from one past date. count: how many times it saw; pick: the steps that can be
    scored; times, actual: what came true at those steps."""

    count: int
    forecast: Forecast
    naive: SeasonalNaive
    pick: np.ndarray
    times: np.ndarray
    actual: np.ndarray


@dataclass(frozen=True, eq=False)
class Backtest:
    """Scores of forecasts made at past dates, beside those of the seasonal-naive forecast."""

    series: Series
    season: int
    folds: tuple[Fold, ...]

    @cached_property
    def scores(self) -> dict[str, dict[str, float]]:
        """Model -> score -> its mean over all forecast values.

        mae, rmse, crps in the units of the series; mase: mae over the in-sample mae of the
        seasonal-naive forecast; log_score: mean log predictive density (higher is better);
        coverage_80: share of values inside the central 80 % interval.
        """
        return {
            "forecast": self._score(lambda f: f.forecast),
            "seasonal naive": self._score(lambda f: f.naive),
        }

    def _score(self, of) -> dict[str, float]:
        errors, scaled, crps, log, covered = [], [], [], [], {c: [] for c in COVERAGES}
        for fold in self.folds:
            model, y, pick = of(fold), fold.actual, fold.pick
            levels = [(1 - c) / 2 for c in COVERAGES] + [(1 + c) / 2 for c in COVERAGES]
            q = model.quantile(np.concatenate([PROBABILITIES, [0.5], levels]))[:, pick]
            grid, median, edges = (
                q[: len(PROBABILITIES)],
                q[len(PROBABILITIES)],
                q[len(PROBABILITIES) + 1 :],
            )
            errors.append(y - median)
            with np.errstate(divide="ignore", invalid="ignore"):
                scaled.append(np.abs(y - median) / np.float64(fold.naive.in_sample_mae))
            loss = (y - grid) * (PROBABILITIES[:, None] - (y < grid))
            crps.append(2.0 * loss.mean(axis=0))
            full = model.quantile(0.5).copy()
            full[pick] = y
            log.append(model.log_density(full)[pick])
            for i, c in enumerate(COVERAGES):
                covered[c].append((edges[i] <= y) & (y <= edges[i + len(COVERAGES)]))
        error, log = np.concatenate(errors), np.concatenate(log)
        # A value that was ruled out is not made good by a constant series that hit another.
        log_score = -np.inf if np.any(np.isneginf(log)) else np.mean(log)
        return {
            "mae": float(np.mean(np.abs(error))),
            "rmse": float(np.sqrt(np.mean(error**2))),
            "mase": float(np.mean(np.concatenate(scaled))),
            "crps": float(np.mean(np.concatenate(crps))),
            "log_score": float(log_score),
            **{
                f"coverage_{100 * c:g}": float(np.mean(np.concatenate(v)))
                for c, v in covered.items()
            },
        }

    @property
    def remarks(self) -> tuple[str, ...]:
        """What to know before believing the scores: the fits that did not converge."""
        bad = sum(fold.forecast.trust.verdict == "bad" for fold in self.folds)
        return (f"{bad} of {len(self.folds)} fits did not converge",) if bad else ()

    def to_frame(self):
        """A pandas data frame: a row for each model, a column for each score."""
        import pandas as pd

        return pd.DataFrame.from_dict(self.scores, orient="index")

    def to_csv(self) -> str:
        """The scores as CSV text: a row for each model."""
        rows = [["model", *next(iter(self.scores.values()))]]
        rows += [[m, *(f"{v:.10g}" for v in s.values())] for m, s in self.scores.items()]
        return "\n".join(",".join(row) for row in rows) + "\n"

    def save(self, folder) -> list[Path]:
        """Write backtest.csv and backtest.png; returns their paths."""
        paths = [Path(folder) / "backtest.csv", Path(folder) / "backtest.png"]
        with atomic_write(paths[0]) as path:
            path.write_text(self.to_csv(), encoding="utf-8")
        with atomic_write(paths[1]) as path:
            self.plot().savefig(path)
        return paths

    def plot(self, ax=None, level: float = 0.8):
        """The forecasts over what came true; returns the figure."""
        return plot.backtest(self, ax, level)

    def __repr__(self) -> str:
        horizon = max(fold.forecast.horizon for fold in self.folds)
        count = sum(len(fold.actual) for fold in self.folds)
        head = f"{self.series.name}: {len(self.folds)} forecasts of {horizon} steps, {count} values"
        names = list(next(iter(self.scores.values())))
        cells = [["", *names]]
        cells += [[m, *(_shown(k, v) for k, v in s.items())] for m, s in self.scores.items()]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [head, *(f"  remark    {remark}" for remark in self.remarks), ""]
        for first, *row in cells:
            rest = "  ".join(cell.rjust(w) for cell, w in zip(row, widths[1:], strict=True))
            lines.append(f"  {first:<{widths[0]}}  {rest}")
        return "\n".join(lines)


def _shown(name: str, value: float) -> str:
    return f"{100 * value:.0f} %" if name.startswith("coverage") else f"{value:.4g}"


def backtest(
    series,
    horizon: int,
    cutoffs=3,
    *,
    season=None,
    times=None,
    time: str | None = None,
    value: str | None = None,
    progress: bool = True,
    **options,
) -> Backtest:
    """Forecast `horizon` steps from each of several past dates and score what came true.

    cutoffs: how many, the last one `horizon` steps before the end and each `horizon` steps before
    the next; or the dates themselves (the last that each forecast may see). The other arguments
    are those of `forecast`. Raises ValueError where too little is left to learn from or to score.
    """
    horizon = validation.positive_integer(horizon, "horizon")
    series = read_series(series, times, time, value)
    require_within_reach(series, horizon, int(series.observed.sum()))
    if not series.calendar.regular:
        raise ValueError(
            "a backtest needs regular times (gaps are allowed), so that forecasts meet "
            f"observations; these are {series.calendar.description}."
        )
    counts = _counts(series, horizon, cutoffs)
    folds = []
    with Progress("backtest", len(counts), progress) as bar:
        for i, count in enumerate(counts):
            folds.append(_fold(series, count, horizon, season, options))
            bar.to(i + 1)
    return Backtest(series, _naive_season(folds[-1].forecast), tuple(folds))


def _counts(series: Series, horizon: int, cutoffs) -> list[int]:
    """How many of the times each forecast sees."""
    n, steps = len(series.times), series.calendar.steps()
    if isinstance(cutoffs, int | np.integer) and not isinstance(cutoffs, bool):
        number = validation.positive_integer(cutoffs, "cutoffs")
        # However many there are, the first is refused below if it lies before all times.
        number = min(number, int(steps[-1]) + 1)
        ends = steps[-1] - horizon * np.arange(number, 0, -1)
        counts = np.searchsorted(steps, ends, side="right")
    else:
        dates = np.sort(parse_times(np.atleast_1d(cutoffs), "cutoffs"))
        if len(dates) == 0:
            raise ValueError("cutoffs: came none, wanted how many, or their dates.")
        if (dates.dtype.kind == "M") != (series.times.dtype.kind == "M"):
            wanted = "dates" if series.times.dtype.kind == "M" else "numbers"
            raise ValueError(f"cutoffs: came {dates[0]}, but the times of the series are {wanted}.")
        counts = np.searchsorted(series.times, dates, side="right")
    for count in counts:
        if np.sum(series.observed[:count]) < FEWEST:
            raise ValueError(
                f"a cutoff leaves {count} of {n} times to learn from; wanted at least "
                f"{FEWEST} values. Take fewer cutoffs, later ones, or a shorter horizon."
            )
        if len(_scored(series, count, horizon)) == 0:
            last = series.calendar.labels(series.times[[count - 1]])[0]
            raise ValueError(
                f"the cutoff after {last} leaves no value to score in the next {horizon} steps; "
                "take an earlier one."
            )
    return [int(count) for count in counts]


def _scored(series: Series, count: int, horizon: int) -> np.ndarray:
    """The rows after the first `count` that a forecast from them reaches, with a value."""
    steps, last = series.calendar.steps(), np.flatnonzero(series.observed[:count])[-1]
    rows = np.arange(count, len(series.times))
    return rows[series.observed[rows] & (steps[rows] <= steps[last] + horizon)]


def _fold(series, count, horizon, season, options) -> Fold:
    past = series.until(count)
    f = forecast(past, horizon, season=season, progress=False, **options)
    rows = _scored(series, count, horizon)
    pick = series.calendar.steps()[rows] - past.calendar.steps()[-1] - 1
    return Fold(count, f, _naive(f, horizon), pick, series.times[rows], series.values[rows])


def _naive_season(f: Forecast) -> int:
    periods = [round(p / f.series.calendar.step) for p in f.seasons.values()]
    # The shortest season is the one with the most data behind it.
    return min(periods, default=1)


def _naive(f: Forecast, horizon: int) -> SeasonalNaive:
    values = f.series.on_grid()
    return SeasonalNaive.of(values, horizon, min(_naive_season(f), len(values) - 1))
