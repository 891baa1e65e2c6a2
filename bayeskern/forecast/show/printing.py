"""A forecast as text for people to read."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import numpy as np

# How wide the text is.
WIDTH = 100
# The most effects that are shown.
MOST_EFFECTS = 6


def summary(f, rows: int = 6, level: float = 0.95) -> str:
    """What was inferred, the fit, and the next few values, for people to read.

    Args:
        f: The forecast.
        rows: How many future times to show; the last one is shown beside them.
        level: The probability of the intervals.

    Returns:
        Text of several lines.

    Examples:
        A constant series takes no fit:

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
    lines = [f"{series.name}: {count} values of {series.value_name}, {first} to {last}"]
    for name, text in facts:
        lines += textwrap.wrap(
            text, WIDTH, initial_indent=f"  {name:<10}", subsequent_indent=" " * 12
        )
    return "\n".join([*lines, "", *_value_lines(f, rows, level)])


def _effects(f) -> str:
    """What regressors, events and holidays do, those that are surest first."""
    table = f.effects()
    none, by = (1.0, "x ") if f.scale.log else (0.0, "")
    distance = abs(table["median"] - none) / (table["upper"] - table["lower"])
    shown = table.loc[distance.sort_values(ascending=False, kind="stable").index[:MOST_EFFECTS]]
    said = [
        f"{name} {by}{row['median']:{'.3g' if f.scale.log else '+.3g'}} "
        f"({row['lower']:.3g} to {row['upper']:.3g})"
        for name, row in shown.iterrows()
    ]
    effects = f.choices.effects
    said += [f"{name} by its kernel" for name in effects.columns[effects.linear :]]
    more = len(table) - len(shown)
    return "; ".join([*said, *([f"and {more} more"] if more else [])])


def _value_lines(f, rows: int, level: float) -> list[str]:
    """The first future values and the last one, in columns."""
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
    widths = [max(len(row[i]) for row in cells) for i in range(3)]
    lines = (
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in cells
    )
    return [f"  {line}".rstrip() for line in lines]


def number_format(values: np.ndarray) -> Callable[[float], str]:
    """How to write numbers so that about four figures of the spread of the series show."""
    spread = float(np.ptp(values)) or float(np.max(np.abs(values))) or 1.0
    digits = int(3 - np.floor(np.log10(spread)))
    return "{:.4g}".format if digits > 9 or digits < -9 else f"{{:,.{max(digits, 0)}f}}".format
