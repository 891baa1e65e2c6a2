"""Priors, weights of structures, growth, widths and reliability, learned from many series.

`benchmarks/learn_default_priors.py` writes `learned.json`: an entry for each frequency, learned
from one half of a corpus of series.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from bayeskern.forecast.model.trends import ALL_TRENDS, SeriesTrend

# Frequency -> range (from, to) of its step in years, and of its shortest season in steps.
FREQUENCIES = {
    "yearly": ((0.9, 100.0), None),
    "quarterly": ((0.2, 0.9), (2.0, 4.5)),
    "monthly": ((0.05, 0.2), (9.0, 13.0)),
    "weekly": ((0.01, 0.05), (45.0, 60.0)),
    "daily": ((0.002, 0.01), (4.5, 9.0)),
    "hourly": ((5e-5, 5e-4), (18.0, 30.0)),
}
# Entry for all other frequencies.
ANY = "any"
# End of the name of a structure that models the logarithm.
LOG = " log"


class Features(NamedTuple):
    """Features of K structures of a series, (K,) each.

    Attributes:
        evidence: Log marginal likelihood minus the largest one, at least -6.
        evidence_on_scale: Log marginal likelihood minus the largest one on the same scale, values
            or logarithm, at least -20.
        error: Log error of past forecasts of the best structure minus the log error of this one, at
            least -3; 0 for all structures if an error is unknown.
    """

    evidence: np.ndarray
    evidence_on_scale: np.ndarray
    error: np.ndarray

    @classmethod
    def from_evidence(
        cls, names: Sequence[str], log_evidence: ArrayLike, errors: ArrayLike
    ) -> Features:
        """Features of structures.

        The level of the noise decides between values and logarithm, by up to hundreds of nats, but
        says little about growth: hence the limit of 6 nats.

        Args:
            names: Names of the structures, which end in " log" for the logarithm.
            log_evidence: Log marginal likelihood of each structure, (K,); may be -inf.
            errors: Mean quantile loss of past forecasts, (K,); NaN if it is unknown.
        """
        # A density of zero, too, has finite differences.
        evidence = np.maximum(np.asarray(log_evidence, float), -1e300)
        errors = np.asarray(errors, float)
        is_log = np.array([name.endswith(LOG) for name in names])
        on_scale = np.zeros(len(names))
        for rows in (is_log, ~is_log):
            on_scale[rows] = evidence[rows] - np.max(evidence[rows], initial=-np.inf)
        error = np.zeros(len(names))
        if np.all(np.isfinite(errors)) and np.all(errors > 0.0):
            error = np.maximum(-np.log(errors / np.min(errors)), -3.0)
        best = np.max(evidence)
        return cls(np.maximum(evidence - best, -6.0), np.maximum(on_scale, -20.0), error)


@dataclass(frozen=True, eq=False)
class StructureWeights:
    """Weights of structures, from what is known before and from errors of past forecasts.

    The log weight of a structure is

        (1 - s) (intercept + by_evidence e + by_evidence_on_scale o) + s by_error r,

    up to a constant, with the `Features` e, o and r and s = N / (N + half_count) for N past values
    that were forecast. With few past errors, the intercepts and the evidence determine the
    weights; with many, the errors do, as in a normal model with a prior that counts as `half_count`
    errors.

    Attributes:
        intercepts: Name of a trend, followed by " log" if it models the logarithm -> intercept.
        by_evidence: Coefficient of e.
        by_evidence_on_scale: Coefficient of o.
        by_error: Coefficient of r.
        half_count: Number of past values at which s is one half.
    """

    stored_as: ClassVar = "Weighing"
    intercepts: Mapping[str, float]
    by_evidence: float
    by_evidence_on_scale: float
    by_error: float
    half_count: float

    def log_weights(self, names: Sequence[str], features: Features, count: int) -> np.ndarray:
        """Log weights of structures up to a constant, (K,).

        Args:
            names: Names of the structures, as in `intercepts`.
            features: Their features.
            count: Number of past values that were forecast; 0 if the errors are unknown.
        """
        prior = np.array([self._intercept(name) for name in names])
        prior += self.by_evidence * features.evidence
        prior += self.by_evidence_on_scale * features.evidence_on_scale
        share = count / (count + self.half_count)
        return (1.0 - share) * prior + share * self.by_error * features.error

    def _intercept(self, name: str) -> float:
        """Intercept of a structure; the mean of all for a trend that declares no learned weight."""
        if name in self.intercepts:
            return self.intercepts[name]
        trend = ALL_TRENDS.get(name.removesuffix(LOG))
        if trend is not None and trend.is_averaged:
            raise ValueError(
                f"learned.json has no intercept of {name!r}: run "
                "`python -m benchmarks.learn_default_priors --priors`, or register the trend with "
                "is_averaged=False, which gives it the mean intercept."
            )
        return float(np.mean([*self.intercepts.values()]))


@dataclass(frozen=True, eq=False)
class Growth:
    """Limit on the growth of a log-scale forecast above the largest observed value.

    Above that value, a share expit(intercept + by_roughness r) of the forecast is linear in the
    error of the logarithm, with r the `roughness` of the series; the rest is exponential.

    Attributes:
        intercept: Log odds of the share at roughness 0.
        by_roughness: Change of the log odds per unit of roughness.
    """

    intercept: float
    by_roughness: float

    def linear_share(self, y: np.ndarray) -> float:
        """Linear share of the forecast of a series y (n,)."""
        return float(expit(self.intercept + self.by_roughness * roughness(y)))


@dataclass(frozen=True, eq=False)
class IntervalWidth:
    """Priors of the scale of intervals and of the degrees of freedom of the errors.

    Past forecasts use hyperparameters that were fitted to the past values, so past errors lack the
    heavy tails of future errors: they are normal, with `past_scale` times the scale.

    Attributes:
        log_scale: Log of the expected scale at the first step.
        prior_count: Number of past values that the prior counts as. It is large, because errors are
            dependent and belong to values that were fitted.
        half_life: Number of steps after which a past error counts half.
        degrees: Prior median of the degrees of freedom of the errors.
        widening: Log ratio of the scale at step `horizon` to the scale at the first step.
        horizon: Step at which `widening` was learned.
        past_scale: Sd of past errors, relative to the scale of future errors at the same step.
    """

    stored_as: ClassVar = "Width"
    log_scale: float
    prior_count: float
    half_life: float
    degrees: float
    widening: float
    horizon: float
    past_scale: float


@dataclass(frozen=True, eq=False)
class Reliability:
    """Chance of a smaller error than seasonal naive, by the record of past forecasts.

    The log odds of a larger mean absolute error over the horizon are

        intercept + by_lost_share l + by_log_gap log(g + 0.1),

    with the share l of earlier origins at which the error was larger, and the mean distance g of
    the two forecasts in half widths of the 80 % interval. Forecasts that hardly differ win half of
    the time.

    Attributes:
        intercept: Log odds at l = 0 and g = 0.9.
        by_lost_share: Coefficient of l.
        by_log_gap: Coefficient of log(g + 0.1).
    """

    intercept: float
    by_lost_share: float
    by_log_gap: float

    @staticmethod
    def features(lost_share: float, gap: float) -> tuple[float, float]:
        """l and log(g + 0.1)."""
        return lost_share, float(np.log(gap + 0.1))

    def chance(self, lost_share: float, gap: float) -> float:
        """Probability of a smaller error."""
        lost, log_gap = self.features(lost_share, gap)
        log_odds = self.intercept + self.by_lost_share * lost + self.by_log_gap * log_gap
        return float(expit(-log_odds))


@dataclass(frozen=True, eq=False)
class Learned:
    """Learned quantities for series of one frequency.

    Attributes:
        priors: Trend -> name of a hyperparameter -> location and scale of its logarithm, for values
            in units of the sd of their differences and times in steps.
        weighing: Weights of structures.
        growth: Limit on the growth of log-scale forecasts.
        width: Scale of intervals.
        reliability: Errors relative to seasonal naive.
        frequency: Frequency of the series, as `frequency_of` returns it.
    """

    priors: Mapping[str, Mapping[str, tuple[float, float]]]
    weighing: StructureWeights
    growth: Growth
    width: IntervalWidth
    reliability: Reliability
    frequency: str = ANY

    def priors_of(self, trend: SeriesTrend) -> dict[str, tuple[float, float]]:
        """Name of a hyperparameter -> location and scale of its logarithm, for one trend.

        Raises:
            ValueError: A prior of the trend was not learned.
        """
        learned_as = trend.learned_as or trend.name
        known = self.priors.get(learned_as, {})
        missing = [name for name in trend.learned if name not in known]
        if missing:
            raise ValueError(
                f"learned.json has no prior of {missing[0]} for the trend {learned_as!r} "
                f"({self.frequency}): run `python -m benchmarks.learn_default_priors --priors "
                f"{learned_as}`, or register the trend with learned_as='drift' or another trend."
            )
        return {name: known[name] for name in trend.learned}


def roughness(y: np.ndarray) -> float:
    """Log ratio of the RMS of second and first differences of y (n,), clipped to [-3, 1].

    (log 2) / 2 for a random walk, (log 3) / 2 for white noise, far below 0 for a smooth curve.
    """
    first, second = (np.sum(np.square(np.diff(y, order))) for order in (1, 2))
    with np.errstate(divide="ignore"):
        ratio = 0.5 * np.log(second / first) if first > 0.0 else 0.0
    return float(np.clip(ratio, -3.0, 1.0))


@lru_cache
def table() -> dict[str, dict]:
    """Contents of `learned.json`: frequency -> entry."""
    return json.loads(files(__package__).joinpath("learned.json").read_text(encoding="utf-8"))


@lru_cache
def learned(frequency: str) -> Learned:
    """Learned quantities for a frequency as `frequency_of` returns it."""
    entry = table().get(frequency) or table()[ANY]
    priors = {
        trend: {name: tuple(prior) for name, prior in named.items()}
        for trend, named in entry["priors"].items()
    }
    return Learned(
        priors,
        StructureWeights(**entry["weighing"]),
        Growth(**entry["growth"]),
        IntervalWidth(**entry["width"]),
        Reliability(**entry["reliability"]),
        frequency,
    )


def frequency_of(step: float | None, season: float | None, has_season: bool) -> str:
    """Frequency of a series, for `learned`.

    Args:
        step: Time from one value to the next in years; None for numeric times.
        season: Shortest season in steps; None without seasons. Used if `step` is None.
        has_season: True if a season is part of the model.

    Returns:
        One of FREQUENCIES, followed by " short" if the model has none of the seasons that are
        usual at this frequency; or ANY.
    """
    for name, (steps, seasons) in FREQUENCIES.items():
        interval, value = (steps, step) if step is not None else (seasons, season)
        if interval is not None and value is not None and interval[0] <= value < interval[1]:
            return name if has_season or seasons is None else f"{name} short"
    return ANY
