"""Pictures of a forecast: history and future, components, and forecasts from past dates."""

from __future__ import annotations

import numpy as np

from bayeskern.core import validation
from bayeskern.core.formatting import short
from bayeskern.core.plotting import concise_dates, figure, tidy

HISTORY, FUTURE, PAST, NAIVE = "#333333", "#1f5fa8", "#8a8a8a", "#c2571a"
# More history than this many horizons hides what is asked for.
HORIZONS_SHOWN = 3
# Longer lines than this show no dot for each value.
MOST_DOTS = 150
# Longer names would not fit.
LETTERS = 32


def forecast(f, ax=None, levels=(0.5, 0.8, 0.95), whole: bool = False):
    """The history and the forecast: median and a fan of central intervals; returns the figure.

    whole: whether to show all of the history, not only its last seasons.
    """
    ax = figure().subplots() if ax is None else ax
    levels = np.ravel(levels)
    calendar = f.series.calendar
    _history(ax, f.series, 0 if whole else first_shown(f))
    # The forecast is joined to the last value, so that the eye does not have to jump.
    last_value = f.series.values[-1]
    x = calendar.wall(np.concatenate([f.series.times[-1:], f.times]))
    for i, level in enumerate(sorted(levels, reverse=True)):
        lower, upper = (
            np.concatenate([[last_value], side]) for side in f.interval(validation.level(level))
        )
        shade = _shade((i + 1) / (len(levels) + 1.0))
        label = f"{100 * level:g} % interval"
        ax.fill_between(x, lower, upper, color=shade, linewidth=0, label=label)
    median = np.concatenate([[last_value], f.median])
    ax.plot(x, median, color=FUTURE, linewidth=1.6, label="median")
    title = f"{short(f.series.name, LETTERS)}: {f.horizon} steps ahead"
    concise_dates(ax, x)
    return _finish(ax, f.series, title, f"{calendar.description}; fitted to {f.described}")


def components(f, fig=None, level: float = 0.95):
    """One panel for each component, over history and future; returns the figure."""
    fig = figure() if fig is None else fig
    calendar = f.series.calendar
    times = calendar.grid(f.horizon)
    intervals = f.decompose(times, level)
    now = calendar.wall(f.series.times[-1:])[0]
    fig.set_size_inches(9.0, 1.2 + 1.9 * len(intervals))
    panels = np.atleast_1d(fig.subplots(len(intervals), 1, sharex=False))
    for ax, (name, interval) in zip(panels, intervals.items(), strict=True):
        window = _window(f, name, len(times))
        x = calendar.wall(times[window])
        lower, median, upper = (interval[side][window] for side in ("lower", "median", "upper"))
        ax.axvspan(max(x[0], now), x[-1], color=FUTURE, alpha=0.07, linewidth=0)
        ax.fill_between(x, lower, upper, color=FUTURE, alpha=0.22, linewidth=0)
        ax.plot(x, median, color=FUTURE, linewidth=1.3)
        is_level = name == f.components[0]
        if not is_level:
            ax.axhline(1.0 if f.scale.log else 0.0, color=PAST, linewidth=0.7, zorder=0)
        unit = "" if f.choices.likelihood is None else f.choices.likelihood.unit
        note = f" ({unit})" if unit else ""
        if f.scale.log and not is_level:
            note = f" (factor of the {unit})" if unit else " (factor)"
        title = short(name.replace("_", " "), LETTERS) + note
        ax.set_title(title, loc="left", fontsize=10, parse_math=False)
        concise_dates(ax, x)
        tidy(ax)
    title = f"{short(f.series.name, LETTERS)}: components"
    note = f"{100 * level:g} % intervals; shaded: the future"
    fig.suptitle(f"{title} ({note})", fontsize=11, parse_math=False)
    return fig


def anomalies(found, ax=None):
    """The fitted values over the intervals that all others give them, and those outside."""
    ax = figure().subplots() if ax is None else ax
    series, times = found.forecast.series, found.times
    x = series.calendar.wall(times)
    lower, upper = found.interval
    label = f"{100 * found.level:.6g} % interval given all others"
    ax.fill_between(x, lower, upper, color=FUTURE, alpha=0.2, linewidth=0, label=label)
    ax.plot(x, found.values, color=HISTORY, linewidth=1.0, label=short(series.value_name, LETTERS))
    outside = found.outside
    style = {"linestyle": "none", "marker": "o", "markersize": 5.5, "color": NAIVE}
    ax.plot(x[outside], found.values[outside], label="outside", zorder=3, **style)
    concise_dates(ax, x)
    title = f"{short(series.name, LETTERS)}: {int(outside.sum())} of {len(times)} values stand out"
    return _finish(ax, series, title, series.calendar.description)


