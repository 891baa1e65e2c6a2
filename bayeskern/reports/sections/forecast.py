"""Sections on a forecast: forecast, components, structures, fit and series."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from bayeskern.core.formatting import counted, number
from bayeskern.core.scalars import scalar_columns
from bayeskern.forecast.combine.stacking import Part
from bayeskern.forecast.evaluate.rolling_origin import compared
from bayeskern.forecast.evaluate.scores import COVERAGES
from bayeskern.forecast.forecast_text import value_table
from bayeskern.forecast.model.kernels import CYCLES
from bayeskern.forecast.model.trends import ALL_TRENDS, in_words
from bayeskern.forecast.result import Forecast
from bayeskern.kernels.description import InputAxis
from bayeskern.reports.blocks import Block, folded, text
from bayeskern.reports.kernel_description import rounded
from bayeskern.reports.observations import observations_of_forecast
from bayeskern.reports.sections.fit import intervals, worst
from bayeskern.reports.sections.fitted import circumstances
from bayeskern.reports.sections.process import component_blocks
from bayeskern.reports.style import as_svg
from bayeskern.reports.subject import ForecastSubject
from bayeskern.reports.wording import percent, wrap_code

block = partial(Block, "forecast")
# Maximum number of rows of a table that is not folded.
MAX_ROWS_IN_VIEW = 12


def answer(subject: ForecastSubject) -> Iterator[Block]:
    """Blocks of the section "Answer": the question, the forecast and its values."""
    f = subject.forecast
    head, rows, left_out = value_table(f, rows=36)
    yield block("question", name=f.series.name, until=rows[-1][0])
    yield Block("verdict", "in_brief", verdict=f.trust.verdict)
    yield text(f.explain())
    yield block("forecast", figure=as_svg(f.plot, levels=COVERAGES))
    table = block("values", head=head, rows=rows, left_out=left_out)
    if f.horizon > MAX_ROWS_IN_VIEW:
        yield from folded(f"Table of {f.horizon:,} steps", [table])
    else:
        yield table


def verdict(subject: ForecastSubject) -> Iterator[Block]:
    """Blocks of the section "How far to trust it"."""
    f = subject.forecast
    yield Block("verdict", "of_forecast", verdict=f.trust.verdict, advice=f.trust.advice)
    for remark in f.remarks:
        yield text(f"Remark on the series: {remark}.")
    if f.past_scores is not None:
        origins = {"evaluation": f.past_scores, "levels": COVERAGES, "compared": compared}
        yield Block("verdict", "rolling_origins", **origins)


def series(subject: ForecastSubject) -> Iterator[Block]:
    """Blocks of the section "The series"."""
    f = subject.forecast
    if not f.parts:
        yield block("nothing_fitted")
    yield block("series", f=f, s=f.series, y=f.series.values[f.series.observed])
    yield from circumstances(subject.seed, {"seed of the forecast": f.seed})


def fit(subject: ForecastSubject) -> Iterator[Block]:
    """Blocks of the section "Fit to the data"."""
    site = observations_of_forecast(subject)
    yield from intervals(site, block("scale", f=subject.forecast))
    if site.log_density is not None:
        yield from folded("Worst predictions", [worst(site, site.log_density)])


# -- the forecast ----------------------------------------------------------------------------------


def components(subject: ForecastSubject) -> Iterator[Block]:
    """Blocks of the section "Components"."""
    f = subject.forecast
    axis = InputAxis(f.series.calendar.unit, (float(np.ptp(subject.process.X)),))
    yield from component_blocks(subject.process, axis, f.scale)
    yield block(
        "components_over_time",
        figure=as_svg(f.plot_components),
        factors=f.scale.log,
        cycles=CYCLES in f.components,
    )


# -- structures ------------------------------------------------------------------------------------


def structures(subject: ForecastSubject) -> Iterator[Block]:
    """Blocks of the section "Structures": weights, and hyperparameters of the first."""
    f, process = subject.forecast, subject.process
    likelihood = f.choices.likelihood
    yield block("weights", rows=[_structure(f, part) for part in f.parts])
    names, draws = scalar_columns(process.values)
    only_mode = f.parts[0].draws.is_point
    rows = []
    for name, column in zip(names, draws.T, strict=True):
        median, low, high = map(number, np.quantile(column, (0.5, 0.05, 0.95)))
        rows.append((name, median) if only_mode else (name, median, f"{low} to {high}"))
    scale = "the series" if likelihood is None else likelihood.scale
    details = [
        block("hyperparameters", rows=rows, scale=scale, only_mode=only_mode),
        block(
            "kernel",
            kernel=wrap_code(repr(rounded(process.kernels))),
            estimate="mode" if only_mode else "median",
            unit="years" if f.series.calendar.unit == "years" else "steps",
            values="values" if likelihood is None else likelihood.scale,
        ),
    ]
    yield from folded("Hyperparameters and kernel of the first structure", details)


def _structure(f: Forecast, part: Part) -> tuple[str, ...]:
    """Cells of a table row: trend, transformation and weight of a structure."""
    trend, log, changes = part.structure
    name = in_words(trend)
    if changes:
        what = "of level and slope" if ALL_TRENDS[trend].changes_slope else "of the level"
        name += f", {counted(len(changes), 'change')} {what}"
    scale = "as given" if f.choices.likelihood is None else f.choices.likelihood.scale
    return name, "logarithm" if log else scale, percent(part.weight)
