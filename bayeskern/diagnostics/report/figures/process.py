"""Figures of a latent function, its components, and a forecast."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bayeskern.core.formatting import short
from bayeskern.core.plotting import BLUE, concise_dates
from bayeskern.diagnostics.report.figures.style import (
    GREY,
    INK,
    RULE,
    bands,
    legend_above,
    panel,
    panels,
    points,
)
from bayeskern.forecast.result import Forecast

# Quantile at each point, by probability.
Quantile = Callable[[float], np.ndarray]


def functions(
    slices: Sequence[tuple[str, np.ndarray, Quantile]],
    y_label: str,
    data: tuple[np.ndarray, np.ndarray] | None = None,
) -> Any:
    """The function along each input: (name, x, quantile); data: (x, y) of the first input."""
    columns = 1 if len(slices) == 1 else 2
    fig, axes = panels(len(slices), columns=columns, height=2.8 if columns == 1 else 2.0)
    for ax, (name, x, quantile) in zip(axes, slices, strict=True):
        _fan(ax, x, quantile)
        ax.set_xlabel(short(name, 24))
    axes[0].set_ylabel(short(y_label, 24))
    if data is not None:
        points(axes[0], *data, color=INK, size=6, alpha=0.55, label="observed")
    legend_above(fig, axes[0], columns=6)
    return fig


def _fan(ax, x: np.ndarray, quantile: Quantile) -> None:
    bands(ax, x, quantile)
    ax.plot(x, quantile(0.5), color=BLUE, label="median")
    concise_dates(ax, x)
    ax.margins(x=0.01)


def components(
    parts: Mapping[str, tuple[np.ndarray, Quantile]],
    start_of_future: Any = None,
    level: float | None = 0.0,
    x_label: str = "x",
) -> Any:
    """A panel for each component, name -> (x, quantile).

    level: height of a line across each panel, if any.
    """
    fig, axes = panels(len(parts), columns=1, height=1.45)
    for ax, (name, (x, quantile)) in zip(axes, parts.items(), strict=True):
        if start_of_future is not None:
            ax.axvspan(max(x[0], start_of_future), x[-1], color=GREY, alpha=0.13, linewidth=0)
        _fan(ax, x, quantile)
        ax.set_title(short(name, 24))
        if level is not None:
            ax.axhline(level, color=RULE, linewidth=0.8, zorder=0)
    axes[-1].set_xlabel(short(x_label, 24))
    legend_above(fig, axes[0], columns=6)
    return fig


def forecast(f: Forecast, start: int) -> Any:
    """The history from index `start` on, and the forecast with its bands."""
    fig, ax = panel(2.9)
    calendar = f.series.calendar
    x, y = calendar.wall(calendar.grid(0))[start:], f.series.on_grid()[start:]
    marker = "o" if len(x) <= 150 else None
    # NaN breaks the line at a gap.
    ax.plot(x, y, color=INK, linewidth=0.9, marker=marker, markersize=2.2, label="observed")
    _fan(ax, calendar.wall(f.times), f.quantile)
    ax.set_xlabel(short(f.series.time_name, 24))
    ax.set_ylabel(short(f.series.value_name, 24))
    legend_above(fig, ax, columns=6)
    return fig


def variance_shares(names: list[str], shares: np.ndarray) -> Any:
    """The share of the variance of each component."""
    fig, ax = panel(0.35 + 0.24 * len(names))
    ax.barh(np.arange(len(names)), 100 * np.asarray(shares), color=BLUE, alpha=0.7)
    ax.set_yticks(range(len(names)), [short(name, 20) for name in names])
    ax.invert_yaxis()
    ax.grid(axis="y", visible=False)
    ax.set_xlabel("share of the variance, %")
    return fig
