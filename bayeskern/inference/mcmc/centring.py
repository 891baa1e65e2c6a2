"""Centredness of location-scale sites, from draws of their non-centred form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayeskern.core.batching import evenly
from bayeskern.inference.model.centring import SUFFIX
from bayeskern.inference.model.target import Target
from bayeskern.inference.optimization.curvature import hessian_at
from bayeskern.inference.optimization.objective import NegativeLogDensity


@dataclass(frozen=True)
class CentringOptions:
    """Options of the centredness.

    Attributes:
        hessians: Maximum number of draws whose Hessian is computed.
        hessian_columns: Maximum number of columns of all Hessians, a gradient or two each.
        min_centredness: Centredness below which an element is not centred at all.
    """

    hessians: int = 32
    hessian_columns: int = 8_000
    min_centredness: float = 0.05


CENTRING = CentringOptions()


def informed_centredness(target: Target, z: np.ndarray) -> dict[str, np.ndarray]:
    """Centredness of each element, from draws of the non-centred form.

    At a draw, the data determine the share 1 - v of an element, where v is its variance given the
    scales and the data, and its variance given the scales is 1. The sd of x' in the conditional
    distribution varies least with the scale for c = 1 - v (Papaspiliopoulos, Roberts and Skoeld
    2007, section 3). The smallest share over the draws counts, because it is in the neck of the
    funnel that chains get stuck.

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
    count = max(1, min(CENTRING.hessians, CENTRING.hessian_columns // target.size))
    informed = np.ones(target.size)
    for point in z[evenly(len(z), count)]:
        block = np.asarray(hessian_at(objective, point))[np.ix_(members, members)]
        informed[members] = np.minimum(informed[members], _informed_shares(block))
    informed = np.where(informed < CENTRING.min_centredness, 0.0, informed)
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