def backtest(result, ax=None, level: float = 0.8):
    """The forecasts made at each cutoff over what came true; returns the figure."""
    ax = figure().subplots() if ax is None else ax
    series, first_fold = result.series, result.folds[0]
    wall = series.calendar.wall
    # The history begins a little before the first cutoff.
    cutoff_step = int(series.calendar.steps()[first_fold.count - 1])
    _history(ax, series, max(0, cutoff_step + 1 - 3 * first_fold.forecast.horizon))
    # The legend names the lines of one fold.
    labels = {"median": f"median and {100 * level:g} % interval", "naive": "seasonal naive"}
    for fold in result.folds:
        lower, upper = fold.forecast.interval(level)
        x, pick = wall(fold.times), fold.pick
        median, naive = fold.forecast.median[pick], fold.naive.mean[pick]
        ax.fill_between(x, lower[pick], upper[pick], color=FUTURE, alpha=0.2, linewidth=0)
        ax.plot(x, median, color=FUTURE, linewidth=1.5, label=labels.pop("median", None))
        style = {"color": NAIVE, "linewidth": 0.9, "linestyle": ":"}
        ax.plot(x, naive, label=labels.pop("naive", None), **style)
        cutoff = wall(series.times[[fold.count - 1]])[0]
        ax.axvline(cutoff, color=PAST, linewidth=0.7, linestyle="--")
    concise_dates(ax, x)
    title = f"{short(series.name, LETTERS)}: forecasts from {len(result.folds)} past dates"
    return _finish(ax, series, title, "dashed: the last value each forecast saw")


def _shade(weight: float):
    """The colour of the future mixed with white: opaque, so that the legend shows what is drawn."""
    from matplotlib.colors import to_rgb  # slow to import

    return tuple(1.0 - 0.6 * weight * (1.0 - c) for c in to_rgb(FUTURE))


def first_shown(f) -> int:
    """The first step of the history that is shown: as much as the horizon and the season ask."""
    season = min(f.seasons.values(), default=0.0) / f.series.calendar.step
    count = int(f.series.calendar.steps()[-1]) + 1
    return max(0, count - int(max(HORIZONS_SHOWN * f.horizon, 3 * season, 30)))


def _window(f, name: str, count: int) -> slice:
    """Which of `count` times to show: of a season, a few periods around the last observation."""
    period = f.seasons.get(name)
    if period is None:
        return slice(0, count)
    steps = max(4, int(np.ceil(2 * period / f.series.calendar.step)) + 1)
    now = count - f.horizon
    return slice(max(0, now - steps), min(count, now + steps))


def _history(ax, series, start: int = 0) -> None:
    """What was observed, from a step of the calendar on."""
    # NaN breaks the line, so that a gap is seen as a gap.
    x, y = series.calendar.wall(series.calendar.grid(0))[start:], series.on_grid()[start:]
    dots = len(x) <= MOST_DOTS
    style = {"color": HISTORY, "linewidth": 1.0, "markersize": 2.6}
    ax.plot(x, y, marker="o" if dots else None, label="observed", **style)
    # A value between two gaps is no line.
    there = np.pad(np.isfinite(y), 1)
    alone = np.isfinite(y) & ~there[:-2] & ~there[2:]
    if not dots and alone.any():
        ax.plot(x[alone], y[alone], "o", **style)


def _finish(ax, series, title: str, note: str):
    """Titles, the axis of values and a legend below the panel, where it hides nothing."""
    # A name may have dollars in it, which are no formulas.
    ax.set_title(title, loc="left", fontsize=12, parse_math=False)
    ax.set_title(note, loc="right", fontsize=8.5, color=PAST)
    ax.set_ylabel(short(series.value_name, LETTERS), parse_math=False)
    tidy(ax)
    ax.legend(
        loc="upper left", bbox_to_anchor=(0.0, -0.08), ncols=5, frameon=False, fontsize=9,
        borderaxespad=0.0,
    )  # fmt: skip
    return ax.figure
