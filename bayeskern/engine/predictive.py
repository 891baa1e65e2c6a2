"""Joint distribution of the next values, at each draw of the hyperparameters.

Its mean and covariance contain all information of the earlier values about later values. An update
with a new value therefore needs no factor of the covariance of the earlier values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayeskern.core.constants import LOG_2PI


@dataclass(frozen=True, eq=False)
class JointPredictive:
    """Joint distribution of new values given earlier values, at S draws.

    y(x) = f(x) + e, with f ~ N(mean, covariance) and e ~ N(0, noise), at each draw.

    Attributes:
        log_densities: Log densities of the earlier values and the hyperparameters, (S,).
        x: Sorted times of new values, (m,); empty if only the log densities are known.
        means: Means of f, (S, m).
        covariances: Covariances of f, (S, m, m).
        noise: Noise variances, (S,).
    """

    log_densities: np.ndarray
    x: np.ndarray
    means: np.ndarray
    covariances: np.ndarray
    noise: np.ndarray

    @classmethod
    def unknown(cls, log_densities: np.ndarray) -> JointPredictive:
        """Log densities (S,) without a distribution of new values."""
        S = len(log_densities)
        return cls(log_densities, np.zeros(0), np.zeros((S, 0)), np.zeros((S, 0, 0)), np.zeros(S))

    def covers(self, x: np.ndarray) -> bool:
        """True if all times x (k,) are times of the distribution."""
        if len(self.x) == 0:
            return False
        return bool(np.all(np.abs(self.x[self._indices(x)] - x) <= self._time_tol))

    def moments(self, rows: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances at times x (k,), for draws `rows`: (len(rows), k) each."""
        columns, rows = self._indices(x), np.asarray(rows)[:, None]
        variances = np.maximum(self.covariances[rows, columns, columns], 0.0)
        return self.means[rows, columns], variances + self.noise[rows]

    def given(self, x: np.ndarray, y: np.ndarray) -> JointPredictive:
        """Distribution of the values after x, given also values y (k,) at times x (k,).

        Rasmussen and Williams (2006), equations 2.25 and 2.26, applied to one value at a time. All
        x must be times of this distribution.
        """
        indices, log_gains = self._indices(x), 0.0
        means, C = self.means, self.covariances
        # Overflow gives the log density -inf, and needs no warning.
        with np.errstate(all="ignore"):
            for index, value in zip(indices, y, strict=True):
                cross, residual = C[:, index], value - means[:, index]
                variance = np.maximum(cross[:, index], 0.0) + self.noise
                log_gains -= 0.5 * (np.square(residual) / variance + np.log(variance) + LOG_2PI)
                weights = cross / variance[:, None]
                means = means + weights * residual[:, None]
                C = C - weights[:, :, None] * cross[:, None]
        densities = self.log_densities + np.where(np.isnan(log_gains), -np.inf, log_gains)
        # Views would keep the memory of earlier times.
        rest = slice(indices[-1] + 1, None)
        means, C = means[:, rest].copy(), C[:, rest, rest].copy()
        return JointPredictive(densities, self.x[rest].copy(), means, C, self.noise)

    def _indices(self, x: np.ndarray) -> np.ndarray:
        """Indices of times x among the times of the distribution."""
        return np.searchsorted(self.x, x - self._time_tol).clip(max=len(self.x) - 1)

    @property
    def _time_tol(self) -> float:
        """Largest rounding error of equal times."""
        return 1e-9 * abs(self.x[-1])
