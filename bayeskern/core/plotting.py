"""Figures without a window and without pyplot's global state."""

from __future__ import annotations

import io


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
