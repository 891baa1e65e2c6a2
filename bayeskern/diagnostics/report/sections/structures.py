"""What was found in a series: its structures by weight, and the hyperparameters of the first."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bayeskern.core.formatting import counted, number
from bayeskern.core.scalars import scalar_columns
from bayeskern.diagnostics.report.blocks import Code, Table, Text
from bayeskern.diagnostics.report.kernel_description import rounded
from bayeskern.diagnostics.report.wording import folded, percent
from bayeskern.forecast.model.kernels import GIVEN, HISTORY, TRENDS


def structures(subject) -> Iterator:
    f = subject.forecast
    (process,) = subject.processes
    rows, seen = [], f.choices.likelihood
    for part in f.parts:
        trend, log, changes = part.structure
        scale = "logarithm" if log else "as given" if seen is None else seen.scale
        names = {GIVEN: "the kernel as given", HISTORY: "level and slope as random walks"} | TRENDS
        name = names.get(trend, trend)
        if changes:
            name += f", {counted(len(changes), 'change')} of level and slope"
        rows.append((name, scale, percent(part.weight)))
    yield Table(
        ("trend", "scale", "weight"),
        tuple(rows),
        "The structures whose quantiles the forecast averages, weighted by how well each forecast "
        "the series so far. Those with less than 1 % are left out.",
    )
    names, draws = scalar_columns(f.leading.evidence.values(process.z))
    ends = np.quantile(draws, (0.5, 0.05, 0.95), axis=0).T
    of, point = "the series" if seen is None else seen.scale, f.parts[0].draws.is_point
    units = f"Variances in squared sds of {of}, times in the unit of the kernel."
    if point:
        units += " Only the mode was computed, and no uncertainty of the hyperparameters."
        table = [(name, number(mode)) for name, (mode, _, _) in zip(names, ends, strict=True)]
    else:
        table = [
            (name, number(median), f"{number(low)} to {number(high)}")
            for name, (median, low, high) in zip(names, ends, strict=True)
        ]
    head = ("mode",) if point else ("median", "90 %")
    yield Table(("hyperparameter of the first", *head), tuple(table), units)
    unit = "years" if f.series.calendar.unit == "years" else "steps"
    yield Text(
        f"Its kernel at the {head[0]} of the hyperparameters, for time in {unit} since the first "
        f"observation and {'values' if seen is None else seen.scale} brought to mean 0 and sd 1:"
    )
    yield Code(folded(repr(rounded(process.kernels))))
