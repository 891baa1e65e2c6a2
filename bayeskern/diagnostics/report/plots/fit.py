"""Pictures of how well a model predicts its observations."""

from __future__ import annotations

import numpy as np
from scipy.stats import beta, binom

from bayeskern.diagnostics.report.priors import kde
from bayeskern.diagnostics.report.style import (
    BLUE,
    GREY,
    LEVELS,
    ORANGE,
    SERIES,
    below,
    panels,
    points,
)

REPLICATES = 40
SHOWN = (0.005, 0.995)


def predictive_check(y, replicates, discrete: bool):
    """The observed data among data sets that the model would make: y (n,), replicates (S, n)."""
    made, (axis,) = panels(1, height=2.4)
    rows = np.linspace(0, len(replicates) - 1, min(len(replicates), REPLICATES)).round().astype(int)
    if discrete and len(np.unique(y)) <= 30 and np.ptp(y) <= 60:
        _counts(axis, y, replicates)
    else:
        low, high = np.quantile(replicates, SHOWN)
        low, high = min(low, y.min()), max(high, y.max())
        for i, row in enumerate(rows):
            inside = replicates[row][(replicates[row] >= low) & (replicates[row] <= high)]
            if len(inside) > 3 and np.ptp(inside) > 0:
                x, density = kde(inside)
                label = "data that the model would make" if i == 0 else None
                style = {"color": BLUE, "alpha": 0.25, "linewidth": 0.7, "rasterized": True}
                axis.plot(x, density, label=label, **style)
        if np.ptp(y) > 0:
            axis.plot(*kde(y), color="#000000", linewidth=1.8, label="observed")
        axis.set_yticks([])
        axis.set_xlim(low, high)
    below(made, axis)
    return made


def _counts(axis, y, replicates) -> None:
    low, high = np.quantile(replicates, (0.001, 0.999), method="nearest")
    values = np.arange(min(y.min(), low), max(y.max(), high) + 1)
    made = np.stack([(replicates == v).sum(axis=1) for v in values])
    low, middle, high = np.quantile(made, (0.025, 0.5, 0.975), axis=1)
    axis.bar(values, [(y == v).sum() for v in values], color=GREY, alpha=0.45, label="observed")
    axis.errorbar(
        values, middle, [middle - low, high - middle], fmt="o", color=BLUE, markersize=4,
        label="the model, 95 %",
    )  # fmt: skip
    axis.set_ylabel("observations")
    if len(values) <= 10:
        axis.set_xticks(values)


def residuals(predicted, y):
    made, (axis,) = panels(1, height=2.4)
    axis.axhline(0.0, color=GREY, linewidth=0.9)
    points(axis, predicted, y - predicted)
    axis.set_xlabel("predicted")
    axis.set_ylabel("observed - predicted")
    return made


def pit(values):
    """A histogram of the probability integral transform, and the 95 % band of an even one."""
    made, (axis,) = panels(1, height=2.1)
    bins = int(np.clip(len(values) // 10, 5, 20))
    low, high = binom.ppf((0.025, 0.975), len(values), 1.0 / bins)
    axis.axhspan(low, high, color=GREY, alpha=0.25, linewidth=0)
    axis.hist(values, bins=np.linspace(0, 1, bins + 1), color=BLUE, alpha=0.6, rwidth=0.94)
    axis.set_xlabel("where the observation lies in its prediction (0: below all, 1: above all)")
    axis.set_ylabel("observations")
    return made


def coverage(values):
    """The share of observations inside central intervals, by their level."""
    made, (axis,) = panels(1, height=2.6)
    levels = np.linspace(0.02, 0.98, 49)
    inside = 2.0 * np.abs(values - 0.5)
    share = np.mean(inside[:, None] <= levels, axis=0)
    low, high = (binom.ppf(q, len(values), levels) / len(values) for q in (0.025, 0.975))
    axis.fill_between(100 * levels, 100 * low, 100 * high, color=GREY, alpha=0.25, linewidth=0)
    axis.plot([0, 100], [0, 100], color=GREY, linestyle="--", linewidth=0.9)
    axis.plot(100 * levels, 100 * share, color=BLUE)
    axis.set_xlabel("level of the interval, %")
    axis.set_ylabel("observations inside, %")
    return made


def coverage_by(predicted, values, groups: int):
    """Coverage at LEVELS in groups of equal size by predicted value."""
    made, (axis,) = panels(1, height=2.5)
    parts = np.array_split(np.argsort(predicted, kind="stable"), groups)
    middles = [float(np.median(predicted[p])) for p in parts]
    for level, colour in zip(LEVELS, SERIES, strict=False):
        inside = 2.0 * np.abs(values - 0.5) <= level
        share = np.array([inside[p].mean() for p in parts])
        ends = np.array([_clopper(inside[p].sum(), len(p)) for p in parts]).T
        error = np.abs(ends - share)
        axis.axhline(100 * level, color=colour, linestyle="--", linewidth=0.8)
        axis.errorbar(
            middles, 100 * share, 100 * error, fmt="o-", color=colour, markersize=4,
            linewidth=1.0, label=f"{100 * level:g} % intervals",
        )  # fmt: skip
    axis.set_ylim(-4, 104)
    axis.set_xlabel("predicted")
    axis.set_ylabel("observations inside, %")
    below(made, axis)
    return made


def _clopper(k, n):
    """The 95 % interval of Clopper and Pearson (1934) for a share of k in n."""
    low = beta.ppf(0.025, k, n - k + 1) if k > 0 else 0.0
    high = beta.ppf(0.975, k + 1, n - k) if k < n else 1.0
    return low, high


def khat(values, threshold: float):
    made, (axis,) = panels(1, height=2.2)
    at = np.arange(len(values))
    high = values > threshold
    axis.axhline(threshold, color=GREY, linestyle="--", linewidth=0.9)
    points(axis, at[~high], values[~high], label="good")
    if high.any():
        points(axis, at[high], values[high], ORANGE, size=16, alpha=1.0, label="too influential")
        below(made, axis)
    axis.set_xlabel("observation")
    axis.set_ylabel("Pareto k-hat")
    return made


def calibration(chance, y):
    """How often the class came true, by its predicted chance: groups of about equal size."""
    made, (axis,) = panels(1, height=2.8)
    groups = int(np.clip(len(y) // 12, 3, 10))
    parts = [p for p in np.array_split(np.argsort(chance, kind="stable"), groups) if len(p)]
    x = [100 * float(chance[p].mean()) for p in parts]
    share = np.array([y[p].mean() for p in parts])
    ends = np.array([_clopper(y[p].sum(), len(p)) for p in parts]).T
    axis.plot([0, 100], [0, 100], color=GREY, linestyle="--", linewidth=0.9)
    axis.errorbar(x, 100 * share, 100 * np.abs(ends - share), fmt="o-", color=BLUE, markersize=4)
    axis.set_xlabel("predicted chance, %")
    axis.set_ylabel("came true, %")
    axis.set_xlim(-3, 103)
    axis.set_ylim(-3, 103)
    return made
