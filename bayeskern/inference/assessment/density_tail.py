"""Tail index and sd of a latent number from its marginal density beyond the draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bayeskern.core.scalars import scalar_columns
from bayeskern.inference.model.evaluation import constrain
from bayeskern.inference.model.target import Target
from bayeskern.inference.result import Fit
from bayeskern.inference.search.conditional import conditional_mode


class Tail(NamedTuple):
    """Tail index and sd of a number, from its density; both NaN if unknown.

    Attributes:
        index: alpha of the heavier tail: P(|x| > t) falls like t^-alpha.
        sd: sd of the number, with tail moments from the density; infinite if index <= 2.
    """

    index: float
    sd: float


class _Side(NamedTuple):
    """One tail, in units of the largest distance of a draw from the median.

    Attributes:
        index: As in `Tail`.
        begin: Distance at which the tail begins.
        mean: Mean distance in the tail.
        mean_square: Mean squared distance in the tail.
    """

    index: float
    begin: float
    mean: float
    mean_square: float


# Share of the draws in one tail, whose moments are computed from the density.
TAIL_SHARE = 0.1
# Distance from the median up to which the density is followed, in units of the largest distance of
# a draw.
TAIL_REACH = 20.0
# Step of the numerical derivative of the log distance, in units of the distance from the median to
# the tail.
DIFFERENCE_STEP = 1e-4
# Dimension above which no density is followed.
MAX_TAIL_SIZE = 200


def density_tail(posterior: Fit, name: str, tail_share: float = TAIL_SHARE) -> Tail:
    """Tail index and sd of a latent number, with tail moments from its marginal density.

    Laplace's method gives the marginal density: the density at the conditional mode of the other
    coordinates, over the root of the determinant of their curvature. With u = log |x - median|,
    alpha is -d log p(u) / du at the last point, beyond which the density is a power of the
    distance. The mass of a tail is the share of the draws in it. A tail less than half as long as
    the other tail, or with an end, keeps the moments of its draws.

    Args:
        posterior: The draws and the density.
        name: Name of a number, such as `tau` or `theta[3]`.
        tail_share: Share of the draws in one tail, whose moments are computed from the density.

    Returns:
        The tail; NaN if the number has no coordinate of its own (parts of a simplex,
        deterministic sites), or if conditional modes are not found.

    References:
        Tierney and Kadane (1986), "Accurate approximations for posterior moments and marginal
        densities", equation 4.1.
    """
    target, unknown = posterior.fitted_target, Tail(np.nan, np.nan)
    # Sites each of whose numbers is a function of the coordinate with the same name.
    elementwise = {s.name for s in target.latents if s.shape == s.unconstrained_shape}
    has_coordinate = name in target.coordinates and name.split("[")[0] in elementwise
    if not has_coordinate or target.size > MAX_TAIL_SIZE:
        return unknown
    z = posterior.z.reshape(-1, target.size)
    x = _values(target, z, name)
    median = np.median(x)
    # Squares of very large numbers would overflow.
    scale = np.max(np.abs(x - median))
    y = (x - median) / scale

    def log_distance(points: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.log(np.abs(_values(target, points, name) - median) / scale)

    coordinate = target.coordinates.index(name)
    # Moments about the median, in units of scale: of each tail first, then of the draws between.
    inside, mean, mean_square, index = np.ones(len(y), bool), 0.0, 0.0, np.inf
    differences = DIFFERENCE_STEP * np.array([-1.0, 0.0, 1.0])
    for sign in (-1.0, 1.0):
        if np.max(sign * y) < 0.5:
            continue
        order = np.argsort(sign * y)
        start = z[order[int((1.0 - tail_share) * len(order))]]
        # Distance from the median to the start, in the coordinate.
        unit = start[coordinate] - np.median(z[:, coordinate])
        last = np.log(TAIL_REACH * np.max(sign * y))
        steps = _steps(log_distance, start, coordinate, unit, last)
        if steps is None:
            continue
        side = _side(target, start, unit * differences, coordinate, steps, log_distance)
        if side is None:
            return unknown
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
    target: Target,
    start: np.ndarray,
    differences: np.ndarray,
    coordinate: int,
    steps: np.ndarray,
    log_distance: Callable[[np.ndarray], np.ndarray],
) -> _Side | None:
    """One tail of the number of a coordinate; None if it cannot be computed.

    Args:
        target: The density.
        start: Draw at which the tail begins, (d,).
        differences: Steps below, at and above a point for a numerical derivative, (3,).
        coordinate: Index of the coordinate.
        steps: Steps of the coordinate from `start`, (k,).
        log_distance: Log distance of points from the median, (m, d) to (m,).
    """
    log_p, u, point = np.empty(len(steps)), np.empty(len(steps)), start
    for k, step in enumerate(steps):
        point = np.where(np.arange(len(point)) == coordinate, start[coordinate] + step, point)
        point, log_marginal = conditional_mode(target, point, coordinate)
        if not np.isfinite(log_marginal):
            return None
        below, u[k], above = log_distance(_moved(point, coordinate, differences))
        if not above > below:
            # The number does not grow with the coordinate.
            return None
        # Change of variables from the coordinate to the log distance u.
        log_p[k] = log_marginal - np.log((above - below) / np.abs(np.ptp(differences)))
    return _with_moments(u, log_p) if len(steps) and np.all(np.isfinite(log_p)) else None


def _with_moments(u: np.ndarray, log_p: np.ndarray) -> _Side:
    """A tail with log density log_p (k,) of the log distance at u (k,)."""
    alpha = float(-(log_p[-1] - log_p[-2]) / (u[-1] - u[-2]))
    p = np.exp(log_p - np.max(log_p))
    # Integrals of p exp(k u) for k = 0, 1, 2. Beyond the last point p falls like exp(-alpha u), so
    # that they are infinite for alpha <= k.
    mass, first, second = (
        np.trapezoid(p * np.exp(k * u), u) + p[-1] * np.exp(k * u[-1]) / (alpha - k)
        if alpha > k
        else np.inf
        for k in range(3)
    )
    return _Side(alpha, float(np.exp(u[0])), float(first / mass), float(second / mass))


# Number of points at which the density is computed, and of coordinate values from which the points
# are interpolated.
TAIL_POINTS, GRID_SIZE = 25, 512


def _steps(
    log_distance: Callable[[np.ndarray], np.ndarray],
    start: np.ndarray,
    coordinate: int,
    unit: float,
    last: float,
) -> np.ndarray | None:
    """Steps of a coordinate from `start` to evenly spaced log distances, up to `last`.

    None if the values end before `last`; empty if the log distance does not increase.
    """
    steps = unit * np.r_[0.0, np.geomspace(1e-3, 1e5, GRID_SIZE)]
    log_distances = log_distance(_moved(start, coordinate, steps))
    finite = np.isfinite(log_distances)
    known, grid = log_distances[finite], np.linspace(log_distances[0], last, TAIL_POINTS)
    if grid[-1] >= np.max(known, initial=-np.inf):
        return None
    return np.interp(grid, known, steps[finite]) if np.all(np.diff(known) > 0.0) else np.zeros(0)


def _values(target: Target, z: np.ndarray, name: str) -> np.ndarray:
    """Values of a number at points (n, d): (n,)."""
    site = name.split("[")[0]
    names, values = scalar_columns({site: constrain(target, z[None])[site][0]})
    return values[:, names.index(name)]


def _moved(point: np.ndarray, coordinate: int, steps: np.ndarray) -> np.ndarray:
    """A point (d,) moved along one coordinate by each of the steps (n,): (n, d)."""
    moved = np.tile(point, (len(steps), 1))
    moved[:, coordinate] += steps
    return moved
