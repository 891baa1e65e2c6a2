"""Forecasts as text."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayeskern.core.formatting import printable, printable_lines, short

if TYPE_CHECKING:
    from bayeskern.forecast.result import Forecast


def summary(f: Forecast, rows: int = 6, level: float = 0.95) -> str:
    """Summary of a forecast: the series, the structures, the verdict and the next values.

    Args:
        f: The forecast.
        rows: Number of future times to show, besides the last one.
        level: Probability of the intervals.

    Returns:
        Text of several lines.

    Examples:
        A constant series is not fitted:

        >>> from bayeskern.forecast.forecast import forecast
        >>> print(summary(forecast([3.0, 3.0, 3.0, 3.0], 2)))
        value: 4 values of value, 0 to 3
          time      integers, step 1
          seasons   none
          scale     the values as given
          verdict   not assessable: The series is constant: nothing shows how it may vary.
          remark    the series is constant: the forecast is flat and its interval has no width
        <BLANKLINE>
          time  median   95 % interval
             4   3.000  3.000 to 3.000
             5   3.000  3.000 to 3.000
    """
    series = f.series
    first, last = f.time_labels(series.times[[0, -1]])
    count = int(series.observed.sum())
    lengths = [series.calendar.in_words(period) for period in f.seasons.values()]
    facts = [
        ("time", series.calendar.description),
        ("seasons", " and ".join(lengths) or "none"),
        ("scale", f.described),
        *([("structure", f.structure)] if f.parts else []),
        *([("effects", _effects(f))] if f.parts and f.choices.effects is not None else []),
        ("verdict", f"{f.trust.verdict}: {f.trust.advice}"),
        *(("remark", remark) for remark in f.remarks),
    ]
    name, value_name = short(series.name, 80), short(series.value_name, 80)
    lines = [f"{name}: {count} values of {value_name}, {first} to {last}"]
    for name, text in facts:
        lines += textwrap.wrap(
            text, width=100, initial_indent=f"  {name:<10}", subsequent_indent=" " * 12
        )
    return printable_lines("\n".join([*lines, "", *_value_lines(f, rows, level)]))


def _effects(f: Forecast) -> str:
    """Text of the six clearest effects, by distance from no effect in interval widths."""
    effects = f.choices.effects
    if effects is None:
        return ""
    table = f.effects()
    no_effect, prefix = (1.0, "x ") if f.scale.log else (0.0, "")
    distance = abs(table["median"] - no_effect) / (table["upper"] - table["lower"])
    shown = table.loc[distance.sort_values(ascending=False, kind="stable").index[:6]]
    texts = [
        f"{row.Index} {prefix}{row.median:{'.3g' if f.scale.log else '+.3g'}} "
        f"({row.lower:.3g} to {row.upper:.3g})"
        for row in shown.itertuples()
    ]
    texts += [f"{name} by its kernel" for name in effects.columns[effects.linear :]]
    if len(table) > len(shown):
        texts.append(f"and {len(table) - len(shown)} more")
    return "; ".join(texts)


def _value_lines(f: Forecast, rows: int, level: float) -> list[str]:
    """Lines of a table of the first `rows` future values and the last one."""
    lower, upper = f.interval(level)
    labels, median = f.time_labels(f.times), f.median
    show = number_format(f.series.values[f.series.observed])
    if f.choices.likelihood is not None and f.choices.likelihood.whole:
        show = "{:,.0f}".format
    cells = [[f.series.time_name, "median", f"{100 * level:g} % interval"]]
    for i in range(f.horizon):
        if i < rows or i == f.horizon - 1:
            cells.append([labels[i], show(median[i]), f"{show(lower[i])} to {show(upper[i])}"])
        elif i == rows:
            cells.append(["...", "", ""])
    return right_aligned(cells)


def right_aligned(cells: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table with right-aligned columns, indented."""
    cells = [list(map(printable, row)) for row in cells]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    rows = ([cell.rjust(w) for cell, w in zip(row, widths, strict=True)] for row in cells)
    return [f"  {'  '.join(row)}".rstrip() for row in rows]


def number_format(values: np.ndarray) -> Callable[[float], str]:
    """Number formatter that resolves the spread of the values to about four digits."""
    spread = float(np.ptp(values)) or float(np.max(np.abs(values))) or 1.0
    digits = int(3 - np.floor(np.log10(spread)))
    return "{:.4g}".format if digits > 9 or digits < -9 else f"{{:,.{max(digits, 0)}f}}".format
