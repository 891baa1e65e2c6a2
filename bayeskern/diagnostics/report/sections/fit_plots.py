"""Pictures of how well a model predicts its observations."""

from __future__ import annotations

import numpy as np
from scipy.stats import beta, binom

from bayeskern.diagnostics.report.blocks import percent
from bayeskern.diagnostics.report.priors import kde
from bayeskern.diagnostics.report.style import (
    BLUE,
    GREY,
    INK,
    LEVELS,
    ORANGE,
    SERIES,
    below,
    panels,
    points,
)

REPLICATES = 40
SHOWN = (0.005, 0.995)
# Bars of counts; whole numbers of a wider range share them.
BARS = 60


def predictive_check(y, replicates, discrete: bool):
    """The observed data among data sets that the model would make: y (n,), replicates (S, n)."""
    made, (axis,) = panels(1, height=2.4)
    rows = np.linspace(0, len(replicates) - 1, min(len(replicates), REPLICATES)).round().astype(int)
    if discrete and len(np.unique(y)) <= 30 and np.ptp(y) <= 60:
        _counts(axis, y, replicates)
    else:
        low, high = _shown(y, replicates)
        for i, row in enumerate(rows):
            inside = replicates[row][(replicates[row] >= low) & (replicates[row] <= high)]
            if len(inside) > 3 and np.ptp(inside) > 0:
                x, density = kde(inside)
                label = "data that the model would make" if i == 0 else None
                share = len(inside) / replicates.shape[1]
                axis.plot(x, share * density, color=BLUE, alpha=0.3, linewidth=0.7, label=label)
        if np.ptp(y) > 0:
            axis.plot(*kde(y), color=INK, linewidth=1.8, label="observed")
        axis.set_yticks([])
        axis.set_xlim(low, high)
        axis.set_xlabel(f"value{_beyond(replicates, low, high)}")
    below(made, axis)
    return made


def _counts(axis, y, replicates) -> None:
    first, last = np.round(_shown(y, replicates))
    width = np.ceil((last - first + 1) / BARS)
    count = int(np.ceil((last - first + 1) / width))
    middles = first + width * np.arange(count) + 0.5 * (width - 1)

    def counts(row):
        places = np.floor((row[(row >= first) & (row <= last)] - first) / width)
        return np.bincount(places.astype(int), minlength=count)

    made = np.stack([counts(row) for row in replicates])
    low, middle, high = np.quantile(made, (0.025, 0.5, 0.975), axis=0)
    axis.bar(middles, counts(y), 0.8 * width, color=GREY, alpha=0.45, label="observed")
    axis.errorbar(
        middles, middle, [middle - low, high - middle], fmt="o", color=BLUE, markersize=4,
        label="the model, 95 %",
    )  # fmt: skip
    axis.set_xlabel(f"value{_beyond(replicates, first, last)}")
    axis.set_ylabel("observations")
    axis.yaxis.get_major_locator().set_params(integer=True)
    if count <= 10 and width == 1:
        axis.set_xticks(middles)


def _shown(y, replicates) -> tuple[float, float]:
    """Where the replicates lie, but not so far from y that y becomes a line: tails may be heavy."""
    known = replicates[np.isfinite(replicates)]
    known = known if known.size else y
    low, q25, q75, high = np.quantile(known, (SHOWN[0], 0.25, 0.75, SHOWN[1]))
    pad = 2.0 * max(np.ptp(y), q75 - q25)
    pad = pad if pad > 0.0 else np.inf
    return min(y.min(), max(low, y.min() - pad)), max(y.max(), min(high, y.max() + pad))


def _beyond(replicates, low, high) -> str:
    share = float(np.mean((replicates < low) | (replicates > high)))
    return f" ({percent(share)} of what the model would make lies beyond)" if share > 0.01 else ""


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
    axis.yaxis.get_major_locator().set_params(integer=True)
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
    # Beside one another, so that no bar hides another.
    apart = 0.008 * np.ptp(middles)
    for i, (level, colour) in enumerate(zip(LEVELS, SERIES, strict=False)):
        inside = 2.0 * np.abs(values - 0.5) <= level
        share = np.array([inside[p].mean() for p in parts])
        ends = np.array([_clopper(inside[p].sum(), len(p)) for p in parts]).T
        error = np.abs(ends - share)
        axis.axhline(100 * level, color=colour, linestyle="--", linewidth=0.8)
        beside = np.add(middles, (i - 1) * apart)
        axis.errorbar(
            beside, 100 * share, 100 * error, fmt="o-", color=colour, markersize=4,
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
