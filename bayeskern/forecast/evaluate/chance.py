"""Chance that a forecast has a smaller error than repeating the last season.

Coverage of past intervals is not a part of it: their width already follows past errors, and on
series that were left out of the learning, past coverage said nothing about the next window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayeskern.forecast.evaluate.seasonal_naive import SeasonalNaive

if TYPE_CHECKING:
    from bayeskern.forecast.result import Forecast


def chance_below_naive(f: Forecast) -> float:
    """Probability of a smaller mean absolute error than the seasonal-naive forecast.

    NaN without past forecasts, or if these have no errors to compare.
    """
    past = f.past_scores
    if past is None or not np.isfinite(past.error_ratio):
        return np.nan
    grid = f.series.on_grid()
    naive = SeasonalNaive.of(grid, f.horizon, min(f.season_in_steps, len(grid) - 1))
    gap = gap_to_naive(f.quantile([0.1, 0.5, 0.9]), naive.mean)
    return f.choices.learned.reliability.chance(past.lost_share, gap)


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
