"""Sections on a forecast: forecast, components, structures, fit and series."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bayeskern.core.formatting import counted, number
from bayeskern.core.scalars import scalar_columns
from bayeskern.diagnostics.report.blocks import Block, text
from bayeskern.diagnostics.report.kernel_description import InputAxis, rounded
from bayeskern.diagnostics.report.observations import observations_of_forecast
from bayeskern.diagnostics.report.sections.fit import intervals, worst
from bayeskern.diagnostics.report.sections.fitted import circumstances
from bayeskern.diagnostics.report.sections.process import component_blocks
from bayeskern.diagnostics.report.style import as_svg
from bayeskern.diagnostics.report.subject import ForecastSubject
from bayeskern.diagnostics.report.wording import percent, wrap_code
from bayeskern.forecast.combine.stacking import Part
from bayeskern.forecast.evaluate.rolling_origin import compared
from bayeskern.forecast.evaluate.scores import COVERAGES
from bayeskern.forecast.model.kernels import CHANGING, CYCLES, GIVEN, HISTORY, STEADY, TRENDS
from bayeskern.forecast.result import Forecast
from bayeskern.forecast.show.printing import value_table


def verdict(subject: ForecastSubject) -> Iterator[Block]:
    """Blocks of the section "Verdict"."""
    f = subject.forecast
    yield text(f.explain())
    yield Block("verdict", "of_forecast", verdict=f.trust.verdict, advice=f.trust.advice)
    for remark in f.remarks:
        yield text(f"Remark on the series: {remark}.")
    if f.look_back is not None:
        origins = {"evaluation": f.look_back, "levels": COVERAGES, "compared": compared}
        yield Block("verdict", "rolling_origins", **origins)


def series(subject: ForecastSubject) -> Iterator[Block]:
    """Blocks of the section "The series"."""
    f = subject.forecast
    if not f.parts:
        yield Block("forecast", "nothing_fitted")
    yield Block("forecast", "series", f=f, s=f.series, y=f.series.values[f.series.observed])
    yield from circumstances(subject.seed, {"seed of the forecast": f.seed})


def fit(subject: ForecastSubject) -> Iterator[Block]:
    """Blocks of the section "Fit to the data"."""
    site = observations_of_forecast(subject)
    if site.log_density is not None:
        yield worst(site, site.log_density)
    yield Block("forecast", "scale", f=subject.forecast)
    yield from intervals(site)


# -- the forecast ----------------------------------------------------------------------------------


def forecast(subject: ForecastSubject) -> Iterator[Block]:
    """Blocks of the section "Forecast and components"."""
    f = subject.forecast
    yield Block("forecast", "forecast", figure=as_svg(f.plot, levels=COVERAGES))
    yield values(f)
    if not f.parts:
        yield Block("forecast", "constant_series")
        return
    axis = InputAxis(f.series.calendar.unit, (float(np.ptp(subject.process.X)),))
    yield from component_blocks(subject.process, axis, f.scale)
    figure = as_svg(f.plot_components)
    yield Block(
        "forecast",
        "components_over_time",
        figure=figure,
        factors=f.scale.log,
        cycles=CYCLES in f.components,
    )


def values(f: Forecast) -> Block:
    """Table of medians and 95 % intervals, of at most 36 steps."""
    head, rows, left_out = value_table(f, rows=36)
    return Block("forecast", "values", head=head, rows=rows, left_out=left_out)


# -- structures ------------------------------------------------------------------------------------


def structures(subject: ForecastSubject) -> Iterator[Block]:
    """Blocks of the section "Structures": weights, hyperparameters of the first."""
    f, process = subject.forecast, subject.process
    likelihood = f.choices.likelihood
    yield Block("forecast", "weights", rows=[_structure(f, part) for part in f.parts])
    names, draws = scalar_columns(process.values)
    only_mode = f.parts[0].draws.is_point
    rows = []
    for name, column in zip(names, draws.T, strict=True):
        median, low, high = map(number, np.quantile(column, (0.5, 0.05, 0.95)))
        rows.append((name, median) if only_mode else (name, median, f"{low} to {high}"))
    scale = "the series" if likelihood is None else likelihood.scale
    yield Block("forecast", "hyperparameters", rows=rows, scale=scale, only_mode=only_mode)
    yield Block(
        "forecast",
        "kernel",
        kernel=wrap_code(repr(rounded(process.kernels))),
        estimate="mode" if only_mode else "median",
        unit="years" if f.series.calendar.unit == "years" else "steps",
        values="values" if likelihood is None else likelihood.scale,
    )


def _structure(f: Forecast, part: Part) -> tuple[str, ...]:
    """Cells of a table row: trend, transformation and weight of a structure."""
    trend, log, changes = part.structure
    others = {GIVEN: "the kernel as given", HISTORY: "level and slope as random walks"}
    names = {**others, **TRENDS, **CHANGING}
    name = str(names.get(trend, trend))
    if changes:
        what = "of the level" if trend == STEADY else "of level and slope"
        name += f", {counted(len(changes), 'change')} {what}"
    scale = "as given" if f.choices.likelihood is None else f.choices.likelihood.scale
    return name, "logarithm" if log else scale, percent(part.weight)
