"""Structures fitted to a series and weighted by their evidence.

Bayesian model averaging: Hoeting, Madigan, Raftery and Volinsky (1999), "Bayesian model averaging:
a tutorial"; with a learning rate, as Grunwald and van Ommen (2017), "Inconsistency of Bayesian
inference for misspecified linear models, and a proposal for repairing it". The evidence of a
structure is that of the values as they are, whatever its scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from bayeskern.core.progress import Progress
from bayeskern.core.threads import side_by_side
from bayeskern.forecast.fit.changes import likeliest_change
from bayeskern.forecast.fit.modes import NO_TIMES, Draws, Fitted
from bayeskern.forecast.model.structure import Choices, Structure, log_prior_of_change

# Structures whose mode is so much less dense than that of the best one are not looked at again:
# what the hyperparameters gain by their spread differs by a few units only.
FAR = 10.0
# Which structures of a longer series are fitted to all of it, and how many, so many of its last
# values decide.
RECENT, MOST_LONG = 200, 3
# The power of the evidence in the weights. No real series is drawn from any of the structures, and
# the evidence itself then settles on one of them too soon.
LEARNING_RATE = 0.5
# Structures with a smaller share of the average are left out of it.
LEAST_WEIGHT = 0.01
# More changes of level and slope than this are a series that wanders.
MOST_CHANGES = 3
# Draws of the hyperparameters of the most probable structure, and the least of each other one.
DRAWS, LEAST_DRAWS = 32, 8
# The draws of all structures together that predictions rest on.
MIXED = 48


class Part(NamedTuple):
    """A structure's part of the average: its draws, and its probability."""

    draws: Draws
    weight: float

    @property
    def structure(self) -> Structure:
        return self.draws.fitted.structure

    @property
    def fitted(self) -> Fitted:
        return self.draws.fitted


def contenders(x, y, choices: Choices) -> list[Fitted]:
    """Every structure at its mode that is not far behind the best one, the best first.

    Of a long series the last part decides which structures are fitted to all of it.

    Raises ValueError if no structure has a density at all.
    """
    structures, start = choices.with_all_seasons(), {}
    # A kernel that was given may tell one time from another.
    is_long = len(y) > RECENT and len(structures) > 1 and choices.kernels is None
    total = len(structures) * (choices.sets_of_seasons + is_long)
    with Progress("forecast", total, estimate=is_long) as bar:
        if is_long:
            recent = slice(-RECENT, None)
            fits = _fit_all(structures, choices, x[recent] - x[recent][0], y[recent], bar)
            structures = [fitted.structure for fitted in near(fits)[:MOST_LONG]]
            start = {fitted.structure: fitted.by_name for fitted in fits}
        fits = near(_fit_all(structures, choices, x, y, bar, start))
        for fitted in fits[: 1 if is_long else None]:
            fewer = choices.with_fewer_seasons(fitted.structure)
            begin = dict.fromkeys(fewer, fitted.by_name)
            fits += _fit_all(fewer, choices, x, y, bar, begin)
    fits = near(fits)
    if choices.find_changes:
        fits = _with_changes(fits, choices)
    if not np.isfinite(fits[0].log_joint):
        raise ValueError(
            "the kernel gives these values no density at the medians of its priors: its matrix is "
            "not positive definite there, or overflows. Look at its priors and at the time unit."
        )
    return fits


def _fit_all(structures, choices, x, y, bar: Progress, start=None) -> list[Fitted]:
    """The structures at their modes, side by side where that is worth it.

    Where nothing is known of them the first on each scale goes before the others, and scales that
    it rules out are left.

    start: structure -> where its search starts; the others start from the mode of the first.
    """
    start, first = start or {}, {}

    def fit(structure):
        begin, like = start.get(structure), first.get(structure.log)
        once = begin is None and like is not None and like.twice
        if begin is None and like is not None:
            begin = like.by_name
        fitted = Fitted.of(structure, choices, x, y, begin, once=once)
        bar.advance()
        return fitted

    if all(structure in start for structure in structures):
        return side_by_side(fit, structures, len(y))
    for structure in structures:
        if structure.log not in first:
            first[structure.log] = fit(structure)
    likely = {fitted.structure.log for fitted in near([*first.values()], 2.0 * FAR)}
    done = {fitted.structure for fitted in first.values()}
    others = [s for s in structures if s.log in likely and s not in done]
    return [*first.values(), *side_by_side(fit, others, len(y))]


def _with_changes(fits: list[Fitted], choices: Choices) -> list[Fitted]:
    """The fits and the same with as many changes as the best of them asks for."""
    newest = fits
    for _ in range(MOST_CHANGES):
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


def near(fits: list[Fitted], far: float = FAR) -> list[Fitted]:
    """Those of the fits that are not far behind the best one, the best first."""
    fits = sorted(fits, key=lambda fitted: -fitted.log_joint)
    return [fitted for fitted in fits if not fitted.log_joint < fits[0].log_joint - far]


def weigh(
    fits: Sequence[Fitted], count: int, seed: int, x_new: np.ndarray = NO_TIMES
) -> tuple[Part, ...]:
    """The fits with draws of their hyperparameters and their weights, the most probable first.

    count: how many draws the best of them has; the others have fewer, as they matter less; x_new:
    as in `Fitted.draws`.
    """
    best = max(fitted.log_joint for fitted in fits)

    def drawn(fitted):
        share = np.exp(0.5 * LEARNING_RATE * (fitted.log_joint - best))
        draws = max(LEAST_DRAWS, int(np.ceil(count * share)))
        return fitted.polished().draws(draws, seed, x_new)

    draws = side_by_side(drawn, fits, len(fits[0].y))
    # What the data say of a structure counts by the learning rate, its prior in full.
    priors = np.array([fitted.log_prior for fitted in fits])
    evidence = np.array([d.log_evidence for d in draws])
    log_weights = LEARNING_RATE * (evidence - priors) + priors
    if not np.any(np.isfinite(log_weights)):
        raise FloatingPointError(
            "no draw of the hyperparameters has a finite density: the covariances cannot be "
            "factored around the mode. Take StructuralModel(method='map'), or another kernel."
        )
    weights = np.exp(log_weights - logsumexp(log_weights))
    weights = np.where(weights < LEAST_WEIGHT, 0.0, weights)
    weights /= weights.sum()
    order = np.argsort(-weights, kind="stable")
    return tuple(Part(draws[i], float(weights[i])) for i in order if weights[i] > 0.0)
