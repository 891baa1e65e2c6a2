"""The seasonal-naive forecast, a benchmark for other forecasts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri


@dataclass(frozen=True)
class SeasonalNaive:
    """Forecast that repeats the last season, with the sd of past seasonal differences.

    Hyndman and Athanasopoulos (2021), "Forecasting: principles and practice", section 5.5: the sd
    at step h is the sd of the differences times sqrt(k + 1), where k full seasons precede step h.

    Attributes:
        mean: Mean, (horizon,).
        sd: Standard deviation, (horizon,).
        in_sample_mae: Mean absolute seasonal difference, the scale of the MASE.
    """

    mean: np.ndarray
    sd: np.ndarray
    in_sample_mae: float

    @classmethod
    def from_values(cls, values: np.ndarray, horizon: int, season: int) -> SeasonalNaive:
        """Forecast regularly spaced values.

        Args:
            values: Values, (n,), NaN where missing.
            horizon: Number of steps.
            season: Season in steps; 1 for the naive forecast.
        """
        filled = values.copy()
        for i in range(season, len(filled)):
            if np.isnan(filled[i]):
                filled[i] = filled[i - season]
        last_season = filled[-season:]
        last_season = np.where(np.isnan(last_season), np.nanmean(values), last_season)
        steps = np.arange(horizon)
        differences = values[season:] - values[:-season]
        differences = differences[np.isfinite(differences)]
        if len(differences) == 0:
            differences = values[np.isfinite(values)] - np.nanmean(values)
        sd = np.sqrt(np.mean(np.square(differences))) * np.sqrt(steps // season + 1.0)
        return cls(last_season[steps % season], sd, float(np.mean(np.abs(differences))))

    def quantile(self, q: ArrayLike) -> np.ndarray:
        """Quantiles at each step: (horizon,), or (len(q), horizon) for several q."""
        return self.mean + self.sd * ndtri(np.asarray(q))[..., None]

    def log_density(self, y: np.ndarray) -> np.ndarray:
        """Log predictive density of the values y (horizon,), by step."""
        if not np.any(self.sd):
            return np.where(y == self.mean, np.inf, -np.inf)
        z = (y - self.mean) / self.sd
        return -0.5 * z**2 - np.log(self.sd) - 0.5 * np.log(2.0 * np.pi)
