"""Densities and intervals in figures of comparisons and reports."""

from __future__ import annotations

import numpy as np

from bayeskern.core.batching import evenly


def within(x: np.ndarray, low: float, high: float) -> np.ndarray:
    """Values of x from low to high, both included."""
    return x[(x >= low) & (x <= high)]


def kde(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Kernel density estimate from draws (S,): a grid, and the density on it."""
    from arviz_stats.base.array import array_stats  # slow to import

    grid, density, *_ = array_stats.kde(np.asarray(x, float))
    # ArviZ computes 512 points; a small figure shows a quarter of them.
    keep = evenly(len(grid), 128)
    return grid[keep], density[keep]


def interval(ax, row: float, quantiles: np.ndarray, color: str) -> None:
    """Two nested intervals (thin and thick lines) and the median (a dot) at height `row`.

    quantiles: five quantiles in ascending order.
    """
    low, lower, median, upper, high = quantiles
    ax.plot([low, high], [row, row], color=color, linewidth=1.2)
    ax.plot([lower, upper], [row, row], color=color, linewidth=3.4)
    ax.plot([median], [row], "o", color=color, markersize=4.3, markeredgecolor="#ffffff")
