"""Priors of the hyperparameters that are learned from many series of one kind.

Empirical Bayes by the EM algorithm: with the priors as they are, each series says where its
hyperparameters lie; the next priors are the normal distributions, in unconstrained coordinates,
that hold those of all series. Dempster, Laird and Rubin (1977), "Maximum likelihood from incomplete
data via the EM algorithm"; Efron and Morris (1975), "Data analysis using Stein's estimator and its
generalizations", on what that gains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from bayeskern.core.formatting import counted
from bayeskern.forecast.forecast import forecast
from bayeskern.forecast.priors import Priors
from bayeskern.forecast.reading_many import read_many
from bayeskern.forecast.workers import run_all

# Passes over all series.
ROUNDS = 2
# A hyperparameter that fewer series have keeps its prior.
FEWEST = 10.0
# A scale that is learned lies between these.
NARROWEST, WIDEST = 0.3, 2.0
# How a file or a frame is read, among the options of `forecast_many`.
NOTATION = ("date_format", "decimal", "every", "by")


class Found(NamedTuple):
    """Where the hyperparameters of a series lie: (name, share, mean, variance) of each."""

    hyperparameters: tuple[tuple[str, float, float, float], ...]


class Lesson(NamedTuple):
    """What a process needs to look at one series."""

    read: Callable
    options: dict

    def run(self) -> Found:
        """One that cannot be forecast says nothing."""
        try:
            f = forecast(self.read(), 1, progress=False, **self.options)
        except (ValueError, ArithmeticError, np.linalg.LinAlgError):
            return Found(())
        rows = []
        for part in f.parts:
            shares, z = part.draws.shares, part.draws.z
            means = shares @ z
            variances = shares @ np.square(z - means)
            named = zip(part.fitted.evidence.names, means, variances, strict=True)
            rows += [(n, part.weight, float(m), float(v)) for n, m, v in named]
        return Found(tuple(rows))


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
        progress: Whether to show a progress bar.
        **options: How the series are read (every, by, date_format, decimal) and further arguments
            of `forecast`: season, trend, log, ...; the same as for the forecasts.

    Returns:
        The priors, which `forecast` and `forecast_many` take as `priors=`.

    Raises:
        ValueError: If fewer than ten series can be learned from, or none can be read.

    Examples:
        ```python
        priors = bk.learn_priors(sales, id="store", value="units")
        bk.forecast_many(sales, 28, id="store", value="units", priors=priors)
        ```
    """
    notation = {name: options.pop(name, None) for name in NOTATION}
    regressors = options.pop("regressors", ())
    many = read_many(series, id, time, value, regressors, sheet, encoding, notation)
    priors = None
    for _ in range(ROUNDS):
        given = {**options, "priors": priors}
        lessons = [Lesson(read, given) for read in many.reads]
        found = run_all(lessons, Found(()), workers, scheduler, progress)
        priors = _gathered([one.hyperparameters for one in found])
    return priors


def _gathered(found: Iterable) -> Priors:
    """The normal distributions that hold the hyperparameters of all series."""
    rows: dict[str, list[tuple[float, float, float]]] = {}
    count = 0
    for of_series in found:
        count += bool(of_series)
        for name, share, mean, variance in of_series:
            rows.setdefault(name, []).append((share, mean, variance))
    values = {}
    for name, row in rows.items():
        share, mean, variance = np.array(row).T
        if share.sum() >= FEWEST:
            location = float(np.average(mean, weights=share))
            spread = np.average(variance + np.square(mean - location), weights=share)
            values[name] = location, float(np.clip(np.sqrt(spread), NARROWEST, WIDEST))
    if not values:
        raise ValueError(
            f"{counted(count, 'series', 'series')} can be learned from; wanted {FEWEST:g} or more. "
            "Forecast them with the priors as they are."
        )
    return Priors(values, count)
