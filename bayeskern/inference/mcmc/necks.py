"""Log integral along a narrow neck, in which a density may rise without bound.

Where a residual sd goes to zero, latents can fit all data: the density rises without bound, and the
mass vanishes. A search ends there, and a chain that starts there hardly moves.
"""

from __future__ import annotations

import numpy as np

from bayeskern.inference.mcmc.kernel import potential_and_gradient
from bayeskern.inference.model.target import Target
from bayeskern.inference.search.conditional import conditional_mode


def neck_log_integral(target: Target, point: np.ndarray, z: np.ndarray) -> float:
    """Log integral over a neck from draws to a point, and beyond it.

    It is the integral of Laplace's marginal density of the coordinate that separates the point from
    the draws best, from the first of eight equal steps on. The density is exponential within
    each step, and beyond the point as in the last step.

    Args:
        target: The density, of d coordinates.
        point: A point in the neck, (d,).
        z: Draws, (n, d).

    Returns:
        The log integral; NaN with more than 200 coordinates, if a coordinate of the draws is
        constant, if conditional modes are not found, if the last of them is lower than the point,
        or if the marginal density does not fall beyond the point.
    """
    centre, sds = np.mean(z, axis=0), np.std(z, axis=0)
    # With more coordinates, Hessians are too large.
    if len(point) > 200 or not np.all(sds > 0.0):
        return np.nan
    coordinate = int(np.argmax(np.abs(point - centre) / sds))
    values = np.linspace(centre[coordinate], point[coordinate], 9)
    # Conditional modes are found at the wide end, and followed to the narrow end.
    log_p, mode = np.empty(len(values)), point
    for k, value in enumerate(values):
        mode = np.where(np.arange(len(point)) == coordinate, value, mode)
        mode, log_p[k] = conditional_mode(target, mode, coordinate)
        if not np.isfinite(log_p[k]):
            return np.nan
    potential = potential_and_gradient(target, np.stack([mode, point]))[0]
    width, largest = abs(values[1] - values[0]), np.max(log_p[1:])
    rate = (log_p[-2] - log_p[-1]) / width
    if potential[0] > potential[1] or not rate > 0.0:
        return np.nan
    p, rises = np.exp(log_p[1:] - largest), np.diff(log_p[1:])
    # Exponential between two points.
    mass = width * np.sum(np.diff(p) / np.where(rises == 0.0, 1.0, rises)) + p[-1] / rate
    return float(largest + np.log(mass) + 0.5 * (len(point) - 1) * np.log(2.0 * np.pi))
