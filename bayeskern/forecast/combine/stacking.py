"""Structures fitted to a series, and weighed by what they foretold.

Stacking of predictive distributions: Yao, Vehtari, Simpson and Gelman (2018), "Using stacking to
average Bayesian predictive distributions". The weights depend on features of the series by
coefficients that were learned from many series, as in hierarchical stacking (Yao, Pirs, Vehtari and
Gelman, 2022): on the log evidence of each structure and on the error of its forecasts from earlier
origins. So a single series moves the weights only as far as such series have shown to be right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from bayeskern.core.progress import Progress
from bayeskern.core.threads import side_by_side
from bayeskern.forecast.combine.responses import responses_of
from bayeskern.forecast.combine.width import forecast_errors
from bayeskern.forecast.fit.changes import likeliest_change
from bayeskern.forecast.fit.modes import NO_TIMES, Draws, Fitted
from bayeskern.forecast.fit.rolling import Origin
from bayeskern.forecast.model.structure import Choices, Structure, log_prior_of_change
from bayeskern.prediction.quantile_average import QuantileAverage
from bayeskern.prediction.response_mixture import ResponseMixture
from bayeskern.prediction.student_errors import StudentErrors

# Structures whose mode is so much less dense than that of the best one are not looked at again.
MAX_LOG_GAP = 15.0
# Number of last values that decide, in a longer series, on which scale each trend is fitted.
RECENT = 250
# The scale of a series that is fitted by basis functions is chosen by so many of its last values.
SCALE_VALUES = 3_000
# The power of the evidence in the weights of kernels that were given, and of what is seen through
# a likelihood: Grunwald and van Ommen (2017), "Inconsistency of Bayesian inference for misspecified
# linear models, and a proposal for repairing it".
LEARNING_RATE = 0.5
# Structures with a smaller share of the average are left out of it.
MIN_WEIGHT = 0.01
# More changes of level and slope than this are a series that wanders.
MAX_CHANGES = 3
# Draws of the hyperparameters of the heaviest structure, and the fewest of each other one.
DRAWS, MIN_DRAWS = 24, 6
# Features further behind than this count as that far.
MAX_EVIDENCE_GAP, MAX_ERROR_GAP = 20.0, 3.0
# The quantiles whose loss is the error of a forecast.
PROBABILITIES = np.arange(1, 10) / 10.0


class Part(NamedTuple):
    """A structure's part of the average: its draws, and its weight."""

    draws: Draws
    weight: float

    @property
    def structure(self) -> Structure:
        return self.draws.fitted.structure

    @property
    def fitted(self) -> Fitted:
        return self.draws.fitted


@dataclass(frozen=True, eq=False)
class Combination:
    """The structures of a forecast, weighed, and what they foretold from earlier origins.

    Attributes:
        parts: The heaviest first.
        origins: The earlier origins.
        past: The forecasts of the values after each, one origin after the other, with errors as the
            models say; None if there are no origins.
    """

    parts: tuple[Part, ...]
    origins: tuple[Origin, ...] = ()
    past: QuantileAverage | ResponseMixture | None = None

    @property
    def past_steps(self) -> np.ndarray:
        """How many steps ahead each of the past forecasts was, from 0 on: (N,)."""
        return np.concatenate([np.zeros(0, int), *(origin.steps for origin in self.origins)])

    @property
    def past_places(self) -> np.ndarray:
        """The place in the series of what each of them forecast: (N,)."""
        n = len(self.parts[0].fitted.y)
        return np.concatenate([np.zeros(0, int), *(np.arange(n)[o.ahead] for o in self.origins)])

    @cached_property
    def residuals(self) -> np.ndarray:
        """Standardised errors of the past forecasts: (N,)."""
        if self.past is None:
            return np.zeros(0)
        return self.past.errors_of(self.parts[0].fitted.y[self.past_places])

    @property
    def reach(self) -> int:
        """How many steps ahead the past forecasts go, at most."""
        return 1 + max((int(origin.steps[-1]) for origin in self.origins), default=-1)

    def errors(self, steps: np.ndarray) -> StudentErrors:
        """The distribution of standardised errors so many steps ahead, from 0 on: (m,)."""
        choices = self.parts[0].fitted.choices
        if choices.kernels is not None or choices.likelihood is not None:
            return StudentErrors.normal(len(steps))
        return forecast_errors(choices.learned.width, self.residuals, steps)


