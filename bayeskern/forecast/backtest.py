"""Rolling-origin evaluation: forecasts from past origins, scored by the values that followed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeskern.core import validation
from bayeskern.core.formatting import aligned, counted, short
from bayeskern.core.progress import Progress, hidden_progress
from bayeskern.forecast.data.dates.times import parse_times
from bayeskern.forecast.data.horizon import steps_ahead
from bayeskern.forecast.data.reading import read_series
from bayeskern.forecast.data.series import MIN_VALUES, Series
from bayeskern.forecast.evaluate.scores import CRPS_PROBABILITIES, SCORED_PROBABILITIES, score
from bayeskern.forecast.evaluate.seasonal_naive import SeasonalNaive
from bayeskern.forecast.forecast import forecast
from bayeskern.forecast.model.configuration import MAX_HORIZON, require_within_reach
from bayeskern.forecast.result import Forecast
from bayeskern.forecast.show import html, plot
from bayeskern.forecast.show.record import record_of_backtest
from bayeskern.forecast.show.saving import csv_text, write_files

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
        return record_of_backtest(self, levels)

    def export(self, folder: str | Path) -> list[Path]:
        """Write backtest.csv and backtest.png; return their paths."""
        return write_files(folder, {"backtest.csv": self.to_csv(), "backtest.png": self.plot()})

    def plot(self, ax: Axes | None = None, level: float = 0.8) -> Figure:
        """Plot the forecasts with central intervals, and the values that followed."""
        return plot.backtest(self, ax, level)

    def _repr_html_(self) -> str:
        """The result in a notebook."""
        return html.of_backtest(self)

    def __repr__(self) -> str:
        horizon = max(fold.forecast.horizon for fold in self.folds)
        count = sum(len(fold.actual) for fold in self.folds)
        name = short(self.series.name, 80)
        head = f"{name}: {len(self.folds)} forecasts of {horizon} steps, {count} values"
        cells = [["", *next(iter(self.scores.values()))]]
        for model, scores in self.scores.items():
            texts = (
                f"{100 * v:.0f} %" if name.startswith("coverage") else f"{v:.4g}"
                for name, v in scores.items()
            )
            cells.append([model, *texts])
        remarks = (f"  remark    {remark}" for remark in self.remarks)
        return "\n".join([head, *remarks, "", *(f"  {line}" for line in aligned(cells))])


def _mean_scores(pairs: Sequence[tuple[Forecast | SeasonalNaive, Fold]]) -> dict[str, float]:
    """Mean scores over the values of all folds, by name."""
    by_fold = [_scores(model, fold) for model, fold in pairs]
    per_value = {name: np.concatenate([scores[name] for scores in by_fold]) for name in by_fold[0]}
    # A single value of density 0 makes the mean -inf, even if a value at a point mass has log
    # density inf: without this line the mean would be NaN.
    if np.any(np.isneginf(per_value["log_score"])):
        per_value["log_score"] = np.array([-np.inf])
    means = {name: float(np.mean(values)) for name, values in per_value.items()}
    return means | {"rmse": float(np.sqrt(means["rmse"]))}


def _scores(model: Forecast | SeasonalNaive, fold: Fold) -> dict[str, np.ndarray]:
    """Scores of each value by name; "rmse" holds squared errors, to be averaged."""
    y = fold.actual
    quantiles = model.quantile(SCORED_PROBABILITIES)
    scores = score(quantiles[:, fold.pick], y)
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = np.abs(scores.errors) / np.float64(fold.naive.in_sample_mae)
    # `log_density` takes a whole path: steps without a value hold the median, and their densities
    # are dropped.
    path = quantiles[len(CRPS_PROBABILITIES)].copy()
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
    naive = SeasonalNaive.of(values, f.horizon, min(f.season_in_steps, len(values) - 1))
    return Fold(count, f, naive, pick, series.times[rows], series.values[rows])
