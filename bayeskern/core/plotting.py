"""Figures without a window and without pyplot's global state."""

from __future__ import annotations

import io

import numpy as np

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
