"""Marginals of several posteriors over one another, and their intervals."""

from __future__ import annotations

import numpy as np

from bayeskern.core.formatting import short
from bayeskern.core.plotting import figure

# So many parameters are shown, unless others are asked for.
MOST = 10
# Colours that people who see red and green alike can tell apart (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
# So many letters of a name, and points of a density.
LETTERS, POINTS = 20, 128
# What the densities show: the rest of a heavy tail would squeeze them to a line.
SHOWN = (0.002, 0.998)


def marginals(numbers: dict[str, dict[str, np.ndarray]], parameters: list[str]):
    """A row for each parameter: densities on the left, 50 % and 90 % intervals on the right.

    numbers: the draws (S,) of each parameter, by posterior.
    """
    from matplotlib.lines import Line2D

    names = list(numbers)
    labels = [short(name, LETTERS) for name in names]
    height = 0.9 + len(parameters) * max(0.85, 0.18 * len(names) + 0.35)
    made = figure((8.0, height))
    rows = made.subplots(len(parameters), 2, squeeze=False, width_ratios=(3, 2))
    for (left, right), parameter in zip(rows, parameters, strict=True):
        known = {n: numbers[n][parameter] for n in names if parameter in numbers[n]}
        limits = _limits(known)
        for i, name in enumerate(names):
            if name in known:
                colour = COLOURS[i % len(COLOURS)]
                _density(left, known[name], limits, colour)
                _interval(right, known[name], i, colour)
        for axis in (left, right):
            axis.set_xlim(*limits)
            axis.spines[["top", "right", "left"]].set_visible(False)
            axis.tick_params(labelsize=8)
            axis.locator_params(axis="x", nbins=6)
        left.set_yticks([])
        left.set_ylim(bottom=0.0)
        left.set_ylabel(
            short(parameter, LETTERS),
            rotation=0,
            ha="right",
            va="center",
            fontsize=9,
            parse_math=False,
        )
        right.set_yticks(range(len(names)), labels, fontsize=8)
        for label in right.get_yticklabels():
            label.set_parse_math(False)
        right.set_ylim(len(names) - 0.4, -0.6)
        right.tick_params(axis="y", length=0)
    # Of all, for a parameter need not be there in each.
    handles = [
        Line2D([], [], color=COLOURS[i % len(COLOURS)], linewidth=1.5, label=label)
        for i, label in enumerate(labels)
    ]
    columns = 3 if max(map(len, labels)) > LETTERS // 2 else 6
    legend = made.legend(
        handles=handles,
        loc="outside upper center",
        ncols=min(len(names), columns),
        fontsize=8,
        frameon=False,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
    return made


def _limits(known) -> tuple[float, float]:
    ends = np.array([np.quantile(x, SHOWN) for x in known.values()])
    # One posterior that is far too wide must not hide the others.
    low, high = np.median(ends, axis=0)
    low, high = (
        min(low, *ends[:, 0][ends[:, 0] > low - 2 * (high - low)], low),
        max(high, *ends[:, 1][ends[:, 1] < high + 2 * (high - low)], high),
    )
    pad = 0.03 * (high - low) or 0.5 * abs(low) or 0.5
    return low - pad, high + pad


def _density(axis, x, limits, colour) -> None:
    from arviz_stats.base import array_stats

    if np.ptp(x) == 0:
        axis.axvline(x[0], color=colour, linewidth=1.5)
        return
    inside = x[(x >= limits[0]) & (x <= limits[1])]
    if len(inside) < 10:
        return
    grid, density, *_ = array_stats.kde(inside)
    keep = np.linspace(0, len(grid) - 1, min(len(grid), POINTS)).round().astype(int)
    grid, density = grid[keep], density[keep]
    share = len(inside) / len(x)
    axis.plot(grid, share * density, color=colour, linewidth=1.5)
    axis.fill_between(grid, share * density, color=colour, alpha=0.08, linewidth=0)


def _interval(axis, x, row, colour) -> None:
    q05, q25, q50, q75, q95 = np.quantile(x, (0.05, 0.25, 0.5, 0.75, 0.95))
    axis.plot([q05, q95], [row, row], color=colour, linewidth=1.2)
    axis.plot([q25, q75], [row, row], color=colour, linewidth=3.5)
    axis.plot([q50], [row], "o", color=colour, markersize=4.5, markeredgecolor="white")
