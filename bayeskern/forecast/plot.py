"""Pictures of a forecast: history and future, components, and the rolling origin."""

from __future__ import annotations

import numpy as np

from bayeskern.core import validation
from bayeskern.core.formatting import short
from bayeskern.core.plotting import figure

HISTORY, FUTURE, PAST = "#333333", "#1f5fa8", "#8a8a8a"
# More history than this many horizons hides what is asked for.
HORIZONS_SHOWN = 5
# Of a name; longer ones would not fit.
LETTERS = 32


def forecast(f, ax=None, levels=(0.5, 0.8, 0.95)):
    """The history and the forecast: median and a fan of central intervals."""
    ax = figure().subplots() if ax is None else ax
    levels = np.ravel(levels)
    _history(ax, f.series, first_shown(f))
    # Joined to the last value, so that the eye does not have to jump.
    last = f.series.values[-1]
    x = f.series.calendar.wall(np.concatenate([f.series.times[-1:], f.times]))
    for i, level in enumerate(sorted(levels, reverse=True)):
        lower, upper = (
            np.concatenate([[last], side]) for side in f.interval(validation.level(level))
        )
        shade = _shade((i + 1) / (len(levels) + 1.0))
        label = f"{100 * level:g} % interval"
        ax.fill_between(x, lower, upper, color=shade, linewidth=0, label=label)
    ax.plot(x, np.concatenate([[last], f.median]), color=FUTURE, linewidth=1.6, label="median")
    scale = "the logarithm" if f.scale.log else "the values as given"
    _finish(
        ax,
        f"{short(f.series.name, LETTERS)}: {f.horizon} steps ahead",
        f"{f.series.calendar.description}; fitted to {scale}",
    )
    ax.set_ylabel(short(f.series.value_name, LETTERS), parse_math=False)
    _legend(ax)
    return ax.figure


def _shade(weight: float):
    """The colour of the future mixed with white: opaque, so that the legend shows what is drawn."""
    from matplotlib.colors import to_rgb

    return tuple(1.0 - 0.6 * weight * (1.0 - c) for c in to_rgb(FUTURE))


def first_shown(f) -> int:
    """The first step of the history that is shown: as much as the horizon and the season ask."""
    season = max(f.seasons.values(), default=0.0) / f.series.calendar.step
    count = int(f.series.calendar.steps()[-1]) + 1
    return max(0, count - int(max(HORIZONS_SHOWN * f.horizon, 3 * season, 30)))


def _history(ax, series, start=0):
    """What was observed, from a step of the calendar on."""
    # NaN breaks the line, so that a gap is seen as a gap.
    x, y = series.calendar.wall(series.calendar.grid(0))[start:], series.on_grid()[start:]
    few = len(x) <= 150
    marker = "o" if few else None
    style = {"color": HISTORY, "linewidth": 1.0, "markersize": 2.6}
    ax.plot(x, y, marker=marker, label="observed", **style)
    # A value between two gaps is no line.
    near = np.pad(np.isfinite(y), 1)
    alone = np.isfinite(y) & ~near[:-2] & ~near[2:]
    if not few and alone.any():
        ax.plot(x[alone], y[alone], "o", **style)


def components(f, fig=None, level: float = 0.95):
    """One panel for each component, over history and future."""
    fig = figure() if fig is None else fig
    times = f.series.calendar.grid(f.horizon)
    parts = f.decompose(times, level)
    now = f.series.calendar.wall(f.series.times[-1:])[0]
    fig.set_size_inches(9.0, 1.2 + 1.9 * len(parts))
    panels = np.atleast_1d(fig.subplots(len(parts), 1, sharex=False))
    for ax, name in zip(panels, parts, strict=True):
        shown = slice(*_window(f, name, len(times)))
        x = f.series.calendar.wall(times[shown])
        part = {side: values[shown] for side, values in parts[name].items()}
        ax.axvspan(max(x[0], now), x[-1], color=FUTURE, alpha=0.07, linewidth=0)
        ax.fill_between(x, part["lower"], part["upper"], color=FUTURE, alpha=0.22, linewidth=0)
        ax.plot(x, part["median"], color=FUTURE, linewidth=1.3)
        if name != "trend":
            ax.axhline(1.0 if f.scale.log else 0.0, color=PAST, linewidth=0.7, zorder=0)
        as_factor = f.scale.log and name != "trend"
        ax.set_title(name + (" (factor)" if as_factor else ""), loc="left", fontsize=10)
        _clean(ax)
    note = f"{100 * level:g} % intervals; shaded: the future"
    fig.suptitle(
        f"{short(f.series.name, LETTERS)}: components ({note})", fontsize=11, parse_math=False
    )
    return fig


def _window(f, name, count):
    """A season is shown for a few of its periods around the last observation."""
    period = f.seasons.get(name)
    if period is None:
        return 0, count
    steps = max(4, int(np.ceil(2 * period / f.series.calendar.step)) + 1)
    now = count - f.horizon
    return max(0, now - steps), min(count, now + steps)


def backtest(result, ax=None, level: float = 0.8):
    """The forecasts made at each cutoff over what came true."""
    ax = figure().subplots() if ax is None else ax
    series = result.series
    # From a little before the first cutoff.
    first = result.folds[0]
    steps, horizon = series.calendar.steps(), first.forecast.horizon
    start = max(0, int(steps[first.count - 1]) + 1 - 3 * horizon)
    _history(ax, series, start)
    for i, fold in enumerate(result.folds):
        lower, upper = fold.forecast.interval(level)
        x = series.calendar.wall(fold.times)
        label = (
            (f"median and {100 * level:g} % interval", "seasonal naive") if i == 0 else (None, None)
        )
        pick = fold.pick
        ax.fill_between(x, lower[pick], upper[pick], color=FUTURE, alpha=0.2, linewidth=0)
        ax.plot(x, fold.forecast.median[pick], color=FUTURE, linewidth=1.5, label=label[0])
        ax.plot(
            x, fold.naive.mean[pick], color="#c2571a", linewidth=0.9, linestyle=":", label=label[1]
        )
        cutoff = series.calendar.wall(series.times[[fold.count - 1]])[0]
        ax.axvline(cutoff, color=PAST, linewidth=0.7, linestyle="--")
    _finish(
        ax,
        f"{short(series.name, LETTERS)}: forecasts from {len(result.folds)} past dates",
        "dashed: the last value each forecast saw",
    )
    ax.set_ylabel(short(series.value_name, LETTERS), parse_math=False)
    _legend(ax)
    return ax.figure


def _finish(ax, title: str, note: str) -> None:
    # A name may have dollars in it, which are no formulas.
    ax.set_title(title, loc="left", fontsize=12, parse_math=False)
    ax.set_title(note, loc="right", fontsize=8.5, color=PAST)
    _clean(ax)


def _legend(ax) -> None:
    """Below the panel, where it hides nothing."""
    ax.legend(
        loc="upper left", bbox_to_anchor=(0.0, -0.08), ncols=5, frameon=False, fontsize=9,
        borderaxespad=0.0,
    )  # fmt: skip


def _clean(ax) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="#dddddd", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.margins(x=0.01)
