"""Density barriers between points and draws, and agreement of chains."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree

from bayeskern.core.batching import evenly
from bayeskern.inference.mcmc.kernel import potential_and_gradient
from bayeskern.inference.model.target import Target
from bayeskern.inference.optimization.factors import robust_cholesky


@dataclass(frozen=True)
class ConnectivityOptions:
    """Options by which points and chains are connected.

    Attributes:
        barrier_nats: Gap by which the log density on a straight path must lie below that of a
            normal distribution to be a barrier.
        max_draws: Draws that represent a region, at most.
        nearby_share: Share of these draws that counts as nearby, so that a few stray draws do not
            connect a point.
        neighbours: Nearby draws to which paths lead.
        path_points: Points on the way of each path.
        max_rhat: R-hat below which chains are in one region.
    """

    barrier_nats: float = 3.0
    max_draws: int = 2000
    nearby_share: float = 0.03
    neighbours: int = 5
    path_points: int = 7
    max_rhat: float = 1.1


CONNECTIVITY = ConnectivityOptions()


class Neighbours:
    """Nearby draws of points, by distances in units of the sds of the draws.

    Args:
        z: Draws, (n, d).
    """

    def __init__(self, z: np.ndarray):
        self.z = z[evenly(len(z), CONNECTIVITY.max_draws)]
        self.to_unit = unit_map(shrunk_covariance(self.z))
        self._tree = KDTree(self.z @ self.to_unit)

    def of(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Nearby draws (m, k, d) of points (m, d), and their distances (m, k)."""
        nearby = max(1, int(CONNECTIVITY.nearby_share * len(self.z)))
        ranks = 1 + evenly(nearby, CONNECTIVITY.neighbours)
        distance, index = self._tree.query(points @ self.to_unit, ranks)  # pyright: ignore[reportArgumentType]
        return self.z[index], np.asarray(distance)


def shrunk_covariance(z: np.ndarray) -> np.ndarray:
    """Covariance of draws (n, d) for distances between them, shrunk: (d, d).

    By the covariance of no more draws than coordinates, everything would look distant. In units of
    the sds it is shrunk towards the identity: Ledoit and Wolf (2004), "A well-conditioned estimator
    for large-dimensional covariance matrices". scikit-learn has this estimator, but its import
    takes longer than all of the computation. Coordinates without spread have the spread of
    rounding.
    """
    rounding = 1e-8 * (1.0 + np.max(np.abs(z), axis=0))
    sds = np.hypot(np.std(z, axis=0), rounding)
    white, n = (z - np.mean(z, axis=0)) / sds, len(z)
    S = white.T @ white / n
    error = (np.sum(np.square(np.sum(np.square(white), axis=1))) / n - np.sum(np.square(S))) / n
    S += np.diag(np.square(rounding / sds))
    off = np.sum(np.square(S - np.eye(len(S))))
    shrinkage = np.clip(error / off, 0.0, 1.0) if off > 0.0 else 1.0
    return sds[:, None] * ((1.0 - shrinkage) * S + shrinkage * np.eye(len(S))) * sds


def unit_map(covariance: np.ndarray) -> np.ndarray:
    """M with z M in units of sds: (d, d)."""
    return np.linalg.inv(robust_cholesky(covariance)).T


def connected(
    target: Target, points: np.ndarray, neighbours: Neighbours, as_normal: bool = True
) -> np.ndarray:
    """True for points without a barrier on straight paths to nearby draws: (m,).

    Between two points r sds apart, the log density of a normal distribution lies above the straight
    line between its values there, at the share t of the way by t (1 - t) r^2 / 2. There is a
    barrier where the density lies below that.

    Args:
        target: The density.
        points: Points, (m, d). A point counts where most of its paths have no barrier.
        neighbours: The draws.
        as_normal: False for a barrier only where the density lies below the straight line.
    """
    ends, distance = neighbours.of(points)
    t = np.linspace(0.0, 1.0, CONNECTIVITY.path_points + 2)
    path = points[:, None, None] + t[:, None] * (ends - points[:, None])[:, :, None]
    log_p = -potential_and_gradient(target, path)[0]
    log_p = np.where(np.isnan(log_p), -np.inf, log_p)
    line = (1.0 - t) * log_p[..., :1] + t * log_p[..., -1:]
    if as_normal:
        line += 0.5 * t * (1.0 - t) * np.square(distance)[..., None]
    with np.errstate(invalid="ignore"):
        depth = np.max(line - log_p, axis=-1)
    return np.mean(depth < CONNECTIVITY.barrier_nats, axis=1) > 0.5


def agree(first: np.ndarray, second: np.ndarray) -> bool:
    """True if chains (k, n, d) and (l, m, d) are in one region, by R-hat."""
    from arviz_stats.base.array import array_stats

    length = min(first.shape[1], second.shape[1])
    z = np.concatenate([x[:, evenly(x.shape[1], length)] for x in (first, second)])
    with np.errstate(invalid="ignore", divide="ignore"):
        rhat = array_stats.rhat(np.moveaxis(z, -1, 0))
    return not np.any(rhat > CONNECTIVITY.max_rhat)  # pyright: ignore[reportOperatorIssue]


def groups(z: np.ndarray) -> list[np.ndarray]:
    """Numbers of the chains (chains, n, d) in each region."""
    pairs = [[i == j or agree(z[[i]], z[[j]]) for j in range(len(z))] for i in range(len(z))]
    count, region = connected_components(np.array(pairs))
    return [np.flatnonzero(region == k) for k in range(count)]
