"""A forecast updated with new values at the same draws of the hyperparameters.

Each draw is reweighted by its density of the new values given the old ones: sequential importance
sampling (Liu, 2001, "Monte Carlo strategies in scientific computing", section 2.6). The modes are
not searched again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bayeskern.core.threads import side_by_side
from bayeskern.forecast.combine.stacking import Part, StackingOptions
from bayeskern.forecast.data.series import Series
from bayeskern.forecast.fit.modes import Draws
from bayeskern.forecast.model.structure import Choices

# Steps kept beyond the horizon after an update, for series whose values arrive one by one.
SPARE_STEPS_AFTER_UPDATE = 48


def likely_times(
    series: Series,
    horizon: int,
    choices: Choices,
    spare_steps: int = 12,
) -> tuple[np.ndarray, int]:
    """Positions of the next times to keep with a fit, so that updates there are cheap.

    Args:
        series: The series.
        horizon: Number of steps to forecast.
        choices: Options of the structures.
        spare_steps: Fewest steps kept beyond the horizon; a tenth of the series if that is more.

    Returns:
        The positions, and how many of them are forecast.
    """
    # Covariances take memory in the square of the horizon.
    wanted = horizon if horizon <= 200 else 0
    count = wanted + max(spare_steps, len(series.values) // 10)
    if choices.effects is not None:
        # Regressors are known up to the horizon.
        count = min(count, horizon)
    return series.calendar.positions(series.calendar.future(count)), wanted


def updated(
    parts: Sequence[Part], x: np.ndarray, y: np.ndarray, x_new: np.ndarray, wanted: int
) -> tuple[Part, ...]:
    """The parts given all values, of which they know the first ones.

    Args:
        parts: The structures with their draws.
        x: Times of all values, (n,).
        y: All values, (n,).
        x_new: Positions from `likely_times` after the last value.
        wanted: How many of them are forecast.

    Raises:
        ValueError: No part can describe the new values, such as the logarithm of a value of 0.
        FloatingPointError: No draw gives the new values a density.
    """
    options = StackingOptions()
    possible = [part for part in parts if not part.structure.log or np.all(y > 0)]
    if not possible:
        raise ValueError(
            f"a value of {np.min(y):g} has no logarithm, which this forecast describes. Forecast "
            "the longer series without StructuralModel(log=True)."
        )

    def update(part: Part) -> Draws:
        return _updated(part.draws, x, y, x_new, wanted)

    draws = side_by_side(update, possible, len(y))
    # The weight already holds the prior of a structure.
    before = np.array([part.draws.log_evidence for part in possible])
    gains = np.array([after.log_evidence for after in draws]) - before
    if not np.any(np.isfinite(gains)):
        raise FloatingPointError(
            "the new values have no density under any draw of the hyperparameters: forecast the "
            "longer series."
        )
    gains = np.where(np.isfinite(gains), gains, -np.inf)
    weights = np.array([part.weight for part in possible])
    weights = weights * np.exp(options.learning_rate * (gains - gains.max()))
    weights = np.where(weights < options.min_weight * weights.sum(), 0.0, weights)
    weights /= weights.sum()
    order = np.argsort(-weights, kind="stable")
    return tuple(Part(draws[i], float(weights[i])) for i in order if weights[i] > 0.0)


def _updated(draws: Draws, x: np.ndarray, y: np.ndarray, x_new: np.ndarray, wanted: int) -> Draws:
    """The draws of one part, reweighted by the density of the new values."""
    known, fitted, z = len(draws.fitted.y), draws.fitted.given(x, y), draws.z
    if draws.is_point:
        return replace(draws, fitted=fitted, predictive=None)
    before, later = draws.predictive, x[known:]
    if before is None:
        before = draws.fitted.evidence.predictive(z, np.append(later, x_new))
    after = None
    # With robust noise the noise factors of the old values change too.
    if before.covers(later) and not fitted.choices.robust:
        after = before.given(later, fitted.scale.forward(y[known:]))
    if after is None or len(after.x) < wanted < len(x_new):
        after = fitted.evidence.predictive(z, x_new)
    with np.errstate(invalid="ignore"):
        gains = after.log_densities - before.log_densities
    # A draw without a density keeps none.
    gains = np.where(np.isnan(gains), -np.inf, gains)
    return replace(draws, fitted=fitted, predictive=after, log_ratios=draws.log_ratios + gains)
