"""What a fit says after more values: the same hyperparameters, weighted anew.

Each draw is weighted by what it says of the new values, given the old ones: sequential importance
sampling (Liu, 2001, "Monte Carlo strategies in scientific computing", section 2.6). No mode is
looked for again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bayeskern.core.threads import side_by_side
from bayeskern.forecast.combine.stacking import LEARNING_RATE, MIN_WEIGHT, Part
from bayeskern.forecast.data.series import Series
from bayeskern.forecast.fit.modes import Draws
from bayeskern.forecast.model.structure import Choices

# So many steps beyond the horizon, or a tenth of the series, are foretold with a fit: as many
# values can come without another factor of the covariances. More when these are used up, as it
# happens where values come one by one.
SPARE, MORE = 12, 48
# Longer horizons are not kept with a fit: their covariances take memory in its square.
MAX_KEPT_STEPS = 200


def likely_times(
    series: Series, horizon: int, choices: Choices, spare: int = SPARE
) -> tuple[np.ndarray, int]:
    """The positions of the next times, which may have values, and how many will be asked for."""
    wanted = horizon if horizon <= MAX_KEPT_STEPS else 0
    count = wanted + max(spare, len(series.values) // 10)
    if choices.effects is not None:
        # What is beside the series is known up to the horizon.
        count = min(count, horizon)
    return series.calendar.positions(series.calendar.future(count)), wanted


def updated(
    parts: Sequence[Part], x: np.ndarray, y: np.ndarray, x_new: np.ndarray, wanted: int
) -> tuple[Part, ...]:
    """The parts given all values y at times x, (n,) both, of which they know the first ones.

    x_new, wanted: the `likely_times` then.

    Raises:
        ValueError: If none of them gives the new values a density, as the logarithm does to what is
            not above zero.
    """
    possible = [part for part in parts if not part.structure.log or np.all(y > 0)]
    if not possible:
        raise ValueError(
            f"a value of {np.min(y):g} has no logarithm, which is what this forecast describes. "
            "Forecast the longer series without StructuralModel(log=True)."
        )

    def given_all(part):
        return _updated(part.draws, x, y, x_new, wanted)

    draws = side_by_side(given_all, possible, len(y))
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
    weights = np.where(weights < MIN_WEIGHT * weights.sum(), 0.0, weights)
    weights /= weights.sum()
    order = np.argsort(-weights, kind="stable")
    return tuple(Part(draws[i], float(weights[i])) for i in order if weights[i] > 0.0)


def _updated(draws: Draws, x, y, x_new, wanted: int) -> Draws:
    known, fitted, z = len(draws.fitted.y), draws.fitted.given(x, y), draws.z
    if draws.is_point:
        return replace(draws, fitted=fitted, predictive=None)
    before, later = draws.predictive, x[known:]
    if before is None:
        before = draws.fitted.evidence.predictive(z, np.append(later, x_new))
    after = None
    # The factors of robust noise are others with the new values.
    if before.covers(later) and not fitted.choices.robust:
        after = before.given(later, fitted.scale.forward(y[known:]))
    if after is None or len(after.x) < wanted < len(x_new):
        after = fitted.evidence.predictive(z, x_new)
    with np.errstate(invalid="ignore"):
        gains = after.log_densities - before.log_densities
    # A draw that had no density has none to gain.
    gains = np.where(np.isnan(gains), -np.inf, gains)
    return replace(draws, fitted=fitted, predictive=after, log_ratios=draws.log_ratios + gains)
