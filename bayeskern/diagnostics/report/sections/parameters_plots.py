"""Pictures of parameters: priors, posteriors over them, intervals, pairs."""

from __future__ import annotations

import numpy as np

from bayeskern.core.formatting import short
from bayeskern.core.plotting import figure
from bayeskern.diagnostics.report.priors import Density, kde
from bayeskern.diagnostics.report.style import BLUE, GREY, ORANGE, WIDTH, below, panels, points

# So many panels, rows of a forest, sides of a pair plot, and dots in it.
MOST, ROWS, SIDES, DOTS = 12, 40, 4, 1500
SHOWN = (0.002, 0.998)
INTERVALS = (0.025, 0.25, 0.5, 0.75, 0.975)


def densities(found: list[Density]):
    made, axes = panels(len(found), columns=3, height=1.5)
    for axis, one in zip(axes, found, strict=True):
        _curve(axis, one.x, one.y, GREY)
        _titled(axis, one.name)
    return made


def against_prior(draws: dict[str, np.ndarray], priors: dict[str, Density]):
    """The posterior of each number (S,), and its prior where there is one."""
    made, axes = panels(len(draws), columns=3, height=1.5)
    for axis, (name, x) in zip(axes, draws.items(), strict=True):
        low, high = np.quantile(x, SHOWN)
        inside = x[(x >= low) & (x <= high)]
        grid, y = kde(inside)
        _curve(axis, grid, y, BLUE, "posterior")
        if name in priors:
            prior = priors[name]
            pad = 1.5 * (high - low)
            near = (prior.x > low - pad) & (prior.x < high + pad)
            axis.plot(prior.x[near], prior.y[near], color=GREY, linestyle="--", label="prior")
        _titled(axis, name)
    shown = next((a for a in axes if len(a.get_legend_handles_labels()[0]) > 1), axes[0])
    below(made, shown)
    return made


def forest(rows: dict[str, np.ndarray]):
    """Median, 50 % and 95 % interval of each number (S,)."""
    groups = _by_size(rows)
    heights = [len(names) + 1.5 for names in groups]
    made = figure((WIDTH, 0.3 + 0.21 * sum(heights)))
    axes = made.subplots(len(groups), 1, squeeze=False, height_ratios=heights).ravel()
    for axis, names in zip(axes, groups, strict=True):
        for i, name in enumerate(names):
            low, q25, median, q75, high = np.quantile(rows[name], INTERVALS)
            axis.plot([low, high], [i, i], color=BLUE, linewidth=1.1)
            axis.plot([q25, q75], [i, i], color=BLUE, linewidth=3.2)
            axis.plot([median], [i], "o", color=BLUE, markersize=4.0, markeredgecolor="#ffffff")
        axis.set_yticks(range(len(names)), [short(name, 28) for name in names], fontsize=8.5)
        axis.set_ylim(len(names) - 0.4, -0.6)
        axis.tick_params(axis="y", length=0)
        axis.grid(axis="y", visible=False)
    return made


def _by_size(rows: dict[str, np.ndarray]) -> list[list[str]]:
    """Names together whose values are of one order, so that none is squeezed to a dot."""
    groups: dict[int, list[str]] = {}
    for name, x in rows.items():
        size = np.max(np.abs(np.quantile(x, INTERVALS)))
        groups.setdefault(int(np.round(np.log10(max(size, 1e-300)) / 1.5)), []).append(name)
    return list(groups.values())


def pairs(columns: dict[str, np.ndarray], diverging: np.ndarray | None):
    """Each number against each other one; divergent draws marked. columns: (S,) each."""
    names = list(columns)
    n = len(names)
    made, axes = panels(n * n, columns=n, height=min(1.5, WIDTH / n))
    bad = np.zeros(len(columns[names[0]]), bool) if diverging is None else diverging
    keep = np.linspace(0, len(bad) - 1, min(len(bad), DOTS)).round().astype(int)
    for i, row in enumerate(names):
        for j, column in enumerate(names):
            axis = axes[n * i + j]
            axis.tick_params(labelsize=7)
            axis.grid(visible=False)
            axis.locator_params(nbins=3)
            if j > i:
                axis.set_visible(False)
                continue
            x, y = columns[column], columns[row]
            if i == j:
                inside = x[(x >= np.quantile(x, SHOWN[0])) & (x <= np.quantile(x, SHOWN[1]))]
                _curve(axis, *kde(inside), BLUE)
                axis.set_yticks([])
            else:
                points(axis, x[keep], y[keep], size=3, alpha=0.35)
                if bad.any():
                    points(axis, x[bad], y[bad], ORANGE, size=12, alpha=1.0)
            if i == j:
                axis.set_title(short(row, 18), fontsize=8)
            if i == n - 1:
                axis.set_xlabel(short(column, 18), fontsize=8)
            if j == 0 and i > 0:
                axis.set_ylabel(short(row, 18), fontsize=8)
    return made


def _curve(axis, x, y, colour, label=None) -> None:
    axis.plot(x, y, color=colour, label=label)
    axis.fill_between(x, y, color=colour, alpha=0.13, linewidth=0)


def _titled(axis, name: str) -> None:
    axis.set_title(short(name, 24), fontsize=8.5)
    axis.set_yticks([])
    axis.set_ylim(bottom=0.0)
    axis.spines["left"].set_visible(False)
    axis.grid(visible=False)
    axis.locator_params(axis="x", nbins=4)
    axis.tick_params(labelsize=8)