def contenders(x, y, choices: Choices) -> list[Fitted]:
    """Structures at their modes, those far behind the best one left out, the best first.

    Of a long series the last part decides on which scale each trend is fitted to all of it.

    Raises ValueError if no structure has a density at all.
    """
    if choices.whole_history:
        return [_of_history(x, y, choices)]
    structures, start = choices.structures, {}
    # A kernel that was given may tell one time from another.
    is_long = len(y) > RECENT and len(structures) > 1 and choices.kernels is None
    total = len(structures) + (len(choices.trends) if is_long else 0)
    with Progress("forecast", total, estimate=is_long) as bar:
        if is_long:
            recent = slice(-RECENT, None)
            fits = _fit_all(structures, choices, x[recent] - x[recent][0], y[recent], bar)
            start = {fitted.structure: fitted.by_name for fitted in fits}
            likelier: dict[str, Structure] = {}
            for fitted in fits:
                likelier.setdefault(fitted.structure.trend, fitted.structure)
            structures = [*likelier.values()]
        fits = _fit_all(structures, choices, x, y, bar, start)
    if choices.find_changes:
        fits = _with_changes(fits, choices)
    if not np.isfinite(fits[0].log_joint):
        raise ValueError(
            "the kernel gives these values no density at the medians of its priors: its matrix is "
            "not positive definite there, or overflows. Look at its priors and at the time unit."
        )
    return fits


def _of_history(x, y, choices: Choices) -> Fitted:
    """The fit to all of a long series, on the scale that its last part is likelier on."""
    structures = choices.structures
    if len(structures) > 1:
        recent = slice(-SCALE_VALUES, None)
        fits = [Fitted.of(structure, choices, x[recent], y[recent]) for structure in structures]
        structures = [near(fits)[0].structure]
    return Fitted.of(structures[0], choices, x, y)


def _fit_all(structures, choices, x, y, bar: Progress, start=None) -> list[Fitted]:
    """The structures at their modes, the best first, side by side where that is worth it.

    Of several scales the first structure on each goes before the others, and a scale that it rules
    out is left.

    start: structure -> where its search starts.
    """

    def fit(structure):
        fitted = Fitted.of(structure, choices, x, y, (start or {}).get(structure))
        bar.advance()
        return fitted

    first = [*{structure.log: structure for structure in reversed(structures)}.values()]
    if len(first) == 1:
        return near(side_by_side(fit, structures, len(y)))
    fits = near(side_by_side(fit, first, len(y)))
    likely = {fitted.structure.log for fitted in fits}
    others = [s for s in structures if s.log in likely and s not in first]
    return near([*fits, *side_by_side(fit, others, len(y))])


def near(fits: list[Fitted]) -> list[Fitted]:
    """Fits within MAX_LOG_GAP of the best, sorted best first."""
    fits = sorted(fits, key=lambda fitted: -fitted.log_joint)
    return [fit for fit in fits if not fit.log_joint < fits[0].log_joint - MAX_LOG_GAP]


def _with_changes(fits: list[Fitted], choices: Choices) -> list[Fitted]:
    """The fits and the same with as many changes as the best of them asks for."""
    newest = fits
    for _ in range(MAX_CHANGES):
        at, log_factor = likeliest_change(fits[0], choices.unit)
        if log_factor + log_prior_of_change(len(fits[0].y)) < 0.0:
            break
        newest = [_with_change(fitted, choices, at) for fitted in newest]
        fits = near([*fits, *newest])
        if len(fits[0].structure.changes) == len(choices.changes):
            break
    return fits


def _with_change(fitted: Fitted, choices: Choices, at: float) -> Fitted:
    changes = (*fitted.structure.changes, at)
    structure = fitted.structure._replace(changes=changes)
    return Fitted.of(structure, choices, fitted.x, fitted.y, fitted.by_name)


