"""Rolling-origin evaluation: forecasts from past origins, scored by the values that followed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeskern.core import validation
from bayeskern.core.formatting import aligned, counted, short
from bayeskern.core.plotting import figure
from bayeskern.core.progress import Progress, hidden_progress
from bayeskern.forecast.evaluate.scores import (
    CRPS_PROBABILITIES,
    SCORED_PROBABILITIES,
    joined,
    rows_of_means,
    score,
)
from bayeskern.forecast.evaluate.seasonal_naive import SeasonalNaive
from bayeskern.forecast.forecast import forecast
from bayeskern.forecast.model.configuration import MAX_HORIZON, require_within_reach
from bayeskern.forecast.result import Forecast
from bayeskern.forecast.show import html
from bayeskern.forecast.show.plot import (
    FORECAST_COLOR,
    NAIVE_COLOR,
    NOTE_COLOR,
    finish,
    plot_history,
    short_name,
)
from bayeskern.forecast.show.record import finite, plain, series_facts, times_as_text
from bayeskern.forecast.show.saving import csv_text, write_files
from bayeskern.forecast.show.totals import columns_of_table
from bayeskern.series.dates.times import parse_times
from bayeskern.series.horizon import steps_ahead
from bayeskern.series.reading import read_series
from bayeskern.series.series import MIN_VALUES, Series

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Fold:
    """A forecast from one past origin, with the values that followed.

    Attributes:
        count: Number of leading times of the series that are known to the forecast.
        forecast: The forecast.
        naive: The seasonal-naive forecast.
        pick: Scored steps of the forecast, counted from 0: (k,).
        times: Times of the scored steps, (k,).
        actual: Values at the scored steps, (k,).
    """

    count: int
    forecast: Forecast
    naive: SeasonalNaive
    pick: np.ndarray
    times: np.ndarray
    actual: np.ndarray


@dataclass(frozen=True, eq=False)
class Backtest:
    """Scores of forecasts from past origins and of seasonal naive. Returned by `backtest`.

    Attributes:
        series: The series.
        season: Season of the seasonal-naive forecast, in steps; 1 without a season.
        folds: A forecast from each past origin, with the values that followed.
    """

    series: Series
    season: int
    folds: tuple[Fold, ...]

    @property
    def horizon(self) -> int:
        """Number of steps of the forecasts."""
        return max(fold.forecast.horizon for fold in self.folds)

    @cached_property
    def scores(self) -> dict[str, dict[str, float]]:
        """Mean scores over all forecast values, by model and by score.

        mae, rmse and crps are in the units of the series. mase is mae divided by the in-sample mae
        of the seasonal-naive forecast. log_score is the mean log predictive density (higher is
        better). coverage_80 is the share of values inside the central 80 % interval.
        """
        return {
            "forecast": _mean_scores([(fold.forecast, fold) for fold in self.folds]),
            "seasonal naive": _mean_scores([(fold.naive, fold) for fold in self.folds]),
        }

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks on failed fits, and on an error larger than that of seasonal naive."""
        bad = sum(fold.forecast.problem is not None for fold in self.folds)
        remarks = [f"{bad} of {len(self.folds)} fits failed"] if bad else []
        ours, naive = (self.scores[model]["mae"] for model in ("forecast", "seasonal naive"))
        if ours > naive:
            remarks.append(
                f"seasonal naive has the smaller mean absolute error ({naive:.4g} against "
                f"{ours:.4g})"
            )
        return tuple(remarks)

    def to_frame(self) -> pd.DataFrame:
        """Data frame with a row for each model and a column for each score."""
        import pandas as pd  # slow to import

        return pd.DataFrame.from_dict(self.scores, orient="index")

    def to_csv(self) -> str:
        """The scores as CSV text, with a row for each model."""
        return csv_text(self.to_frame().rename_axis("model"))

    def to_dict(self, levels: float | Sequence[float] = (0.8, 0.95)) -> dict[str, Any]:
        """Plain Python values, in the form of `Forecast.to_dict`.

        Args:
            levels: Probabilities of the central intervals.

        Returns:
            Keys version, series and remarks as there; model: horizon, seed, season; metrics: the
            scores, such as mae and seasonal_naive_mae; folds: for each origin its cutoff and, by
            step, times, actual, median, mean, sd and interval ends.
        """
        prefixes = {"forecast": "", "seasonal naive": "seasonal_naive_"}
        metrics = {
            f"{prefixes[model]}{name}": value
            for model, scores in self.scores.items()
            for name, value in scores.items()
        }
        return plain(
            {
                "version": version("bayeskern"),
                "series": series_facts(self.series),
                "model": {
                    "horizon": self.horizon,
                    "seed": self.folds[-1].forecast.seed,
                    "season": self.season,
                },
                "remarks": self.remarks,
                "metrics": finite(metrics),
                "folds": [self._fold_record(fold, levels) for fold in self.folds],
            }
        )

    def _fold_record(self, fold: Fold, levels: float | Sequence[float]) -> dict[str, Any]:
        """Entry of a fold in `to_dict`."""
        f, cutoff = fold.forecast, self.series.times[[fold.count - 1]]
        table = columns_of_table(levels, f.quantile, f.mean, f.sd)
        return {
            "cutoff": times_as_text(self.series, cutoff)[0],
            "times": times_as_text(self.series, fold.times),
            "actual": fold.actual,
            **{name: column[fold.pick] for name, column in table.items()},
        }

    def export(self, folder: str | Path) -> list[Path]:
        """Write backtest.csv and backtest.png; return their paths."""
        return write_files(folder, {"backtest.csv": self.to_csv(), "backtest.png": self.plot()})

    def plot(self, ax: Axes | None = None, level: float = 0.8) -> Figure:
        """Plot the forecasts with central intervals, and the values that followed."""
        ax = figure().subplots() if ax is None else ax
        series, wall = self.series, self.series.calendar.wall
        # The history begins a little before the first cutoff.
        cutoff_step = int(series.calendar.steps()[self.folds[0].count - 1])
        horizon = self.folds[0].forecast.horizon
        plot_history(ax, series, max(0, cutoff_step + 1 - 3 * horizon))
        # The legend names the lines of one fold.
        labels = (f"median and {100 * level:g} % interval", "seasonal naive")
        for fold in self.folds:
            lower, upper = (end[fold.pick] for end in fold.forecast.interval(level))
            x, median, naive = wall(fold.times), fold.forecast.median, fold.naive.mean
            ax.fill_between(x, lower, upper, color=FORECAST_COLOR, alpha=0.2, linewidth=0)
            style = {"color": FORECAST_COLOR, "linewidth": 1.5, "label": labels[0]}
            ax.plot(x, median[fold.pick], **style)
            style = {"color": NAIVE_COLOR, "linewidth": 0.9, "label": labels[1]}
            ax.plot(x, naive[fold.pick], linestyle=":", **style)
            labels = (None, None)
            cutoff = wall(series.times[[fold.count - 1]])[0]
            ax.axvline(cutoff, color=NOTE_COLOR, linewidth=0.7, linestyle="--")
        title = f"{short_name(series.name)}: forecasts from {len(self.folds)} past dates"
        note = "dashed: the last value each forecast saw"
        return finish(ax, wall(self.folds[-1].times), series, title, note)

    def _repr_html_(self) -> str:
        """The result in a notebook."""
        head = ["", *(name.replace("_", " ") for name in self.scores["forecast"])]
        cells = [
            [model, *(f"{value:.3g}" for value in scores.values())]
            for model, scores in self.scores.items()
        ]
        title = f"{self.series.name}: forecasts from {counted(len(self.folds), 'past date')}"
        return html.page(title, self.plot(), html.table(head, cells), self.remarks)

    def __repr__(self) -> str:
        count = sum(len(fold.actual) for fold in self.folds)
        name = short(self.series.name, 80)
        head = f"{name}: {len(self.folds)} forecasts of {self.horizon} steps, {count} values"
        remarks = (f"  remark    {remark}" for remark in self.remarks)
        return "\n".join(
            [head, *remarks, "", *(f"  {line}" for line in aligned(rows_of_means(self.scores)))]
        )


