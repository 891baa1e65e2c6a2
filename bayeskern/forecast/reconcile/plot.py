"""Figures of forecasts before and after a reconciliation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from bayeskern.core.formatting import short
from bayeskern.core.plotting import concise_dates, figure, legend_below, legend_under, panels, tidy
from bayeskern.forecast.show.plot import (
    FORECAST_COLOR,
    HISTORY_COLOR,
    NAIVE_COLOR,
    NOTE_COLOR,
    first_shown,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bayeskern.forecast.reconcile.reconciled import CoherentForecast


def panel(
    series: CoherentForecast, ax: Axes | None = None, level: float = 0.8, alone: bool = True
) -> Figure:
    """Plot a series with its forecast before and after the reconciliation.

    alone: True for the only panel of a figure, which then has a legend of its own.
    """
    ax = figure().subplots() if ax is None else ax
    base, past = series.base, series.base.series
    start, wall = first_shown(base), past.calendar.wall
    x = wall(past.calendar.grid(0))[start:]
    ax.plot(x, past.on_grid()[start:], color=HISTORY_COLOR, linewidth=1.0, label="observed")
    future = wall(series.times)
    lower, upper = series.interval(level)
    label = f"reconciled, {100 * level:g} % interval"
    ax.fill_between(future, lower, upper, color=FORECAST_COLOR, alpha=0.25, linewidth=0)
    ax.plot(future, series.median, color=FORECAST_COLOR, linewidth=1.6, label=label)
    style = {"color": NAIVE_COLOR, "linewidth": 0.9}
    ax.plot(future, base.median, label="base forecast", **style)
    for end in base.interval(level):
        ax.plot(future, end, linestyle=":", **style)
    concise_dates(ax, np.concatenate([x, future]))
    # No math: names may contain dollar signs.
    ax.set_title(short(str(series.name), 40), loc="left", fontsize=11, parse_math=False)
    ax.set_title(short(series.level, 24), loc="right", fontsize=8.5, color=NOTE_COLOR)
    tidy(ax)
    if alone:
        legend_under(ax)
    return cast("Figure", ax.figure)


def grid(selection: Sequence[CoherentForecast], level: float = 0.8) -> Figure:
    """Plot several series in panels, two per row."""
    fig, axes = panels(len(selection), 2)
    for ax, series in zip(axes, selection, strict=True):
        panel(series, ax, level, alone=False)
    legend_below(fig, axes[0])
    return fig
