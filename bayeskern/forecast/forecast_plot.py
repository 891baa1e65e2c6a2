"""Plots of a forecast and of its components, by matplotlib and by plotly."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeskern.core import extras, validation
from bayeskern.core.formatting import printable
from bayeskern.core.plotting import concise_dates, figure, tidy
from bayeskern.forecast.combine.components import components_at
from bayeskern.forecast.fitted_series import median_and_interval
from bayeskern.forecast.forecast_text import predictive_format
from bayeskern.forecast.model.kernels import CYCLES, LEVEL
from bayeskern.forecast.predicted_series import LEVELS, PredictedSeries
from bayeskern.forecast.show.plot import (
    FORECAST_COLOR,
    NOTE_COLOR,
    fan,
    finish,
    plain_numbers,
    plot_history,
    short_name,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Largest number of periods of the shortest season in a plot of components.
MAX_PERIODS = 40


def forecast(
    f: PredictedSeries,
    ax: Axes | None = None,
    levels: float | Sequence[float] = LEVELS,
    whole: bool = False,
) -> Figure:
    """Plot the history, and the median of the forecast with central intervals.

    whole: Show the whole history, rather than its last seasons.
    """
    ax = figure().subplots() if ax is None else ax
    calendar = f.series.calendar
    plot_history(ax, f.series, 0 if whole else first_shown(f))
    # Start the forecast at the last value, so that the lines are connected.
    last_value = f.series.values[-1]
    x = calendar.wall(np.concatenate([f.series.times[-1:], f.times]))
    fan(ax, x, last_value, f, levels)
    title = f"{short_name(f.series.name)}: {f.horizon} steps ahead"
    return finish(ax, x, f.series, title, f"{calendar.description}; fitted to {f.described}")


def first_shown(f: PredictedSeries) -> int:
    """First step shown of the history.

    The plot shows 3 horizons, 3 seasons or 30 steps of history, whichever is longest.
    """
    season = min(f.seasons.values(), default=0.0) / f.series.calendar.step
    count = int(f.series.calendar.steps()[-1]) + 1
    return max(0, count - int(max(3 * f.horizon, 3 * season, 30)))


def components(
    f: PredictedSeries, fig: Figure | None = None, level: float = 0.95, whole: bool = False
) -> Figure:
    """Plot the components over history and future, in panels on one time axis.

    The cycles of a smooth trend are drawn as a part of it. The data determine their sum better than
    either of them: a higher trend with lower cycles fits as well.

    Args:
        f: The forecast.
        fig: Figure to draw in; a new one if None.
        level: Probability of the intervals.
        whole: Show the whole history, rather than the last `MAX_PERIODS` of the shortest season.
    """
    fig = figure() if fig is None else fig
    calendar = f.series.calendar
    times = calendar.grid(f.horizon)[0 if whole else _first_of_components(f) :]
    intervals = f.decompose(times, level)
    trend_alone = None
    if CYCLES in intervals:
        del intervals[CYCLES]
        trend_alone = intervals[LEVEL]["median"]
        intervals[LEVEL] = trend_with_cycles(f, times, level)
    now = calendar.wall(f.series.times[-1:])[0]
    unit = "" if f.choices.likelihood is None else f.choices.likelihood.unit
    fig.set_size_inches(9.0, 1.2 + 1.9 * len(intervals))
    panels = np.atleast_1d(fig.subplots(len(intervals), 1, sharex=True))
    x = calendar.wall(times)
    for ax, (name, interval) in zip(panels, intervals.items(), strict=True):
        ax.axvspan(max(x[0], now), x[-1], color=FORECAST_COLOR, alpha=0.07, linewidth=0)
        color = FORECAST_COLOR
        ax.fill_between(
            x, interval["lower"], interval["upper"], color=color, alpha=0.22, linewidth=0
        )
        ax.plot(x, interval["median"], color=color, linewidth=1.3)
        note = unit
        if name != f.components[0]:
            # The line marks the absence of an effect: a factor of 1 or a difference of 0.
            ax.axhline(1.0 if f.scale.log else 0.0, color=NOTE_COLOR, linewidth=0.7, zorder=0)
            if f.scale.log:
                note = f"factor of the {unit}" if unit else "factor"
        title = short_name(name.replace("_", " "))
        if name == LEVEL and trend_alone is not None:
            title += " with cycles; dashed: without"
            ax.plot(x, trend_alone, color=NOTE_COLOR, linewidth=1.0, linestyle="--")
        title += f" ({note})" if note else ""
        ax.set_title(title, loc="left", fontsize=10, parse_math=False)
        tidy(ax)
        plain_numbers(ax)
    concise_dates(panels[-1], x)
    title = f"{short_name(f.series.name)}: components"
    note = f"{100 * level:g} % intervals; shaded: the future"
    fig.suptitle(f"{title} ({note})", fontsize=11, parse_math=False)
    return fig


def trend_with_cycles(f: PredictedSeries, times: np.ndarray, level: float) -> dict[str, np.ndarray]:
    """Sum of a smooth trend and its cycles: its median and the ends of its intervals."""
    x = f.series.calendar.positions(times)
    total = components_at(f.parts[0].draws, f.seed, x, merged=(CYCLES,))[LEVEL]
    return median_and_interval(total, level)


def _first_of_components(f: PredictedSeries) -> int:
    """First step shown of the components.

    More periods of the shortest season would look like a solid band.
    """
    count = int(f.series.calendar.steps()[-1]) + 1
    if not f.seasons:
        return 0
    shortest, longest = (pick(f.seasons.values()) / f.series.calendar.step for pick in (min, max))
    return max(0, count - round(max(MAX_PERIODS * shortest, 2 * longest, 3 * f.horizon)))


# RGB of `FORECAST_COLOR`.
FORECAST_RGB = "31, 95, 168"


def interactive(f: PredictedSeries, levels: float | Sequence[float], whole: bool) -> Any:
    """Plotly figure of the history, the median and the intervals.

    Args:
        f: The forecast.
        levels: Probabilities of the central intervals.
        whole: Show the whole history; if False, zooming out shows steps before its last seasons.

    Returns:
        A plotly.graph_objects.Figure.

    Raises:
        ImportError: If plotly is not installed.
    """
    with extras.needed_for('plot(backend="plotly")', package="plotly", extra="plotly"):
        from plotly import graph_objects
    levels = sorted(map(validation.level, np.ravel(levels)), reverse=True)
    calendar, show = f.series.calendar, predictive_format(f)
    start = 0 if whole else first_shown(f)
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
