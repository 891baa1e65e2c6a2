"""A grid of small plots, one for each of several forecasts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bayeskern.core import validation
from bayeskern.core.plotting import legend_below, panels
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
    fig, axes = panels(len(forecasts), validation.positive_integer(columns, "columns"))
    for ax, (name, f) in zip(axes, forecasts.items(), strict=True):
        plot.forecast(f, ax, level)
        if (legend := ax.get_legend()) is not None:
            legend.remove()
        for location in ("left", "right"):
            ax.set_title("", loc=location)
        ax.set_title(plot.short_name(name), loc="left", fontsize=10, parse_math=False)
        ax.set_ylabel("")
        ax.tick_params(labelsize=8)
    legend_below(fig, axes[0])
    return fig
