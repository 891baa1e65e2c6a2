"""Tail indices by the density, beyond the furthest draw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bayeskern.core.scalars import scalar_columns
from bayeskern.inference.model.constrain import constrain
from bayeskern.inference.model.target import Target
from bayeskern.inference.optimization.curvature import derivatives
from bayeskern.inference.optimization.factors import inverse_root_of
from bayeskern.inference.optimization.objective import NegativeLogDensity


@dataclass(frozen=True)
class TailOptions:
    """Where and how a density is followed.

    Attributes:
        factors: Distances from the median between which the density is compared, in units of the
            furthest draw's.
        grid: Points on the way, by which these distances are found.
        newton_steps: Steps to the conditional mode of the other coordinates, at most.
        halvings: Halvings of a step, at most.
        decrement_tol: Improvement in nats that a Newton step promises at the mode.
        max_size: Coordinates above which nothing is followed.
    """

    factors: tuple[float, float] = (2.0, 20.0)
    grid: int = 256
    newton_steps: int = 50
    halvings: int = 20
    decrement_tol: float = 1e-4
    max_size: int = 200


OPTIONS = TailOptions()
# Differences of a coordinate by which the slope of the log distance is taken, in units of the way
# from the median to the furthest draw.
DIFFERENCES = np.array([-1e-4, 0.0, 1e-4])


def tail_index(posterior, name: str) -> float:
    """Tail index of a latent number x: P(|x| > t) falls like t^-alpha on its longer side.

    Moments of order alpha and more do not exist. The marginal density is Laplace's: the density at
    the conditional mode of the other coordinates, over the root of the determinant of their
    curvature. alpha = -d log p(log |x - median|) / d log |x - median|.

    Args:
        posterior: The draws and the density.
        name: A number of a site.

    Returns:
        alpha; infinite where the number has no coordinate of its own, as the parts of a simplex and
        deterministic sites, or where the conditional modes are not found.

    References:
        Tierney and Kadane (1986), "Accurate approximations for posterior moments and marginal
        densities", equation 4.1.
    """
    target = posterior.fitted_target
    if not _has_coordinate(target, name) or target.size > OPTIONS.max_size:
        return np.inf
    z = posterior.z.reshape(-1, target.size)
    along, x = target.coordinates.index(name), _numbers(target, z, name)
    median = np.median(x)
    start = z[np.argmax(np.abs(x - median))]
    unit = start[along] - np.median(z[:, along])

    def log_distance(points: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.log(np.abs(_numbers(target, points, name) - median))

    log_p, u, point = np.empty(2), np.empty(2), start
    for k, step in enumerate(_steps(log_distance, start, along, unit)):
        point = np.where(np.arange(len(point)) == along, start + step, point)
        point, log_marginal = _conditional_mode(target, point, along)
        below, u[k], above = log_distance(_moved(point, along, unit * DIFFERENCES))
        # From the density of the coordinate to that of the log distance.
        log_p[k] = log_marginal - np.log((above - below) / np.abs(unit * np.ptp(DIFFERENCES)))
    alpha = -(log_p[1] - log_p[0]) / (u[1] - u[0])
    return float(alpha) if np.isfinite(alpha) else np.inf


def _steps(log_distance: Callable, start: np.ndarray, along: int, unit: float) -> np.ndarray:
    """Steps of a coordinate from `start` to the two distances of `factors`; NaN if there are none.

    log_distance: of points (n, d), the log of the distance from the median.
    """
    steps = unit * np.r_[0.0, np.geomspace(1e-3, 1e3, OPTIONS.grid)]
    reached = log_distance(_moved(start, along, steps))
    finite = np.isfinite(reached)
    wanted = reached[0] + np.log(OPTIONS.factors)
    if not (np.all(np.diff(reached[finite]) > 0.0) and wanted[1] < np.max(reached[finite])):
        return np.full(2, np.nan)
    return np.interp(wanted, reached[finite], steps[finite])


def _has_coordinate(target: Target, name: str) -> bool:
    """True if a number of a site is a function of one coordinate alone, which has its name."""
    plain = {s.name for s in target.latents if s.shape == s.unconstrained_shape}
    return name in target.coordinates and name.split("[")[0] in plain


def _numbers(target: Target, z: np.ndarray, name: str) -> np.ndarray:
    """A number at points (n, d): (n,)."""
    sites = constrain(target, z[None])
    site = name.split("[")[0]
    names, values = scalar_columns({site: sites[site][0]})
    return values[:, names.index(name)]


def _moved(point: np.ndarray, along: int, steps: np.ndarray) -> np.ndarray:
    """A point (d,) moved along one coordinate by each of the steps (n,): (n, d)."""
    moved = np.tile(point, (len(steps), 1))
    moved[:, along] += steps
    return moved


def _conditional_mode(target: Target, point: np.ndarray, along: int) -> tuple[np.ndarray, float]:
    """The mode of all other coordinates (d,), and Laplace's log marginal density; NaN without one.

    By Newton's method, with a curvature that is made positive, and halved steps.
    """
    objective = NegativeLogDensity(target, jacobian=True)
    others = np.arange(len(point)) != along
    here = point
    value, gradient, hessian = map(np.asarray, derivatives(objective, here))
    if not others.any():
        return here, -float(value)
    for _ in range(OPTIONS.newton_steps):
        if not (np.isfinite(value) and np.all(np.isfinite(hessian))):
            return here, np.nan
        tril = inverse_root_of(hessian[np.ix_(others, others)])[0]
        white = tril.T @ gradient[others]
        if 0.5 * white @ white < OPTIONS.decrement_tol:
            return here, float(np.sum(np.log(np.diag(tril))) - value)
        for halving in range(OPTIONS.halvings):
            there = here.copy()
            there[others] -= 0.5**halving * (tril @ white)
            new_value, new_gradient, new_hessian = map(np.asarray, derivatives(objective, there))
            if new_value < value:
                break
        else:
            return here, np.nan
        here, value, gradient, hessian = there, new_value, new_gradient, new_hessian
    return here, np.nan
