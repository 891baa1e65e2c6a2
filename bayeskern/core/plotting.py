"""Figures that no window and no global state holds."""

from __future__ import annotations

import io


def figure(size=(9.0, 4.8)):
    """An empty figure, to draw in and to save; a notebook shows it by itself."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    class Shown(Figure):
        def _repr_png_(self) -> bytes:
            # Notebooks know figures of pyplot only, and only once there has been one.
            file = io.BytesIO()
            self.savefig(file, format="png", dpi=90)
            return file.getvalue()

    made = Shown(figsize=size, dpi=130, layout="constrained")
    FigureCanvasAgg(made)
    return made
