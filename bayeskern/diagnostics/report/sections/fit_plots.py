"""Figures of how well a model predicts its observations."""

from __future__ import annotations

import numpy as np
from scipy.special import bdtrik, betaincinv

from bayeskern.core.batching import evenly
from bayeskern.core.plotting import BLUE, ORANGE
from bayeskern.diagnostics.drawing import kde, within
from bayeskern.diagnostics.report.style import (
    GREY,
    INK,
    LEVELS,
    SERIES,
    legend_above,
    panels,
    points,
)
from bayeskern.diagnostics.report.wording import percent

REPLICATES = 40
# The quantiles of the replicates between which they are shown.
CENTRAL = (0.005, 0.995)
# Bars of counts; whole numbers of a wider range share them.
MAX_BARS = 60


def predictive_check(y, replicates, discrete: bool):
    """The observed data among data sets that the model would make: y (n,), replicates (S, n)."""
    fig, (ax,) = panels(1, height=2.4)
    if discrete and len(np.unique(y)) <= 30 and np.ptp(y) <= 60:
        _counts(ax, y, replicates)
    else:
        _densities(ax, y, replicates)
    legend_above(fig, ax)
    return fig


def _densities(ax, y, replicates) -> None:
    low, high = _shown(y, replicates)
    rows = evenly(len(replicates), REPLICATES)
    for row in rows:
        inside = within(replicates[row], low, high)
        if len(inside) > 3 and np.ptp(inside) > 0:
            x, density = kde(inside)
            # What is not shown keeps its share of the area.
            density = density * len(inside) / replicates.shape[1]
            label = "data that the model would make" if row == rows[0] else None
            ax.plot(x, density, color=BLUE, alpha=0.3, linewidth=0.7, label=label)
    if np.ptp(y) > 0:
        ax.plot(*kde(y), color=INK, linewidth=1.8, label="observed")
    ax.set_yticks([])
    ax.set_xlim(low, high)
    ax.set_xlabel(f"value{_beyond(replicates, low, high)}")


def _counts(ax, y, replicates) -> None:
    first, last = np.round(_shown(y, replicates))
    width = np.ceil((last - first + 1) / MAX_BARS)
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


def _shown(y, replicates) -> tuple[float, float]:
    """Where the replicates lie, but not so far from y that y becomes a line: tails may be heavy."""
    finite = replicates[np.isfinite(replicates)]
    finite = finite if finite.size else y
    low, q25, q75, high = np.quantile(finite, (CENTRAL[0], 0.25, 0.75, CENTRAL[1]))
    pad = 2.0 * max(np.ptp(y), q75 - q25)
    pad = pad if pad > 0.0 else np.inf
    return min(y.min(), max(low, y.min() - pad)), max(y.max(), min(high, y.max() + pad))


def _beyond(replicates, low, high) -> str:
    share = float(np.mean((replicates < low) | (replicates > high)))
    return f" ({percent(share)} of what the model would make lies beyond)" if share > 0.01 else ""


def residuals(predicted, y):
    """What is left of each observation, by its prediction."""
    fig, (ax,) = panels(1, height=2.4)
    ax.axhline(0.0, color=GREY, linewidth=0.9)
    points(ax, predicted, y - predicted)
    ax.set_xlabel("predicted")
    ax.set_ylabel("observed - predicted")
    return fig


def pit(values):
    """A histogram of the probability integral transform, and the 95 % band of an even one."""
    fig, (ax,) = panels(1, height=2.1)
    bins = int(np.clip(len(values) // 10, 5, 20))
    low, high = _binomial_quantiles(len(values), 1.0 / bins)
    ax.axhspan(low, high, color=GREY, alpha=0.25, linewidth=0)
    ax.hist(values, bins=np.linspace(0, 1, bins + 1), color=BLUE, alpha=0.6, rwidth=0.94)
    ax.yaxis.get_major_locator().set_params(integer=True)
    ax.set_xlabel("where the observation lies in its prediction (0: below all, 1: above all)")
    ax.set_ylabel("observations")
    return fig


def coverage(pit_values):
    """The share of observations inside central intervals, by their level."""
    fig, (ax,) = panels(1, height=2.6)
    levels = np.linspace(0.02, 0.98, 49)
    n = len(pit_values)
    share = np.mean(inside_interval(pit_values[:, None], levels), axis=0)
    low, high = (counts / n for counts in _binomial_quantiles(n, levels))
    ax.fill_between(100 * levels, 100 * low, 100 * high, color=GREY, alpha=0.25, linewidth=0)
    ax.plot([0, 100], [0, 100], color=GREY, linestyle="--", linewidth=0.9)
    ax.plot(100 * levels, 100 * share, color=BLUE)
    ax.set_xlabel("level of the interval, %")
    ax.set_ylabel("observations inside, %")
    return fig


def inside_interval(pit_values, level):
    """Whether an observation lies in its central interval of that level, by its PIT."""
    return 2.0 * np.abs(pit_values - 0.5) <= level


def coverage_by(predicted, pit_values, groups: int):
    """Coverage at LEVELS in groups of equal size by predicted value."""
    fig, (ax,) = panels(1, height=2.5)
    parts = np.array_split(np.argsort(predicted, kind="stable"), groups)
    medians = [float(np.median(predicted[part])) for part in parts]
    # Beside one another, so that no bar hides another.
    offset = 0.008 * np.ptp(medians)
    for i, (level, color) in enumerate(zip(LEVELS, SERIES, strict=False)):
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


def _shares(ax, x, groups: list, **options) -> None:
    """The share of true values in each group, in %, with its 95 % interval."""
    shares = np.array([group.mean() for group in groups])
    ends = np.array([_clopper_pearson(group.sum(), len(group)) for group in groups]).T
    error = 100 * np.abs(ends - shares)
    ax.errorbar(x, 100 * shares, error, fmt="o-", markersize=4, **options)


def _clopper_pearson(k, n):
    """The 95 % interval of Clopper and Pearson (1934) for a share of k in n."""
    low = betaincinv(k, n - k + 1, 0.025) if k > 0 else 0.0
    high = betaincinv(k + 1, n - k, 0.975) if k < n else 1.0
    return low, high


def _binomial_quantiles(n, p):
    """The 2.5 and 97.5 % quantiles of a count among n with the probability p."""
    # scipy.stats takes a third of a second to import.
    return np.ceil(bdtrik(0.025, n, p)), np.ceil(bdtrik(0.975, n, p))


def khat(values, threshold: float):
    """The Pareto k-hat of each observation, and the largest that is good."""
    fig, (ax,) = panels(1, height=2.2)
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


def calibration(chance, y):
    """How often the class came true, by its predicted chance: groups of about equal size."""
    fig, (ax,) = panels(1, height=2.8)
    groups = int(np.clip(len(y) // 12, 3, 10))
    parts = [p for p in np.array_split(np.argsort(chance, kind="stable"), groups) if len(p)]
    ax.plot([0, 100], [0, 100], color=GREY, linestyle="--", linewidth=0.9)
    _shares(ax, [100 * float(chance[p].mean()) for p in parts], [y[p] for p in parts], color=BLUE)
    ax.set_xlabel("predicted chance, %")
    ax.set_ylabel("came true, %")
    ax.set_xlim(-3, 103)
    ax.set_ylim(-3, 103)
    return fig
