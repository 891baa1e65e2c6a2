"""What is known of the next values, at each of several draws of the hyperparameters, in NumPy.

A normal distribution is conditioned on one more value without the factor of the covariance of
those before: what they say of the next ones is in its mean and its covariance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# Times that differ by less than this share of the last one are rounded from the same one.
SAME = 1e-9
LOG_2PI = float(np.log(2.0 * np.pi))


@dataclass(frozen=True, eq=False)
class JointPredictive:
    """The joint distribution of new values given those before, at S draws of the hyperparameters.

    y(x) = f(x) + e, with f ~ N(mean, covariance) and e ~ N(0, noise), at each draw.

    Attributes:
        log_densities: Of the values before and of the hyperparameters, (S,).
        x: Sorted times of new values, (m,); none where only the log densities are known.
        means: (S, m).
        covariances: Of f, (S, m, m).
        noise: (S,).
    """

    log_densities: np.ndarray
    x: np.ndarray
    means: np.ndarray
    covariances: np.ndarray
    noise: np.ndarray

    @classmethod
    def unknown(cls, log_densities: np.ndarray) -> JointPredictive:
        """That of which only the log densities are known."""
        S = len(log_densities)
        return cls(log_densities, np.zeros(0), np.zeros((S, 0)), np.zeros((S, 0, 0)), np.zeros(S))

    def covers(self, x) -> bool:
        """Whether times x (k,) are all among those here."""
        if len(self.x) == 0:
            return False
        return bool(np.all(np.abs(self.x[self._places(x)] - x) <= self._near))

    def moments(self, rows, x) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of values at times x (k,) among those here: (len(rows), k) each.

        rows: the draws that are asked for.
        """
        at, rows = self._places(x), np.asarray(rows)[:, None]
        variances = np.maximum(self.covariances[rows, at, at], 0.0)
        return self.means[rows, at], variances + self.noise[rows]

    def given(self, x, y) -> JointPredictive:
        """The distribution of later values, given values y at times x (k,) among those here too.

        Rasmussen and Williams (2006), equations 2.25 and 2.26, for one value after the other.
        """
        places, gains = self._places(x), 0.0
        means, C = self.means, self.covariances
        with np.errstate(all="ignore"):
            # What overflows has no density, and that is said by its value.
            for place, value in zip(places, y, strict=True):
                own, residual = C[:, place], value - means[:, place]
                variance = np.maximum(own[:, place], 0.0) + self.noise
                gains -= 0.5 * (np.square(residual) / variance + np.log(variance) + LOG_2PI)
                weights = own / variance[:, None]
                means = means + weights * residual[:, None]
                C = C - weights[:, :, None] * own[:, None]
        densities = self.log_densities + np.where(np.isnan(gains), -np.inf, gains)
        # Copies, so that the memory of what is past is given back.
        later = slice(places[-1] + 1, None)
        means, C = means[:, later].copy(), C[:, later, later].copy()
        return JointPredictive(densities, self.x[later].copy(), means, C, self.noise)

    def _places(self, x) -> np.ndarray:
        """Where times x are among those here."""
        return np.searchsorted(self.x, x - self._near).clip(max=len(self.x) - 1)

    @property
    def _near(self) -> float:
        return SAME * abs(self.x[-1])