def _mean_scores(pairs: Sequence[tuple[Forecast | SeasonalNaive, Fold]]) -> dict[str, float]:
    """Mean scores over the values of all folds, by name."""
    parts, scaled, densities = [], [], []
    for model, fold in pairs:
        quantiles = model.quantile(SCORED_PROBABILITIES)
        parts.append(score(quantiles[:, fold.pick], fold.actual))
        with np.errstate(divide="ignore", invalid="ignore"):
            scaled.append(np.abs(parts[-1].errors) / np.float64(fold.naive.in_sample_mae))
        # `log_density` takes a whole path: steps without a value hold the median, and their
        # densities are dropped.
        path = quantiles[len(CRPS_PROBABILITIES)].copy()
        path[fold.pick] = fold.actual
        densities.append(model.log_density(path)[fold.pick])
    # A single value of density 0 makes the mean -inf, even if a value at a point mass has log
    # density inf: without this condition the mean would be NaN.
    log_scores = np.concatenate(densities)
    log_score = -np.inf if np.any(np.isneginf(log_scores)) else float(np.mean(log_scores))
    means = joined(parts).means
    return {
        "mae": means.pop("mae"),
        "rmse": means.pop("rmse"),
        "mase": float(np.mean(np.concatenate(scaled))),
        "crps": means.pop("crps"),
        "log_score": log_score,
        **means,
    }


