"""The scale of the intervals: a prior from many series, updated by the residuals of this one.

A standardised error of a forecast is c e with e ~ N(0, 1) and c^2 ~ inverse gamma. The errors of
forecasts from earlier origins update that prior, each counting for a share, since they go together
and were made at hyperparameters that had seen them. So an error to come has a Student t
distribution: Gelman et al. (2013), "Bayesian data analysis", section 2.6.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from bayeskern.forecast.model.learned import Width

# Residuals count as no further off than this, in sds: one wild value is no scale.
MAX_RESIDUAL = 5.0


@dataclass(frozen=True, eq=False)
class Spread:
    """Student's t distribution of standardised errors, by step.

    Attributes:
        scales: Of each step, (m,).
        degrees: Degrees of freedom; infinite for a normal distribution.
    """

    scales: np.ndarray
    degrees: float = np.inf

    @classmethod
    def normal(cls, count: int) -> Spread:
        """Errors as the models say, at so many steps."""
        return cls(np.ones(count))

    @classmethod
    def of(cls, width: Width, residuals: np.ndarray, steps: np.ndarray) -> Spread:
        """The posterior, given standardised residuals (N,) of earlier forecasts.

        Args:
            width: The prior.
            residuals: Normal scores of what came true, under the forecasts from earlier origins.
            steps: How many steps ahead the new forecasts are, from 0 on: (m,).
        """
        r = np.clip(residuals, -MAX_RESIDUAL, MAX_RESIDUAL)
        degrees = width.degrees + width.share * len(r)
        squares = width.degrees * np.exp(2.0 * width.log_scale) + width.share * np.sum(r**2)
        through = np.minimum(steps / max(1.0, width.horizon - 1.0), 1.0)
        return cls(np.sqrt(squares / degrees) * np.exp(width.growth * through), float(degrees))

    def at(self, steps) -> Spread:
        """That of some of the steps, by their places: (k,)."""
        return Spread(self.scales[steps], self.degrees)

    def errors(self, q) -> np.ndarray:
        """Quantiles of the errors of scale one, for probabilities q: of their shape."""
        return ndtri(q) if np.isinf(self.degrees) else stdtrit(self.degrees, q)

    def probabilities(self, errors) -> np.ndarray:
        """The distribution function of the errors of scale one."""
        return ndtr(errors) if np.isinf(self.degrees) else stdtr(self.degrees, errors)
