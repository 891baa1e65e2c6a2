"""Stacking weights of structures, from rolling-origin forecasts.

Stacking of predictive distributions: Yao, Vehtari, Simpson and Gelman (2018), "Using stacking to
average Bayesian predictive distributions". As in hierarchical stacking (Yao, Pirs, Vehtari and
Gelman, 2022), the weights are a function of features of the series, with coefficients learned from
many series (`StructureWeights`). The features are the log marginal likelihood of each structure,
the error of its forecasts from earlier origins, and the number of values in that error. A single
series thus moves the weights only as far as this has improved forecasts of other series.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax

from bayeskern.core.threads import side_by_side
from bayeskern.engine.base import Moments
from bayeskern.forecast.combine.width import PastErrors, forecast_errors
from bayeskern.forecast.fit.draws import NO_TIMES, Draws
from bayeskern.forecast.fit.modes import FittedStructure
from bayeskern.forecast.fit.rolling import Ahead, Origin
from bayeskern.forecast.model.learned import LOG, Features, IntervalWidth
from bayeskern.forecast.model.structure import Structure, StructureChoices
from bayeskern.prediction.quantile_average import QuantileAverage
from bayeskern.prediction.response_mixture import ResponseMixture
from bayeskern.prediction.student_errors import StudentErrors

# Draws of the hyperparameters in a mixture of counts or shares, of all parts together.
MIXTURE_DRAWS = 48


class Part(NamedTuple):
    """One structure of the average: its draws and its weight."""

    draws: Draws
    weight: float

    @property
    def structure(self) -> Structure:
        """The structure."""
        return self.draws.fitted.structure

    @property
    def fitted(self) -> FittedStructure:
        """The structure at its mode."""
        return self.draws.fitted

    def mixture_rows(self, seed: int) -> np.ndarray:
        """Indices of equally weighted draws for a mixture of counts or shares, with repetitions."""
        if self.draws.is_point:
            return np.zeros(1, int)
        count = min(len(self.draws.z), max(1, int(np.ceil(MIXTURE_DRAWS * self.weight))))
        return self.draws.resampled_rows(count, seed)


@dataclass(frozen=True, eq=False)
class Combination:
    """Weighted structures of a forecast, with their forecasts from earlier origins.

    Attributes:
        parts: The structures, largest weight first; if changes were found, those with the more
            probable changes first.
        origins: The earlier origins.
        past: Forecasts of the values after each origin, concatenated, with normal errors; None if
            there are no origins.
    """

    parts: tuple[Part, ...]
    origins: tuple[Origin, ...] = ()
    past: QuantileAverage | ResponseMixture | None = None

    @property
    def width(self) -> IntervalWidth | None:
        """Learned width of the intervals; None with a kernel or a likelihood of the caller."""
        learned = self.choices.kernels is None and self.choices.likelihood is None
        return self.choices.learned.width if learned else None

    @property
    def choices(self) -> StructureChoices:
        """Options of the compared structures."""
        return self.parts[0].fitted.choices

    @cached_property
    def ahead(self) -> Ahead:
        """Values that are forecast from the earlier origins."""
        return Ahead.from_origins(self.origins)

    @cached_property
    def residuals(self) -> np.ndarray:
        """Standardised errors of the past forecasts, (N,); empty with a likelihood."""
        if not isinstance(self.past, QuantileAverage):
            return np.zeros(0)
        return self.past.errors_of(self.parts[0].fitted.y[self.ahead.rows])

    @cached_property
    def _past_errors(self) -> PastErrors:
        return PastErrors(self.residuals, self.ahead.rows)

    def from_origins(self, origins: Sequence[Origin]) -> Combination:
        """The structures with their forecasts from other origins."""
        by_part = [part.fitted.rolling(origins) for part in self.parts]
        weights = np.array([part.weight for part in self.parts])
        past = _past([part.fitted for part in self.parts], weights, by_part)
        return Combination(self.parts, tuple(origins), past)

    @property
    def reach(self) -> int:
        """Largest number of steps ahead of the past forecasts."""
        return 1 + max((int(origin.steps[-1]) for origin in self.origins), default=-1)

    def errors(self, steps: np.ndarray, known: np.ndarray | None = None) -> StudentErrors:
        """Distribution of standardised errors.

        Args:
            steps: Steps ahead, counted from 0, (m,).
            known: Number of values known at the origin of each forecast, (m,); all that past
                forecasts cover if None.
        """
        if self.width is None:
            return StudentErrors.normal(len(steps))
        counts = 1 + np.max(self.ahead.rows, initial=-1) if known is None else known
        return forecast_errors(self.width, self._past_errors, counts, steps)

    def past_errors(self, steps: np.ndarray, known: np.ndarray) -> StudentErrors:
        """Expected distribution of standardised past errors. Arguments as in `errors`."""
        errors = self.errors(steps, known)
        return StudentErrors(self.width.past_scale * errors.scales) if self.width else errors


# Structures with a smaller weight are dropped.
MIN_WEIGHT = 0.01
# Number of draws of the hyperparameters of the structure with the largest weight, and smallest
# number of draws of any other structure.
MAX_PART_DRAWS, MIN_PART_DRAWS = 24, 6


def combine(
    fits: Sequence[FittedStructure],
    origins: Sequence[Origin],
    seed: int,
    x_new: np.ndarray = NO_TIMES,
) -> Combination:
    """Weight the fits, drop small weights, and draw hyperparameters of the others.

    Args:
        fits: Structures at their modes.
        origins: Earlier origins to forecast from.
        seed: Seed of the draws.
        x_new: As in `Draws.from_laplace`.

    Raises:
        FloatingPointError: No fit has a finite log marginal likelihood.
    """
    n = len(fits[0].y)
    evidence = side_by_side(lambda fitted: fitted.log_evidence, fits, n)
    fits = [fitted for fitted, value in zip(fits, evidence, strict=True) if np.isfinite(value)]
    if not fits:
        raise FloatingPointError(
            "no structure has a finite density around its mode: the covariances cannot be "
            "factored there. Use method='map' or another kernel."
        )
    by_part = side_by_side(lambda fitted: fitted.rolling(origins), fits, n)
    weights = _weights(fits, origins, by_part)
    weights = np.where(weights < MIN_WEIGHT, 0.0, weights)
    weights /= weights.sum()
    by_changes: dict[tuple[float, ...], float] = defaultdict(float)
    for fitted, weight in zip(fits, weights, strict=True):
        by_changes[fitted.structure.changes] += float(weight)
    of_changes = np.array([by_changes[fitted.structure.changes] for fitted in fits])
    order = [i for i in np.lexsort((-weights, -of_changes)).tolist() if weights[i] > 0.0]

    def draw(i: int) -> Draws:
        count = max(MIN_PART_DRAWS, int(np.ceil(MAX_PART_DRAWS * weights[i] / weights.max())))
        return Draws.from_laplace(fits[i], count, seed, x_new)

    draws = side_by_side(draw, order, n)
    parts = [Part(d, float(weights[i])) for d, i in zip(draws, order, strict=True)]
    past = _past([fits[i] for i in order], weights[order], [by_part[i] for i in order])
    return Combination(tuple(parts), tuple(origins), past)


def alone(draws: Draws, origins: Sequence[Origin]) -> Combination:
    """Combination of a single structure."""
    return Combination((Part(draws, 1.0),)).from_origins(origins)


def response_mixture(
    fits: Sequence[FittedStructure],
    weights: np.ndarray,
    zs: Sequence[np.ndarray],
    moments,
    paths=None,
) -> ResponseMixture:
    """Predictive distribution of counts or shares, a mixture over S draws.

    Args:
        fits: Fit of each draw.
        weights: Weight of each draw, (S,).
        zs: Hyperparameters of each draw.
        moments: Means and variances of the standardised latent process, (S, m) each.
        paths: (draw, n, seed) -> joint draws of the latent process, not standardised, (n, m).
    """
    likelihood = fits[0].choices.likelihood
    assert likelihood is not None
    sizes = np.array([[fitted.scale.size] for fitted in fits])
    shifts = np.array([[fitted.scale.shift] for fitted in fits])
    means, variances = moments
    thetas = [z[: len(likelihood.middle)] for z in zs]
    sds = sizes * np.sqrt(variances)
    return ResponseMixture(likelihood, weights, shifts + sizes * means, sds, thetas, paths)


def _past(
    fits: Sequence[FittedStructure], weights: np.ndarray, moments: Sequence[list[Moments]]
) -> QuantileAverage | ResponseMixture | None:
    """Forecasts from all earlier origins, by means and sds of each fit at each origin."""
    if not moments[0]:
        return None
    by_fit = [[np.concatenate(part) for part in zip(*pairs, strict=True)] for pairs in moments]
    means, sds = map(np.array, zip(*by_fit, strict=True))
    choices = fits[0].choices
    if choices.likelihood is None:
        return QuantileAverage(weights, [f.scale for f in fits], means, sds, bounds=choices.bounds)
    modes = [fitted.mode for fitted in fits]
    return response_mixture(fits, weights, modes, (means, np.square(sds)))


# Power of the marginal likelihood in the weights, if there are kernels from the user or a
# likelihood: Grunwald and van Ommen (2017), "Inconsistency of Bayesian inference for misspecified
# linear models, and a proposal for repairing it".
LEARNING_RATE = 0.5


def _weights(
    fits: Sequence[FittedStructure],
    origins: Sequence[Origin],
    by_part: Sequence[list[Moments]],
) -> np.ndarray:
    """Weights of the fits, normalised to sum to one, (K,)."""
    rows: dict[tuple[float, ...], list[int]] = defaultdict(list)
    for i, fitted in enumerate(fits):
        rows[fitted.structure.changes].append(i)
    evidence = np.array([fitted.log_evidence for fitted in fits])
    choices = fits[0].choices
    if choices.kernels is not None or choices.likelihood is not None:
        return softmax(LEARNING_RATE * evidence)
    weights = np.zeros(len(fits))
    # Learned weights do not know changes: the posterior probability of each set of changes is
    # divided among its structures.
    for same in rows.values():
        group = [fits[i] for i in same], evidence[same], origins, [by_part[i] for i in same]
        share = np.exp(logsumexp(evidence[same]) - logsumexp(evidence))
        weights[same] = share * learned_weights(*group)
    return weights


def learned_weights(
    fits: Sequence[FittedStructure],
    log_evidence: np.ndarray,
    origins: Sequence[Origin],
    by_part: Sequence[list[Moments]],
) -> np.ndarray:
    """Weights of fits with the same changes, normalised to sum to one, (K,).

    Args:
        fits: The fits.
        log_evidence: Their log marginal likelihoods, (K,).
        origins: Earlier origins.
        by_part: Means and sds of the forecasts of each fit from each origin.
    """
    names = [structure_name(fitted.structure) for fitted in fits]
    errors = [error_of(*pair, origins) for pair in zip(fits, by_part, strict=True)]
    features = Features.from_evidence(names, log_evidence, errors)
    weighing = fits[0].choices.learned.weighing
    return softmax(weighing.log_weights(names, features, past_count(origins)))


def structure_name(structure: Structure) -> str:
    """Name of a structure in the learned weights."""
    return structure.trend + LOG * structure.log


def past_count(origins: Sequence[Origin]) -> int:
    """Number of distinct values that are forecast from earlier origins."""
    return len(np.unique(Ahead.from_origins(origins).rows))


def error_of(fitted: FittedStructure, past: Sequence[Moments], origins: Sequence[Origin]) -> float:
    """Mean loss of the nine deciles of past forecasts; NaN if there are none.

    Args:
        fitted: Structure at its mode.
        past: Means and sds of its forecasts of transformed values, a pair for each origin.
        origins: The origins.
    """
    if not origins:
        return np.nan
    means, sds = (np.concatenate(part) for part in zip(*past, strict=True))
    y = np.concatenate([fitted.y[origin.ahead] for origin in origins])
    average = QuantileAverage([1.0], [fitted.scale], means[None], sds[None])
    probabilities = np.arange(1, 10) / 10.0
    loss = y - average.quantile(probabilities)
    tilted = probabilities[:, None] * loss, (probabilities[:, None] - 1.0) * loss
    return float(np.mean(np.maximum(*tilted)))
