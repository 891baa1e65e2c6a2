"""Report on many forecasts: a table, worst first, and a section for each."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from bayeskern.core.formatting import counted, message_of
from bayeskern.core.progress import Progress
from bayeskern.forecast import forecast_plot
from bayeskern.forecast.evaluate.rolling_origin import compared
from bayeskern.forecast.many.collection import Forecasts
from bayeskern.forecast.many.forecast_summary import ForecastSummary
from bayeskern.forecast.show.printing import number_format
from bayeskern.reports.blocks import environment
from bayeskern.reports.style import as_svg, with_prefixed_ids

# Maximum number of bytes of all figures; those of the worst forecasts are kept.
MAX_FIGURE_BYTES = 3_000_000
# Verdicts, worst first. Series without a forecast come before all others.
ORDER = ("bad", "caution", "not assessable", "", "good")


class SeriesRow(NamedTuple):
    """One series of the table.

    Attributes:
        number: Number of the row, counted from 1.
        id: Name of the series.
        summary: Summary of its forecast.
        next_value: Median of the first step, with its interval, in words.
        error: Error relative to the seasonal-naive forecast, in words; "" if it is unknown.
        figure: SVG of the forecast; None if there is none.
        missing: Reason why there is no figure of a forecast; "" if there is one.
    """

    number: int
    id: Any
    summary: ForecastSummary
    next_value: str
    error: str
    figure: Markup | None
    missing: str


def render_many(forecasts: Forecasts, progress: bool, title: str | None = None) -> str:
    """The HTML of the report on many forecasts."""
    pairs = sorted(zip(forecasts.ids, forecasts.results, strict=True), key=_badness)
    rows, bytes_left = [], MAX_FIGURE_BYTES
    with Progress("report", len(pairs), progress) as bar:
        for i, (name, summary) in enumerate(pairs):
            figure, missing = None, ""
            if bytes_left > 0 and name in forecasts:
                try:
                    drawn = as_svg(forecast_plot.forecast, forecasts[name])
                    figure = with_prefixed_ids(drawn, f"f{i + 1}-")
                    bytes_left -= len(figure)
                except (KeyError, ValueError, ArithmeticError) as error:
                    missing = message_of(error)
            words = _next_value(summary), _error(summary)
            rows.append(SeriesRow(i + 1, name, summary, *words, figure, missing))
            bar.advance()
    return (
        environment()
        .get_template("many.html.j2")
        .render(
            title=title or f"Forecasts of {counted(len(forecasts), 'series')}",
            subtitle=_subtitle(forecasts),
            advice=_advice(rows),
            rows=rows,
            id_name=forecasts.id_name,
            remarks=(*forecasts.remarks, *forecasts.update_remarks),
            version=version("bayeskern"),
        )
    )


def _badness(pair: tuple[Any, ForecastSummary]) -> tuple[bool, int, float]:
    """Sorting key, smallest for the worst."""
    _, summary = pair
    ratio = summary.metrics.get("error_ratio", np.nan)
    return summary.problem is None, ORDER.index(summary.verdict), -np.nan_to_num(ratio)


def _next_value(summary: ForecastSummary) -> str:
    """Median of the first step, with its widest interval."""
    if summary.problem is not None:
        return message_of(summary.problem)
    columns = summary.columns
    ends = [name for name in columns if name.startswith(("lower_", "upper_"))]
    show = number_format(np.concatenate([columns[name] for name in ("median", *ends)]))
    if not ends:
        return show(columns["median"][0])
    lower, upper = min(columns[n][0] for n in ends), max(columns[n][0] for n in ends)
    return f"{show(columns['median'][0])} ({show(lower)} to {show(upper)})"


def _error(summary: ForecastSummary) -> str:
    ratio = summary.metrics.get("error_ratio")
    return "" if ratio is None else f"{compared(ratio)} seasonal naive"


def _subtitle(forecasts: Forecasts) -> str:
    steps = {len(result.times) for result in forecasts.results if result.problem is None}
    ahead = f"{counted(steps.pop(), 'step')} ahead" if len(steps) == 1 else "several horizons"
    failed = len(forecasts.failed)
    return f"{ahead}; no forecast of {counted(failed, 'series')}" if failed else ahead


def _advice(rows: Sequence[SeriesRow]) -> str:
    """Sentence with the conclusion."""
    failed = sum(row.summary.problem is not None for row in rows)
    bad = sum(row.summary.verdict == "bad" for row in rows)
    if failed or bad:
        parts = [
            *([f"{counted(failed, 'series has', 'series have')} no forecast"] if failed else []),
            *([f"{counted(bad, 'forecast is', 'forecasts are')} bad"] if bad else []),
        ]
        return f"{' and '.join(parts)}: look at these first, at the top of the table."
    verdicts = {row.summary.verdict for row in rows}
    if verdicts == {""}:
        return "No verdicts were computed (verdict=False)."
    return "Every series has a forecast, and none is bad."
