"""The seasonal-naive forecast, which any other should beat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri


@dataclass(frozen=True)
class SeasonalNaive:
    """The value one season ago, with the spread of past seasonal differences.

    Hyndman and Athanasopoulos (2021), Forecasting: Principles and Practice, section 5.5: the sd of
    the step h is that of the differences times sqrt(k + 1), with k the full seasons before h.

    Attributes:
        mean: The forecast, shape (horizon,).
        sd: Its standard deviation, shape (horizon,).
        in_sample_mae: The mean absolute seasonal difference, the scale of the MASE.
    """

    mean: np.ndarray
    sd: np.ndarray
    in_sample_mae: float

    @classmethod
    def of(cls, values: np.ndarray, horizon: int, season: int) -> SeasonalNaive:
        """values: regular, NaN where missing; season: in steps, 1 for the plain naive forecast."""
        filled = values.copy()
        for i in range(season, len(filled)):
            if np.isnan(filled[i]):
                filled[i] = filled[i - season]
        last_season = filled[-season:]
        last_season = np.where(np.isnan(last_season), np.nanmean(values), last_season)
        steps = np.arange(horizon)
        differences = seasonal_differences(values, season)
        if len(differences) == 0:
            differences = values[np.isfinite(values)] - np.nanmean(values)
        spread = np.sqrt(np.mean(np.square(differences)))
        sd = spread * np.sqrt(steps // season + 1.0)
        return cls(last_season[steps % season], sd, float(np.mean(np.abs(differences))))

    def quantile(self, q) -> np.ndarray:
        """Quantiles at each step: (horizon,), or (len(q), horizon) for several."""
        return self.mean + self.sd * ndtri(np.asarray(q))[..., None]

    def log_density(self, y) -> np.ndarray:
        """Log predictive density of the values y (horizon,): (horizon,)."""
        if not np.any(self.sd):
            return np.where(y == self.mean, np.inf, -np.inf)
        z = (y - self.mean) / self.sd
        return -0.5 * z**2 - np.log(self.sd) - 0.5 * np.log(2.0 * np.pi)


def seasonal_differences(values: np.ndarray, season: int) -> np.ndarray:
    """y_t - y_(t - season), where both are there."""
    differences = values[season:] - values[:-season]
    return differences[np.isfinite(differences)]
