"""Overlaid marginal densities of several posteriors, and their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from bayeskern.core.formatting import short
from bayeskern.core.plotting import COLORS, figure
from bayeskern.diagnostics.drawing import density, interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def marginals(draws: dict[str, dict[str, np.ndarray]], parameters: list[str]) -> Figure:
    """Plot densities (left) and 50 % and 90 % intervals (right), a row per parameter.

    Args:
        draws: Draws (S,), by posterior and parameter.
        parameters: Names of the parameters.
    """
    labels = {name: short(name, 20) for name in draws}
    height = 0.9 + len(parameters) * max(0.85, 0.18 * len(labels) + 0.35)
    fig = figure((8.0, height))
    rows = fig.subplots(len(parameters), 2, squeeze=False, width_ratios=(3, 2))
    for (left, right), parameter in zip(rows, parameters, strict=True):
        _row(left, right, parameter, {n: x.get(parameter) for n, x in draws.items()}, labels)
    return fig


def _row(
    left,
    right,
    parameter: str,
    draws: Mapping[str, np.ndarray | None],
    labels: Mapping[str, str],
) -> None:
    """Draw the row of one parameter.

    draws: Draws (S,) by posterior; None if it lacks the parameter.
    """
    limits = _limits([x for x in draws.values() if x is not None])
    for i, x in enumerate(draws.values()):
        if x is not None:
            color = COLORS[i % len(COLORS)]
            _density(left, x, limits, color)
            interval(right, i, np.quantile(x, (0.05, 0.25, 0.5, 0.75, 0.95)), color)
    for ax in (left, right):
        ax.set_xlim(*limits)
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.tick_params(labelsize=8)
        ax.locator_params(axis="x", nbins=6)
    left.set_yticks([])
    left.set_ylim(bottom=0.0)
    left.set_ylabel(
        short(parameter, 20),
        rotation=0,
        ha="right",
        va="center",
        fontsize=9,
        parse_math=False,
    )
    right.set_yticks(range(len(labels)), labels.values(), fontsize=8)
    for i, label in enumerate(right.get_yticklabels()):
        label.set(parse_math=False, color=COLORS[i % len(COLORS)])
    right.set_ylim(len(labels) - 0.4, -0.6)
    right.tick_params(axis="y", length=0)


def _limits(draws: list[np.ndarray]) -> tuple[float, float]:
    """Range of the x axis, without the extreme tails."""
    ends = np.array([np.quantile(x, (0.002, 0.998)) for x in draws])
    # A posterior that is much too wide must not squeeze the others.
    low, high = np.median(ends, axis=0)
    low, high = (
        min([low, *ends[:, 0][ends[:, 0] > low - 2 * (high - low)]]),
        max([high, *ends[:, 1][ends[:, 1] < high + 2 * (high - low)]]),
    )
    pad = 0.03 * (high - low) or 0.5 * abs(low) or 0.5
    return low - pad, high + pad


def _density(ax, x: np.ndarray, limits: tuple[float, float], color: str) -> None:
    if np.ptp(x) == 0:
        ax.axvline(x[0], color=color, linewidth=1.5)
        return
    curve = density(x, *limits)
    if curve is not None:
        ax.plot(*curve, color=color, linewidth=1.5)
        ax.fill_between(*curve, color=color, alpha=0.08, linewidth=0)
