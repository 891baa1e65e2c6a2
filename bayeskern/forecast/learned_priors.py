"""Priors of the hyperparameters that are learned from many series of one kind.

Empirical Bayes by the EM algorithm: with the priors as they are, each series says where its
hyperparameters lie; the next priors are the normal distributions, in unconstrained coordinates,
that hold those of all series. Dempster, Laird and Rubin (1977), "Maximum likelihood from incomplete
data via the EM algorithm"; Efron and Morris (1975), "Data analysis using Stein's estimator and its
generalizations", on what that gains.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bayeskern.core.formatting import counted
from bayeskern.core.progress import hidden_progress
from bayeskern.forecast.data.reading_many import read_many
from bayeskern.forecast.forecast import forecast
from bayeskern.forecast.model.priors import SAME_STEP, Priors
from bayeskern.forecast.model.structural_model import StructuralModel
from bayeskern.forecast.workers import run_all

# Passes over all series.
ROUNDS = 2
# Fewer series teach nothing, and a hyperparameter that fewer of them have keeps its prior.
FEWEST = 10
# A scale that is learned lies between these.
NARROWEST, WIDEST = 0.3, 2.0
# How a file or a frame is read, among the options of `forecast_many`.
NOTATION = ("date_format", "decimal", "every", "by")


class Found(NamedTuple):
    """Where the hyperparameters of a series lie: (name, share, mean, variance) of each.

    step: from one value of it to the next; problem: why there is nothing, if there is nothing.
    """

    hyperparameters: tuple[tuple[str, float, float, float], ...] = ()
    step: float = 0.0
    problem: str = ""


class Lesson(NamedTuple):
    """What a process needs to look at one series."""

    read: Callable
    options: dict

    def run(self) -> Found:
        """What it says; one that cannot be forecast says why."""
        try:
            with hidden_progress():
                f = forecast(self.read(), 1, **self.options)
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            return Found(problem=" ".join(str(error).split()))
        if not f.parts:
            return Found(problem="the series is constant")
        rows = []
        for part in f.parts:
            shares, z = part.draws.shares, part.draws.z
            means = shares @ z
            variances = shares @ np.square(z - means)
            named = zip(part.fitted.evidence.names, means, variances, strict=True)
            rows += [(n, part.weight, float(m), float(v)) for n, m, v in named]
        return Found(tuple(rows), f.series.calendar.step)


def learn_priors(
    series,
    *,
    id: str | None = None,
    time: str | None = None,
    value: str | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    sheet: str | None = None,
    encoding: str | None = None,
    model: StructuralModel = StructuralModel(),
    progress: bool = True,
    **options,
) -> Priors:
    """Learn priors from many series of one kind, for forecasts of these series and of new ones.

    They gain much where the series are short and alike, as the sales of many shops are, and little
    where they have nothing in common.

    Args:
        series: As `forecast_many` takes them.
        id: The column that names the series, for frames and files.
        time: The column of times; guessed if None.
        value: The column of values; needed if there are several.
        workers: As in `forecast_many`.
        scheduler: As in `forecast_many`.
        sheet: The sheet of a workbook.
        encoding: The encoding of a file of text.
        model: Options of the structural model, the same as for the forecasts.
        progress: Whether to show a progress bar.
        **options: How the series are read (every, by, date_format, decimal) and further arguments
            of `forecast`: season, trend, ...; the same as for the forecasts.

    Returns:
        The priors, for `StructuralModel(priors=...)`.

    Raises:
        ValueError: If fewer than ten series can be learned from, or if they are of several kinds,
            such as months and days.

    Examples:
        ```python
        priors = bk.learn_priors(sales, id="store", value="units")
        model = bk.StructuralModel(priors=priors)
        bk.forecast_many(sales, 28, id="store", value="units", model=model)
        ```
    """
    notation = {name: options.pop(name, None) for name in NOTATION}
    regressors = options.pop("regressors", ())
    many = read_many(series, id, time, value, regressors, sheet, encoding, notation)
    priors = None
    for _ in range(ROUNDS):
        given = options | {"model": replace(model, priors=priors)}
        lessons = [Lesson(read, given) for read in many.reads]
        died = Found(problem="several workers died on it")
        priors = _gathered(run_all(lessons, died, workers, scheduler, progress))
    return priors


def _gathered(found: Sequence[Found]) -> Priors:
    """The normal distributions that hold the hyperparameters of all series."""
    good = [one for one in found if not one.problem]
    if len(good) < FEWEST:
        problems = Counter(one.problem for one in found if one.problem).most_common(1)
        why = f" {problems[0][1]} cannot: {problems[0][0]}" if problems else ""
        raise ValueError(
            f"{counted(len(good), 'series', 'series')} can be learned from; wanted {FEWEST} or "
            f"more, or the priors as they are.{why}"
        )
    steps = np.array([one.step for one in good])
    if not np.allclose(steps, steps[0], rtol=SAME_STEP):
        raise ValueError(
            f"the series have steps from {steps.min():.3g} to {steps.max():.3g}, which have no "
            "priors in common: learn from those of one frequency."
        )
    rows: dict[str, list[tuple[float, float, float]]] = {}
    for one in good:
        for name, *row in one.hyperparameters:
            rows.setdefault(name, []).append(row)
    values = {}
    for name, row in rows.items():
        share, mean, variance = np.array(row).T
        if share.sum() >= FEWEST:
            location = float(np.average(mean, weights=share))
            spread = np.average(variance + np.square(mean - location), weights=share)
            values[name] = location, float(np.clip(np.sqrt(spread), NARROWEST, WIDEST))
    return Priors(values, float(np.median(steps)), len(good), len(found))
