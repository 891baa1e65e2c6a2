"""Learn the defaults of `forecast`: priors, weights of structures, widths, reliability.

    uv run python -m benchmarks.learn_default_priors [--data FOLDER] [--limit 100] [--rounds 4]
        [--priors smooth] [--left-out benchmarks/results/left_out.json]

The shipped table was made in two runs: with --limit 60 --rounds 2, from the priors before it, and
with --limit 300 --priors --left-out benchmarks/results/left_out.json.

Writes bayeskern/forecast/model/learned.json, from the half `learn` of M1, of the corpus and of the
long series. The script `benchmarks.board` judges on the other half. For each frequency, and for
series too short to show its season:

1. Priors of the hyperparameters of each structure, by the EM algorithm (empirical Bayes: Dempster,
   Laird and Rubin, 1977), from those of the table: the next prior is the normal distribution with
   the moments of the Laplace approximations of all series. Series with many zeros are left out.
2. Weights of the structures (`Weighing`), by the least mean log quantile loss of the averaged
   forecasts of held-out values. The logarithm limits the effect of single series. All frequencies
   have one set of coefficients, and intercepts of their own with a normal prior, so that few series
   move them little. At the same time, the share of a log-scale forecast that grows linearly above
   the largest value (`Growth`).
3. Width of the intervals (`Width`): the priors of the squared scale and of the degrees of freedom,
   and the half-life of past errors, by the highest mean log density of standardised errors of
   held-out values; and the sd of past errors, by the share of past values inside 80 % intervals.
4. Chance of a smaller error than seasonal naive (`Reliability`), by logistic regression over all
   series.

--left-out names a file for weights and widths that are learned without any series of each kind in
turn; `benchmarks.board --left-out` judges with these.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from scipy.optimize import brentq, minimize
from scipy.special import expit, ndtr, softmax
from sklearn.linear_model import LogisticRegression

from bayeskern.core.threads import one_blas_thread
from bayeskern.forecast.combine import stacking
from bayeskern.forecast.combine.candidates import candidates
from bayeskern.forecast.combine.width import (
    MAX_RESIDUAL,
    MIN_DEGREES,
    PastErrors,
    forecast_errors,
)
from bayeskern.forecast.data.reading import read_series
from bayeskern.forecast.evaluate.chance import gap_to_naive
from bayeskern.forecast.evaluate.rolling_origin import lost_share
from bayeskern.forecast.evaluate.seasonal_naive import SeasonalNaive
from bayeskern.forecast.fit.modes import Fitted
from bayeskern.forecast.fit.rolling import Origin, origins_of
from bayeskern.forecast.model import learned
from bayeskern.forecast.model.configuration import Request, configure
from bayeskern.forecast.model.kernels import AVERAGED, TRENDS
from bayeskern.forecast.model.learned import (
    ANY,
    Features,
    Growth,
    Learned,
    Reliability,
    Weighing,
    Width,
)
from bayeskern.prediction.quantile_average import QuantileAverage
from bayeskern.prediction.student_errors import StudentErrors
from benchmarks import corpus

# Start of the EM algorithm: location and scale of the logarithm of each hyperparameter.
START = {
    "trend.level.variance": (-1.5, 1.5),
    "trend.slope.lengthscale": (1.5, 1.5),
    "trend.slope.variance": (-4.0, 1.5),
    "trend.drift.variance": (-4.0, 1.5),
    "trend.memory.lengthscale": (1.5, 1.5),
    "trend.memory.variance": (-1.0, 1.5),
    "trend.bend.lengthscale": (2.5, 1.0),
    "trend.bend.variance": (0.0, 1.5),
    "cycles.long.rbf.lengthscale": (3.0, 1.0),
    "cycles.long.rbf.variance": (-1.0, 1.5),
    "cycles.long.cosine.period": (5.0, 1.0),
    "cycles.short.rbf.lengthscale": (1.0, 1.0),
    "cycles.short.rbf.variance": (-1.0, 1.5),
    "cycles.short.cosine.period": (3.5, 1.0),
    "season.size.constant.variance": (-1.0, 1.5),
    "season.size.brownian.variance": (-6.0, 1.5),
    "season.seasonal.lengthscale": (-0.7, 1.0),
    "noise": (-1.5, 1.5),
}
# Number of series that the start counts as, and limits of the learned scales.
START_SERIES, MIN_SCALE, MAX_SCALE = 5.0, 0.4, 3.0
# Smallest curvature of the log posterior at a mode.
MIN_CURVATURE = 0.1
# Smallest number of series of a learned frequency.
MIN_SERIES = 15
# Start of the logarithms of the coefficients of all weights: by_evidence, by_evidence_on_scale,
# by_error, half_count.
COEFFICIENTS = np.log([0.2, 0.2, 10.0, 60.0])
# Penalties on the squared distance from the start: of intercepts, coefficients and growth, relative
# to the sum of losses over series; of the width, relative to the mean.
INTERCEPT_PENALTY, COEFFICIENT_PENALTY, GROWTH_PENALTY = 1.0, 1.0, 0.1
WIDTH_PENALTY = 3e-3
# Quantile loss added to each forecast, as a share of the seasonal-naive error.
MIN_LOSS = 1e-3
LEVELS = np.arange(1, 10) / 10.0
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
    weighing = Weighing(dict.fromkeys(names_of(TRENDS), 0.0), *np.exp(COEFFICIENTS))
    width = Width(0.0, 100.0, 50.0, 8.0, 0.0, 1, 1.0)
    return Learned(priors, weighing, Growth(0.0, 0.0), width, Reliability(0.0, 0.0, 0.0))


def fits_of(lesson: Lesson, priors, trends) -> list[Fitted]:
    """Structures with these trends at their modes."""
    choices = replace(lesson.choices, learned=table_of(priors), trends=tuple(trends))
    with one_blas_thread():
        fits = candidates(lesson.x, lesson.y, choices)
        return [fitted for fitted in fits if np.isfinite(fitted.log_evidence)]


def posterior_moments(
    lesson: Lesson, priors, trends: Sequence[str]
) -> dict[str, list[tuple[str, float, float]]]:
    """Trend -> name, mode and variance of each hyperparameter, in units of the table."""
    rows: dict[str, tuple[float, list]] = {}
    for fitted in fits_of(lesson, priors, trends):
        trend = fitted.structure.trend
        if trend in rows and rows[trend][0] > fitted.log_evidence:
            continue
        values, vectors = np.linalg.eigh(np.nan_to_num(fitted.hessian))
        covariance = (vectors / np.maximum(values, MIN_CURVATURE)) @ vectors.T
        # Prior and mode are in the units of the series.
        shift = fitted.evidence.middle - np.array(
            [priors[trend][_shared(n, fitted)][0] for n in fitted.evidence.names]
        )
        mode = fitted.mode - shift
        names = [_shared(n, fitted) for n in fitted.evidence.names]
        rows[trend] = (
            fitted.log_evidence,
            list(zip(names, mode.tolist(), np.diag(covariance).tolist(), strict=True)),
        )
    return {trend: row for trend, (_, row) in rows.items()}


def _shared(name: str, fitted: Fitted) -> str:
    """Name of a hyperparameter in the table, which is the same for all seasons."""
    first, _, rest = name.partition(".")
    # The shape of a day within the week has the prior of all seasons.
    rest = rest.replace("periodic", "seasonal")
    return f"season.{rest}" if first in fitted.choices.seasons else name


def next_priors(moments, old) -> dict[str, dict[str, tuple[float, float]]]:
    """Normal distributions with the moments of the hyperparameters of all series."""
    new = {}
    for trend in old:
        by_name: dict[str, list] = {}
        for rows in moments:
            for name, location, variance in rows.get(trend, ()):
                by_name.setdefault(name, []).append((location, variance))
        new[trend] = dict(old[trend])
        for name, rows in by_name.items():
            (start_mean, spread), (modes, variances) = START[name], np.array(rows).T
            total = len(rows) + START_SERIES
            mean = (modes.sum() + START_SERIES * start_mean) / total
            square = np.sum(np.square(modes - mean) + variances)
            square += START_SERIES * (spread**2 + (start_mean - mean) ** 2)
            scale = np.clip(np.sqrt(square / total), MIN_SCALE, MAX_SCALE)
            new[trend][name] = round(float(mean), 3), round(float(scale), 3)
    return new


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
    def past_steps(self) -> np.ndarray:
        """Steps ahead of the past forecasts, counted from 0: (N,)."""
        return np.concatenate([np.zeros(0, int), *(o.steps for o in self.origins)])

    @property
    def past_rows(self) -> np.ndarray:
        """Rows of the values that are forecast: (N,)."""
        rows = np.arange(len(self.lesson.y))
        return np.concatenate([np.zeros(0, int), *(rows[o.ahead] for o in self.origins)])

    @property
    def past_known(self) -> np.ndarray:
        """Number of values known at the origins of the past forecasts: (N,)."""
        counts = [len(o.steps) for o in self.origins]
        return np.repeat([o.count for o in self.origins], counts).astype(int)


def example_of(lesson: Lesson, priors) -> Example | None:
    """Forecasts of all structures from the end and from earlier origins."""
    fits = fits_of(lesson, priors, AVERAGED)
    if not fits:
        return None
    origins = origins_of(lesson.steps, len(lesson.future), lesson.season)
    with one_blas_thread():
        past = [fitted.rolling(origins) for fitted in fits]
        moments = [
            fitted.draws(stacking.StackingOptions.min_draws, 0, lesson.x_new).moments(lesson.x_new)
            for fitted in fits
        ]
    errors = [stacking.error_of(*pair, origins) for pair in zip(fits, past, strict=True)]
    names = [stacking.structure_name(f.structure) for f in fits]
    features = Features.of(names, [f.log_evidence for f in fits], errors)
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


def weights_of(example: Example, weighing: Weighing) -> np.ndarray:
    """Weights of the structures of one series, as in `stacking`."""
    return softmax(weighing.log_weights(example.names, example.features, example.count))


def learn_weighing(examples: Sequence[Example]) -> dict[str, tuple[Weighing, Growth]]:
    """Frequency -> weights and growth, with the least quantile loss of averaged forecasts."""
    names, frequencies = names_of(AVERAGED), sorted({e.lesson.frequency for e in examples})
    cells = Counter(e.lesson.cell for e in examples)
    levels, size = LEVELS[:, None], len(names) + 2
    # Parameters: intercepts and growth of each frequency, then the coefficients.
    initial = np.append(np.zeros(size * len(frequencies)), COEFFICIENTS)
    own = [INTERCEPT_PENALTY] * len(names) + [GROWTH_PENALTY] * 2
    penalty = np.append(own * len(frequencies), np.full(4, COEFFICIENT_PENALTY)) / len(examples)
    rows = []
    for e in examples:
        first = size * frequencies.index(e.lesson.frequency)
        intercepts = first + np.array([names.index(name) for name in e.names])
        growth = slice(first + len(names), first + size)
        # A cell counts as the root of its number of series.
        share = cells[e.lesson.cell] ** -0.5
        rows.append((e, intercepts, growth, [1.0, learned.roughness(e.lesson.y)], share))
    total = sum(share for *_, share in rows)

    def objective(p):
        loss, slope = 0.0, np.zeros(len(p))
        by_evidence, on_scale, by_error, half_count = np.exp(p[-4:])
        for e, intercepts, of_growth, x, share in rows:
            f, s = e.features, e.count / (e.count + half_count)
            prior = p[intercepts] + by_evidence * f.evidence + on_scale * f.evidence_on_scale
            w = softmax((1.0 - s) * prior + s * by_error * f.error)
            linear, change = expit(p[of_growth] @ x), e.linear - e.exponential
            quantiles = e.exponential + linear * change
            errors = e.lesson.future - np.tensordot(w, quantiles, 1)
            series_loss = np.sum(np.maximum(levels * errors, (levels - 1.0) * errors))
            series_loss += MIN_LOSS * errors.size * e.lesson.scale
            loss += share * np.log(series_loss)
            by_quantile = share * np.where(errors > 0.0, -levels, 1.0 - levels) / series_loss
            by_w = np.tensordot(quantiles, by_quantile, 2)
            by_logit = w * (by_w - w @ by_w)
            np.add.at(slope, intercepts, (1.0 - s) * by_logit)
            slope[-4] += (1.0 - s) * by_logit @ f.evidence * by_evidence
            slope[-3] += (1.0 - s) * by_logit @ f.evidence_on_scale * on_scale
            slope[-2] += s * by_logit @ f.error * by_error
            slope[-1] += s * (1.0 - s) * by_logit @ (prior - by_error * f.error)
            by_linear = w @ np.tensordot(change, by_quantile, 2)
            slope[of_growth] += by_linear * linear * (1.0 - linear) * np.array(x)
        distance = p - initial
        return loss / total + penalty @ distance**2, slope / total + 2.0 * penalty * distance

    optimum = minimize(objective, initial, jac=True, method="L-BFGS-B", options={"maxiter": 100}).x
    coefficients = [round(value, 4) for value in np.exp(optimum[-4:]).tolist()]
    entries = {}
    for i, frequency in enumerate(frequencies):
        part = np.round(optimum[size * i : size * (i + 1)], 3).tolist()
        intercepts = dict(zip(names, part[:-2], strict=True))
        entries[frequency] = Weighing(intercepts, *coefficients), Growth(*part[-2:])
    return entries


@dataclass(frozen=True, eq=False)
class Errors:
    """Standardised errors of one series.

    Attributes:
        example: The series.
        weights: Weights of its structures, (K,).
        linear_share: Share of linear growth.
        future: Errors of held-out values, (h,).
        past: Errors of the forecasts from earlier origins.
    """

    example: Example
    weights: np.ndarray
    linear_share: float
    future: np.ndarray
    past: PastErrors

    @classmethod
    def of(cls, example: Example, weighing: Weighing, growth: Growth) -> Errors:
        """Errors of one series with these weights."""
        y, residuals = example.lesson.y, np.zeros(0)
        weights, share = weights_of(example, weighing), growth.linear_share(y)
        future = with_growth(example.average, weights, share).errors_of(example.lesson.future)
        if example.past is not None:
            past = with_growth(example.past, weights, share)
            residuals = past.errors_of(y[example.past_rows])
        return cls(example, weights, share, future, PastErrors(residuals, example.past_rows))

    def ahead(self, width: Width) -> StudentErrors:
        """Distribution of the errors of held-out values."""
        steps = np.arange(len(self.future))
        return forecast_errors(width, self.past, len(self.example.lesson.y), steps)

    def record(self, width: Width) -> tuple[float, float, float] | None:
        """Features of `Reliability`, and 1 if the error was above that of seasonal naive.

        None without past forecasts, or if seasonal naive has no error.
        """
        e, lesson = self.example, self.example.lesson
        if e.past is None:
            return None
        y, known, season = lesson.y, e.past_known, min(lesson.season, len(lesson.y) - 1)
        errors = np.abs(y[e.past_rows] - self._of(e.past).quantile(0.5))
        naive_errors = []
        for origin in e.origins:
            naive = SeasonalNaive.of(
                y[: origin.count], int(origin.steps[-1]) + 1, min(season, origin.count - 1)
            )
            naive_errors.append(np.abs(y[origin.ahead] - naive.mean[origin.steps]))
        naive = SeasonalNaive.of(y, len(lesson.future), season).mean
        new = self._of(e.average).with_errors(self.ahead(width)).quantile([0.1, 0.5, 0.9])
        error, naive_error = (np.mean(np.abs(lesson.future - q)) for q in (new[1], naive))
        if not naive_error > 0.0:
            return None
        lost = lost_share(known, errors, np.concatenate(naive_errors))
        return lost, np.log(gap_to_naive(new, naive) + 0.1), float(error > naive_error)

    def _of(self, average: QuantileAverage) -> QuantileAverage:
        """Average with the weights and the growth of this series."""
        return with_growth(average, self.weights, self.linear_share)


def learn_reliability(records: Sequence[tuple[float, float, float]]) -> Reliability:
    """Logistic regression of larger errors than seasonal naive."""
    *features, worse = np.array(records).T
    model = LogisticRegression(C=np.inf).fit(np.transpose(features), worse)
    return Reliability(*np.round([*model.intercept_, *model.coef_[0]], 3).tolist())


def learn_width(series: Sequence[Errors], horizon: int) -> Width:
    """Priors of scale and degrees with the highest density of the errors of held-out values."""

    def width(p) -> Width:
        log_scale, log_count, log_half_life, log_degrees, widening = p.tolist()
        count, half_life = np.exp(log_count).item(), np.exp(log_half_life).item()
        degrees = MIN_DEGREES + np.exp(log_degrees).item()
        return Width(log_scale, count, half_life, degrees, widening, horizon, 1.0)

    def objective(p):
        total = 0.0
        for s in series:
            spread = s.ahead(width(p))
            e = np.clip(s.future, -3.0 * MAX_RESIDUAL, 3.0 * MAX_RESIDUAL) / spread.scales
            total -= np.mean(spread.log_density(e) - np.log(spread.scales))
        return total / len(series) + WIDTH_PENALTY * np.sum(np.square(p - initial))

    initial = np.array([0.1, 3.5, 4.0, 1.0, 0.1])
    optimum = minimize(
        objective, initial, method="Nelder-Mead", options={"xatol": 0.01, "fatol": 1e-5}
    )
    learned_width, inside, ends = width(optimum.x), [], []
    for s in series:
        if s.example.origins:
            known, steps = s.example.past_known, s.example.past_steps
            spread = forecast_errors(learned_width, s.past, known, steps)
            ends.append(spread.quantile(0.9))
            inside.append(np.mean(np.abs(s.past.residuals) <= spread.scales * ends[-1]))

    def excess(past_scale: float) -> float:
        """Expected less observed coverage of past values."""
        return np.mean(2.0 * ndtr(np.array(ends) / past_scale) - 1.0) - np.mean(inside)

    numbers = asdict(learned_width) | {"past_scale": brentq(excess, 0.1, 10.0)}
    return Width(**{name: round(float(value), 4) for name, value in numbers.items()})


def learn_priors(
    lessons: Sequence[Lesson], known: dict, trends: Sequence[str], rounds: int, pool: Parallel
) -> dict:
    """Priors of the hyperparameters of one frequency.

    Args:
        lessons: Its series.
        known: Priors to start from, and to keep of other trends.
        trends: Trends to learn.
        rounds: Rounds of the EM algorithm.
        pool: Workers.
    """
    priors = {trend: START | known.get(trend, {}) for trend in TRENDS}
    for _ in range(rounds if trends else 0):
        moments = pool(delayed(posterior_moments)(lesson, priors, trends) for lesson in lessons)
        priors = next_priors(moments, priors)
    return priors


def learn_weights_and_widths(examples: Sequence[Example]) -> dict[str, dict]:
    """Frequency -> entries "weighing", "growth", "width" and "reliability" of the table."""
    entries, records = {}, []
    for frequency, (weighing, growth) in learn_weighing(examples).items():
        own = [e for e in examples if e.lesson.frequency == frequency]
        errors = [Errors.of(e, weighing, growth) for e in own]
        width = learn_width(errors, HORIZONS[frequency.split()[0]])
        records += [e.record(width) for e in errors]
        parts = {"weighing": weighing, "growth": growth, "width": width}
        entries[frequency] = {name: asdict(part) for name, part in parts.items()}
        entries[frequency]["series"] = len(own)
    reliability = asdict(learn_reliability([r for r in records if r is not None]))
    return {f: entry | {"reliability": reliability} for f, entry in entries.items()}


def kind_of(example: Example) -> str:
    return example.lesson.cell.split("/")[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/forecasting"))
    parser.add_argument("--limit", type=int, default=100, help="series of each cell")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--priors", nargs="*", choices=TRENDS, default=list(TRENDS), metavar="TREND",
        help="trends whose priors are learned; without a name, weights and widths only",
    )  # fmt: skip
    parser.add_argument("--left-out", type=Path, help="file of weights without each kind")
    arguments = parser.parse_args()
    path = Path(learned.__file__).with_name("learned.json")
    by_frequency: dict[str, list[Lesson]] = {}
    for series in corpus.load(arguments.data).values():
        for selected in corpus.select(series, "learn", arguments.limit, 1):
            lesson = lesson_of(selected)
            if lesson is not None:
                by_frequency.setdefault(lesson.frequency, []).append(lesson)
    known, examples = json.loads(path.read_text()), []
    table = {}
    with Parallel(n_jobs=arguments.workers) as pool:
        for frequency, lessons in by_frequency.items():
            if len(lessons) < MIN_SERIES:
                continue
            start = known.get(frequency, known[ANY])["priors"]
            priors = learn_priors(lessons, start, arguments.priors, arguments.rounds, pool)
            table[frequency] = {"priors": priors}
            examples += pool(delayed(example_of)(lesson, priors) for lesson in lessons)
            print(f"{frequency}: {len(lessons)} series", flush=True)
    examples = [e for e in examples if e is not None]
    for frequency, entry in learn_weights_and_widths(examples).items():
        table[frequency] |= entry
        print(frequency, entry, flush=True)
    entries = [table[f] for f in HORIZONS if f in table]
    table[ANY] = {"priors": pooled_priors(entries)} | averaged(entries)
    path.write_text(json.dumps(table, indent=1) + "\n")
    if arguments.left_out is None:
        return
    kinds = sorted({kind_of(e) for e in examples})
    left_out = {}
    for kind in kinds:
        entries = learn_weights_and_widths([e for e in examples if kind_of(e) != kind])
        left_out[kind] = entries | {ANY: averaged([entries[f] for f in HORIZONS if f in entries])}
    arguments.left_out.write_text(json.dumps(left_out, indent=1) + "\n")


def pooled_priors(entries: Sequence[dict]) -> dict:
    """Priors of other frequencies, with the pooled moments of all learned ones."""
    priors = {}
    for trend in TRENDS:
        priors[trend] = {}
        for name in START:
            rows = np.array(
                [e["priors"][trend][name] for e in entries if name in e["priors"][trend]]
            )
            location = float(np.mean(rows[:, 0]))
            spread = np.mean(np.square(rows[:, 0] - location) + np.square(rows[:, 1]))
            priors[trend][name] = round(location, 3), round(float(np.sqrt(spread)), 3)
    return priors


def averaged(entries: Sequence[dict]) -> dict:
    """Weights and widths of other frequencies: averages over all learned ones."""

    def average(kind, key):
        first = entries[0][kind][key]
        if isinstance(first, dict):
            return {n: round(float(np.mean([e[kind][key][n] for e in entries])), 3) for n in first}
        return round(float(np.mean([e[kind][key] for e in entries])), 3)

    kinds = ("weighing", "growth", "width", "reliability")
    average_entry = {kind: {key: average(kind, key) for key in entries[0][kind]} for kind in kinds}
    return average_entry | {"series": sum(e["series"] for e in entries)}


if __name__ == "__main__":
    main()
