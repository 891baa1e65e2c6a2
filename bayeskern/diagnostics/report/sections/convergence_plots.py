"""Pictures of how a method got to its draws: ranks, energy, ELBO, weights, curvature."""

from __future__ import annotations

import numpy as np

from bayeskern.core.formatting import short
from bayeskern.diagnostics.report.style import BLUE, GREY, ORANGE, SERIES, below, panels

POINTS = 60
# The 99 % point of Kolmogorov's distribution: several chains and parameters are looked at together.
KOLMOGOROV = 1.63


def ranks(numbers: dict[str, np.ndarray], effective: dict[str, float]):
    """For each number (chains, draws), how the ranks of each chain differ from evenly spread.

    effective: the effective draws of each, chains together.
    """
    from scipy.stats import rankdata

    made, axes = panels(len(numbers), columns=3, height=1.5, sharex=True)
    grid = np.linspace(0.0, 1.0, POINTS)
    for axis, (name, x) in zip(axes, numbers.items(), strict=True):
        share = (rankdata(x).reshape(x.shape) - 0.5) / x.size
        # A chain says as much as its effective draws do.
        width = KOLMOGOROV / np.sqrt(max(effective[name], 4.0) / len(x))
        axis.fill_between(grid, -width, width, color=GREY, alpha=0.25, linewidth=0)
        for i, chain in enumerate(share):
            below_grid = np.searchsorted(np.sort(chain), grid) / len(chain)
            axis.plot(
                grid, below_grid - grid, color=SERIES[i % len(SERIES)], linewidth=1.1,
                label=f"chain {i + 1}",
            )  # fmt: skip
        axis.set_title(short(name, 24), fontsize=8.5)
        axis.tick_params(labelsize=7.5)
        axis.set_ylim(-2.0 * width, 2.0 * width)
        steps = np.abs([line.get_ydata() for line in axis.get_lines()]).max()
        if steps > 1.9 * width:
            axis.set_ylim(-1.1 * steps, 1.1 * steps)
    # Where the last row is not full, the panel above has the labels.
    for axis in axes[-3:]:
        axis.tick_params(labelbottom=True)
        axis.set_xlabel("rank, as a share", fontsize=8)
    for axis in axes[::3]:
        axis.set_ylabel("ECDF - even", fontsize=8)
    below(made, axes[0], columns=6)
    return made


def energy(values: np.ndarray):
    """The energy of the draws, and its changes from one to the next: (chains, draws)."""
    made, (axis,) = panels(1, height=2.2)
    centred = (values - values.mean(axis=1, keepdims=True)).ravel()
    steps = np.diff(values, axis=1).ravel()
    ends = np.quantile(np.concatenate([centred, steps]), (0.001, 0.999))
    bins = np.linspace(*ends, 50)
    options = {"bins": bins, "density": True, "histtype": "stepfilled", "linewidth": 1.2}
    axis.hist(centred, color=BLUE, alpha=0.3, label="energy of the draws", **options)
    axis.hist(steps, color=ORANGE, alpha=0.3, label="change from draw to draw", **options)
    axis.set_xlabel("energy, about its mean")
    axis.set_yticks([])
    below(made, axis)
    return made


def elbo(trace: np.ndarray):
    """The ELBO by step, averaged over stretches, without the depths of the first steps."""
    made, (axis,) = panels(1, height=2.2)
    parts = np.array_split(np.arange(len(trace)), min(len(trace), 300))
    x, y = ([float(np.mean(v[p])) for p in parts] for v in (np.arange(len(trace)), trace))
    axis.plot(x, y, color=BLUE)
    known = np.asarray(y)[np.isfinite(y)]
    last = known[len(known) // 2 :]
    spread = max(float(np.ptp(last)), 1e-3 * (1.0 + abs(float(np.median(last)))))
    low = max(float(known.min()), float(np.median(last)) - 12.0 * spread)
    axis.set_ylim(low - 0.5 * spread, float(known.max()) + 0.5 * spread)
    axis.set_xlabel("step")
    axis.set_ylabel("ELBO")
    return made


def weights(weights: np.ndarray):
    """How much of the weight the heaviest draws carry: weights (S,) that sum to one."""
    made, (axis,) = panels(1, height=2.3)
    carried = np.cumsum(np.sort(weights)[::-1])
    count = np.arange(1, len(weights) + 1)
    keep = np.unique(np.geomspace(1, len(weights), 200).round().astype(int)) - 1
    axis.plot(100 * count[keep] / len(count), 100 * carried[keep], color=BLUE, label="these draws")
    axis.plot(
        100 * count[keep] / len(count), 100 * count[keep] / len(count), color=GREY, linestyle="--",
        label="all weights equal",
    )  # fmt: skip
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter("{x:g}")
    axis.set_xlabel("heaviest draws, % of all")
    axis.set_ylabel("% of the weight")
    below(made, axis)
    return made


def curvature(eigenvalues: np.ndarray):
    made, (axis,) = panels(1, height=2.0)
    at = np.arange(1, len(eigenvalues) + 1)
    good = eigenvalues > 0
    axis.plot(at[good], eigenvalues[good], "o", color=BLUE, markersize=4)
    if not good.all():
        floor = eigenvalues[good].min() if good.any() else 1.0
        axis.plot(at[~good], np.full((~good).sum(), floor), "x", color=ORANGE, markersize=6)
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_minor_formatter("")
    axis.set_xlabel("direction, flattest first")
    axis.set_ylabel("curvature")
    return made
