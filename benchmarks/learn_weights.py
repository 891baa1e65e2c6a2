"""Learn weights of structures, growth, widths and reliability from forecasts of held-out values.

`benchmarks.learn_default_priors` describes the steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import expit, ndtr, softmax
from sklearn.linear_model import LogisticRegression

from bayeskern.forecast.combine.width import (
    MAX_RESIDUAL,
    MIN_DEGREES,
    PastErrors,
    forecast_errors,
)
from bayeskern.forecast.evaluate.chance import gap_to_naive
from bayeskern.forecast.evaluate.rolling_origin import lost_share
from bayeskern.forecast.evaluate.seasonal_naive import SeasonalNaive
from bayeskern.forecast.model.learned import (
    Growth,
    IntervalWidth,
    Reliability,
    StructureWeights,
    roughness,
)
from bayeskern.forecast.model.trends import AVERAGED
from bayeskern.prediction.quantile_average import QuantileAverage
from bayeskern.prediction.student_errors import StudentErrors
from benchmarks.lessons import COEFFICIENTS, HORIZONS, LEVELS, Example, names_of, with_growth

# Penalties on the squared distance from the start: of intercepts, coefficients and growth, relative
# to the sum of losses over series; of the width, relative to the mean.
INTERCEPT_PENALTY, COEFFICIENT_PENALTY, GROWTH_PENALTY = 1.0, 1.0, 0.1
WIDTH_PENALTY = 3e-3
# Quantile loss added to each forecast, as a share of the seasonal-naive error.
MIN_LOSS = 1e-3


def weights_of(example: Example, weighing: StructureWeights) -> np.ndarray:
    """Weights of the structures of one series, as in `stacking`."""
    return softmax(weighing.log_weights(example.names, example.features, example.count))


def learn_weighing(examples: Sequence[Example]) -> dict[str, tuple[StructureWeights, Growth]]:
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
        rows.append((e, intercepts, growth, [1.0, roughness(e.lesson.y)], share))
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
        entries[frequency] = StructureWeights(intercepts, *coefficients), Growth(*part[-2:])
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
    def of(cls, example: Example, weighing: StructureWeights, growth: Growth) -> Errors:
        """Errors of one series with these weights."""
        y, residuals = example.lesson.y, np.zeros(0)
        weights, share = weights_of(example, weighing), growth.linear_share(y)
        future = with_growth(example.average, weights, share).errors_of(example.lesson.future)
        if example.past is not None:
            past = with_growth(example.past, weights, share)
            residuals = past.errors_of(y[example.ahead.rows])
        return cls(example, weights, share, future, PastErrors(residuals, example.ahead.rows))

    def distribution(self, width: IntervalWidth) -> StudentErrors:
        """Distribution of the errors of held-out values."""
        steps = np.arange(len(self.future))
        return forecast_errors(width, self.past, len(self.example.lesson.y), steps)

    def record(self, width: IntervalWidth) -> tuple[float, float, float] | None:
        """Features of `Reliability`, and 1 if the error was above that of seasonal naive.

        None without past forecasts, or if seasonal naive has no error.
        """
        e, lesson = self.example, self.example.lesson
        if e.past is None:
            return None
        y, known, season = lesson.y, e.ahead.known, min(lesson.season, len(lesson.y) - 1)
        errors = np.abs(y[e.ahead.rows] - self._of(e.past).quantile(0.5))
        naive_errors = []
        for origin in e.origins:
            naive = SeasonalNaive.from_values(
                y[: origin.count], int(origin.steps[-1]) + 1, min(season, origin.count - 1)
            )
            naive_errors.append(np.abs(y[origin.ahead] - naive.mean[origin.steps]))
        naive = SeasonalNaive.from_values(y, len(lesson.future), season).mean
        new = self._of(e.average).with_errors(self.distribution(width)).quantile([0.1, 0.5, 0.9])
        error, naive_error = (np.mean(np.abs(lesson.future - q)) for q in (new[1], naive))
        if not naive_error > 0.0:
            return None
        lost = lost_share(known, errors, np.concatenate(naive_errors))
        features = Reliability.features(lost, gap_to_naive(new, naive))
        return *features, float(error > naive_error)

    def _of(self, average: QuantileAverage) -> QuantileAverage:
        """Average with the weights and the growth of this series."""
        return with_growth(average, self.weights, self.linear_share)


def learn_reliability(records: Sequence[tuple[float, float, float]]) -> Reliability:
    """Logistic regression of larger errors than seasonal naive."""
    *features, worse = np.array(records).T
    model = LogisticRegression(C=np.inf).fit(np.transpose(features), worse)
    return Reliability(*np.round([*model.intercept_, *model.coef_[0]], 3).tolist())


def learn_width(series: Sequence[Errors], horizon: int) -> IntervalWidth:
    """Priors of scale and degrees with the highest density of the errors of held-out values."""

    def width(p) -> IntervalWidth:
        log_scale, log_count, log_half_life, log_degrees, widening = p.tolist()
        count, half_life = np.exp(log_count).item(), np.exp(log_half_life).item()
        degrees = MIN_DEGREES + np.exp(log_degrees).item()
        return IntervalWidth(log_scale, count, half_life, degrees, widening, horizon, 1.0)

    def objective(p):
        total = 0.0
        for s in series:
            spread = s.distribution(width(p))
            e = np.clip(s.future, -3.0 * MAX_RESIDUAL, 3.0 * MAX_RESIDUAL) / spread.scales
            total -= np.mean(spread.log_density(e) - np.log(spread.scales))
        return total / len(series) + WIDTH_PENALTY * np.sum(np.square(p - initial))

    initial = np.array([0.1, 3.5, 4.0, 1.0, 0.1])
    optimum = minimize(
        objective, initial, method="Nelder-Mead", options={"xatol": 0.01, "fatol": 1e-5}
    )
    if not optimum.success:
        print(f"width of {len(series)} series: {optimum.message}")
    learned_width, inside, ends = width(optimum.x), [], []
    for s in series:
        if s.example.origins:
            ahead = s.example.ahead
            spread = forecast_errors(learned_width, s.past, ahead.known, ahead.steps)
            ends.append(spread.quantile(0.9))
            inside.append(np.mean(np.abs(s.past.residuals) <= spread.scales * ends[-1]))

    def excess(past_scale: float) -> float:
        """Expected less observed coverage of past values."""
        return np.mean(2.0 * ndtr(np.array(ends) / past_scale) - 1.0) - np.mean(inside)

    numbers = asdict(learned_width) | {"past_scale": brentq(excess, 0.1, 10.0)}
    return IntervalWidth(**{name: round(float(value), 4) for name, value in numbers.items()})


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
