"""Plots of answers: curves with bands, and points with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from bayeskern.core.plotting import BLUE, COLORS, figure, legend_above, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Least number of values of a column along which predictions are a curve.
MIN_CURVE_VALUES = 8
# Most curves in one panel.
MAX_CURVES = len(COLORS)
# Height of a row with an interval, in inches, and the number of rows with a label each.
ROW_HEIGHT, MAX_LABELED_ROWS = 0.26, 60


def plot_answers(
    labels: pd.DataFrame,
    draws: np.ndarray,
    title: str,
    null: float | None,
    levels: tuple[float, float],
) -> Figure:
    """Plot quantities with intervals: a curve along a numeric label, or a line for each.

    Args:
        labels: Labels of the quantities, r rows.
        draws: Their draws, (S, r).
        title: Title of the quantities.
        null: Value without an effect, marked by a line; None for none.
        levels: Probabilities of the two intervals.
    """
    changing = [name for name in labels.columns if labels[name].nunique() > 1]
    numeric = [
        name
        for name in changing
        if pd.api.types.is_numeric_dtype(labels[name])
        and labels[name].nunique() >= MIN_CURVE_VALUES
    ]
    others = [name for name in changing if name not in numeric[:1]]
    curves = labels.groupby(others, sort=False) if others else [("", labels)]
    if len(numeric) == 1 and len(curves) <= MAX_CURVES and not labels[changing].duplicated().any():
        fig = figure((7.0, 4.2))
        ax = fig.subplots()
        for (key, rows), color in zip(curves, COLORS, strict=False):
            columns = labels.index.get_indexer(rows.index)
            curve(ax, rows[numeric[0]].to_numpy(float), draws[:, columns], levels, color, key)
        ax.set(xlabel=numeric[0], ylabel=title)
        if others:
            legend_above(ax)
        return fig
    shown = changing or list(labels.columns)
    texts = [", ".join(map(str, row)) for row in labels[shown].itertuples(index=False)]
    fig = figure((7.0, 1.0 + ROW_HEIGHT * min(len(texts), MAX_LABELED_ROWS)))
    ax = fig.subplots()
    intervals(ax, draws, texts, levels)
    if null is not None:
        ax.axvline(null, color="#888888", linewidth=0.8, zorder=0)
    ax.set(xlabel=title)
    return fig


def curve(
    ax: Axes,
    x: np.ndarray,
    draws: np.ndarray,
    levels: tuple[float, float],
    color: str = BLUE,
    label: object = "",
) -> None:
    """Draw the mean of draws (S, m) along x (m,), with a band for each level."""
    order = np.argsort(x)
    x, draws = x[order], draws[:, order]
    for level in levels:
        lower, upper = np.quantile(draws, [0.5 - level / 2.0, 0.5 + level / 2.0], axis=0)
        ax.fill_between(x, lower, upper, color=color, alpha=0.22, linewidth=0.0)
    parts = label if isinstance(label, tuple) else (label,)
    ax.plot(x, draws.mean(axis=0), color=color, label=", ".join(map(str, parts)))
    tidy(ax)


def intervals(
    ax: Axes, draws: np.ndarray, texts: list[str], levels: tuple[float, float]
) -> np.ndarray:
    """Draw a row with mean and two intervals for each of the draws (S, r), the first on top.

    Returns:
        The height of each row, (r,).
    """
    y = np.arange(len(texts))[::-1]
    scale = 1.0 if len(texts) <= MAX_LABELED_ROWS else MAX_LABELED_ROWS / len(texts)
    for level, width in zip(sorted(levels), (3.4, 1.1), strict=True):
        lower, upper = np.quantile(draws, [0.5 - level / 2.0, 0.5 + level / 2.0], axis=0)
        ax.hlines(y, lower, upper, color=BLUE, linewidth=max(0.3, width * scale))
    ax.plot(draws.mean(axis=0), y, "o", color=BLUE, markersize=4.5 * scale**0.5, zorder=3)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.grid(axis="x", color="#dddddd", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.set_ylim(-0.7, len(texts) - 0.3)
    ax.set_yticks(y if scale == 1.0 else [])
    if scale == 1.0:
        ax.set_yticklabels(texts, fontsize=8, parse_math=False)
        ax.tick_params(axis="y", length=0)
    return y
