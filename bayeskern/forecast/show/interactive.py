"""Interactive plots with plotly: zoom, and the numbers under the pointer."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeskern.core import extras, validation
from bayeskern.core.formatting import printable
from bayeskern.forecast.show.printing import predictive_format

if TYPE_CHECKING:
    from bayeskern.forecast.result import Forecast

# RGB of `plot.FORECAST_COLOR`.
FORECAST_RGB = "31, 95, 168"


def forecast(f: Forecast, levels: float | Sequence[float], start: int) -> Any:
    """Plotly figure of the history from step `start` on, the median and the intervals.

    Args:
        f: The forecast.
        levels: Probabilities of the central intervals.
        start: First step of the history in view; zooming out shows earlier steps.

    Returns:
        A plotly.graph_objects.Figure.

    Raises:
        ImportError: If plotly is not installed.
    """
    with extras.needed_for('plot(backend="plotly")', package="plotly", extra="plotly"):
        from plotly import graph_objects
    levels = sorted(map(validation.level, np.ravel(levels)), reverse=True)
    calendar, show = f.series.calendar, predictive_format(f)
    grid, future = calendar.wall(calendar.grid(0)), calendar.wall(f.times)
    figure = graph_objects.Figure()
    # The hover label of the median shows the intervals too.
    for i, level in enumerate(levels):
        lower, upper = f.interval(level)
        opacity = 0.12 + 0.4 * (i + 1) / (len(levels) + 1.0)
        figure.add_scatter(
            x=np.concatenate([future, future[::-1]]),
            y=np.concatenate([upper, lower[::-1]]),
            fill="toself",
            fillcolor=f"rgba({FORECAST_RGB}, {opacity:.2f})",
            line={"width": 0},
            name=f"{100 * level:g} % interval",
            hoverinfo="skip",
        )
    figure.add_scatter(
        x=grid,
        y=f.series.on_grid(),
        mode="lines+markers",
        marker={"size": 4},
        line={"width": 1.2, "color": "#333333"},
        name="observed",
    )
    intervals = [(level, *f.interval(level)) for level in reversed(levels)]
    texts = [
        "<br>".join(
            [f"median {show(f.median[i])}"]
            + [f"{100 * p:g} %: {show(low[i])} to {show(high[i])}" for p, low, high in intervals]
        )
        for i in range(f.horizon)
    ]
    figure.add_scatter(
        x=future,
        y=f.median,
        mode="lines+markers",
        marker={"size": 4},
        line={"width": 2, "color": f"rgb({FORECAST_RGB})"},
        name="median",
        text=texts,
        hovertemplate="%{text}<extra></extra>",
    )
    # Plotly interprets tags in titles.
    title = f"{escape(printable(f.series.name))}: {f.horizon} steps ahead"
    figure.update_layout(
        title={"text": title},
        template="plotly_white",
        hovermode="x",
        yaxis={"title": {"text": escape(printable(f.series.value_name))}},
        xaxis={"range": [grid[min(start, len(grid) - 1)], future[-1]]},
        legend={"orientation": "h"},
    )
    return figure
