"""Rolling-origin evaluation: forecast from past dates and look at what came true."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.stats import norm

from bayeskern import checks
from bayeskern.forecast import plot
from bayeskern.forecast.forecast import Forecast, forecast
from bayeskern.forecast.series import FEWEST, Series, read_series
from bayeskern.forecast.times import parse_times
from bayeskern.inference.progress import Progress

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
        spread = np.sqrt(np.mean(np.square(differences))) if len(differences) else np.nanstd(values)
        return cls(last[steps % season], spread * np.sqrt(steps // season + 1.0))

    def quantile(self, q) -> np.ndarray:
        return self.mean + self.sd * norm.ppf(np.asarray(q))[..., None]

    def log_density(self, y) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return norm.logpdf(y, self.mean, self.sd)


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
            past = fold.forecast.series.values
            with np.errstate(divide="ignore", invalid="ignore"):
                scaled.append(
                    np.abs(y - median) / np.mean(np.abs(seasonal_differences(past, self.season)))
                )
            loss = (y - grid) * (PROBABILITIES[:, None] - (y < grid))
            crps.append(2.0 * loss.mean(axis=0))
            full = np.full(len(model.quantile(0.5)), np.nan)
            full[pick] = y
            log.append(model.log_density(np.where(np.isnan(full), model.quantile(0.5), full))[pick])
            for i, c in enumerate(COVERAGES):
                covered[c].append((edges[i] <= y) & (y <= edges[i + len(COVERAGES)]))
        error = np.concatenate(errors)
        return {
            "mae": float(np.mean(np.abs(error))),
            "rmse": float(np.sqrt(np.mean(error**2))),
            "mase": float(np.mean(np.concatenate(scaled))),
            "crps": float(np.mean(np.concatenate(crps))),
            "log_score": float(np.mean(np.concatenate(log))),
            **{
                f"coverage_{100 * c:g}": float(np.mean(np.concatenate(v)))
                for c, v in covered.items()
            },
        }

    def to_frame(self):
        """A pandas data frame: a row for each model, a column for each score."""
        import pandas as pd

        return pd.DataFrame.from_dict(self.scores, orient="index")

    def to_csv(self) -> str:
        """The scores as CSV text: a row for each model."""
        rows = [["model", *next(iter(self.scores.values()))]]
        rows += [[m, *(f"{v:.10g}" for v in s.values())] for m, s in self.scores.items()]
        return "\n".join(",".join(row) for row in rows) + "\n"

    def plot(self, ax=None, level: float = 0.8):
        """The forecasts over what came true; returns the figure."""
        return plot.backtest(self, ax, level)

    def __repr__(self) -> str:
        horizon = max(fold.forecast.horizon for fold in self.folds)
        count = sum(len(fold.actual) for fold in self.folds)
        head = f"{self.series.name}: {len(self.folds)} forecasts of {horizon} steps, {count} values"
        names = list(next(iter(self.scores.values())))
        lines = [head, "", " " * 16 + "".join(f"{name:>13}" for name in names)]
        for model, scores in self.scores.items():
            cells = "".join(f"{_shown(name, value):>13}" for name, value in scores.items())
            lines.append(f"  {model:<14}{cells}")
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
    horizon = checks.positive_integer(horizon, "horizon")
    series = read_series(series, times, time, value)
    counts = _counts(series, horizon, cutoffs)
    folds = []
    with Progress("backtest", len(counts), progress) as bar:
        for i, count in enumerate(counts):
            folds.append(_fold(series, count, horizon, season, options))
            bar.to(i + 1)
    return Backtest(series, _naive_season(folds[-1].forecast), tuple(folds))


def _counts(series: Series, horizon: int, cutoffs) -> list[int]:
    """How many of the times each forecast sees."""
    n = len(series.times)
    if isinstance(cutoffs, int | np.integer) and not isinstance(cutoffs, bool):
        number = checks.positive_integer(cutoffs, "cutoffs")
        counts = [n - horizon * i for i in range(number, 0, -1)]
    else:
        dates = np.sort(parse_times(cutoffs, "cutoffs"))
        counts = [int(c) for c in np.searchsorted(series.times, dates, side="right")]
    for count in counts:
        if count < 1 or np.sum(series.observed[:count]) < FEWEST:
            raise ValueError(
                f"a cutoff leaves {max(count, 0)} of {n} times to learn from; wanted at least "
                f"{FEWEST} values. Take fewer cutoffs, later ones, or a shorter horizon."
            )
        if not np.any(series.observed[count : count + horizon]):
            raise ValueError("a cutoff leaves no value to score; take an earlier one.")
    return counts


def _fold(series, count, horizon, season, options) -> Fold:
    f = forecast(series.until(count), horizon, season=season, progress=False, **options)
    # The steps of the forecast at which the series has a value; gaps and irregular times drop out.
    future = series.times[count:][series.observed[count:]]
    if f.series.calendar.regular:
        position = {t: i for i, t in enumerate(f.times)}
        pick = np.array([position[t] for t in future if t in position], int)
        times = f.times[pick]
        actual = series.values[np.searchsorted(series.times, times)]
        return Fold(count, f, _naive(f, horizon), pick, times, actual)
    raise ValueError(
        "a backtest needs regular times (gaps are allowed), so that forecasts meet observations; "
        f"these are {f.series.calendar.description}."
    )


def _naive_season(f: Forecast) -> int:
    periods = [round(p / f.series.calendar.step) for p in f.seasons.values()]
    # The shortest season is the one with the most data behind it.
    return min(periods, default=1)


def _naive(f: Forecast, horizon: int) -> SeasonalNaive:
    calendar = f.series.calendar
    steps = np.round(calendar.positions(calendar.times) / calendar.step).astype(int)
    if calendar.kind == "business":
        steps = np.busday_count(calendar.times[0].astype("M8[D]"), calendar.times.astype("M8[D]"))
    values = np.full(steps[-1] + 1, np.nan)
    values[steps] = f.series.values
    return SeasonalNaive.of(values, horizon, min(_naive_season(f), len(values) - 1))
