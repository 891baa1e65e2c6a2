"""Figures of convergence: ranks, energy, ELBO, weights, curvature."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import rankdata

from bayeskern.core.plotting import BLUE, COLORS, ORANGE
from bayeskern.diagnostics.report.figures.style import GREY, legend_above, panel, panels, title


def ranks(draws: dict[str, np.ndarray], ess: dict[str, float], columns: int = 3) -> Any:
    """Difference between the ranks of each chain and even ranks, a panel for each parameter.

    Args:
        draws: Draws (chains, draws) by parameter.
        ess: Effective draws of all chains together, by parameter.
        columns: Number of panels in a row.
    """
    fig, axes = panels(len(draws), columns=columns, height=1.5, sharex=True)
    for ax, (name, x) in zip(axes, draws.items(), strict=True):
        _ranks_of_chains(ax, x, ess[name])
        title(ax, name)
        ax.tick_params(labelsize=7.5)
    # If the last row is not full, the panel above has the labels.
    for ax in axes[-columns:]:
        ax.tick_params(labelbottom=True)
        ax.set_xlabel("rank, as a share", fontsize=8)
    for ax in axes[::columns]:
        ax.set_ylabel("ECDF - even", fontsize=8)
    legend_above(fig, axes[0], columns=6)
    return fig


def _ranks_of_chains(ax, x: np.ndarray, ess: float) -> None:
    grid = np.linspace(0.0, 1.0, 60)
    shares = (rankdata(x).reshape(x.shape) - 0.5) / x.size
    # The 99 % point of Kolmogorov's distribution, since several lines are compared, for as many
    # draws as a chain has effective ones.
    width = 1.63 / np.sqrt(max(ess, 4.0) / len(x))
    ax.fill_between(grid, -width, width, color=GREY, alpha=0.25, linewidth=0)
    ecdfs = [np.searchsorted(np.sort(chain), grid) / len(chain) for chain in shares]
    for i, ecdf in enumerate(ecdfs):
        # The first six colours differ from the ink and the paper of the page.
        color = COLORS[i % 6]
        ax.plot(grid, ecdf - grid, color=color, linewidth=1.1, label=f"chain {i + 1}")
    largest = np.abs(np.array(ecdfs) - grid).max()
    height = 1.1 * largest if largest > 1.9 * width else 2.0 * width
    ax.set_ylim(-height, height)


def energy(values: np.ndarray) -> Any:
    """Energy of the draws (chains, draws), and its changes from draw to draw."""
    fig, ax = panel(2.2)
    marginal = (values - values.mean(axis=1, keepdims=True)).ravel()
    changes = np.diff(values, axis=1).ravel()
    low, high = np.quantile(np.concatenate([marginal, changes]), (0.001, 0.999))
    bins = np.linspace(low, high, 50)
    options = {"bins": bins, "density": True, "histtype": "stepfilled", "linewidth": 1.2}
    ax.hist(marginal, color=BLUE, alpha=0.3, label="energy of the draws", **options)
    ax.hist(changes, color=ORANGE, alpha=0.3, label="change from draw to draw", **options)
    ax.set_xlabel("energy, about its mean")
    ax.set_yticks([])
    legend_above(fig, ax)
    return fig


def elbo(trace: np.ndarray) -> Any:
    """The ELBO by step, averaged over stretches; low values of the first steps are cut off."""
    fig, ax = panel(2.2)
    parts = np.array_split(np.arange(len(trace)), min(len(trace), 300))
    means = np.array([np.mean(trace[part]) for part in parts])
    ax.plot([np.mean(part) for part in parts], means, color=BLUE)
    finite = means[np.isfinite(means)]
    last = finite[len(finite) // 2 :]
    spread = max(float(np.ptp(last)), 1e-3 * (1.0 + abs(float(np.median(last)))))
    low = max(float(finite.min()), float(np.median(last)) - 12.0 * spread)
    ax.set_ylim(low - 0.5 * spread, float(finite.max()) + 0.5 * spread)
    ax.set_xlabel("step")
    ax.set_ylabel("ELBO")
    return fig


def weights(weights: np.ndarray) -> Any:
    """Share of the weight in the heaviest draws; weights (S,) sum to one."""
    fig, ax = panel(2.3)
    total = len(weights)
    counts = np.unique(np.geomspace(1, total, 200).round().astype(int))
    carried = np.cumsum(np.sort(weights)[::-1])[counts - 1]
    share = 100 * counts / total
    ax.plot(share, 100 * carried, color=BLUE, label="these draws")
    ax.plot(share, share, color=GREY, linestyle="--", label="all weights equal")
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter("{x:g}")
    ax.set_xlabel("heaviest draws, % of all")
    ax.set_ylabel("% of the weight")
    legend_above(fig, ax)
    return fig


def curvature(eigenvalues: np.ndarray) -> Any:
    """Eigenvalues of the negative Hessian; a cross marks a direction without curvature."""
    fig, ax = panel(2.0)
    at = np.arange(1, len(eigenvalues) + 1)
    positive = eigenvalues > 0
    ax.plot(at[positive], eigenvalues[positive], "o", color=BLUE, markersize=4)
    if not positive.all():
        floor = eigenvalues[positive].min() if positive.any() else 1.0
        ax.plot(at[~positive], np.full((~positive).sum(), floor), "x", color=ORANGE, markersize=6)
    ax.set_yscale("log")
    ax.yaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_minor_formatter("")
    ax.set_xlabel("direction, flattest first")
    ax.set_ylabel("curvature")
    return fig
