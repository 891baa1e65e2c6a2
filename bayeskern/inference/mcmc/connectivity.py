"""Density barriers between points and draws, and agreement of chains."""

from __future__ import annotations

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree

from bayeskern.core.batching import evenly
from bayeskern.inference.mcmc.kernel import potential_and_gradient
from bayeskern.inference.model.target import Target
from bayeskern.inference.search.factors import robust_cholesky

# Maximum number of draws that represent a region.
MAX_REGION_DRAWS = 2000
# Share of these draws that counts as nearby, so that a few stray draws do not connect a point.
NEARBY_SHARE = 0.03
# Number of nearby draws to which paths lead.
NEIGHBOUR_COUNT = 5


class Neighbours:
    """Finds the draws near a point, by distances in units of the sds of the draws.

    Args:
        z: Draws, (n, d).
    """

    def __init__(self, z: np.ndarray):
        self.z = z[evenly(len(z), MAX_REGION_DRAWS)]
        self.to_unit = unit_map(shrunk_covariance(self.z))
        self._tree = KDTree(self.z @ self.to_unit)

    def near(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Nearby draws (m, k, d) of points (m, d), and their distances (m, k)."""
        # Evenly spaced ranks among the nearby draws, from the nearest draw on.
        nearby = max(1, int(NEARBY_SHARE * len(self.z)))
        ranks = 1 + evenly(nearby, NEIGHBOUR_COUNT)
        distance, index = self._tree.query(points @ self.to_unit, ranks)  # pyright: ignore[reportArgumentType]
        return self.z[index], np.asarray(distance)


def shrunk_covariance(z: np.ndarray) -> np.ndarray:
    """Shrunk covariance of draws (n, d), (d, d), for distances between them.

    With the sample covariance of n <= d draws, all points would look distant. The correlation
    matrix S is therefore shrunk towards the identity: Ledoit and Wolf (2004), "A well-conditioned
    estimator for large-dimensional covariance matrices". scikit-learn has this estimator, but
    importing it takes longer than the computation. The sd of a constant coordinate is set to the
    size of rounding errors.
    """
    rounding = 1e-8 * (1.0 + np.max(np.abs(z), axis=0))
    sds = np.hypot(np.std(z, axis=0), rounding)
    white, n = (z - np.mean(z, axis=0)) / sds, len(z)
    S = white.T @ white / n
    # Estimated squared error of S, and its squared distance from the identity.
    error = (np.sum(np.square(np.sum(np.square(white), axis=1))) / n - np.sum(np.square(S))) / n
    S += np.diag(np.square(rounding / sds))
    distance = np.sum(np.square(S - np.eye(len(S))))
    shrinkage = np.clip(error / distance, 0.0, 1.0) if distance > 0.0 else 1.0
    return sds[:, None] * ((1.0 - shrinkage) * S + shrinkage * np.eye(len(S))) * sds


def unit_map(covariance: np.ndarray) -> np.ndarray:
    """Matrix M (d, d) such that the coordinates z M have unit covariance."""
    return np.linalg.inv(robust_cholesky(covariance)).T


# A barrier is a gap of this size between the log density on a straight path and the log density of
# a normal distribution.
BARRIER_NATS = 3.0
# Number of points between the ends of a path.
PATH_POINTS = 7


def connected(
    target: Target, points: np.ndarray, neighbours: Neighbours, as_normal: bool = True
) -> np.ndarray:
    """True for points without a barrier on straight paths to nearby draws: (m,).

    Between two points r sds apart, at the share t of the way, the log density of a normal
    distribution lies t (1 - t) r^2 / 2 above the straight line between its values at the points.
    There is a barrier where the log density lies `barrier_nats` below this curve.

    Args:
        target: The density.
        points: Points, (m, d). A point is connected if most of its paths have no barrier.
        neighbours: The draws.
        as_normal: True to compare with this curve, False to compare with the straight line.
    """
    ends, distance = neighbours.near(points)
    t = np.linspace(0.0, 1.0, PATH_POINTS + 2)
    path = points[:, None, None] + t[:, None] * (ends - points[:, None])[:, :, None]
    log_p = -potential_and_gradient(target, path)[0]
    log_p = np.where(np.isnan(log_p), -np.inf, log_p)
    # NaN, and so a barrier, where the density is zero at an end.
    with np.errstate(invalid="ignore"):
        line = (1.0 - t) * log_p[..., :1] + t * log_p[..., -1:]
        if as_normal:
            line += 0.5 * t * (1.0 - t) * np.square(distance)[..., None]
        depth = np.max(line - log_p, axis=-1)
    return np.mean(depth < BARRIER_NATS, axis=1) > 0.5


# Largest R-hat of chains in one region.
MAX_REGION_RHAT = 1.1


def agree(first: np.ndarray, second: np.ndarray) -> bool:
    """True if chains (k, n, d) and (l, m, d) are in one region, by R-hat."""
    from arviz_stats.base.array import array_stats

    length = min(first.shape[1], second.shape[1])
    z = np.concatenate([x[:, evenly(x.shape[1], length)] for x in (first, second)])
    with np.errstate(invalid="ignore", divide="ignore"):
        rhat = array_stats.rhat(np.moveaxis(z, -1, 0))
    return not np.any(rhat > MAX_REGION_RHAT)  # pyright: ignore[reportOperatorIssue]


def groups(z: np.ndarray) -> list[np.ndarray]:
    """Indices of the chains z (chains, n, d) in each region."""
    pairs = [[i == j or agree(z[[i]], z[[j]]) for j in range(len(z))] for i in range(len(z))]
    count, region = connected_components(np.array(pairs))
    return [np.flatnonzero(region == k) for k in range(count)]
