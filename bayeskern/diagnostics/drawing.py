"""Densities and intervals in figures of comparisons and reports."""

from __future__ import annotations

import numpy as np

from bayeskern.core.batching import evenly


def density(x: np.ndarray, low: float, high: float) -> tuple[np.ndarray, np.ndarray] | None:
    """Kernel density estimate of draws x (S,) between `low` and `high`.

    Returns a grid and the density on it, whose integral is the share of the draws between `low` and
    `high`; or None if there are fewer than four such draws, or they do not vary.
    """
    inside = x[(x >= low) & (x <= high)]
    if len(inside) < 4 or np.ptp(inside) == 0:
        return None
    from arviz_stats.base.array import array_stats  # slow to import

    grid, y, *_ = array_stats.kde(np.asarray(inside, float))
    # ArviZ computes 512 points; a small figure shows a quarter of them.
    keep = evenly(len(grid), 128)
    return grid[keep], y[keep] * (len(inside) / len(x))


def interval(ax, row: float, quantiles: np.ndarray, color: str) -> None:
    """Draw nested intervals (thin, thick line) and the median (dot) at height `row`.

    quantiles: Ends of the intervals and the median, in ascending order, (5,).
    """
    low, lower, median, upper, high = quantiles
    ax.plot([low, high], [row, row], color=color, linewidth=1.2)
    ax.plot([lower, upper], [row, row], color=color, linewidth=3.4)
    ax.plot([median], [row], "o", color=color, markersize=4.3, markeredgecolor="#ffffff")
