"""Predictive distributions of new values, and of each value given all others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from bayeskern.engine.base import Moments
from bayeskern.forecast.combine.alternatives import alternatives_of
from bayeskern.forecast.combine.stacking import Combination, Part, response_mixture
from bayeskern.forecast.fit.draws import Draws
from bayeskern.forecast.fit.modes import FittedStructure
from bayeskern.prediction.average_mixture import AverageMixture
from bayeskern.prediction.quantile_average import QuantileAverage
from bayeskern.prediction.response_mixture import ResponseMixture


def predictive_of(
    combination: Combination, x_new: np.ndarray, steps: np.ndarray, seed: int
) -> QuantileAverage | AverageMixture | ResponseMixture:
    """Predictive distribution at times x_new (m,), `steps` (m,) ahead, counted from 0."""
    parts, effects = combination.parts, combination.choices.effects
    if effects is not None and effects.draws is not None:
        return alternatives_of(combination, x_new, effects.draws, seed).predictive(steps)
    average = predictive_between(parts, x_new, seed)
    if isinstance(average, ResponseMixture):
        return average
    return average.with_errors(combination.errors(steps))


def predictive_between(
    parts: Sequence[Part], x_new: np.ndarray, seed: int
) -> QuantileAverage | ResponseMixture:
    """Predictive distribution at times x_new (m,) among the fitted ones, with normal errors."""
    if parts[0].fitted.choices.likelihood is not None:

        def moments(draws: Draws, rows: np.ndarray) -> Moments:
            return draws.fitted.density.moments(draws.z[rows], x_new)

        return _response_mixture(parts, seed, moments, x_new)
    means_and_sds = [part.draws.moments(x_new) for part in parts]
    return _average(parts, means_and_sds, partial(_correlation, parts, x_new))


def _correlation(parts: Sequence[Part], x_new: np.ndarray) -> np.ndarray:
    """Correlation of the errors between times x_new (m,), averaged over parts: (m, m)."""
    return np.sum([part.weight * part.draws.correlation(x_new) for part in parts], axis=0)


def predictive_of_others(parts: Sequence[Part], seed: int) -> QuantileAverage | ResponseMixture:
    """Distribution of each fitted value given all other values.

    The posterior of the hyperparameters is given all values: they are not fitted again.
    """
    if parts[0].fitted.choices.likelihood is not None:

        def moments(draws: Draws, rows: np.ndarray) -> Moments:
            means, variances, _ = draws.fitted.density.loo(draws.z[rows])
            return means, variances

        return _response_mixture(parts, seed, moments)
    return _average(parts, [part.draws.loo_moments() for part in parts])


def _average(
    parts: Sequence[Part],
    means_and_sds: Sequence[Moments],
    correlation: Callable[[], np.ndarray] | None = None,
) -> QuantileAverage:
    """Average of the quantiles of all parts, from means and sds of transformed values."""
    means, sds = zip(*means_and_sds, strict=True)
    weights = np.array([part.weight for part in parts])
    scales, bounds = [part.fitted.scale for part in parts], parts[0].fitted.choices.bounds
    return QuantileAverage(weights, scales, means, sds, None, bounds, correlation)


def _response_mixture(
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
        x_new: Times at which joint draws are taken, (m,); None if they are not needed.
    """
    weights, fits, zs, moments_by_part = [], [], [], []
    for part in parts:
        draws, rows = part.draws, part.mixture_rows(seed)
        weights += [part.weight / len(rows)] * len(rows)
        fits += [part.fitted] * len(rows)
        zs += [*draws.z[rows]]
        # The moments are computed once for each distinct draw.
        unique_rows, index = np.unique(rows, return_inverse=True)
        moments_by_part.append([moment[index] for moment in moments(draws, unique_rows)])
    stacked = tuple(np.concatenate(arrays) for arrays in zip(*moments_by_part, strict=True))
    paths = None if x_new is None else partial(_latent_paths, fits, zs, x_new)
    return response_mixture(fits, np.array(weights), zs, stacked, paths)


def _latent_paths(
    fits: Sequence[FittedStructure],
    zs: Sequence[np.ndarray],
    x_new: np.ndarray,
    i: int,
    n: int,
    seed: int,
) -> np.ndarray:
    """Joint draws of f at x_new (m,) in part i: (n, m)."""
    scale, (mean, covariance) = fits[i].scale, fits[i].density.joint(zs[i], x_new)
    rng = np.random.default_rng(seed)
    draws = rng.multivariate_normal(mean, covariance, n, method="eigh")
    return scale.shift + scale.size * draws
