"""Predictive distributions of a forecast: of new values, and of each value given all others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from bayeskern.forecast.combine.stacking import Combination, Part, response_mixture
from bayeskern.forecast.fit.modes import Draws
from bayeskern.gp.time_series.base import Moments
from bayeskern.prediction.quantile_average import QuantileAverage
from bayeskern.prediction.response_mixture import ResponseMixture


def predictive_of(
    combination: Combination, x_new: np.ndarray, steps: np.ndarray, seed: int
) -> QuantileAverage | ResponseMixture:
    """Forecast at times x_new (m,), which lie `steps` (m,) ahead, from 0 on."""
    parts = combination.parts
    if combination.choices.likelihood is not None:

        def moments(draws: Draws, rows: np.ndarray) -> Moments:
            return draws.fitted.evidence.moments(draws.z[rows], x_new)

        return _responses(parts, seed, moments, x_new)

    def correlation() -> np.ndarray:
        return np.sum([part.weight * part.draws.correlation(x_new) for part in parts], axis=0)

    average = _average(parts, [part.draws.moments(x_new) for part in parts], correlation)
    return average.with_errors(combination.errors(steps))


def predictive_of_others(parts: Sequence[Part], seed: int) -> QuantileAverage | ResponseMixture:
    """Distribution of each fitted value given all other values.

    The hyperparameters are those given all values.
    """
    if parts[0].fitted.choices.likelihood is not None:

        def moments(draws: Draws, rows: np.ndarray) -> Moments:
            means, variances, _ = draws.fitted.evidence.loo(draws.z[rows])
            return means, variances

        return _responses(parts, seed, moments)
    return _average(parts, [part.draws.moments_of_others() for part in parts])


def _average(
    parts: Sequence[Part],
    moments: Sequence[Moments],
    correlation: Callable[[], np.ndarray] | None = None,
) -> QuantileAverage:
    """Average of the quantiles of all parts, from their means and sds."""
    means, sds = zip(*moments, strict=True)
    weights = np.array([part.weight for part in parts])
    scales, bounds = [part.fitted.scale for part in parts], parts[0].fitted.choices.bounds
    return QuantileAverage(weights, scales, means, sds, None, bounds, correlation)


def _responses(
    parts: Sequence[Part],
    seed: int,
    moments: Callable[[Draws, np.ndarray], Moments],
    x_new: np.ndarray | None = None,
) -> ResponseMixture:
    """Mixture over draws of all parts.

    Args:
        parts: The structures.
        seed: Seed of the choice of draws.
        moments: (draws, rows) -> means and variances of the latent process at these draws.
        x_new: Times of joint draws, (m,).
    """
    weights, fits, zs, of_parts = [], [], [], []
    for part in parts:
        draws, rows = part.draws, np.zeros(1, int)
        if not draws.is_point:
            # About 48 draws of all parts together.
            count = min(len(draws.z), max(1, int(np.ceil(48 * part.weight))))
            rows = draws.chosen(count, seed)
        weights += [part.weight / len(rows)] * len(rows)
        fits += [part.fitted] * len(rows)
        zs += [*draws.z[rows]]
        different, place = np.unique(rows, return_inverse=True)
        of_parts.append([moment[place] for moment in moments(draws, different)])
    together = tuple(np.concatenate(arrays) for arrays in zip(*of_parts, strict=True))

    def paths(i: int, n: int, seed: int) -> np.ndarray:
        scale, (mean, covariance) = fits[i].scale, fits[i].evidence.joint(zs[i], x_new)
        rng = np.random.default_rng(seed)
        draws = rng.multivariate_normal(mean, covariance, n, method="eigh")
        return scale.shift + scale.size * draws

    return response_mixture(fits, np.array(weights), zs, together, paths)
