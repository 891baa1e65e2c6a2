"""Plots of forecasts, components, anomalies and backtests."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from bayeskern.core import validation
from bayeskern.core.formatting import counted, short
from bayeskern.core.plotting import concise_dates, figure, legend_under, tidy
from bayeskern.forecast.combine.components import components_at
from bayeskern.forecast.data.series import Series
from bayeskern.forecast.fitted_series import median_and_interval
from bayeskern.forecast.model.kernels import CYCLES, LEVEL
from bayeskern.forecast.show import interactive

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bayeskern.forecast.anomalies import Anomalies
    from bayeskern.forecast.backtest import Backtest
    from bayeskern.forecast.gaps import FilledSeries
    from bayeskern.forecast.result import Forecast
    from bayeskern.prediction.mixture import Quantiles

HISTORY_COLOR, FORECAST_COLOR, NOTE_COLOR, NAIVE_COLOR = "#333333", "#1f5fa8", "#8a8a8a", "#c2571a"
# Largest number of periods of the shortest season in a plot of components.
MAX_PERIODS = 40
# Shorten a name so that it fits in a title.
short_name = partial(short, max_length=32)


def forecast(
    f: Forecast,
    ax: Axes | None = None,
    levels: float | Sequence[float] = (0.5, 0.8, 0.95),
    whole: bool = False,
) -> Figure:
    """Plot the history, and the median of the forecast with central intervals.

    whole: Show the whole history, rather than its last seasons.
    """
    ax = figure().subplots() if ax is None else ax
    calendar = f.series.calendar
    _plot_history(ax, f.series, 0 if whole else first_shown(f))
    # Start the forecast at the last value, so that the lines are connected.
    last_value = f.series.values[-1]
    x = calendar.wall(np.concatenate([f.series.times[-1:], f.times]))
    fan(ax, x, last_value, f, levels)
    title = f"{short_name(f.series.name)}: {f.horizon} steps ahead"
    concise_dates(ax, x)
    return _finish(ax, f.series, title, f"{calendar.description}; fitted to {f.described}")


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


def forecast_by(
    backend: str, f: Forecast, ax: Axes | None, levels: float | Sequence[float], whole: bool
) -> Any:
    """Figure of a forecast by matplotlib or plotly. Arguments as in `Forecast.plot`."""
    if validation.one_of("backend", backend, ("matplotlib", "plotly")) == "matplotlib":
        return forecast(f, ax, levels, whole)
    if ax is not None:
        raise ValueError('ax belongs to matplotlib: leave it out, or use backend="matplotlib".')
    return interactive.forecast(f, levels, 0 if whole else first_shown(f))


def components(
    f: Forecast, fig: Figure | None = None, level: float = 0.95, whole: bool = False
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


def trend_with_cycles(f: Forecast, times: np.ndarray, level: float) -> dict[str, np.ndarray]:
    """Sum of a smooth trend and its cycles: its median and the ends of its intervals."""
    x = f.series.calendar.positions(times)
    total = components_at(f.parts[0].draws, f.seed, x, merged=(CYCLES,))[LEVEL]
    return median_and_interval(total, level)


def anomalies(result: Anomalies, ax: Axes | None = None) -> Figure:
    """Plot the values over their leave-one-out intervals, and mark the values outside."""
    ax = figure().subplots() if ax is None else ax
    series, outside = result.forecast.series, result.outside
    x = series.calendar.wall(result.times)
    lower, upper = result.interval
    label = f"{100 * result.level:.6g} % interval given all others"
    ax.fill_between(x, lower, upper, color=FORECAST_COLOR, alpha=0.2, linewidth=0, label=label)
    name = short_name(series.value_name)
    ax.plot(x, result.values, color=HISTORY_COLOR, linewidth=1.0, label=name)
    points = x[outside], result.values[outside]
    ax.scatter(*points, s=30, color=NAIVE_COLOR, zorder=3, label="outside")
    concise_dates(ax, x)
    title = f"{short_name(series.name)}: {outside.sum()} of {len(x)} values stand out"
    return _finish(ax, series, title, series.calendar.description)


def filled(result: FilledSeries, ax: Axes | None = None) -> Figure:
    """Plot a series, and the predictions of its missing values with their intervals."""
    ax = figure().subplots() if ax is None else ax
    series, missing, (lower, upper) = result.series, result.missing, result.interval
    x = series.calendar.wall(result.times)
    ax.plot(x, series.values, color=HISTORY_COLOR, linewidth=1.0, label="observed")
    # Lines join predictions to the observed values on both sides of a gap.
    beside = missing | np.append(missing[1:], False) | np.append(False, missing[:-1])
    median, low, high = (np.where(beside, y, np.nan) for y in (result.values, lower, upper))
    label = f"{100 * result.level:.6g} % interval given all observed values"
    ax.fill_between(x, low, high, color=FORECAST_COLOR, alpha=0.25, linewidth=0, label=label)
    ax.plot(x, median, color=FORECAST_COLOR, linewidth=1.2)
    size = 3.5 if missing.sum() <= 150 else 1.5
    style = {"color": FORECAST_COLOR, "marker": "o", "markersize": size, "linestyle": "none"}
    ax.plot(x[missing], result.values[missing], label="predicted", **style)
    concise_dates(ax, x)
    title = f"{short_name(series.name)}: {counted(int(missing.sum()), 'missing value')} filled"
    return _finish(ax, series, title, series.calendar.description)


def backtest(result: Backtest, ax: Axes | None = None, level: float = 0.8) -> Figure:
    """Plot the forecasts of all folds over the values that followed."""
    ax = figure().subplots() if ax is None else ax
    series, first_fold = result.series, result.folds[0]
    wall = series.calendar.wall
    # The history begins a little before the first cutoff.
    cutoff_step = int(series.calendar.steps()[first_fold.count - 1])
    _plot_history(ax, series, max(0, cutoff_step + 1 - 3 * first_fold.forecast.horizon))
    # The legend names the lines of one fold.
    labels = (f"median and {100 * level:g} % interval", "seasonal naive")
    for fold in result.folds:
        lower, upper = fold.forecast.interval(level)
        x, pick = wall(fold.times), fold.pick
        median, naive = fold.forecast.median[pick], fold.naive.mean[pick]
        ax.fill_between(x, lower[pick], upper[pick], color=FORECAST_COLOR, alpha=0.2, linewidth=0)
        ax.plot(x, median, color=FORECAST_COLOR, linewidth=1.5, label=labels[0])
        ax.plot(x, naive, color=NAIVE_COLOR, linewidth=0.9, linestyle=":", label=labels[1])
        labels = (None, None)
        cutoff = wall(series.times[[fold.count - 1]])[0]
        ax.axvline(cutoff, color=NOTE_COLOR, linewidth=0.7, linestyle="--")
    concise_dates(ax, wall(result.folds[-1].times))
    title = f"{short_name(series.name)}: forecasts from {len(result.folds)} past dates"
    return _finish(ax, series, title, "dashed: the last value each forecast saw")


def shade(weight: float) -> tuple[float, ...]:
    """Opaque forecast colour, lighter for a smaller weight."""
    from matplotlib.colors import to_rgb  # slow to import

    return tuple(1.0 - 0.6 * weight * (1.0 - c) for c in to_rgb(FORECAST_COLOR))


def first_shown(f: Forecast) -> int:
    """First step shown of the history.

    The plot shows 3 horizons, 3 seasons or 30 steps of history, whichever is longest.
    """
    season = min(f.seasons.values(), default=0.0) / f.series.calendar.step
    count = int(f.series.calendar.steps()[-1]) + 1
    return max(0, count - int(max(3 * f.horizon, 3 * season, 30)))


def _first_of_components(f: Forecast) -> int:
    """First step shown of the components.

    More periods of the shortest season would look like a solid band.
    """
    count = int(f.series.calendar.steps()[-1]) + 1
    if not f.seasons:
        return 0
    shortest, longest = (pick(f.seasons.values()) / f.series.calendar.step for pick in (min, max))
    return max(0, count - round(max(MAX_PERIODS * shortest, 2 * longest, 3 * f.horizon)))


def _plot_history(ax: Axes, series: Series, start: int = 0) -> None:
    """Plot the observed values from step `start` of the calendar."""
    # NaN breaks the line at gaps.
    x, y = series.calendar.wall(series.calendar.grid(0))[start:], series.on_grid()[start:]
    # Dots show single values between gaps; with many values they are as thin as the line.
    size = 2.6 if len(x) <= 150 else 1.0
    style = {"marker": "o", "markersize": size, "linewidth": 1.0}
    ax.plot(x, y, color=HISTORY_COLOR, label="observed", **style)


def _finish(ax: Axes, series: Series, title: str, note: str) -> Figure:
    """Add titles, the label of the values and a legend; return the figure."""
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
