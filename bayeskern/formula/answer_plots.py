"""Plots of answers: curves with bands, and points with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayeskern.core.plotting import BLUE, COLORS, figure, legend_above, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Ends of the central intervals with probabilities of 50 and 90 %.
QUANTILES = (0.05, 0.25, 0.75, 0.95)
# Least number of values of a column along which predictions are a curve.
MIN_CURVE_VALUES = 8
# Height of a row with an interval, in inches, and the number of rows with a label each.
ROW_HEIGHT, MAX_LABELED_ROWS = 0.26, 60


def plot_answers(labels: pd.DataFrame, draws: np.ndarray, title: str, null: float | None) -> Figure:
    """Plot quantities with intervals: curves along a numeric label, or a line for each.

    Args:
        labels: Labels of the quantities, r rows.
        draws: Their draws, (S, r).
        title: Title of the quantities.
        null: Value without an effect, marked by a line; None for none.
    """
    counts = labels.nunique()
    changing = [name for name in labels if counts[name] > 1]
    numeric = [n for n in changing if labels[n].dtype.kind in "if" and counts[n] > MIN_CURVE_VALUES]
    others = [name for name in changing if name not in numeric]
    curves: Any = labels.groupby(others, sort=False) if others else [((), labels)]
    is_curve = len(numeric) == 1 and not labels[changing].duplicated().any()
    if is_curve and len(curves) <= len(COLORS):
        fig = figure((7.0, 4.2))
        ax = fig.subplots()
        for (keys, rows), color in zip(curves, COLORS, strict=False):
            rows = rows.sort_values(numeric[0])
            label = ", ".join(f"{n} {key}" for n, key in zip(others, keys, strict=True))
            curve(ax, rows[numeric[0]].to_numpy(), draws[:, rows.index], color, label)
        ax.set(xlabel=numeric[0], ylabel=title)
        if others:
            legend_above(ax)
        return fig
    shown = [n for n in labels if n in (*changing, "term")] or list(labels.columns)
    texts = [", ".join(map(str, row)) for row in labels[shown].itertuples(index=False)]
    fig = figure((7.0, height_of(len(texts))))
    ax = fig.subplots()
    intervals(ax, draws, texts, null)
    ax.set(xlabel=title)
    return fig


def curve(ax: Axes, x: np.ndarray, draws: np.ndarray, color: str = BLUE, label: str = "") -> None:
    """Draw the mean of draws (S, m) along ascending x (m,), with bands."""
    low, lower, upper, high = np.quantile(draws, QUANTILES, axis=0)
    for band in ((low, high), (lower, upper)):
        ax.fill_between(x, *band, color=color, alpha=0.22, linewidth=0.0)
    ax.plot(x, draws.mean(axis=0), color=color, label=label)
    tidy(ax)


def points(
    ax: Axes,
    at: np.ndarray,
    draws: np.ndarray,
    color: str = BLUE,
    label: str = "",
    horizontal: bool = False,
    size: float = 1.0,
) -> None:
    """Draw the means of draws (S, r) with intervals, horizontal or vertical, at places (r,)."""
    low, lower, upper, high = np.quantile(draws, QUANTILES, axis=0)
    lines = ax.hlines if horizontal else ax.vlines
    lines(at, low, high, color=color, linewidth=max(0.3, 1.1 * size))
    lines(at, lower, upper, color=color, linewidth=max(0.3, 3.4 * size))
    x, y = (draws.mean(axis=0), at)[:: 1 if horizontal else -1]
    ax.plot(x, y, "o", color=color, markersize=4.5 * size**0.5, label=label)


def height_of(rows: int) -> float:
    """Height of a figure with intervals, in inches."""
    return 0.8 + ROW_HEIGHT * (rows if rows <= MAX_LABELED_ROWS else MAX_LABELED_ROWS / 2)


def intervals(ax: Axes, draws: np.ndarray, texts: list[str], null: float | None) -> np.ndarray:
    """Draw a row with a label for each of the draws (S, r), and return its height (r,)."""
    count = len(texts)
    y, few = np.arange(count)[::-1], count <= MAX_LABELED_ROWS
    points(ax, y, draws, horizontal=True, size=1.0 if few else MAX_LABELED_ROWS / count / 2.0)
    if null is not None:
        ax.axvline(null, color="#888888", linewidth=0.8, zorder=0)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.grid(axis="x", color="#dddddd", linewidth=0.6)
    ax.set(axisbelow=True, ylim=(-0.7, count - 0.3), yticks=y if few else [])
    if few:
        ax.set_yticklabels(texts, fontsize=8, parse_math=False)
        ax.tick_params(axis="y", length=0)
    else:
        ax.set_ylabel(f"{count:,} rows in order")
    return y
