"""Weights that turn base forecasts of all series into coherent bottom series.

Minimum trace (MinT): Wickramasuriya, Athanasopoulos and Hyndman (2019), "Optimal forecast
reconciliation for hierarchical and grouped time series through trace minimization", JASA. Base
forecasts y of all series have errors with covariance W. The coherent forecasts nearest to y in the
metric W^-1 are

    y - W C' (C W C')^-1 C y,    C = [I, -A],

where A are the sums and C y the amounts by which the base forecasts do not add up. This form allows
series with variance 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayeskern.forecast.reconcile.hierarchy import Hierarchy

RECONCILIATION_METHODS = ("mint", "wls", "ols", "bottom-up", "top-down")
# Minimum number of common errors from which correlations between series are estimated.
MIN_ERRORS = 8
# Ends of the 68 % interval, one standard deviation from the mean of a normal distribution.
SPREAD_PROBABILITIES = (0.15865525393145707, 0.5, 0.8413447460685429)


def shrunk_correlation(errors: np.ndarray) -> np.ndarray:
    """Correlation matrix of errors, shrunk towards the identity.

    The shrinkage intensity is the estimate of its optimum by Schaefer and Strimmer (2005), "A
    shrinkage approach to large-scale covariance matrix estimation", section 2.2, target D.

    Args:
        errors: Errors of n series at T times, (T, n). A series without variance is uncorrelated.

    Returns:
        Shape (n, n); the identity if T is less than `MIN_ERRORS`.
    """
    count, n = errors.shape
    if count < MIN_ERRORS or n == 1:
        return np.eye(n)
    centred = errors - errors.mean(axis=0)
    sd = errors.std(axis=0, ddof=1)
    z = np.divide(centred, sd, out=np.zeros_like(centred), where=sd > 0.0)
    means = z.T @ z / count
    squares = np.square(z).T @ np.square(z) - count * np.square(means)
    variances, correlation = count / (count - 1.0) ** 3 * squares, z.T @ z / (count - 1.0)
    off_diagonal = ~np.eye(n, dtype=bool)
    total = np.sum(np.square(correlation[off_diagonal]))
    intensity = np.sum(variances[off_diagonal]) / total if total > 0.0 else 1.0
    return np.where(off_diagonal, (1.0 - np.clip(intensity, 0.0, 1.0)) * correlation, 1.0)


def projection(sums: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Bottom rows of the MinT projection, (b, n).

    Args:
        sums: Bottom series of each sum, (n - b, b).
        covariance: Covariance W of the errors of all series, (n, n).
    """
    a, b = sums.shape
    constraints = np.hstack([np.eye(a), -sums])
    across = constraints @ covariance
    # The pseudo-inverse does not change sums whose base forecast and bottom series have no
    # variance.
    gain = across.T @ np.linalg.pinv(across @ constraints.T, rcond=1e-12, hermitian=True)
    return (np.eye(a + b) - gain @ constraints)[a:]


def bottom_weights(
    method: str,
    hierarchy: Hierarchy,
    medians: np.ndarray,
    spreads: np.ndarray,
    correlation: np.ndarray,
) -> np.ndarray:
    """Weights of all base forecasts in each bottom series at one time, (b, n).

    Args:
        method: A name in `RECONCILIATION_METHODS`.
        hierarchy: The hierarchy.
        medians: Medians of the base forecasts, (n,).
        spreads: Standard deviations of the base forecasts, or a common multiple of them, (n,).
        correlation: Correlation of the errors of the base forecasts, (n, n).

    Raises:
        ValueError: "top-down" needs one sum of all series, and medians with a positive sum.
    """
    sums, (a, b) = hierarchy.sums, hierarchy.sums.shape
    if method == "bottom-up":
        return np.eye(a + b)[a:]
    if method == "top-down":
        top = [i for i in range(a) if sums[i].all()]
        shares = medians[a:]
        if not top or not np.all(shares >= 0.0) or not np.sum(shares) > 0.0:
            reason = "a sum of all series" if not top else "medians of at least 0, not all 0"
            raise ValueError(f"method='top-down' needs {reason}; use method='wls'.")
        weights = np.zeros((b, a + b))
        weights[:, top[0]] = shares / np.sum(shares)
        return weights
    if method == "ols":
        return projection(sums, np.eye(a + b))
    # Relative spreads, so that squares cannot underflow.
    size = np.max(spreads)
    spreads = spreads / size if size > 0.0 else spreads
    if method == "wls":
        return projection(sums, np.diag(np.square(spreads)))
    return projection(sums, spreads[:, None] * correlation * spreads)


def spreads_of(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Medians and half widths of the 68 % intervals of draws (D, n), (n,) each.

    For a normal distribution, the half width is the sd. It is finite even if the variance is not.
    """
    low, medians, high = np.quantile(draws, SPREAD_PROBABILITIES, axis=0)
    return medians, 0.5 * (high - low)


@dataclass(frozen=True, eq=False)
class Projector:
    """Projection of base draws of all series onto coherent draws.

    Attributes:
        hierarchy: The hierarchy.
        method: A name in `RECONCILIATION_METHODS`.
        nonnegative: Set negative values of bottom series to 0 before they are summed: Di Fonzo and
            Girolimetto (2023), "Spatio-temporal reconciliation of solar forecasts", section 3.2.
    """

    hierarchy: Hierarchy
    method: str
    nonnegative: bool

    def coherent(self, draws: np.ndarray, correlation: np.ndarray) -> np.ndarray:
        """Coherent draws at one time.

        Args:
            draws: Joint draws of the base forecasts of all series, (D, n).
            correlation: Correlation of the errors of the base forecasts, (n, n).

        Returns:
            Shape (D, n): sums equal the sums of their bottom series up to rounding.
        """
        medians, spreads = spreads_of(draws)
        weights = bottom_weights(self.method, self.hierarchy, medians, spreads, correlation)
        bottom = draws @ weights.T
        if self.nonnegative:
            bottom = np.maximum(bottom, 0.0)
        return np.hstack([bottom @ self.hierarchy.sums.T, bottom])
