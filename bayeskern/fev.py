"""Forecasts for tasks of fev, the library behind public forecast leaderboards.

Each target of each series is forecast by itself, as in `bayeskern.forecast`.

Requires fev: pip install bayeskern[fev].
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from bayeskern.core import extras
from bayeskern.core.formatting import counted
from bayeskern.forecast.evaluate.seasonal_naive import SeasonalNaive
from bayeskern.forecast.forecast import forecast
from bayeskern.forecast.many.workers import run_all
from bayeskern.series.columns import SeriesColumns
from bayeskern.series.read_options import ReadOptions
from bayeskern.series.series import Series

with extras.needed_for("bayeskern.fev", package="fev", extra="fev"):
    from datasets import Dataset, DatasetDict
    from fev import Task

# Metrics whose best point forecast is the mean; the median is taken for all others.
MEAN_METRICS = ("MSE", "RMSE", "RMSSE")


def predict(
    task: Task,
    *,
    regressors: bool = True,
    workers: int | None = None,
    progress: bool = True,
    **options: Any,
) -> list[DatasetDict]:
    """Predictions for each evaluation window of a task, in the format of fev.

    The point forecast is the mean for MSE, RMSE and RMSSE, and the median for other metrics. A
    series that cannot be forecast gets the seasonal naive forecast, because fev needs a finite
    prediction for each series; a warning says how many there are.

    Args:
        task: The task. Static columns, text, and columns known only in the past are not used.
        regressors: Give each known dynamic column a linear effect. A column with missing values is
            left out of the series concerned.
        workers: Number of processes; None for one per core, 1 to run in this process.
        progress: Show a progress bar for each window and target.
        **options: Further arguments of `bayeskern.forecast`: season, trend, model, seed, ...

    Returns:
        For each window, predictions for each target, for `task.evaluation_summary`.

    Raises:
        TypeError: If `task` is not a task of fev, or for an option that `forecast` does not have.
        ValueError: If no series of a window can be forecast.
    """
    if not isinstance(task, Task):
        raise TypeError(
            "task must be a fev.Task, such as fev.Task(dataset_path='sales.parquet', horizon=12); "
            f"got a {type(task).__name__}."
        )
    point = 1 if _metric_name(task.eval_metric) in MEAN_METRICS else 0
    predictions = []
    # fev reads data in forked processes by default, which may deadlock with the threads of JAX.
    for window in task.iter_windows(num_proc=0):
        past, future = map(_rows, window.get_input_data())
        known = task.known_dynamic_columns if regressors else []
        by_target = {}
        for target in task.target_columns:
            values = [np.asarray(row[target], float) for row in past]
            readers = _readers(task.timestamp_column, past, future, target, known)
            missing = {str(i): _missing_at_end(y) for i, y in enumerate(values)}
            work = partial(
                _forecast,
                horizon=task.horizon,
                q=tuple(task.quantile_levels),
                missing_at_end=missing,
                options=options,
            )
            results = run_all(work, readers, workers, progress=progress)
            _report_failures(results)
            rows = [
                _seasonal_naive(y, task) if isinstance(result, str) else result
                for y, result in zip(values, results, strict=True)
            ]
            columns = {"predictions": [row[point] for row in rows]}
            columns |= {
                str(q): [row[k] for row in rows] for k, q in enumerate(task.quantile_levels, 2)
            }
            by_target[target] = Dataset.from_dict(columns, features=task.predictions_schema)
        predictions.append(DatasetDict(by_target))
    return predictions


def evaluate(task: Task, *, trained_on_this_dataset: bool = False, **options: Any) -> dict:
    """Summary of the scores on a task: a row of a leaderboard.

    Args:
        task: The task.
        trained_on_this_dataset: True for data that the built-in priors were learned from, such as
            the M1 competition.
        **options: Further arguments of `predict`.

    Returns:
        The result of `task.evaluation_summary`, with the time of all predictions.

    Examples:
        ```python
        tasks = fev.Benchmark.from_yaml("tasks.yaml").tasks
        pd.DataFrame([evaluate(task) for task in tasks]).to_csv("bayeskern.csv", index=False)
        ```
    """
    start = time.monotonic()
    predictions = predict(task, **options)
    return task.evaluation_summary(
        predictions,
        model_name="bayeskern",
        training_time_s=0.0,
        inference_time_s=time.monotonic() - start,
        trained_on_this_dataset=trained_on_this_dataset,
    )


def _metric_name(metric: str | Mapping[str, Any]) -> str:
    """Name of a metric, in capitals."""
    return (metric if isinstance(metric, str) else metric["name"]).upper()


def _rows(data: Dataset) -> list[dict[str, Any]]:
    """Cells of each series by column, as arrays."""
    return cast("list[dict[str, Any]]", list(data.with_format("numpy")))


def _missing_at_end(y: np.ndarray) -> int:
    """Number of missing values at the end of a series."""
    return int(np.argmax(np.isfinite(y)[::-1]))


def _readers(
    time_name: str,
    past: Sequence[Mapping[str, Any]],
    future: Sequence[Mapping[str, Any]],
    target: str,
    known: Sequence[str],
) -> list[Callable[[], Series]]:
    """Function () -> Series for each series of a window, named by its number."""
    readers = []
    for i, (row, ahead) in enumerate(zip(past, future, strict=True)):
        columns = {name: np.concatenate([row[name], ahead[name]]) for name in known}
        columns = {
            name: column.astype(float)
            for name, column in columns.items()
            if column.dtype.kind in "biuf" and np.all(np.isfinite(column))
        }
        times, y = row[time_name], np.asarray(row[target], float)
        if columns:
            times = np.concatenate([times, ahead[time_name]])
            y = np.append(y, np.full(len(ahead[time_name]), np.nan))
        cells = SeriesColumns(time_name, times, target, y, columns)
        readers.append(partial(Series.from_columns, str(i), cells, ReadOptions()))
    return readers


def _forecast(
    series: Series,
    horizon: int,
    q: tuple[float, ...],
    missing_at_end: Mapping[str, int],
    options: Mapping[str, Any],
) -> np.ndarray:
    """Median, mean and quantiles of the values to predict, (2 + len(q), horizon).

    missing_at_end: Number of missing values between the last observed value and the window, by
        name of the series.
    """
    f = forecast(series, horizon + missing_at_end[series.name], **options)
    rows = np.vstack([f.median, f.mean, *f.quantile(q)] if q else [f.median, f.mean])
    if not np.all(np.isfinite(rows)):
        raise ArithmeticError("some predictions are not finite.")
    return rows[:, -horizon:]


def _seasonal_naive(y: np.ndarray, task: Task) -> np.ndarray:
    """Rows of `_forecast` by the seasonal naive forecast; zeros without any value."""
    if not np.any(np.isfinite(y)):
        y = np.zeros(len(y))
    naive = SeasonalNaive.from_values(y, task.horizon, min(task.seasonality, len(y)))
    return np.vstack([naive.mean, naive.mean, *(naive.quantile(q) for q in task.quantile_levels)])


def _report_failures(results: Sequence[np.ndarray | str]) -> None:
    """Warn of series that cannot be forecast; raise ValueError if none can be."""
    problems = Counter(result for result in results if isinstance(result, str))
    if not problems:
        return
    (problem, count), *_ = problems.most_common(1)
    reason = f"the most common reason ({count} of {len(results)} series): {problem}"
    if problems.total() == len(results):
        # It may lie in the options rather than in the data.
        raise ValueError(f"no series can be forecast; {reason}")
    naive = counted(problems.total(), "series")
    warnings.warn(f"seasonal naive stands in for {naive}; {reason}", stacklevel=3)
