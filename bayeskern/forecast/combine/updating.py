"""Update a forecast with new values, at the same draws of the hyperparameters.

Each draw is reweighted by the density of the new values given the old values: sequential importance
sampling (Liu, 2001, "Monte Carlo strategies in scientific computing", section 2.6). Modes are not
searched again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bayeskern.core.threads import side_by_side
from bayeskern.forecast.combine.stacking import LEARNING_RATE, MIN_WEIGHT, Part
from bayeskern.forecast.fit.draws import NO_TIMES, Draws
from bayeskern.forecast.model.structure import StructureChoices
from bayeskern.series.series import Series

# Steps precomputed beyond the horizon after an update, for values that arrive one by one.
SPARE_STEPS_AFTER_UPDATE = 48


def likely_times(
    series: Series,
    horizon: int,
    choices: StructureChoices,
    spare_steps: int = 12,
) -> tuple[np.ndarray, int]:
    """Positions of the next times to precompute with a fit, so that updates are cheap.

    Args:
        series: The series.
        horizon: Number of steps to forecast.
        choices: Options of the structures.
        spare_steps: Steps beyond the horizon, or a tenth of the series if that is more.

    Returns:
        The positions, and the number of them that are forecast.
    """
    # Covariances take memory in the square of the horizon: beyond 200 steps, none are precomputed
    # for the forecast itself.
    forecast_count = horizon if horizon <= 200 else 0
    count = forecast_count + max(spare_steps, len(series.values) // 10)
    if choices.effects is not None:
        # Regressors are known only up to the horizon.
        count = min(count, horizon)
    return series.calendar.positions(series.calendar.future(count)), forecast_count


def updated(
    parts: Sequence[Part], x: np.ndarray, y: np.ndarray, x_new: np.ndarray, forecast_count: int
) -> tuple[Part, ...]:
    """Condition the parts, fitted to the first values, on all values.

    Args:
        parts: The structures with their draws.
        x: Times of all values, (n,).
        y: All values, (n,).
        x_new: Positions from `likely_times` after the last value.
        forecast_count: Number of them that are forecast.

    Raises:
        ValueError: All parts fit the logarithm, and a new value is not positive.
        FloatingPointError: The new values have no finite log density under any draw.
    """
    possible = [part for part in parts if not part.structure.log or np.all(y > 0)]
    if not possible:
        raise ValueError(
            f"a value of {np.min(y):g} has no logarithm, and this forecast fitted the logarithm. "
            "Forecast the longer series without StructuralModel(log=True)."
        )

    def update(part: Part) -> Draws:
        return _updated(part.draws, x, y, x_new, forecast_count)

    draws = side_by_side(update, possible, len(y))
    # The difference, since the weight of a part already includes the prior of its structure.
    old_evidence = np.array([part.draws.log_evidence for part in possible])
    gains = np.array([d.log_evidence for d in draws]) - old_evidence
    if not np.any(np.isfinite(gains)):
        raise FloatingPointError(
            "the log density of the new values is not finite under any draw of the "
            "hyperparameters: call forecast with the longer series."
        )
    gains = np.where(np.isfinite(gains), gains, -np.inf)
    weights = np.array([part.weight for part in possible])
    weights = weights * np.exp(LEARNING_RATE * (gains - gains.max()))
    weights = np.where(weights < MIN_WEIGHT * weights.sum(), 0.0, weights)
    weights /= weights.sum()
    order = np.argsort(-weights, kind="stable")
    return tuple(Part(draws[i], float(weights[i])) for i in order if weights[i] > 0.0)


def _updated(
    draws: Draws, x: np.ndarray, y: np.ndarray, x_new: np.ndarray, forecast_count: int
) -> Draws:
    """The draws of one part, reweighted by the density of the new values."""
    known_count, fitted, z = len(draws.fitted.y), draws.fitted.given(x, y), draws.z
    if draws.is_point:
        return replace(draws, fitted=fitted, next_times=NO_TIMES, computed=None)
    old, next_x = draws.predictive, x[known_count:]
    if old is None:
        old = draws.fitted.density.predictive(z, np.append(next_x, x_new))
    new = None
    # With robust noise the noise factors of the old values change too.
    if old.covers(next_x) and not fitted.choices.robust:
        new = old.given(next_x, fitted.scale.forward(y[known_count:]))
    if new is None or len(new.x) < forecast_count < len(x_new):
        new = fitted.density.predictive(z, x_new)
    with np.errstate(invalid="ignore"):
        gains = new.log_densities - old.log_densities
    # -inf minus -inf: a draw of density zero keeps the weight zero.
    gains = np.where(np.isnan(gains), -np.inf, gains)
    log_ratios = draws.log_ratios + gains
    return replace(draws, fitted=fitted, log_ratios=log_ratios, next_times=new.x, computed=new)
