"""Figures without a window or pyplot's global state: colours, axes, legends."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette for colour-blind readers.
BLUE, ORANGE = "#0072B2", "#D55E00"
COLORS = (BLUE, ORANGE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")


def figure(size: tuple[float, float] = (9.0, 4.8)) -> Figure:
    """Empty figure that a notebook displays.

    Args:
        size: Width and height in inches.
    """
    # matplotlib is slow to import, and only plots need it.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        def _repr_png_(self) -> bytes:
            # Notebooks display only pyplot's figures by default.
            png = io.BytesIO()
            self.savefig(png, format="png", dpi=90)
            return png.getvalue()

    empty = NotebookFigure(figsize=size, dpi=130, layout="constrained")
    FigureCanvasAgg(empty)
    return empty


def panels(
    count: int, columns: int, size: tuple[float, float] = (4.6, 2.7)
) -> tuple[Figure, list[Axes]]:
    """Empty figure with a grid of panels, and their axes.

    Args:
        count: Number of panels.
        columns: Largest number of panels in a row.
        size: Width and height of a panel in inches.
    """
    columns = min(columns, count)
    rows = -(-count // columns)
    fig = figure((size[0] * columns, 0.4 + size[1] * rows))
    axes = np.ravel(fig.subplots(rows, columns, squeeze=False)).tolist()
    for ax in axes[count:]:
        ax.remove()
    return fig, axes[:count]


def legend_below(fig: Figure, ax: Axes) -> None:
    """Draw one legend for all panels, with the labels of one of them, below the figure."""
    handles, labels = ax.get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower left", ncols=4, frameon=False, fontsize=9)


def concise_dates(ax: Axes, x: ArrayLike) -> None:
    """Set short date labels on the x axis if x holds dates."""
    if np.asarray(x).dtype.kind != "M":
        return
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter  # slow to import

    locator = AutoDateLocator(minticks=3, maxticks=8)
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def tidy(ax: Axes) -> None:
    """Light axes: no frame above and to the right, faint horizontal lines."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="#dddddd", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.margins(x=0.01)


def legend_above(ax: Axes) -> None:
    """Place the legend above the panel."""
    legend = ax.legend(
        loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4, frameon=False, fontsize=9,
        borderaxespad=0.2,
    )  # fmt: skip
    for text in legend.get_texts():
        # Dollar signs in names are not formulas.
        text.set_parse_math(False)


def legend_under(ax: Axes) -> None:
    """Place the legend below the panel."""
    ax.legend(
        loc="upper left", bbox_to_anchor=(0.0, -0.08), ncols=5, frameon=False, fontsize=9,
        borderaxespad=0.0,
    )  # fmt: skip


def along(X: ArrayLike, name: str) -> np.ndarray:
    """Grid of 201 points over the range of X, which has one column: (201, 1).

    Raises:
        ValueError: X (n, d), called `name`, has several columns, or a single value.
    """
    X = np.asarray(X)
    if X.shape[1] != 1:
        raise ValueError(
            f"{name} has {X.shape[1]} columns, but a curve needs one input. Pass one column, and a "
            "kernel of one input."
        )
    low, high = X.min(), X.max()
    if low == high:
        raise ValueError(f"{name} has one value only, {low:g}: give at least two different values.")
    return np.linspace(low, high, 201)[:, None]
