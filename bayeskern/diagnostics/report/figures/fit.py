"""Figures of the fit of a model to its observations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import binom, binomtest

from bayeskern.core.batching import evenly
from bayeskern.core.plotting import BLUE, COLORS, ORANGE
from bayeskern.diagnostics.drawing import kde, within
from bayeskern.diagnostics.report.figures.style import (
    GREY,
    INK,
    legend_above,
    panel,
    points,
)
from bayeskern.diagnostics.report.wording import percent
from bayeskern.forecast.evaluate.scores import COVERAGES


def predictive_check(y: np.ndarray, replicates: np.ndarray, discrete: bool) -> Any:
    """Observed data y (n,) among replicates (S, n) of the model."""
    fig, ax = panel(2.4)
    if discrete and len(np.unique(y)) <= 30 and np.ptp(y) <= 60:
        _counts(ax, y, replicates)
    else:
        _densities(ax, y, replicates)
    legend_above(fig, ax)
    return fig


def _densities(ax, y: np.ndarray, replicates: np.ndarray, max_lines: int = 40) -> None:
    low, high = _shown(y, replicates)
    rows = evenly(len(replicates), max_lines)
    for row in rows:
        inside = within(replicates[row], low, high)
        if len(inside) > 3 and np.ptp(inside) > 0:
            x, density = kde(inside)
            # Values outside keep their share of the area.
            density = density * len(inside) / replicates.shape[1]
            label = "simulated by the model" if row == rows[0] else None
            ax.plot(x, density, color=BLUE, alpha=0.3, linewidth=0.7, label=label)
    if np.ptp(y) > 0:
        ax.plot(*kde(y), color=INK, linewidth=1.8, label="observed")
    ax.set_yticks([])
    ax.set_xlim(low, high)
    ax.set_xlabel(f"value{_beyond(replicates, low, high)}")


def _counts(ax, y: np.ndarray, replicates: np.ndarray, max_bars: int = 60) -> None:
    """Bars of counts; in a wide range several numbers share a bar."""
    first, last = np.round(_shown(y, replicates))
    width = np.ceil((last - first + 1) / max_bars)
    bars = int(np.ceil((last - first + 1) / width))
    centers = first + width * np.arange(bars) + 0.5 * (width - 1)

    def counts(values):
        places = np.floor((within(values, first, last) - first) / width)
        return np.bincount(places.astype(int), minlength=bars)

    by_replicate = np.stack([counts(row) for row in replicates])
    low, median, high = np.quantile(by_replicate, (0.025, 0.5, 0.975), axis=0)
    ax.bar(centers, counts(y), 0.8 * width, color=GREY, alpha=0.45, label="observed")
    error = [median - low, high - median]
    ax.errorbar(centers, median, error, fmt="o", color=BLUE, markersize=4, label="the model, 95 %")
    ax.set_xlabel(f"value{_beyond(replicates, first, last)}")
    ax.set_ylabel("observations")
    ax.yaxis.get_major_locator().set_params(integer=True)
    if bars <= 10 and width == 1:
        ax.set_xticks(centers)


def _shown(y: np.ndarray, replicates: np.ndarray) -> tuple[float, float]:
    """Range of y and of 99 % of the replicates, cut off if their tails are heavy."""
    finite = replicates[np.isfinite(replicates)]
    finite = finite if finite.size else y
    low, q25, q75, high = np.quantile(finite, (0.005, 0.25, 0.75, 0.995))
    pad = 2.0 * max(np.ptp(y), q75 - q25)
    pad = pad if pad > 0.0 else np.inf
    return min(y.min(), max(low, y.min() - pad)), max(y.max(), min(high, y.max() + pad))


def _beyond(replicates: np.ndarray, low: float, high: float) -> str:
    share = float(np.mean((replicates < low) | (replicates > high)))
    return f" ({percent(share)} of the simulated values lie outside)" if share > 0.01 else ""


def residuals(predicted: np.ndarray, y: np.ndarray) -> Any:
    """Residual of each observation, by its prediction."""
    fig, ax = panel(2.4)
    ax.axhline(0.0, color=GREY, linewidth=0.9)
    points(ax, predicted, y - predicted)
    ax.set_xlabel("predicted")
    ax.set_ylabel("observed - predicted")
    return fig


def pit(values: np.ndarray) -> Any:
    """Histogram of the probability integral transform, and the 95 % band if it is uniform."""
    fig, ax = panel(2.1)
    bins = int(np.clip(len(values) // 10, 5, 20))
    low, high = binom.interval(0.95, len(values), 1.0 / bins)
    ax.axhspan(low, high, color=GREY, alpha=0.25, linewidth=0)
    ax.hist(values, bins=np.linspace(0, 1, bins + 1), color=BLUE, alpha=0.6, rwidth=0.94)
    ax.yaxis.get_major_locator().set_params(integer=True)
    ax.set_xlabel("quantile of the observation in its prediction")
    ax.set_ylabel("observations")
    return fig


def coverage(pit_values: np.ndarray) -> Any:
    """Share of observations inside central intervals, by the level of the intervals."""
    fig, ax = panel(2.6)
    levels = np.linspace(0.02, 0.98, 49)
    n = len(pit_values)
    share = np.mean(inside_interval(pit_values[:, None], levels), axis=0)
    low, high = (counts / n for counts in binom.interval(0.95, n, levels))
    ax.fill_between(100 * levels, 100 * low, 100 * high, color=GREY, alpha=0.25, linewidth=0)
    ax.plot([0, 100], [0, 100], color=GREY, linestyle="--", linewidth=0.9)
    ax.plot(100 * levels, 100 * share, color=BLUE)
    ax.set_xlabel("level of the interval, %")
    ax.set_ylabel("observations inside, %")
    return fig


def inside_interval(pit_values: np.ndarray, level: float | np.ndarray) -> np.ndarray:
    """Mask of the observations in their central intervals of a level, by their PIT."""
    return 2.0 * np.abs(pit_values - 0.5) <= level


def coverage_by(predicted: np.ndarray, pit_values: np.ndarray, groups: int) -> Any:
    """Coverage at COVERAGES in groups of equal size by predicted value."""
    fig, ax = panel(2.5)
    parts = np.array_split(np.argsort(predicted, kind="stable"), groups)
    medians = [float(np.median(predicted[part])) for part in parts]
    # Beside one another, so that no bar hides another.
    offset = 0.008 * np.ptp(medians)
    for i, (level, color) in enumerate(zip(COVERAGES, COLORS, strict=False)):
        inside = inside_interval(pit_values, level)
        ax.axhline(100 * level, color=color, linestyle="--", linewidth=0.8)
        _shares(
            ax,
            np.add(medians, (i - 1) * offset),
            [inside[part] for part in parts],
            color=color,
            linewidth=1.0,
            label=f"{100 * level:g} % intervals",
        )
    ax.set_ylim(-4, 104)
    ax.set_xlabel("predicted")
    ax.set_ylabel("observations inside, %")
    legend_above(fig, ax)
    return fig


def _shares(ax, x: Sequence[float] | np.ndarray, groups: list, **options) -> None:
    """Share of true values in each group in %, with the interval of Clopper and Pearson."""
    shares = np.array([group.mean() for group in groups])
    tests = [binomtest(int(group.sum()), len(group)) for group in groups]
    ends = np.array([test.proportion_ci(0.95) for test in tests]).T
    error = 100 * np.abs(ends - shares)
    ax.errorbar(x, 100 * shares, error, fmt="o-", markersize=4, **options)


def khat(values: np.ndarray, threshold: float) -> Any:
    """Pareto k-hat of each observation, and its threshold."""
    fig, ax = panel(2.2)
    at = np.arange(len(values))
    high = values > threshold
    ax.axhline(threshold, color=GREY, linestyle="--", linewidth=0.9)
    points(ax, at[~high], values[~high], label="good")
    if high.any():
        points(ax, at[high], values[high], ORANGE, size=16, alpha=1.0, label="too influential")
        legend_above(fig, ax)
    ax.set_xlabel("observation")
    ax.set_ylabel("Pareto k-hat")
    return fig


def calibration(chance: np.ndarray, y: np.ndarray) -> Any:
    """Frequency of a class by its predicted probability, in groups of about equal size."""
    fig, ax = panel(2.8)
    groups = int(np.clip(len(y) // 12, 3, 10))
    parts = [p for p in np.array_split(np.argsort(chance, kind="stable"), groups) if len(p)]
    ax.plot([0, 100], [0, 100], color=GREY, linestyle="--", linewidth=0.9)
    _shares(ax, [100 * float(chance[p].mean()) for p in parts], [y[p] for p in parts], color=BLUE)
    ax.set_xlabel("predicted probability, %")
    ax.set_ylabel("observed frequency, %")
    ax.set_xlim(-3, 103)
    ax.set_ylim(-3, 103)
    return fig
