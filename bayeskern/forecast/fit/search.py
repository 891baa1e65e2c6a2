"""Search for the mode of a log density in NumPy: L-BFGS, then Newton's method."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from bayeskern.engine.base import LogMarginal
from bayeskern.inference.search.modes import MODE_GRADIENT_TOL


def optimise(
    density: LogMarginal,
    start: np.ndarray,
    unit: np.ndarray | None = None,
    gain_tol: float = 1e-5,
) -> tuple[np.ndarray, float]:
    """Maximise the log density by L-BFGS.

    Args:
        density: The log density.
        start: Starting point, (d,).
        unit: Unit of each coordinate in the search, (d,); by default its prior sd.
        gain_tol: Relative gain of a step below which the optimisation ends.

    Returns:
        The mode, (d,), and the log density there, -inf if it is not finite.
    """
    if len(start) == 0:
        return start, density.log_density(start)
    unit = density.prior_sd if unit is None else unit
    # Replaces an infinite -log p, from which the line search would not step back.
    barrier = 1e100

    def objective(u: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = density.value_and_gradient(start + unit * u)
        return (-value, -unit * gradient) if np.isfinite(value) else (barrier, np.zeros(len(u)))

    options = {"maxiter": 500, "ftol": gain_tol, "gtol": 1e-3}
    with density.threads():
        begin = np.zeros(len(start))
        end = minimize(objective, begin, jac=True, method="L-BFGS-B", options=options)
    return start + unit * end.x, -float(end.fun) if end.fun < barrier else -np.inf


def newton(
    density: LogMarginal, start: np.ndarray, hessian: np.ndarray
) -> tuple[np.ndarray, float]:
    """Take Newton steps with a fixed Hessian while each halves the gradient.

    Args:
        density: The log density.
        start: Point near the mode, (d,).
        hessian: Hessian of -log p near the mode, (d, d).

    Returns:
        The mode, (d,), and the log density there.
    """
    z = start
    with density.threads():
        value, gradient = density.value_and_gradient(z)
        for _ in range(500):
            if np.max(np.abs(gradient), initial=0.0) < MODE_GRADIENT_TOL:
                break
            try:
                next_z = z + np.linalg.solve(hessian, gradient)
            except np.linalg.LinAlgError:
                break
            next_value, next_gradient = density.value_and_gradient(next_z)
            # False if the gradient is NaN.
            is_half = np.max(np.abs(next_gradient)) < 0.5 * np.max(np.abs(gradient))
            if not (is_half and np.isfinite(next_value)):
                break
            z, value, gradient = next_z, next_value, next_gradient
    return z, value


def hessian_at(density: LogMarginal, z: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Hessian of -log p at z (d,), (d, d), by forward differences of the gradient."""
    d, step = len(z), 1e-4
    rows = [gradient - density.value_and_gradient(near)[1] for near in z + step * np.eye(d)]
    H = np.reshape(rows, (d, d))
    return 0.5 * (H + H.T) / step
