"""A grid of small plots, one for each of several forecasts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeskern.core import validation
from bayeskern.core.plotting import figure
from bayeskern.forecast.show import plot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bayeskern.forecast.result import Forecast


def grid_of_forecasts(forecasts: Mapping[Any, Forecast], columns: int, level: float) -> Figure:
    """Plot forecasts in a grid of panels, with one legend.

    Args:
        forecasts: The forecasts by name, at least one.
        columns: Number of panels in a row.
        level: Probability of the central intervals.

    Raises:
        ValueError: If there is no forecast.
    """
    if not forecasts:
        raise ValueError("there is no forecast to plot: ids is empty, or all series failed.")
    columns = min(validation.positive_integer(columns, "columns"), len(forecasts))
    rows = -(-len(forecasts) // columns)
    fig = figure()
    fig.set_size_inches(4.2 * columns, 0.5 + 2.6 * rows)
    panels = np.ravel(fig.subplots(rows, columns, squeeze=False))
    for ax, (name, f) in zip(panels, forecasts.items(), strict=False):
        plot.forecast(f, ax, level)
        handles, labels = ax.get_legend_handles_labels()
        ax.get_legend().remove()
        for location in ("left", "right"):
            ax.set_title("", loc=location)
        ax.set_title(plot.short_name(name), loc="left", fontsize=10, parse_math=False)
        ax.set_ylabel("")
        ax.tick_params(labelsize=8)
    for ax in panels[len(forecasts) :]:
        ax.set_visible(False)
    fig.legend(handles, labels, loc="outside lower left", ncols=4, frameon=False, fontsize=9)
    return fig