def backtest(
    series: Any,
    horizon: int | str,
    cutoffs: Any = 3,
    *,
    regressors: Any = None,
    progress: bool = True,
    **options: Any,
) -> Backtest:
    """Forecast `horizon` steps from each of several past origins and score the forecasts.

    Rolling forecasting origin: Hyndman and Athanasopoulos (2021), Forecasting: Principles and
    Practice, section 5.10.

    Args:
        series: A series, or a source that `forecast` accepts. Times must be regular; gaps are
            allowed.
        horizon: Number of steps of each forecast; or a duration, "90 days".
        cutoffs: Number of origins, `horizon` steps apart, the last one `horizon` steps before the
            end; or the origins themselves: the last date that each forecast may use.
        regressors: As in `forecast`; values after an origin are treated as known at the origin.
        progress: Show a progress bar.
        **options: Further arguments of `forecast`: season, holidays, model, seed, ...

    Returns:
        The forecasts and their scores.

    Raises:
        ValueError: If times are irregular, or an origin leaves too few values to fit or to score.

    Examples:
        ```python
        result = bk.backtest("co2", 12, cutoffs=4)
        result.scores["forecast"]["mase"]
        result.plot()
        ```
    """
    series = read_series(series, regressors=regressors)
    horizon = steps_ahead(horizon, series.calendar, MAX_HORIZON)
    require_within_reach(series, horizon)
    if not series.calendar.regular:
        raise ValueError(
            "a backtest needs regular times (gaps are allowed), so that forecasts and observations "
            f"have the same times; these are {series.calendar.description}."
        )
    counts = _counts(series, horizon, cutoffs)
    folds = []
    with Progress("backtest", len(counts), progress) as bar:
        for count in counts:
            folds.append(_fold(series, count, horizon, options))
            bar.advance()
    return Backtest(series, folds[-1].forecast.season_in_steps, tuple(folds))


def _counts(series: Series, horizon: int, cutoffs: Any) -> list[int]:
    """Number of leading times known to each forecast.

    Raises ValueError if a forecast has too few values to fit or no value to score.
    """
    if isinstance(cutoffs, int | np.integer) and not isinstance(cutoffs, bool):
        steps = series.calendar.steps()
        # If there are too many cutoffs, the first precedes all times and is rejected below.
        number = min(validation.positive_integer(cutoffs, "cutoffs"), int(steps[-1]) + 1)
        ends = steps[-1] - horizon * np.arange(number, 0, -1)
        counts = np.searchsorted(steps, ends, side="right")
    else:
        times = np.sort(parse_times(np.atleast_1d(cutoffs), "cutoffs"))
        if len(times) == 0:
            raise ValueError("cutoffs is empty; give a number of cutoffs, or their dates.")
        if (times.dtype.kind == "M") != (series.times.dtype.kind == "M"):
            accepted = "dates" if series.times.dtype.kind == "M" else "numbers"
            raise ValueError(f"cutoffs must be {accepted}, as in the series; got {times[0]}.")
        counts = np.searchsorted(series.times, times, side="right")
    for count in counts:
        observed = int(np.sum(series.observed[:count]))
        if observed < MIN_VALUES:
            raise ValueError(
                f"a cutoff leaves {counted(observed, 'observed value')} to fit; at least "
                f"{MIN_VALUES} are needed. Take fewer or later cutoffs, or fewer steps."
            )
        if len(_scored_rows(series, count, horizon)) == 0:
            last = series.calendar.labels(series.times[[count - 1]])[0]
            raise ValueError(
                f"the cutoff after {last} leaves no value to score in the next {horizon} steps; "
                "take an earlier cutoff."
            )
    return [int(count) for count in counts]


def _scored_rows(series: Series, count: int, horizon: int) -> np.ndarray:
    """Rows after the first `count` with a value within `horizon` steps of the last known value."""
    steps, last = series.calendar.steps(), np.flatnonzero(series.observed[:count])[-1]
    rows = np.arange(count, len(series.times))
    return rows[series.observed[rows] & (steps[rows] <= steps[last] + horizon)]


def _fold(series: Series, count: int, horizon: int, options: dict[str, Any]) -> Fold:
    """Fold whose forecast knows the first `count` times."""
    past = series.until(count)
    with hidden_progress():
        f = forecast(past, horizon, **options)
    rows = _scored_rows(series, count, horizon)
    pick = series.calendar.steps()[rows] - past.calendar.steps()[-1] - 1
    values = f.series.on_grid()
    naive = SeasonalNaive.from_values(values, f.horizon, min(f.season_in_steps, len(values) - 1))
    return Fold(count, f, naive, pick, series.times[rows], series.values[rows])
