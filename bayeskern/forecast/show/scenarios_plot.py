"""Plot of scenarios and of their differences from the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayeskern.core.formatting import short
from bayeskern.core.plotting import COLORS, concise_dates, figure, tidy
from bayeskern.forecast.show.plot import HISTORY_COLOR, NOTE_COLOR, first_shown
from bayeskern.prediction.mixture import central_probabilities

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bayeskern.forecast.scenarios import ScenarioComparison


def comparison(result: ScenarioComparison, level: float, fig: Figure | None = None) -> Figure:
    """Plot scenarios with central intervals, and differences from the reference."""
    fig = figure((9.0, 6.4)) if fig is None else fig
    above, below = fig.subplots(2, 1, gridspec_kw={"height_ratios": [3, 2]})
    f = result.first
    calendar, start = f.series.calendar, first_shown(f)
    past = calendar.wall(calendar.grid(0))[start:]
    above.plot(past, f.series.on_grid()[start:], color=HISTORY_COLOR, linewidth=1.0)
    x = calendar.wall(f.times)
    probabilities = central_probabilities(level)
    colors = dict(zip(result.forecasts, _colors(len(result.forecasts)), strict=True))
    for name, forecast in result.forecasts.items():
        median, lower, upper = forecast.quantile(probabilities)
        label, color = short(name, 32), colors[name]
        above.fill_between(x, lower, upper, color=color, alpha=0.15, linewidth=0)
        above.plot(x, median, color=color, linewidth=1.6, label=label)
    below.axhline(0.0, color=colors[result.reference], linewidth=1.2)
    marker = "o" if f.horizon == 1 else None
    for name, difference in result.differences.items():
        median, lower, upper = np.quantile(difference, probabilities, axis=0)
        below.fill_between(x, lower, upper, color=colors[name], alpha=0.2, linewidth=0)
        below.plot(x, median, color=colors[name], linewidth=1.6, marker=marker)
    for ax in (above, below):
        concise_dates(ax, x)
        tidy(ax)
    title = f"{short(f.series.name, 32)}: scenarios"
    note = f"medians and {100 * level:g} % intervals"
    above.set_title(title, loc="left", fontsize=12, parse_math=False)
    above.set_title(note, loc="right", fontsize=8.5, color=NOTE_COLOR)
    above.set_ylabel(short(f.series.value_name, 32), parse_math=False)
    below.set_title(
        f"difference from {short(result.reference, 32)}", loc="left", fontsize=10, parse_math=False
    )
    legend = above.legend(
        loc="upper left", bbox_to_anchor=(0.0, -0.1), ncols=4, frameon=False, fontsize=9
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
    return fig


def _colors(count: int) -> list[str]:
    """Colour of each scenario; colours repeat after eight scenarios."""
    return [COLORS[i % len(COLORS)] for i in range(count)]
