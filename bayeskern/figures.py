"""Figures that no window and no global state holds."""

from __future__ import annotations


def figure(size=(9.0, 4.8)):
    """An empty figure, to draw in and to save."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    made = Figure(figsize=size, dpi=130, layout="constrained")
    FigureCanvasAgg(made)
    return made
