"""What a fit says after more values: the same hyperparameters, weighted anew.

Each draw is weighted by what it says of the new values, given the old ones: sequential importance
sampling (Liu, 2001, "Monte Carlo strategies in scientific computing", section 2.6). No mode is
looked for again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bayeskern.forecast.average import LEARNING_RATE, LEAST_WEIGHT, Part
from bayeskern.forecast.fitting import Draws


def updated(parts: Sequence[Part], x: np.ndarray, y: np.ndarray) -> tuple[Part, ...]:
    """The parts given all values y at times x, (n,) both, of which they know the first ones.

    Raises:
        ValueError: If none of them gives the new values a density, as the logarithm does to what is
            not above zero.
    """
    possible = [part for part in parts if not part.structure.log or np.all(y > 0)]
    if not possible:
        raise ValueError(
            f"a value of {np.min(y):g} has no logarithm, which is what this forecast describes. "
            "Forecast the longer series without positive=True or log=True."
        )
    draws = [_updated(part.draws, x, y) for part in possible]
    # The prior of a structure is in its weight already.
    before = np.array([part.draws.log_evidence for part in possible])
    gains = np.array([one.log_evidence for one in draws]) - before
    if not np.any(np.isfinite(gains)):
        raise FloatingPointError(
            "the new values have no density under any draw of the hyperparameters: forecast the "
            "longer series."
        )
    gains = np.where(np.isfinite(gains), gains, -np.inf)
    weights = np.array([part.weight for part in possible])
    weights = weights * np.exp(LEARNING_RATE * (gains - gains.max()))
    weights = np.where(weights < LEAST_WEIGHT * weights.sum(), 0.0, weights)
    weights /= weights.sum()
    order = np.argsort(-weights, kind="stable")
    return tuple(Part(draws[i], float(weights[i])) for i in order if weights[i] > 0.0)


def _updated(draws: Draws, x: np.ndarray, y: np.ndarray) -> Draws:
    before, fitted = draws.fitted.evidence, draws.fitted.given(x, y)
    if draws.is_point:
        return replace(draws, fitted=fitted)
    with before.threads():
        gains = [fitted.evidence.log_density(z) - before.log_density(z) for z in draws.z]
    return replace(draws, fitted=fitted, log_ratios=draws.log_ratios + np.array(gains))
