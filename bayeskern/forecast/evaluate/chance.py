"""Chance that a forecast has a smaller error than repeating the last season."""

from __future__ import annotations

import numpy as np

from bayeskern.forecast.evaluate.rolling_origin import RollingOriginScores
from bayeskern.forecast.evaluate.seasonal_naive import SeasonalNaive
from bayeskern.forecast.model.learned import Reliability
from bayeskern.series.series import Series


def chance_below_naive(
    past: RollingOriginScores | None,
    series: Series,
    season: int,
    quantiles: np.ndarray,
    reliability: Reliability,
) -> float:
    """Probability of a smaller mean absolute error than the seasonal-naive forecast.

    Args:
        past: Scores of the forecasts from earlier origins; None if there are none.
        series: The series.
        season: Season of the seasonal-naive forecast in steps.
        quantiles: Quantiles 0.1, 0.5 and 0.9 of the forecast, (3, horizon).
        reliability: Learned coefficients.

    Returns:
        The probability; NaN without past forecasts, or if these have no errors to compare.
    """
    if past is None or not np.isfinite(past.error_ratio):
        return np.nan
    grid = series.on_grid()
    naive = SeasonalNaive.from_values(grid, quantiles.shape[1], min(season, len(grid) - 1))
    return reliability.chance(past.lost_share, gap_to_naive(quantiles, naive.mean))


def gap_to_naive(quantiles: np.ndarray, naive: np.ndarray) -> float:
    """Mean distance of the median from another forecast, in half widths of 80 % intervals.

    Args:
        quantiles: Quantiles 0.1, 0.5 and 0.9, (3, horizon).
        naive: The other forecast, (horizon,).
    """
    lower, median, upper = quantiles
    half_width = 0.5 * (upper - lower)
    is_wide = half_width > 0.0
    if not np.any(is_wide):
        return 0.0
    return float(np.mean(np.abs(median - naive)[is_wide] / half_width[is_wide]))
