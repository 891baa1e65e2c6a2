"""Priors of the hyperparameters, learned from many series of one kind.

Empirical Bayes by the EM algorithm: each series is fitted with the current priors, and the next
priors are normal distributions, in unconstrained coordinates, with the moments of the posteriors
of all series. Dempster, Laird and Rubin (1977), "Maximum likelihood from incomplete data via the EM
algorithm"; Efron and Morris (1975), "Data analysis using Stein's estimator and its
generalizations", on the gain in accuracy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from bayeskern.core.formatting import counted
from bayeskern.forecast.forecast import forecast
from bayeskern.forecast.many.workers import run_all
from bayeskern.forecast.model.priors import Priors, same_steps
from bayeskern.forecast.model.structural_model import StructuralModel
from bayeskern.series.read_options import ReadOptions
from bayeskern.series.reading_many import read_many
from bayeskern.series.series import Series


def posterior_moments(
    series: Series, options: dict[str, Any]
) -> tuple[float, list[tuple[str, float, float, float]]]:
    """Step of a series, and posterior moments of the hyperparameters of its structures.

    Returns:
        The step, and a row for each hyperparameter of each structure: its name, the weight of the
        structure, and the posterior mean and variance in the unconstrained coordinate.
    """
    f = forecast(series, 1, **options)
    if not f.parts:
        raise ValueError("the series is constant")
    rows = []
    for part in f.parts:
        shares, z = part.draws.shares, part.draws.z
        means = shares @ z
        variances = shares @ np.square(z - means)
        weights = [part.weight] * len(means)
        names = part.fitted.density.names
        rows += zip(names, weights, means.tolist(), variances.tolist(), strict=True)
    return f.series.calendar.step, rows


def learn_priors(
    series: Any,
    *,
    id: str | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    model: StructuralModel = StructuralModel(),
    progress: bool = True,
    **options: Any,
) -> Priors:
    """Learn priors from many similar series, for forecasts of these and of new series.

    The gain in accuracy is large for short similar series, such as the sales of many shops, and
    small for series that have nothing in common.

    Args:
        series: The series, as in `forecast_many`.
        id: Column that names the series, for frames and files.
        workers: Number of processes, as in `forecast_many`.
        scheduler: Dask scheduler, as in `forecast_many`.
        model: Options of the structural model; pass the same to the forecasts.
        progress: Show a progress bar.
        **options: Options of `read_series` (time, value, every, by, ...), and further arguments of
            `forecast` (season, trend, ...); pass the same to the forecasts.

    Returns:
        The priors, for `StructuralModel(priors=...)`.

    Raises:
        ValueError: If fewer than ten series can be fitted, or if their steps differ, for example
            months and days.

    Examples:
        ```python
        priors = bk.learn_priors(sales, id="store", value="units")
        model = bk.StructuralModel(priors=priors)
        bk.forecast_many(sales, 28, id="store", value="units", model=model)
        ```
    """
    reading, options = ReadOptions.split(options)
    readers = read_many(series, id, reading)

    def em_round(priors: Priors | None) -> Priors:
        work = partial(
            posterior_moments, options=options | {"model": replace(model, priors=priors)}
        )
        return _pooled(run_all(work, readers.functions, workers, scheduler, progress))

    # The second round fits each series with the priors of the first.
    return em_round(em_round(None))


def _pooled(
    results: Sequence[tuple[float, list[tuple[str, float, float, float]]] | str],
    min_series: int = 10,
    min_scale: float = 0.3,
    max_scale: float = 2.0,
) -> Priors:
    """Normal priors with the pooled moments of all series; scales are clipped.

    A hyperparameter keeps its built-in prior if the weights of its structures, summed over all
    series, are less than `min_series`.
    """
    fitted = [result for result in results if not isinstance(result, str)]
    if len(fitted) < min_series:
        problems = Counter(r for r in results if isinstance(r, str)).most_common(1)
        reason = f" Most frequent problem ({problems[0][1]}): {problems[0][0]}" if problems else ""
        raise ValueError(
            f"{counted(len(fitted), 'series')} can be fitted; learn_priors needs at "
            f"least {min_series}. Use the built-in priors instead.{reason}"
        )
    steps = np.array([step for step, _ in fitted])
    if not same_steps(steps, steps[0]):
        raise ValueError(
            f"the series have steps from {steps.min():.3g} to {steps.max():.3g}; learn priors from "
            "series of one frequency."
        )
    rows: dict[str, list[list[float]]] = {}
    for _, moments in fitted:
        for name, *row in moments:
            rows.setdefault(name, []).append(row)
    values = {}
    for name, row in rows.items():
        weight, mean, variance = np.array(row).T
        if weight.sum() >= min_series:
            location = float(np.average(mean, weights=weight))
            spread = np.average(variance + np.square(mean - location), weights=weight)
            values[name] = location, float(np.clip(np.sqrt(spread), min_scale, max_scale))
    return Priors(values, float(np.median(steps)), len(fitted), len(results))
