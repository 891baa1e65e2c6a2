"""Forecasts as text."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from bayeskern.core.formatting import counted, printable, printable_lines, short

if TYPE_CHECKING:
    from bayeskern.forecast.result import Forecast


def summary(f: Forecast, rows: int = 36, level: float = 0.95) -> str:
    """Summary of a forecast, with its series, structures, verdict and next values.

    Args:
        f: The forecast.
        rows: Largest number of future times to show; the last one is always shown.
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
        *([("structure", f.structures_in_words)] if f.parts else []),
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
    """Text of the six clearest effects.

    Effects are sorted by their distance from no effect, in widths of their intervals.
    """
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
    """Lines of a table of the future values, or of the first ones and the last."""
    head, cells, left_out = value_table(f, rows, level)
    lines = right_aligned([head, *cells])
    if left_out:
        last = _step_labels(f)[-2]
        note = f"{counted(left_out, 'more step')}, up to {last}: to_frame() has all"
        lines.insert(len(lines) - 1, f"  ... {note}")
    return lines


def value_table(
    f: Forecast, rows: int, level: float = 0.95
) -> tuple[list[str], list[list[str]], int]:
    """Head and rows of a table of future values, and the number of omitted steps.

    Args:
        f: The forecast.
        rows: Largest number of rows; steps before the last one are omitted if necessary.
        level: Probability of the intervals.
    """
    lower, upper = f.interval(level)
    labels, show = _step_labels(f), predictive_format(f)
    head = [f.series.time_name, "median", f"{100 * level:g} % interval"]
    shown = range(f.horizon) if f.horizon <= rows else [*range(rows - 1), f.horizon - 1]
    cells = [[labels[i], show(f.median[i]), f"{show(lower[i])} to {show(upper[i])}"] for i in shown]
    return head, cells, f.horizon - len(shown)


def _step_labels(f: Forecast) -> list[str]:
    """Future times as text; months such as 2024-02 if steps are whole months."""
    calendar, times = f.series.calendar, f.times
    if calendar.regular and calendar.kind in ("month", "business month") and not calendar.clock:
        return [str(month) for month in calendar.wall(times).astype("M8[M]")]
    return f.time_labels(times)


def predictive_format(f: Forecast) -> Callable[[float], str]:
    """Number formatter for predictions, to a tenth of the smallest predictive sd."""
    likelihood, y = f.choices.likelihood, f.series.values[f.series.observed]
    of_ranks = f.choices.ranks and np.array_equal(y, np.round(y))
    if of_ranks or (likelihood is not None and likelihood.whole):
        return "{:,.0f}".format
    lower, upper = f.interval(0.8)
    spread = float(np.min(upper - lower)) / (2.0 * ndtri(0.9))
    if not 0.0 < spread < np.inf:
        return number_format(y)
    return partial(rounded, digits=int(1 - np.floor(np.log10(spread))))


def rounded(value: float, digits: int) -> str:
    """A number rounded to `digits` decimals, or to tens, hundreds, ... if negative.

    A number that would round to 0 keeps two significant digits, such as the lower end of an
    interval near 0.
    """
    value = float(value)
    if digits > 9 or digits < -12 or not np.isfinite(value):
        return f"{value:.4g}"
    if value and abs(value) < 5.0 * 10.0**-digits:
        return f"{value:.2g}" if abs(value) >= 1e-3 * 10.0**-digits else "0"
    return f"{round(value, digits):,.{max(digits, 0)}f}"


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
