"""Rolling-origin evaluation: forecast from past dates and look at what came true."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from bayeskern.core import validation
from bayeskern.core.files import atomic_write
from bayeskern.core.progress import Progress, hidden_progress
from bayeskern.forecast.data.horizon import steps_ahead
from bayeskern.forecast.data.reading import read_series
from bayeskern.forecast.data.series import FEWEST, Series
from bayeskern.forecast.data.times import parse_times
from bayeskern.forecast.evaluate.scores import PROBABILITIES, WANTED, score
from bayeskern.forecast.evaluate.seasonal_naive import SeasonalNaive
from bayeskern.forecast.forecast import forecast
from bayeskern.forecast.model.configuration import MAX_STEPS, require_within_reach
from bayeskern.forecast.result import Forecast
from bayeskern.forecast.show import plot


@dataclass(frozen=True, eq=False)
class Fold:
    """A forecast from one past date, and what came true.

    Attributes:
        count: How many of the times the forecast saw.
        forecast: The forecast.
        naive: The seasonal-naive forecast beside it.
        pick: Which of its steps can be scored, counted from 0.
        times: The times of those steps.
        actual: The values that came true at those steps.
    """

    count: int
    forecast: Forecast
    naive: SeasonalNaive
    pick: np.ndarray
    times: np.ndarray
    actual: np.ndarray


@dataclass(frozen=True, eq=False)
class Backtest:
    """Scores of forecasts made at past dates, beside those of the seasonal-naive forecast.

    Returned by `backtest`.

    Attributes:
        series: The data as they were read.
        season: The season of the seasonal-naive forecast, in steps; 1 for none.
        folds: A forecast from each of the past dates, with what came true.
    """

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
            "forecast": _mean_scores([(fold.forecast, fold) for fold in self.folds]),
            "seasonal naive": _mean_scores([(fold.naive, fold) for fold in self.folds]),
        }

    @property
    def remarks(self) -> tuple[str, ...]:
        """What to know of the scores: fits that did not converge, and where the naive one wins."""
        bad = sum(fold.forecast.problem is not None for fold in self.folds)
        remarks = [f"{bad} of {len(self.folds)} fits did not converge"] if bad else []
        ours, naive = (self.scores[model]["mae"] for model in ("forecast", "seasonal naive"))
        if ours > naive:
            remarks.append(
                f"repeating the last season had the smaller error ({naive:.4g} against {ours:.4g})"
            )
        return tuple(remarks)

    def to_frame(self):
        """A pandas data frame: a row for each model, a column for each score."""
        import pandas as pd  # slow to import

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
        cells += [[m, *(_format(k, v) for k, v in s.items())] for m, s in self.scores.items()]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [head, *(f"  remark    {remark}" for remark in self.remarks), ""]
        for first, *row in cells:
            rest = "  ".join(cell.rjust(w) for cell, w in zip(row, widths[1:], strict=True))
            lines.append(f"  {first:<{widths[0]}}  {rest}")
        return "\n".join(lines)


def _format(score: str, value: float) -> str:
    return f"{100 * value:.0f} %" if score.startswith("coverage") else f"{value:.4g}"


def _mean_scores(pairs: list[tuple[Forecast | SeasonalNaive, Fold]]) -> dict[str, float]:
    """Score -> its mean over the values of all folds, from pairs of a forecast and its fold."""
    by_fold = [_scores(model, fold) for model, fold in pairs]
    per_value = {name: np.concatenate([scores[name] for scores in by_fold]) for name in by_fold[0]}
    # A value that was ruled out is not made good by a constant series that hit another.
    if np.any(np.isneginf(per_value["log_score"])):
        per_value["log_score"] = np.array([-np.inf])
    means = {name: float(np.mean(values)) for name, values in per_value.items()}
    return means | {"rmse": float(np.sqrt(means["rmse"]))}


def _scores(model: Forecast | SeasonalNaive, fold: Fold) -> dict[str, np.ndarray]:
    """Score -> shape (values that can be scored,); the square of the error for the rmse."""
    y = fold.actual
    quantiles = model.quantile(WANTED)
    scores = score(quantiles[:, fold.pick], y)
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = np.abs(scores.errors) / np.float64(fold.naive.in_sample_mae)
    # Steps that cannot be scored need some value, which is not looked at.
    path = quantiles[len(PROBABILITIES)].copy()
    path[fold.pick] = y
    return {
        "mae": np.abs(scores.errors),
        "rmse": scores.errors**2,
        "mase": scaled,
        "crps": scores.crps,
        "log_score": model.log_density(path)[fold.pick],
        **{f"coverage_{100 * c:g}": inside for c, inside in scores.inside.items()},
    }


def backtest(
    series,
    horizon: int | str,
    cutoffs=3,
    *,
    regressors=None,
    progress: bool = True,
    **options,
) -> Backtest:
    """Forecast `horizon` steps from each of several past dates and score what came true.

    The rolling forecasting origin of Hyndman and Athanasopoulos (2021), Forecasting: Principles and
    Practice, section 5.10.

    Args:
        series: What `forecast` takes; its times must be regular, gaps allowed.
        horizon: How many steps each forecast goes ahead; or a time, "90 days".
        cutoffs: How many past dates, the last one `horizon` steps before the end and each `horizon`
            steps before the next; or the dates themselves, the last that each forecast may see.
        regressors: As in `forecast`; what they were at past dates counts as known then.
        progress: Whether to show a progress bar.
        **options: Further arguments of `forecast`: season, holidays, model, seed, ...

    Returns:
        The forecasts and their scores.

    Raises:
        ValueError: Where the times are irregular, or too little is left to learn from or to score.

    Examples:
        ```python
        result = bk.backtest("co2", 12, cutoffs=4)
        result.scores["forecast"]["mase"]
        result.plot()
        ```
    """
    series = read_series(series, regressors=regressors)
    horizon = steps_ahead(horizon, series.calendar, MAX_STEPS)
    require_within_reach(series, horizon)
    if not series.calendar.regular:
        raise ValueError(
            "a backtest needs regular times (gaps are allowed), so that forecasts meet "
            f"observations; these are {series.calendar.description}."
        )
    counts = _counts(series, horizon, cutoffs)
    folds = []
    with Progress("backtest", len(counts), progress) as bar:
        for i, count in enumerate(counts):
            folds.append(_fold(series, count, horizon, options))
            bar.to(i + 1)
    return Backtest(series, folds[-1].forecast.season_in_steps, tuple(folds))


def _counts(series: Series, horizon: int, cutoffs) -> list[int]:
    """How many of the times each forecast sees."""
    if isinstance(cutoffs, int | np.integer) and not isinstance(cutoffs, bool):
        steps = series.calendar.steps()
        number = validation.positive_integer(cutoffs, "cutoffs")
        # However many there are, the first is refused below if it lies before all times.
        number = min(number, int(steps[-1]) + 1)
        ends = steps[-1] - horizon * np.arange(number, 0, -1)
        counts = np.searchsorted(steps, ends, side="right")
    else:
        counts = np.searchsorted(series.times, _cutoff_times(series, cutoffs), side="right")
    for count in counts:
        _require_enough(series, count, horizon)
    return [int(count) for count in counts]


def _cutoff_times(series: Series, cutoffs) -> np.ndarray:
    times = np.sort(parse_times(np.atleast_1d(cutoffs), "cutoffs"))
    if len(times) == 0:
        raise ValueError("cutoffs: came none, wanted how many, or their dates.")
    if (times.dtype.kind == "M") != (series.times.dtype.kind == "M"):
        wanted = "dates" if series.times.dtype.kind == "M" else "numbers"
        raise ValueError(f"cutoffs: came {times[0]}, but the times of the series are {wanted}.")
    return times


def _require_enough(series: Series, count: int, horizon: int) -> None:
    """Raise ValueError where a forecast from the first `count` times learns or scores nothing."""
    if np.sum(series.observed[:count]) < FEWEST:
        raise ValueError(
            f"a cutoff leaves {count} of {len(series.times)} times to learn from; wanted at least "
            f"{FEWEST} values. Take fewer cutoffs, later ones, or a shorter horizon."
        )
    if len(_scored_rows(series, count, horizon)) == 0:
        last = series.calendar.labels(series.times[[count - 1]])[0]
        raise ValueError(
            f"the cutoff after {last} leaves no value to score in the next {horizon} steps; "
            "take an earlier one."
        )


def _scored_rows(series: Series, count: int, horizon: int) -> np.ndarray:
    """The rows after the first `count` that a forecast from them reaches, with a value."""
    steps, last = series.calendar.steps(), np.flatnonzero(series.observed[:count])[-1]
    rows = np.arange(count, len(series.times))
    return rows[series.observed[rows] & (steps[rows] <= steps[last] + horizon)]


def _fold(series: Series, count: int, horizon: int, options: dict) -> Fold:
    past = series.until(count)
    with hidden_progress():
        f = forecast(past, horizon, **options)
    rows = _scored_rows(series, count, horizon)
    pick = series.calendar.steps()[rows] - past.calendar.steps()[-1] - 1
    return Fold(count, f, _naive(f), pick, series.times[rows], series.values[rows])


def _naive(f: Forecast) -> SeasonalNaive:
    values = f.series.on_grid()
    return SeasonalNaive.of(values, f.horizon, min(f.season_in_steps, len(values) - 1))
