"""Centredness of location-scale sites, from draws of their non-centred form."""

from __future__ import annotations

import numpy as np

from bayeskern.core.batching import evenly
from bayeskern.inference.model.centring import SUFFIX
from bayeskern.inference.model.target import Target
from bayeskern.inference.search.curvature import hessian_at
from bayeskern.inference.search.objective import NegativeLogDensity


def informed_centredness(target: Target, z: np.ndarray) -> dict[str, np.ndarray]:
    """Centredness of each element, from draws of the non-centred form.

    Given its scale s and data of precision h, the sd of x' is s^c / sqrt(1 + h s^2). It does not
    change with s, to first order, for c = h s^2 / (1 + h s^2) = 1 - v, where v is the variance of
    the standardised element given the scales and the data. The smallest 1 - v over the draws
    counts, because it is in the neck of the funnel that chains get stuck.

    Args:
        target: The non-centred form.
        z: Draws, (n, d).

    Returns:
        The centredness by site, each of the shape of the site.
    """
    model, objective = target.model, NegativeLogDensity(target, jacobian=True)
    positions = target.unravel(np.arange(target.size))
    own = {name: np.asarray(positions[name + SUFFIX]) for name in model.centredness}
    members = np.concatenate([np.ravel(index) for index in own.values()])
    # At most 32 Hessians, of at most 8,000 columns together; a column costs a gradient or two.
    count = max(1, min(32, 8_000 // target.size))
    informed = np.ones(target.size)
    for point in z[evenly(len(z), count)]:
        block = np.asarray(hessian_at(objective, point))[np.ix_(members, members)]
        informed[members] = np.minimum(informed[members], _informed_shares(block))
    # An element with less than 0.05 is not centred at all.
    informed = np.where(informed < 0.05, 0.0, informed)
    return {name: informed[index] for name, index in own.items()}


def _informed_shares(precision: np.ndarray) -> np.ndarray:
    """1 minus the variances of a precision matrix, at least 0; 0 if it is not positive definite."""
    if not (np.all(np.isfinite(precision)) and np.linalg.eigvalsh(precision)[0] > 0.0):
        return np.zeros(len(precision))
    return np.maximum(0.0, 1.0 - np.diag(np.linalg.inv(precision)))


def centred_target(target: Target, z: np.ndarray) -> Target:
    """The form with the centredness that draws z (n, d) of the non-centred form determine.

    The target itself if no element is centred.
    """
    centredness = informed_centredness(target, z)
    if not any(np.any(c) for c in centredness.values()):
        return target
    return target.model.with_centredness(target, centredness)
