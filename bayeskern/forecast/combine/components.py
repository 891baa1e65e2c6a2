"""Components and effects of one structure, averaged over its hyperparameters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayeskern.forecast.fit.draws import Draws
from bayeskern.forecast.model.kernels import LEVEL
from bayeskern.forecast.model.transformation import Scale
from bayeskern.prediction.quantile_average import QuantileAverage


def component_names(draws: Draws) -> tuple[str, ...]:
    """Names of the components, the level of the series first and effects last."""
    effects = draws.fitted.choices.effects
    names = (name for name in draws.fitted.density.component_names if name != LEVEL)
    return (LEVEL, *names, *(() if effects is None else effects.names))


def components_at(
    draws: Draws, seed: int, x: np.ndarray, merged: Sequence[str] = ()
) -> dict[str, QuantileAverage]:
    """Distribution of every component at positions x (m,).

    The level is in the units of the series; other components are differences or, if the logarithm
    was fitted, factors. The components `merged` become parts of the level.
    """
    scale = draws.fitted.scale
    moments = draws.fitted.density.components(equal_draws(draws, seed), x, LEVEL, merged)
    return {
        name: _averaged(scale if name == LEVEL else scale.of_differences, *mean_and_variance)
        for name, mean_and_variance in moments.items()
    }


def effects_of(draws: Draws, seed: int) -> dict[str, QuantileAverage]:
    """Distribution of linear effects: of a unit of each regressor, or of an event.

    Returns:
        The effects "per unit", "per sd" of each regressor, and "per 10 %" of its mean; NaN where
        these are not defined.

    Raises:
        ValueError: The structure has no effects.
    """
    effects, fitted = draws.fitted.choices.effects, draws.fitted
    if effects is None:
        raise ValueError("this forecast has no regressors, events or holidays.")
    means, variances = fitted.density.coefficients(equal_draws(draws, seed))
    changes = {
        "per unit": effects.units[: effects.linear],
        "per sd": effects.per_sd(),
        "per 10 %": effects.per_tenth(),
    }
    scale = fitted.scale.of_differences
    return {
        name: _averaged(scale, means * change, variances * np.square(change))
        for name, change in changes.items()
    }


def equal_draws(draws: Draws, seed: int) -> np.ndarray:
    """Equally weighted draws of the hyperparameters, or the mode: (S, d)."""
    # Few draws, since each needs a factorization of the covariance.
    return draws.z if draws.is_point else draws.resampled(16, seed)


def _averaged(scale: Scale, means: np.ndarray, variances: np.ndarray) -> QuantileAverage:
    """Distribution from means and variances of equally weighted draws, (S, m) each."""
    mean = means.mean(axis=0)
    sd = np.sqrt(np.mean(variances + np.square(means - mean), axis=0))
    return QuantileAverage([1.0], [scale], mean[None], sd[None])
