"""Plots of sampled functions of a process, with a central band."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jax import Array

from bayeskern.core import validation
from bayeskern.core.formatting import short
from bayeskern.core.plotting import COLORS, along, figure, legend_above, tidy
from bayeskern.gp.prior import Inputs, new_points
from bayeskern.prediction.mixture import Prediction

if TYPE_CHECKING:
    # matplotlib takes long to import.
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def points(X_new: Inputs | None, X: Array, columns: tuple[str, ...] | None) -> np.ndarray:
    """Grid (201, 1) over the range of X_new, or of X if X_new is None.

    Raises ValueError if there are several inputs or a single distinct point.
    """
    if X_new is None:
        return along(X, "X")
    return along(new_points(X_new, X, columns), "X_new")


def samples(
    X: np.ndarray,
    f: Prediction,
    columns: tuple[str, ...] | None,
    n: int,
    level: float,
    seed: int,
    ax: Axes | None = None,
    data: tuple[np.ndarray, np.ndarray] | None = None,
) -> Figure:
    """Plot n sampled functions f at X (m, 1), with their median and a central band.

    data: Observations (x, y), plotted as dots; None for none.
    """
    level, x = validation.level(level), X[:, 0]
    draws = f.sample(n, validation.seed(seed))
    lower, upper = f.interval(level)
    ax = figure((7.5, 4.2)).subplots() if ax is None else ax
    label = f"{100 * level:g} % band"
    ax.fill_between(x, lower, upper, color="#8a8a8a", alpha=0.22, linewidth=0, label=label)
    ax.plot(x, f.median, color="#333333", linewidth=1.4, linestyle="--", label="median")
    for i, draw in enumerate(draws):
        ax.plot(x, draw, color=COLORS[i % len(COLORS)], linewidth=1.1)
    if data is not None:
        ax.plot(*data, "o", color="#000000", markersize=4.0, zorder=3, label="observed")
    # A longer label does not fit below the axis.
    ax.set_xlabel(short(columns[0], 32) if columns else "x", parse_math=False)
    ax.set_ylabel("f")
    legend_above(ax)
    tidy(ax)
    return ax.figure  # pyright: ignore[reportReturnType]
