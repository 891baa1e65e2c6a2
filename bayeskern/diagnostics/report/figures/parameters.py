"""Figures of parameters: priors, posteriors, intervals, pairs."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayeskern.core.batching import evenly
from bayeskern.core.formatting import short
from bayeskern.core.plotting import BLUE, ORANGE, figure
from bayeskern.diagnostics.drawing import interval, kde, within
from bayeskern.diagnostics.report.figures.style import (
    GREY,
    WIDTH,
    curve,
    legend_above,
    panels,
    points,
    title,
)
from bayeskern.diagnostics.report.priors import DensityCurve


def densities(curves: list[DensityCurve]) -> Any:
    """A panel for each density."""
    fig, axes = panels(len(curves), columns=3, height=1.5)
    for ax, density in zip(axes, curves, strict=True):
        curve(ax, density.x, density.y, GREY)
        _density_panel(ax, density.name)
    return fig


def against_prior(draws: dict[str, np.ndarray], priors: dict[str, DensityCurve]) -> Any:
    """Posterior density of each parameter from draws (S,), and its prior if available."""
    fig, axes = panels(len(draws), columns=3, height=1.5)
    for ax, (name, x) in zip(axes, draws.items(), strict=True):
        low, high = np.quantile(x, (0.002, 0.998))
        curve(ax, *kde(within(x, low, high)), BLUE, "posterior")
        if name in priors:
            prior = priors[name]
            pad = 1.5 * (high - low)
            shown = (prior.x > low - pad) & (prior.x < high + pad)
            ax.plot(prior.x[shown], prior.y[shown], color=GREY, linestyle="--", label="prior")
        _density_panel(ax, name)
    with_prior = (ax for ax in axes if len(ax.get_legend_handles_labels()[0]) > 1)
    legend_above(fig, next(with_prior, axes[0]))
    return fig


def _density_panel(ax, name: str) -> None:
    title(ax, name)
    ax.set_yticks([])
    ax.set_ylim(bottom=0.0)
    ax.spines["left"].set_visible(False)
    ax.grid(visible=False)
    ax.locator_params(axis="x", nbins=4)
    ax.tick_params(labelsize=8)


def forest(draws: dict[str, np.ndarray]) -> Any:
    """Median, 50 % and 95 % interval of each parameter from draws (S,)."""
    levels = (0.025, 0.25, 0.5, 0.75, 0.975)
    quantiles = {name: np.quantile(x, levels) for name, x in draws.items()}
    groups = _by_size(quantiles)
    heights = [len(names) + 1.5 for names in groups]
    fig = figure((WIDTH, 0.3 + 0.21 * sum(heights)))
    axes = fig.subplots(len(groups), 1, squeeze=False, height_ratios=heights).ravel()
    for ax, names in zip(axes, groups, strict=True):
        for i, name in enumerate(names):
            interval(ax, i, quantiles[name], BLUE)
        ax.set_yticks(range(len(names)), [short(name, 28) for name in names], fontsize=8.5)
        ax.set_ylim(len(names) - 0.4, -0.6)
        ax.tick_params(axis="y", length=0)
        ax.grid(axis="y", visible=False)
    return fig


def _by_size(quantiles: dict[str, np.ndarray]) -> list[list[str]]:
    """Names grouped by the magnitude of their values, so that no interval shrinks to a dot."""
    groups: dict[int, list[str]] = {}
    for name, values in quantiles.items():
        size = np.max(np.abs(values))
        groups.setdefault(int(np.round(np.log10(max(size, 1e-300)) / 1.5)), []).append(name)
    return list(groups.values())


def pairs(columns: dict[str, np.ndarray], diverging: np.ndarray | None) -> Any:
    """Draws (S,) of each parameter against each other one; divergent draws are marked."""
    names = list(columns)
    n = len(names)
    fig, axes = panels(n * n, columns=n, height=min(1.5, WIDTH / n))
    for i, row in enumerate(names):
        for j, column in enumerate(names):
            ax = axes[n * i + j]
            ax.tick_params(labelsize=7)
            ax.grid(visible=False)
            ax.locator_params(nbins=3)
            if j > i:
                ax.set_visible(False)
            elif i == j:
                x = columns[column]
                curve(ax, *kde(within(x, *np.quantile(x, (0.002, 0.998)))), BLUE)
                ax.set_yticks([])
                ax.set_title(short(row, 18), fontsize=8)
            else:
                _pair(ax, columns[column], columns[row], diverging)
            if i == n - 1:
                ax.set_xlabel(short(column, 18), fontsize=8)
            if j == 0 and i > 0:
                ax.set_ylabel(short(row, 18), fontsize=8)
    return fig


def _pair(ax, x: np.ndarray, y: np.ndarray, diverging: np.ndarray | None) -> None:
    keep = evenly(len(x), 1500)
    points(ax, x[keep], y[keep], size=3, alpha=0.35)
    if diverging is not None:
        points(ax, x[diverging], y[diverging], ORANGE, size=12, alpha=1.0)
