"""Posterior of the weights of a basis, and log marginal likelihood."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from bayeskern.forecast.history.filtered_statistics import FilteredStatistics, StatisticsSlopes
from bayeskern.gp.time_series.predictive import LOG_2PI
from bayeskern.linalg import lapack


class BasisPosterior:
    """Posterior of w in y = X w + u + e, and log p(y), at one D and noise variance.

    The prior is w ~ N(0, D), and u + e has the covariance noise T (`filtered_statistics`). With
    A = X' T^-1 X, b = X' T^-1 y and B = noise I + D^1/2 A D^1/2 = L L': the posterior of w is
    N(D^1/2 B^-1 D^1/2 b, noise D^1/2 B^-1 D^1/2). Rasmussen and Williams (2006), section 2.1.1 and
    equations A.9 and A.10.

    Attributes:
        log_marginal: log p(y); -inf if B cannot be factored.
        mean: Posterior mean of w, (m,).
    """

    def __init__(self, statistics: FilteredStatistics, variances: np.ndarray, noise: float):
        """Factor B.

        Args:
            statistics: Sufficient statistics for T.
            variances: Diagonal of D, (m,).
            noise: Noise variance.
        """
        self.statistics, self.noise = statistics, noise
        self._roots, m = np.sqrt(variances), len(variances)
        B = self._roots[:, None] * statistics.gram[:m, :m] * self._roots
        B.ravel()[:: m + 1] += noise
        self._factor = lapack.cholesky(B)
        target = self._roots * statistics.gram[:m, m]
        self._scaled = lapack.solve(self._factor, target)
        self.mean = self._roots * self._scaled
        self._quadratic = (statistics.gram[m, m] - target @ self._scaled) / noise
        log_det = 2.0 * np.log(np.diag(self._factor)).sum() + statistics.log_det
        log_det += (statistics.n - m) * np.log(noise)
        value = -0.5 * (self._quadratic + log_det + statistics.n * LOG_2PI)
        self.log_marginal = float(value) if np.isfinite(value) else -np.inf

    @cached_property
    def _inverse(self) -> np.ndarray:
        """B^-1: (m, m)."""
        return lapack.inverse(self._factor.copy(order="F"))

    @property
    def slopes_in_variances(self) -> np.ndarray:
        """Derivatives of log p(y) in log d_j: (m,)."""
        return 0.5 * (np.square(self._scaled) - 1.0 + self.noise * np.diag(self._inverse))

    @property
    def slope_in_noise(self) -> float:
        """Derivative of log p(y) in the log noise variance at fixed T."""
        # The derivative in log c, with c times the covariance K of y, is (y' K^-1 y - n) / 2.
        return 0.5 * (self._quadratic - self.statistics.n) - self.slopes_in_variances.sum()

    @property
    def information(self) -> np.ndarray:
        """Expected information on log d_1, ..., log d_m and the log noise: (m + 1, m + 1).

        Elements tr(K^-1 dK_i K^-1 dK_j) / 2, with derivatives dK in the logarithms at fixed T.
        """
        m, inverse = len(self.mean), self.noise * self._inverse
        squares = np.square(inverse).sum(axis=1)
        information = np.empty((m + 1, m + 1))
        information[:m, :m] = np.square(np.eye(m) - inverse)
        information[m, :m] = information[:m, m] = np.diag(inverse) - squares
        information[m, m] = self.statistics.n - m + squares.sum()
        return 0.5 * information

    def slopes_in_residual(self, slopes: StatisticsSlopes) -> np.ndarray:
        """Derivatives of log p(y) in log l and log q: (2,)."""
        m = len(self.mean)
        spread = self._roots[:, None] * self._inverse * self._roots
        residual = np.append(-self.mean, 1.0)
        quadratic = np.einsum("i,kij,j->k", residual, slopes.gram, residual) / self.noise
        trace = np.einsum("ij,kij->k", spread, slopes.gram[:, :m, :m])
        return -0.5 * (slopes.log_det + trace + quadratic)

    def half(self, rows: np.ndarray) -> np.ndarray:
        """H (m, k) with H' H = posterior covariance of rows @ w, for rows (k, m)."""
        solved = lapack.solve_lower(self._factor, (rows * self._roots).T)
        solved *= np.sqrt(self.noise)
        return solved

    def root(self, rows: np.ndarray) -> np.ndarray:
        """R (k, k) with R' R = posterior covariance of rows @ w, for few rows (k, m)."""
        return np.linalg.qr(self.half(rows), "r")

    def variance(self, rows: np.ndarray) -> np.ndarray:
        """Posterior variance (k,) of rows @ w, for rows (k, m), in chunks of rows."""
        chunks = [rows[i : i + 4096] for i in range(0, max(len(rows), 1), 4096)]
        return np.concatenate([np.square(self.half(chunk)).sum(axis=0) for chunk in chunks])
