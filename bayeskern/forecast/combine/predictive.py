"""What the structures of a forecast say together: of new values, and of each from all others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from bayeskern.forecast.combine.responses import responses_of
from bayeskern.forecast.combine.stacking import Combination, Part
from bayeskern.prediction.quantile_average import QuantileAverage
from bayeskern.prediction.response_mixture import ResponseMixture

# The draws of all structures together that forecasts through a likelihood rest on.
MIXED = 48


def predictive_of(
    combination: Combination, x_new: np.ndarray, steps: np.ndarray, seed: int
) -> QuantileAverage | ResponseMixture:
    """The forecast at times x_new (m,), which lie `steps` (m,) ahead, from 0 on."""
    parts = combination.parts
    if parts[0].fitted.choices.likelihood is not None:
        return _responses(
            parts,
            seed,
            lambda draws, rows: draws.fitted.evidence.moments(draws.z[rows], x_new),
            x_new,
        )
    average = _average(parts, [part.draws.moments(x_new) for part in parts], x_new)
    return average.with_errors(combination.errors(steps))


def predictive_of_others(parts: Sequence[Part], seed: int) -> QuantileAverage | ResponseMixture:
    """What all other values say of each value that was fitted.

    The hyperparameters are those given all values.
    """
    if parts[0].fitted.choices.likelihood is not None:
        return _responses(
            parts, seed, lambda draws, rows: draws.fitted.evidence.loo(draws.z[rows])[:2]
        )
    return _average(parts, [part.draws.moments_of_others() for part in parts])


def _average(parts: Sequence[Part], moments, x_new=None) -> QuantileAverage:
    means, sds = zip(*moments, strict=True)
    weights = np.array([part.weight for part in parts])

    def correlation():
        return sum(part.weight * part.draws.correlation(x_new) for part in parts)

    scales, bounds = [part.fitted.scale for part in parts], parts[0].fitted.choices.bounds
    return QuantileAverage(weights, scales, means, sds, None, bounds, correlation)


def _responses(parts: Sequence[Part], seed: int, moments: Callable, x_new=None) -> ResponseMixture:
    """The mixture over draws of all parts, about MIXED of them.

    moments: (draws, rows) -> means and variances of the latent process at each of these draws.
    """
    weights, fits, zs, of_parts = [], [], [], []
    for part in parts:
        draws, rows = part.draws, np.zeros(1, int)
        if not draws.is_point:
            count = min(len(draws.z), max(1, int(np.ceil(MIXED * part.weight))))
            rows = draws.chosen(count, seed)
        weights += [part.weight / len(rows)] * len(rows)
        fits += [part.fitted] * len(rows)
        zs += [*draws.z[rows]]
        different, place = np.unique(rows, return_inverse=True)
        of_parts.append([moment[place] for moment in moments(draws, different)])
    together = tuple(np.concatenate(arrays) for arrays in zip(*of_parts, strict=True))

    def paths(i, n, seed):
        scale, (mean, covariance) = fits[i].scale, fits[i].evidence.joint(zs[i], x_new)
        rng = np.random.default_rng(seed)
        return scale.shift + scale.size * rng.multivariate_normal(
            mean, covariance, n, method="eigh"
        )

    likelihood = fits[0].choices.likelihood
    return responses_of(likelihood, np.array(weights), fits, zs, together, paths)
