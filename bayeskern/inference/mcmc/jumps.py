"""Jumps of a density, as of a likelihood that has a latent in a comparison."""

from __future__ import annotations

import numpy as np
from scipy.integrate import simpson

from bayeskern.inference.mcmc.kernel import potential_and_gradient
from bayeskern.inference.model.cost import is_costly
from bayeskern.inference.model.target import Target


def has_jumps(target: Target, z: np.ndarray) -> bool:
    """True if the log density jumps on segments between draws, where gradients do not see it.

    On a segment from a to b, log p(b) - log p(a) is the integral of the gradient, unless log p
    jumps. Simpson's rule must have converged, so that steep densities are no jumps, and the gap
    must remain in the interval of the segment where it is largest, and so on: a steep wall is
    resolved there.

    Args:
        target: The density.
        z: Draws, (n, d), in random order.

    Returns:
        False also if the density is costly.
    """
    z = z[np.all(np.isfinite(z), axis=1)]
    # 15 segments of 16 intervals: their points are evaluated in one call.
    pairs = min(15, len(z) // 2)
    if not pairs or is_costly(target):
        return False
    a, b = z[:pairs], z[pairs : 2 * pairs]
    t, is_jump = np.linspace(0.0, 1.0, 17), np.ones(pairs, bool)
    # Least gaps in nats, so that no rounding error decides: of the segments, and of intervals, in
    # which there may be one of many jumps.
    for least in (1.0, 0.01, 0.01, 0.01):
        path = a[:, None] + t[:, None] * (b - a)[:, None]
        potential, gradient = potential_and_gradient(target, path)
        slope = np.sum(gradient * (b - a)[:, None], axis=-1)
        with np.errstate(invalid="ignore"):
            fine, coarse = simpson(slope, x=t), simpson(slope[:, ::2], x=t[::2])
            gap = np.abs(potential[:, -1] - potential[:, 0] - fine)
            # An infinite density is the end of a support.
            is_jump &= np.isfinite(gap) & (gap > least) & (np.abs(fine - coarse) < 0.1 * gap)
            trapezoids = (slope[:, 1:] + slope[:, :-1]) / 2.0 * np.diff(t)
            gaps = np.abs(np.diff(potential) - trapezoids)
        rows, largest = np.arange(pairs), np.argmax(np.nan_to_num(gaps), axis=1)
        a, b = path[rows, largest], path[rows, largest + 1]
    # At three segments, so that chance does not decide.
    return bool(np.sum(is_jump) >= 3)
