"""Pictures of a latent function, its components, and a forecast."""

from __future__ import annotations

import numpy as np

from bayeskern.core.formatting import short
from bayeskern.diagnostics.report.style import (
    BLUE,
    GREY,
    INK,
    RULE,
    bands,
    below,
    dates,
    panels,
    points,
)

# So many letters of a name beside an axis.
LETTERS = 24


def functions(slices, y_label: str, quantity: str, data=None):
    """The function along each input: slices of (name, x, quantile); data: (x, y) of the first."""
    columns = 1 if len(slices) == 1 else 2
    made, axes = panels(len(slices), columns=columns, height=2.8 if columns == 1 else 2.0)
    for axis, (name, x, quantile) in zip(axes, slices, strict=True):
        _fan(axis, x, quantile)
        axis.set_xlabel(short(name, LETTERS))
    axes[0].set_ylabel(short(y_label, LETTERS))
    if data is not None:
        points(axes[0], *data, colour=INK, size=6, alpha=0.55, label="observed")
    below(made, axes[0], columns=6)
    return made


def _fan(axis, x, quantile) -> None:
    bands(axis, x, quantile)
    axis.plot(x, quantile(0.5), color=BLUE, label="median")
    dates(axis, x)
    axis.margins(x=0.01)


def components(parts, start_of_future=None, level: float = 0.0, x_label: str = "x"):
    """A panel for each component: parts name -> quantile (probability -> values at x)."""
    made, axes = panels(len(parts), columns=1, height=1.45)
    for axis, (name, (own, quantile)) in zip(axes, parts.items(), strict=True):
        if start_of_future is not None:
            axis.axvspan(max(own[0], start_of_future), own[-1], color=GREY, alpha=0.13, linewidth=0)
        _fan(axis, own, quantile)
        axis.set_title(short(name, LETTERS))
        if level is not None:
            axis.axhline(level, color=RULE, linewidth=0.8, zorder=0)
    axes[-1].set_xlabel(short(x_label, LETTERS))
    below(made, axes[0], columns=6)
    return made


def forecast(f, start: int):
    """The history from a place on, and the forecast with its bands."""
    made, (axis,) = panels(1, height=2.9)
    calendar = f.series.calendar
    x, y = calendar.wall(calendar.grid(0))[start:], f.series.on_grid()[start:]
    # NaN breaks the line, so that a gap is seen as a gap.
    axis.plot(x, y, color=INK, linewidth=0.9, marker="o" if len(x) <= 150 else None,
              markersize=2.2, label="observed")  # fmt: skip
    _fan(axis, calendar.wall(f.times), f.quantile)
    axis.set_xlabel(short(f.series.time_name, LETTERS))
    axis.set_ylabel(short(f.series.value_name, LETTERS))
    below(made, axis, columns=6)
    return made


def shares(names, values):
    made, (axis,) = panels(1, height=0.35 + 0.24 * len(names))
    axis.barh(np.arange(len(names)), 100 * np.asarray(values), color=BLUE, alpha=0.7)
    axis.set_yticks(range(len(names)), [short(name, 20) for name in names])
    axis.invert_yaxis()
    axis.grid(axis="y", visible=False)
    axis.set_xlabel("share of the variance, %")
    return made
