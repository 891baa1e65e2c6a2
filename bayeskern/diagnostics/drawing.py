"""What figures of comparisons, calibrations and reports share: densities, intervals."""

from __future__ import annotations

import numpy as np

from bayeskern.core.batching import evenly

# ArviZ computes a density at 512 points, four times as many as a small figure can show.
DENSITY_POINTS = 128


def within(x: np.ndarray, low: float, high: float) -> np.ndarray:
    """The values of x between low and high, both included."""
    return x[(x >= low) & (x <= high)]


def kde(x) -> tuple[np.ndarray, np.ndarray]:
    """A kernel density estimate from draws (S,): the grid, and the density there."""
    # Here, since arviz takes a while to import.
    from arviz_stats.base import array_stats

    grid, density, *_ = array_stats.kde(np.asarray(x, float))
    keep = evenly(len(grid), DENSITY_POINTS)
    return grid[keep], density[keep]


def interval(ax, row: float, quantiles, color: str) -> None:
    """A thin line, a thick line and a dot at height `row`: an interval in an interval, the median.

    quantiles: five of them, in ascending order.
    """
    low, lower, median, upper, high = quantiles
    ax.plot([low, high], [row, row], color=color, linewidth=1.2)
    ax.plot([lower, upper], [row, row], color=color, linewidth=3.4)
    ax.plot([median], [row], "o", color=color, markersize=4.3, markeredgecolor="#ffffff")
