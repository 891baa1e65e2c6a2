"""Series of the learning half, and forecasts of their held-out values by all structures."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bayeskern.core.threads import one_blas_thread
from bayeskern.forecast.combine import stacking
from bayeskern.forecast.combine.candidates import candidates
from bayeskern.forecast.fit.draws import Draws
from bayeskern.forecast.fit.modes import FittedStructure
from bayeskern.forecast.fit.rolling import Ahead, Origin, origins_of
from bayeskern.forecast.model import learned
from bayeskern.forecast.model.configuration import Request, configure
from bayeskern.forecast.model.learned import (
    Features,
    Growth,
    IntervalWidth,
    Learned,
    Reliability,
    StructureWeights,
)
from bayeskern.forecast.model.trends import AVERAGED, TRENDS
from bayeskern.prediction.quantile_average import QuantileAverage
from bayeskern.series.reading import read_series
from benchmarks import corpus

# Start of the logarithms of the coefficients of all weights: by_evidence, by_evidence_on_scale,
# by_error, half_count.
COEFFICIENTS = np.log([0.2, 0.2, 10.0, 60.0])
LEVELS = np.arange(1, 10) / 10.0
# Frequency -> number of held-out values in the corpus.
HORIZONS = {"yearly": 6, "quarterly": 8, "monthly": 18, "weekly": 26, "daily": 35, "hourly": 48}


@dataclass(frozen=True, eq=False)
class Lesson:
    """A series of the learning half, prepared as by `forecast`, and its held-out values."""

    id: str
    cell: str
    frequency: str
    x: np.ndarray
    y: np.ndarray
    x_new: np.ndarray
    future: np.ndarray
    scale: float
    steps: np.ndarray
    season: int
    choices: object


def lesson_of(series: corpus.Series) -> Lesson | None:
    """Series prepared as by `forecast`; None if its weights are not learned."""
    if np.ptp(series.x) == 0.0 or len(series.x) < 4:
        return None
    read, choices = configure(read_series(series.dated), len(series.y), Request())
    frequency = choices.learned.frequency
    # Ranks and changes have structures of their own.
    if frequency.split()[0] not in HORIZONS or choices.ranks or choices.find_changes:
        return None
    x = read.calendar.positions(read.times[read.observed])
    future = read.calendar.positions(read.calendar.future(len(series.y)))
    scale = series.mase_scale
    if not scale > 0.0:
        scale = float(np.std(series.x))
    season = min((round(p / choices.step) for p in choices.seasons.values()), default=1)
    return Lesson(
        series.id, series.cell, frequency, x, read.values[read.observed], future,
        series.y, scale, read.calendar.steps()[read.observed], season, choices,
    )  # fmt: skip


def names_of(trends) -> list[str]:
    """Names of the structures with these trends."""
    return [trend + log for log in ("", learned.LOG) for trend in trends]


def table_of(priors) -> Learned:
    """Table with these priors, equal weights and neutral growth and widths."""
    weighing = StructureWeights(dict.fromkeys(names_of(TRENDS), 0.0), *np.exp(COEFFICIENTS))
    width = IntervalWidth(0.0, 100.0, 50.0, 8.0, 0.0, 1, 1.0)
    return Learned(priors, weighing, Growth(0.0, 0.0), width, Reliability(0.0, 0.0, 0.0))


def fits_of(lesson: Lesson, priors, trends) -> list[FittedStructure]:
    """Structures with these trends at their modes."""
    choices = replace(lesson.choices, learned=table_of(priors), trends=tuple(trends))
    with one_blas_thread():
        fits = candidates(lesson.x, lesson.y, choices)
        return [fitted for fitted in fits if np.isfinite(fitted.log_evidence)]


@dataclass(frozen=True, eq=False)
class Example:
    """Forecasts of all structures of one series, and its held-out values.

    Attributes:
        lesson: The series.
        names: Names of the structures, (K,).
        features: Their features.
        count: Number of past values that were forecast; 0 if an error is unknown.
        exponential: Quantiles of the structures without linear growth, (K, 9, h).
        linear: Quantiles of the structures with linear growth above the largest value, (K, 9, h).
        average: Forecast by all structures.
        past: Forecasts of all structures from earlier origins, concatenated; None without origins.
        origins: The origins.
    """

    lesson: Lesson
    names: list[str]
    features: Features
    count: int
    exponential: np.ndarray
    linear: np.ndarray
    average: QuantileAverage
    past: QuantileAverage | None
    origins: tuple[Origin, ...]

    @property
    def ahead(self) -> Ahead:
        """Values that are forecast from the origins."""
        return Ahead.from_origins(self.origins)


def example_of(lesson: Lesson, priors) -> Example | None:
    """Forecasts of all structures from the end and from earlier origins."""
    fits = fits_of(lesson, priors, AVERAGED)
    if not fits:
        return None
    origins = origins_of(lesson.steps, len(lesson.future), lesson.season)
    with one_blas_thread():
        past = [fitted.rolling(origins) for fitted in fits]
        moments = [
            Draws.from_laplace(fitted, stacking.MIN_PART_DRAWS, 0, lesson.x_new).moments(
                lesson.x_new
            )
            for fitted in fits
        ]
    errors = [stacking.error_of(*pair, origins) for pair in zip(fits, past, strict=True)]
    names = [stacking.structure_name(f.structure) for f in fits]
    features = Features.from_evidence(names, [f.log_evidence for f in fits], errors)
    scales, bounds = [f.scale for f in fits], lesson.choices.bounds
    means, sds = zip(*moments, strict=True)
    average = QuantileAverage(np.ones(len(fits)), scales, means, sds, bounds=bounds)
    exponential, linear = (
        [with_growth(average, w, share).quantile(LEVELS) for w in np.eye(len(fits))]
        for share in (0.0, 1.0)
    )
    past_average = None
    if origins:
        joined = [[np.concatenate(part) for part in zip(*pairs, strict=True)] for pairs in past]
        means, sds = zip(*joined, strict=True)
        past_average = QuantileAverage(np.ones(len(fits)), scales, means, sds, bounds=bounds)
    return Example(
        lesson, names, features, stacking.past_count(origins), np.array(exponential),
        np.array(linear), average, past_average, origins,
    )  # fmt: skip


def with_growth(average: QuantileAverage, weights, share: float) -> QuantileAverage:
    """Average with other weights (K,) and another share of linear growth."""
    scales = [replace(scale, linear_share=share) for scale in average.transformations]
    return QuantileAverage(weights, scales, average.means, average.sds, bounds=average.bounds)


def kind_of(example: Example) -> str:
    """Kind of the series, the first part of its cell."""
    return example.lesson.cell.split("/")[0]
