"""Laplace's marginal density of one coordinate, from conditional modes of the others."""

from __future__ import annotations

import numpy as np

from bayeskern.inference.model.target import Target
from bayeskern.inference.search.curvature import derivatives
from bayeskern.inference.search.factors import ScaledEigen
from bayeskern.inference.search.objective import NegativeLogDensity


def conditional_mode(
    target: Target, point: np.ndarray, coordinate: int
) -> tuple[np.ndarray, float]:
    """Mode over all coordinates but one, and Laplace's log marginal density of that coordinate.

    Newton's method, with a positive definite H and halved steps: with H^-1 = L L' and gradient g,
    the step is -L L' g and the decrement |L' g|^2 / 2.

    Args:
        target: The density, of d coordinates.
        point: Start, (d,).
        coordinate: Index of the coordinate that keeps its value.

    Returns:
        The mode (d,), and the log marginal density without its constant (d - 1) / 2 log(2 pi); NaN
        if no mode is found.

    References:
        Tierney and Kadane (1986), "Accurate approximations for posterior moments and marginal
        densities", equation 4.1.
    """
    # Largest numbers of Newton steps and of halvings; the tolerance is in nats.
    steps, halvings, decrement_tol = 50, 20, 1e-4
    objective = NegativeLogDensity(target, jacobian=True)
    others = np.arange(len(point)) != coordinate
    value, gradient, hessian = map(np.asarray, derivatives(objective, point))
    if not others.any():
        return point, -float(value)
    for _ in range(steps):
        if not (np.isfinite(value) and np.all(np.isfinite(hessian))):
            return point, np.nan
        tril = ScaledEigen.from_hessian(hessian[np.ix_(others, others)]).inverse_root()
        white = tril.T @ gradient[others]
        if 0.5 * white @ white < decrement_tol:
            return point, float(np.sum(np.log(np.diag(tril))) - value)
        for halving in range(halvings):
            proposal = point.copy()
            proposal[others] -= 0.5**halving * (tril @ white)
            new = tuple(map(np.asarray, derivatives(objective, proposal)))
            if new[0] < value:
                break
        else:
            return point, np.nan
        point, (value, gradient, hessian) = proposal, new
    return point, np.nan
