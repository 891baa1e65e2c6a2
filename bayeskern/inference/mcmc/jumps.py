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
    jumps. Simpson's rule must have converged, so that steep densities are no jumps.

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
    a, b = z[:pairs, None], z[pairs : 2 * pairs, None]
    t = np.linspace(0.0, 1.0, 17)
    potential, gradient = potential_and_gradient(target, a + t[:, None] * (b - a))
    slope = np.sum(gradient * (b - a), axis=-1)
    with np.errstate(invalid="ignore"):
        fine, coarse = simpson(slope, x=t), simpson(slope[:, ::2], x=t[::2])
        jump = np.abs(potential[:, -1] - potential[:, 0] - fine)
        # In nats, at three segments, so that no rounding error decides. An infinite density is the
        # end of a support.
        is_jump = np.isfinite(jump) & (jump > 1.0) & (np.abs(fine - coarse) < 0.1 * jump)
    return bool(np.sum(is_jump) >= 3)
