"""Predictions that are Student t: what a conjugate linear regression says of new observations."""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np
from scipy.special import gammaln, stdtrit

from bayeskern.core import validation
from bayeskern.prediction.mixture import Prediction


class StudentPrediction(Prediction):
    """The predictive distribution at m points as a Student t, in closed form.

    Its variance is infinite for df <= 2.

    Args:
        df: The degrees of freedom.
        mean: The locations, shape (m,).
        scale: The scales, shape (m,); not the standard deviations.
        draw: (key, n) -> joint draws, shape (n, m).

    References:
        Gelman et al. (2013), Bayesian Data Analysis, section 14.2.
    """

    def __init__(self, df: float, mean, scale, draw: Callable[[jax.Array, int], np.ndarray]):
        self.df, self.scale = float(df), np.asarray(scale)
        mean = np.asarray(mean)
        super().__init__(lambda: mean[None], self._moments_of_one, draw)

    def _moments_of_one(self):
        factor = self.df / (self.df - 2.0) if self.df > 2.0 else np.inf
        return self.mean[None], factor * np.square(self.scale)[None]

    def log_density(self, y) -> np.ndarray:
        """The log predictive density of new values y (m,), point by point: (m,)."""
        df, z = (
            self.df,
            (np.asarray(validation.targets(y, len(self.scale))) - self.mean) / self.scale,
        )
        log_constant = gammaln(0.5 * (df + 1.0)) - gammaln(0.5 * df) - 0.5 * np.log(df * np.pi)
        return log_constant - np.log(self.scale) - 0.5 * (df + 1.0) * np.log1p(np.square(z) / df)

    def _quantile(self, p: float) -> np.ndarray:
        return self.mean + self.scale * stdtrit(self.df, p)
