"""Plots of a forecast of totals and of the unfinished period."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from bayeskern.core.plotting import concise_dates, figure, legend_below, legend_under, tidy
from bayeskern.forecast.show import plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bayeskern.forecast.mixed.result import MixedForecast, Nowcast


def mixed(f: MixedForecast, levels: float | Sequence[float], whole: bool) -> Figure:
    """Plot the totals with their forecast, and the unfinished period beside them."""
    assert f.nowcast is not None
    fig = figure()
    # As wide as a report, which would scroll a wider figure.
    fig.set_size_inches(11.5, 4.6)
    left, right = fig.subplots(1, 2, width_ratios=(1.5, 1.0))
    plot.forecast(f, left, levels, whole)
    nowcast(f.nowcast, right, levels)
    # The note of a single panel would overlap the title; the legend is the same in both panels.
    left.set_title("", loc="right")
    for ax in (left, right):
        if (legend := ax.get_legend()) is not None:
            legend.remove()
    legend_below(fig, left)
    return fig


def nowcast(n: Nowcast, ax: Axes | None, levels: float | Sequence[float]) -> Figure:
    """Plot observed and forecast values of the unfinished period, and the one before."""
    ax = figure().subplots() if ax is None else ax
    fine, rest = n.forecast.fine, n.rest
    calendar, count = fine.calendar, n.count
    wall = calendar.wall(fine.times)
    # The previous period, for comparison.
    shown, begin = slice(-(n.observed_count + count), None), wall[-n.observed_count]
    x = calendar.wall(np.concatenate([fine.times[-1:], calendar.future(count - n.observed_count)]))
    plot.fan(ax, x, fine.values[-1], rest, levels, linewidth=1.4)
    style = {"linewidth": 1.0, "marker": "o", "markersize": 2.6}
    ax.axvspan(begin, wall[-1], color=plot.HISTORY_COLOR, alpha=0.07, linewidth=0)
    ax.plot(wall[shown], fine.values[shown], color=plot.HISTORY_COLOR, label="observed", **style)
    concise_dates(ax, x)
    text = n.in_words
    title = f"{n.period}: {text['median']} (80 %: {text['interval']})"
    ax.set_title(title, loc="left", fontsize=12, parse_math=False)
    note = f"shaded: {text['observed']}"
    ax.text(
        0.01, 0.985, note, transform=ax.transAxes, va="top", fontsize=8.5, color=plot.NOTE_COLOR
    )
    ax.set_ylabel(plot.short_name(fine.value_name), parse_math=False)
    low, high = ax.get_ylim()
    # Room for the note.
    ax.set_ylim(low, high + 0.08 * (high - low))
    tidy(ax)
    plot.plain_numbers(ax)
    legend_under(ax)
    return cast("Figure", ax.figure)
