"""Tails of latent numbers by the density, which goes on beyond the furthest draw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayeskern.core.scalars import scalar_columns
from bayeskern.inference.model.evaluation import constrain
from bayeskern.inference.model.target import Target
from bayeskern.inference.optimization.curvature import derivatives
from bayeskern.inference.optimization.factors import inverse_root_of
from bayeskern.inference.optimization.objective import NegativeLogDensity


@dataclass(frozen=True)
class TailOptions:
    """Options for following a marginal density beyond the draws.

    Attributes:
        tail_share: Share of the draws on one side whose moments the density replaces.
        reach: Distance from the median up to which the density is followed, in units of the
            furthest draw's.
        points: Points on the way.
        grid: Values of the coordinate by which these points are found.
        newton_steps: Steps to the conditional mode of the other coordinates, at most.
        halvings: Halvings of a step, at most.
        decrement_tol: Improvement in nats that a Newton step promises at the mode.
        max_size: Coordinates above which nothing is followed.
    """

    tail_share: float = 0.1
    reach: float = 20.0
    points: int = 25
    grid: int = 512
    newton_steps: int = 50
    halvings: int = 20
    decrement_tol: float = 1e-4
    max_size: int = 200


OPTIONS = TailOptions()
# Differences of a coordinate by which the slope of the log distance is taken, in units of the way
# from the median to the tail.
DIFFERENCES = np.array([-1e-4, 0.0, 1e-4])


class Tail(NamedTuple):
    """Heaviness of the tails of a number, by its density.

    index: alpha of the heavier tail: P(|x| > t) falls like t^-alpha far out. sd: of the number,
    with the moments of its tails by the density; infinite up to an index of 2. Both are NaN where
    they are not known.
    """

    index: float
    sd: float


UNKNOWN = Tail(np.nan, np.nan)


class Side(NamedTuple):
    """One tail, in units of the longest distance of a draw from the median.

    index: as in `Tail`; begin: the distance at which the tail begins; mean, mean_square: of the
    distances in it.
    """

    index: float
    begin: float
    mean: float
    mean_square: float


def density_tail(posterior, name: str) -> Tail:
    """Tail index of a latent number, and its sd with the moments of the tails by the density.

    The marginal density is Laplace's: the density at the conditional mode of the other coordinates,
    over the root of the determinant of their curvature. With u = log |x - median|, alpha is
    -d log p(u) / du at the far end, beyond which the density is a power of the distance. The share
    of a tail is that of the draws. A tail less than half as long as the other one is left as it is.

    Args:
        posterior: The draws and the density.
        name: The name of a number, as `tau` or `theta[3]`.

    Returns:
        The tail; unknown where the number has no coordinate of its own, as the parts of a simplex
        and deterministic sites, or where the conditional modes are not found.

    References:
        Tierney and Kadane (1986), "Accurate approximations for posterior moments and marginal
        densities", equation 4.1.
    """
    target = posterior.fitted_target
    if not _has_coordinate(target, name) or target.size > OPTIONS.max_size:
        return UNKNOWN
    z = posterior.z.reshape(-1, target.size)
    x = _numbers(target, z, name)
    median = np.median(x)
    # Squares of very large numbers would overflow.
    scale = np.max(np.abs(x - median))
    y = (x - median) / scale

    def log_distance(points: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.log(np.abs(_numbers(target, points, name) - median) / scale)

    along = target.coordinates.index(name)
    inside, mean, mean_square, index = np.ones(len(y), bool), 0.0, 0.0, np.inf
    for sign in (-1.0, 1.0):
        if np.max(sign * y) < 0.5:
            continue
        side = _side(target, z, sign * y, along, log_distance)
        if side is None:
            return UNKNOWN
        beyond = sign * y > side.begin
        mean += sign * np.mean(beyond) * side.mean
        mean_square += np.mean(beyond) * side.mean_square
        inside, index = inside & ~beyond, min(index, side.index)
    if not index > 2.0:
        return Tail(index, np.inf)
    mean += np.mean(y * inside)
    variance = mean_square + np.mean(np.square(y) * inside) - mean**2
    return Tail(index, float(scale * np.sqrt(variance)))


def _side(
    target: Target, z: np.ndarray, distance: np.ndarray, along: int, log_distance: Callable
) -> Side | None:
    """One tail of the number of a coordinate; None where it is not known.

    Args:
        target: The density.
        z: Draws, (n, d).
        distance: Signed distance of the draws from the median, positive in the tail: (n,).
        along: The coordinate.
        log_distance: Log distance from the median of points, (m, d) to (m,).
    """
    start = z[np.argsort(distance)[int((1.0 - OPTIONS.tail_share) * len(distance))]]
    unit = start[along] - np.median(z[:, along])
    furthest = OPTIONS.reach * np.max(distance)
    steps = _steps(log_distance, start, along, unit, furthest)
    log_p, u, point = np.empty(len(steps)), np.empty(len(steps)), start
    for k, step in enumerate(steps):
        point = np.where(np.arange(len(point)) == along, start[along] + step, point)
        point, log_marginal = _conditional_mode(target, point, along)
        if not np.isfinite(log_marginal):
            return None
        below, u[k], above = log_distance(_moved(point, along, unit * DIFFERENCES))
        # From the density of the coordinate to that of the log distance.
        log_p[k] = log_marginal - np.log((above - below) / np.abs(unit * np.ptp(DIFFERENCES)))
    return _with_moments(u, log_p) if len(steps) and np.all(np.isfinite(log_p)) else None


def _with_moments(u: np.ndarray, log_p: np.ndarray) -> Side:
    """The tail by the log density of the log distance, (k,), at u (k,)."""
    alpha = float(-(log_p[-1] - log_p[-2]) / (u[-1] - u[-2]))
    p = np.exp(log_p - np.max(log_p))
    # Beyond the last point the density is a power of the distance; moments may be infinite.
    mass, first, second = (
        np.trapezoid(p * np.exp(k * u), u) + p[-1] * np.exp(k * u[-1]) / (alpha - k)
        if alpha > k
        else np.inf
        for k in range(3)
    )
    return Side(alpha, float(np.exp(u[0])), first / mass, second / mass)


def _steps(
    log_distance: Callable, start: np.ndarray, along: int, unit: float, furthest: float
) -> np.ndarray:
    """Steps of a coordinate from `start` to distances of equal ratios; none if they are not found.

    unit: the way from the median to `start`; furthest: the last distance; the rest as in `_side`.
    """
    steps = unit * np.r_[0.0, np.geomspace(1e-3, 1e5, OPTIONS.grid)]
    reached = log_distance(_moved(start, along, steps))
    finite = np.isfinite(reached)
    wanted = np.linspace(reached[0], np.log(furthest), OPTIONS.points)
    if not (np.all(np.diff(reached[finite]) > 0.0) and wanted[-1] < np.max(reached[finite])):
        return np.zeros(0)
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
