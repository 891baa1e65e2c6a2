"""Additive components and effects of one structure, averaged over its hyperparameters."""

from __future__ import annotations

import numpy as np

from bayeskern.forecast.fit.modes import Draws
from bayeskern.forecast.model.kernels import LEVEL
from bayeskern.forecast.model.transformation import Scale
from bayeskern.prediction.quantile_average import QuantileAverage


def component_names(draws: Draws) -> tuple[str, ...]:
    """Names of the components: the one that carries the level first, effects last."""
    effects = draws.fitted.choices.effects
    names = (name for name in draws.fitted.evidence.component_names if name != LEVEL)
    return (LEVEL, *names, *(() if effects is None else effects.names))


def components_at(draws: Draws, seed: int, x: np.ndarray) -> dict[str, QuantileAverage]:
    """Every component at positions x (m,).

    The level is in the units of the series; the other components are differences from it.
    """
    scale = draws.fitted.scale
    moments = draws.fitted.evidence.components(equal_draws(draws, seed), x, LEVEL)
    return {
        name: _averaged(scale if name == LEVEL else scale.of_differences, *of_draws)
        for name, of_draws in moments.items()
    }


def effects_of(draws: Draws, seed: int) -> QuantileAverage:
    """Linear effects of one more unit of each regressor, or of the presence of an event.

    Raises:
        ValueError: The structure has no effects.
    """
    effects, fitted = draws.fitted.choices.effects, draws.fitted
    if effects is None:
        raise ValueError("this forecast has no regressors, events or holidays.")
    means, variances = fitted.evidence.coefficients(equal_draws(draws, seed))
    units = effects.units[: effects.linear]
    return _averaged(fitted.scale.of_differences, means * units, variances * np.square(units))


def equal_draws(draws: Draws, seed: int) -> np.ndarray:
    """Equally weighted draws of the hyperparameters, or the mode: (S, d)."""
    # Each draw takes a factor of the covariances.
    return draws.z if draws.is_point else draws.resampled(16, seed)


def _averaged(scale: Scale, means: np.ndarray, variances: np.ndarray) -> QuantileAverage:
    """Normal distribution with the moments of equally weighted draws, (S, m) both."""
    mean = means.mean(axis=0)
    sd = np.sqrt(np.mean(variances + np.square(means - mean), axis=0))
    return QuantileAverage([1.0], [scale], mean[None], sd[None])