def combine(
    fits: Sequence[Fitted], origins: Sequence[Origin], seed: int, x_new: np.ndarray = NO_TIMES
) -> Combination:
    """Weigh the fits, and draw from the hyperparameters of those that count.

    Args:
        fits: Structures at their modes.
        origins: Earlier origins to forecast from.
        seed: Seed of the draws.
        x_new: As in `Fitted.draws`.
    """
    evidence = side_by_side(lambda fitted: fitted.log_evidence, fits, len(fits[0].y))
    fits = [fitted for fitted, value in zip(fits, evidence, strict=True) if np.isfinite(value)]
    if not fits:
        raise FloatingPointError(
            "no structure has a finite density around its mode: the covariances cannot be "
            "factored there. Take method='map', or another kernel."
        )
    by_part = side_by_side(lambda fitted: fitted.rolling(origins), fits, len(fits[0].y))
    weights = _weights(fits, origins, by_part)
    weights = np.where(weights < MIN_WEIGHT, 0.0, weights)
    weights /= weights.sum()
    order = [i for i in np.argsort(-weights, kind="stable") if weights[i] > 0.0]

    def drawn(i):
        count = max(MIN_DRAWS, int(np.ceil(DRAWS * weights[i] / weights.max())))
        return fits[i].draws(count, seed, x_new)

    draws = side_by_side(drawn, order, len(fits[0].y))
    parts = [Part(d, float(weights[i])) for d, i in zip(draws, order, strict=True)]
    past = _past([fits[i] for i in order], weights[order], [by_part[i] for i in order])
    return Combination(tuple(parts), tuple(origins), past)


def alone(draws: Draws, origins: Sequence[Origin]) -> Combination:
    """A combination of one structure."""
    past = _past([draws.fitted], np.ones(1), [draws.fitted.rolling(origins)])
    return Combination((Part(draws, 1.0),), tuple(origins), past)


def _past(fits: Sequence[Fitted], weights, moments) -> QuantileAverage | ResponseMixture | None:
    """The forecasts from all earlier origins, by the moments of each of the fits there."""
    if not moments[0]:
        return None
    choices = fits[0].choices
    together = [[np.concatenate(part) for part in zip(*pairs, strict=True)] for pairs in moments]
    means, sds = map(np.array, zip(*together, strict=True))
    if choices.likelihood is None:
        return QuantileAverage(weights, [f.scale for f in fits], means, sds, bounds=choices.bounds)
    modes = [fitted.mode for fitted in fits]
    return responses_of(choices.likelihood, weights, fits, modes, (means, np.square(sds)))


def _weights(fits: Sequence[Fitted], origins, by_part) -> np.ndarray:
    """The weights of the fits, (K,); they sum to one."""
    choices = fits[0].choices
    # What the data say counts by a power, a prior in full.
    priors = np.array([fitted.log_prior for fitted in fits])
    evidence = np.array([fitted.log_evidence for fitted in fits]) - priors
    if choices.kernels is not None or choices.likelihood is not None:
        return softmax(LEARNING_RATE * evidence + priors)
    weighing = choices.learned.weighing
    names = [structure_name(fitted.structure) for fitted in fits]
    intercepts = np.array([weighing.intercepts[name] for name in names])
    evidence, errors = features(
        evidence, [error_of(*pair, origins) for pair in zip(fits, by_part, strict=True)]
    )
    return softmax(
        intercepts + weighing.by_evidence * evidence + weighing.by_error * errors + priors
    )


def structure_name(structure: Structure) -> str:
    """What the weight of a structure is called in the learned table."""
    return f"{structure.trend} log" if structure.log else structure.trend


def features(log_evidence, errors) -> tuple[np.ndarray, np.ndarray]:
    """How far each structure is behind the best in evidence and in the log of its error: (K,)."""
    evidence = np.clip(np.subtract(log_evidence, np.max(log_evidence)), -MAX_EVIDENCE_GAP, 0.0)
    errors = np.asarray(errors, float)
    if not np.all(np.isfinite(errors)) or not np.all(errors > 0.0):
        return evidence, np.zeros(len(errors))
    return evidence, np.clip(-np.log(errors / np.min(errors)), -MAX_ERROR_GAP, 0.0)


def error_of(fitted: Fitted, past, origins: Sequence[Origin]) -> float:
    """Mean quantile loss of the forecasts of one structure; NaN where there are none."""
    if not origins:
        return np.nan
    means, sds = (np.concatenate(part) for part in zip(*past, strict=True))
    y = np.concatenate([fitted.y[origin.ahead] for origin in origins])
    average = QuantileAverage([1.0], [fitted.scale], means[None], sds[None])
    loss = y - average.quantile(PROBABILITIES)
    return float(
        np.mean(np.maximum(PROBABILITIES[:, None] * loss, (PROBABILITIES[:, None] - 1.0) * loss))
    )
