"""Figures without a window and without pyplot's global state, their colours and their axes."""

from __future__ import annotations

import io

import numpy as np

# Okabe and Ito: told apart by people who see red and green alike.
BLUE, ORANGE, GREEN, PINK = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
COLORS = (BLUE, ORANGE, GREEN, PINK, "#E69F00", "#56B4E9", "#000000", "#F0E442")
# At so many points a curve is smooth.
CURVE = 201
# The most dates along an axis.
MAX_DATES = 8


def figure(size=(9.0, 4.8)):
    """An empty figure, to draw in and to save, which a notebook displays. size: in inches."""
    # matplotlib is slow to import, and only those who plot need it.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        def _repr_png_(self) -> bytes:
            # By themselves notebooks display figures of pyplot only.
            png = io.BytesIO()
            self.savefig(png, format="png", dpi=90)
            return png.getvalue()

    empty = NotebookFigure(figsize=size, dpi=130, layout="constrained")
    FigureCanvasAgg(empty)
    return empty


def concise_dates(ax, x) -> None:
    """Where x are dates: so few of them along the axis, and so short, that each can be read."""
    if np.asarray(x).dtype.kind != "M":
        return
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter  # slow to import

    locator = AutoDateLocator(minticks=3, maxticks=MAX_DATES)
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def tidy(ax) -> None:
    """Light axes: no frame above and to the right, faint lines for the values."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="#dddddd", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.margins(x=0.01)


def legend_above(ax) -> None:
    """The legend above the panel, where it hides nothing."""
    legend = ax.legend(
        loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4, frameon=False, fontsize=9,
        borderaxespad=0.2,
    )  # fmt: skip
    for text in legend.get_texts():
        # A name may have dollars in it, which are no formulas.
        text.set_parse_math(False)


def along(X, name: str) -> np.ndarray:
    """CURVE points of one column from the least to the greatest of X: (CURVE, 1).

    Raises ValueError, naming the argument, if X (n, d) has several columns, or one point only.
    """
    X = np.asarray(X)
    if X.shape[1] != 1:
        raise ValueError(
            f"{name} has {X.shape[1]} columns, and a curve is drawn along one. Give one column, "
            "of a kernel of one input."
        )
    low, high = X.min(), X.max()
    if low == high:
        raise ValueError(f"{name} has one point only, {low:g}: give two, between which to draw.")
    return np.linspace(low, high, CURVE)[:, None]
