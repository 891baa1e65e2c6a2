"""Log integrals of a density over regions, and the shares of the regions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.spatial import KDTree
from scipy.special import chdtri, logsumexp

from bayeskern.core.batching import evenly
from bayeskern.core.random import stream
from bayeskern.inference.estimate import Estimate
from bayeskern.inference.mcmc.connectivity import MAX_REGION_DRAWS, shrunk_covariance, unit_map
from bayeskern.inference.mcmc.kernel import CALL_POINTS, Transitions, potential_and_gradient
from bayeskern.inference.model.target import Target
from bayeskern.inference.search.factors import robust_cholesky
from bayeskern.inference.search.modes import Optimum


class NearestRegion:
    """Finds the region of the draw nearest to a point, among first halves of chains.

    Args:
        regions: Chains of each region, (chains, n, d).
    """

    def __init__(self, regions: Sequence[np.ndarray]):
        halves = [z[:, : z.shape[1] // 2].reshape(-1, z.shape[2]) for z in regions]
        halves = [z[evenly(len(z), MAX_REGION_DRAWS)] for z in halves]
        self._to_unit = unit_map(np.mean([shrunk_covariance(z) for z in halves], axis=0))
        self._region = np.concatenate([np.full(len(z), k) for k, z in enumerate(halves)])
        self._tree = KDTree(np.concatenate(halves) @ self._to_unit)

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Index of the region of each point (m, d), -1 if it is not finite, (m,)."""
        finite = np.all(np.isfinite(points), axis=1)
        points = np.where(finite[:, None], points, 0.0)
        index = self._tree.query(points @ self._to_unit)[1]
        return np.where(finite, self._region[index], -1)


def log_sum(log_integrals: Sequence[Estimate]) -> Estimate:
    """log sum_k exp(a_k), with its error to first order."""
    values, errors = np.array(log_integrals).T
    shares = np.array([share.value for share in proportions(log_integrals)])
    return Estimate(float(logsumexp(values)), float(np.sqrt(np.sum(np.square(shares * errors)))))


def proportions(log_integrals: Sequence[Estimate]) -> list[Estimate]:
    """Shares exp(a_k) / sum_j exp(a_j), with errors to first order.

    All are NaN if one log integral is unknown.
    """
    values, errors = np.array(log_integrals).T
    if not np.all(np.isfinite(values)):
        return [Estimate(np.nan, np.nan)] * len(values)
    shares = np.exp(values - logsumexp(values))
    # slopes[k, j] = d log share_k / d a_j. 1 - share_k is computed as the sum of the other shares,
    # because the subtraction may leave only rounding errors.
    others = 1.0 - np.eye(len(shares))
    slopes = np.diag(others @ shares) - others * shares
    variance = np.square(shares) * (np.square(slopes) @ np.square(errors))
    return [Estimate(float(s), float(e)) for s, e in zip(shares, np.sqrt(variance), strict=True)]


def share_in_ellipsoid(mode: Optimum, z: np.ndarray) -> float:
    """Share of draws (n, d) in the central ellipsoid of a mode; 1 without a curvature.

    The ellipsoid holds half of the normal distribution at the mode.
    """
    if mode.inverse_root[1] is not None:
        return 1.0
    return float(np.mean(mode.squared_distances(z) < chdtri(len(mode.z), 0.5)))


def integral_in_ellipsoid(target: Target, mode: Optimum, seed: int) -> tuple[np.ndarray, Estimate]:
    """Draws in the central ellipsoid of a mode (n, d), and the log integral over it."""
    tril, _ = mode.inverse_root
    d = len(mode.z)
    white = stream(seed, "within").standard_normal((2 * CALL_POINTS, d))
    white = white[np.sum(np.square(white), axis=1) < chdtri(d, 0.5)]
    z = mode.z + white @ tril.T
    log_p = -potential_and_gradient(target, z)[0]
    log_q = -0.5 * np.sum(np.square(white), axis=1) - 0.5 * d * np.log(2.0 * np.pi)
    log_q -= np.sum(np.log(np.diag(tril)))
    ratios = np.where(np.isnan(log_p), -np.inf, log_p - log_q)
    # The ellipsoid holds half of the mass of q.
    value = float(logsumexp(ratios) - np.log(len(ratios)) - np.log(2.0))
    if not np.isfinite(value):
        return z, Estimate(value, np.nan)
    w = np.exp(ratios - logsumexp(ratios))
    # Deviations of the weights from their mean: rounding errors only, if the mode is normal.
    return z, Estimate(value, float(np.linalg.norm(w - 1.0 / len(w))))


def normal_log_integral_of(rows: Transitions) -> float:
    """Rough log integral of a density, as if its draws were normally distributed."""
    z = np.concatenate(rows.z)
    tril = robust_cholesky(shrunk_covariance(z))
    # The mean log density of a normal distribution lies d / 2 below its maximum.
    return normal_log_integral(0.5 * z.shape[1] - np.mean(rows.potential), tril)


def normal_log_integral(log_height: float, tril: np.ndarray) -> float:
    """log of exp(log_height) sqrt(det(2 pi L L')), with L = `tril`."""
    return log_height + 0.5 * len(tril) * np.log(2.0 * np.pi) + np.sum(np.log(np.diag(tril)))
