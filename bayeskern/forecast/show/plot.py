"""Parts of plots of series: history, fan of intervals, titles and legend."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np

from bayeskern.core import validation
from bayeskern.core.formatting import short
from bayeskern.core.plotting import concise_dates, legend_under, tidy
from bayeskern.prediction.mixture import Quantiles
from bayeskern.series.series import Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HISTORY_COLOR, FORECAST_COLOR, NOTE_COLOR, NAIVE_COLOR = "#333333", "#1f5fa8", "#8a8a8a", "#c2571a"
# Shorten a name so that it fits in a title.
short_name = partial(short, max_length=32)


def fan(
    ax: Axes,
    x: np.ndarray,
    last_value: float,
    prediction: Quantiles,
    levels: float | Sequence[float],
    linewidth: float = 1.6,
) -> None:
    """Draw the median and central intervals of a prediction, from the last known value on.

    Args:
        ax: Axes to draw in.
        x: Time of the last value and times of the prediction, (1 + m,).
        last_value: The last known value.
        prediction: The prediction at m times.
        levels: Probabilities of the intervals.
        linewidth: Width of the line of the median.
    """
    levels = sorted(map(validation.level, np.ravel(levels)), reverse=True)
    for i, level in enumerate(levels):
        lower, upper = (np.append(last_value, end) for end in prediction.interval(level))
        color = shade((i + 1) / (len(levels) + 1.0))
        label = f"{100 * level:g} % interval"
        ax.fill_between(x, lower, upper, color=color, linewidth=0, label=label)
    median = np.append(last_value, prediction.median)
    ax.plot(x, median, color=FORECAST_COLOR, linewidth=linewidth, label="median")


def shade(weight: float) -> tuple[float, ...]:
    """Opaque forecast colour, lighter for a smaller weight."""
    from matplotlib.colors import to_rgb  # slow to import

    return tuple(1.0 - 0.6 * weight * (1.0 - c) for c in to_rgb(FORECAST_COLOR))


def plot_history(ax: Axes, series: Series, start: int = 0) -> None:
    """Plot the observed values from step `start` of the calendar."""
    # NaN breaks the line at gaps.
    x, y = series.calendar.wall(series.calendar.grid(0))[start:], series.on_grid()[start:]
    # Dots show single values between gaps; with many values they are as thin as the line.
    size = 2.6 if len(x) <= 150 else 1.0
    style = {"marker": "o", "markersize": size, "linewidth": 1.0}
    ax.plot(x, y, color=HISTORY_COLOR, label="observed", **style)


def finish(ax: Axes, x: np.ndarray, series: Series, title: str, note: str) -> Figure:
    """Add dates if x has them, titles, the label of the values and a legend; return the figure."""
    concise_dates(ax, x)
    # No math: names may contain dollar signs.
    ax.set_title(title, loc="left", fontsize=12, parse_math=False)
    ax.set_title(note, loc="right", fontsize=8.5, color=NOTE_COLOR)
    ax.set_ylabel(short_name(series.value_name), parse_math=False)
    tidy(ax)
    plain_numbers(ax)
    legend_under(ax)
    return cast("Figure", ax.figure)


def plain_numbers(ax: Axes) -> None:
    """Write numbers on the y axis in full, unless they are very large or small."""
    from matplotlib.ticker import FuncFormatter  # slow to import

    low, high = ax.get_ylim()
    if 1e4 <= max(abs(low), abs(high)) < 1e10:
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
