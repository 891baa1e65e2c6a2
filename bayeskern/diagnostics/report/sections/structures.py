"""What was found in a series: its structures by weight, and the hyperparameters of the first."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bayeskern.core.formatting import counted, number
from bayeskern.diagnostics.report.blocks import Code, Table, Text
from bayeskern.diagnostics.report.kernel_description import rounded
from bayeskern.diagnostics.report.wording import folded, percent
from bayeskern.forecast.model.kernels import GIVEN, TRENDS


def structures(subject) -> Iterator:
    f = subject.forecast
    (process,) = subject.processes
    rows, seen = [], f.choices.likelihood
    for part in f.parts:
        trend, log, changes = part.structure
        scale = "logarithm" if log else "as given" if seen is None else seen.scale
        name = "the kernel as given" if trend == GIVEN else TRENDS.get(trend, trend)
        if changes:
            name += f", {counted(len(changes), 'change')} of level and slope"
        rows.append((name, scale, percent(part.weight)))
    yield Table(
        ("trend", "scale", "weight"),
        tuple(rows),
        "The structures whose quantiles the forecast averages, weighted by how well each forecast "
        "the series so far. Those with less than 1 % are left out.",
    )
    values = f.leading.evidence.values(process.z)
    table = []
    for name, draws in values.items():
        low, median, high = np.quantile(draws, (0.05, 0.5, 0.95), axis=0)
        table.append((name, number(median), f"{number(low)} to {number(high)}"))
    of = "the series" if seen is None else seen.scale
    yield Table(
        ("hyperparameter of the first", "median", "90 %"),
        tuple(table),
        f"Variances in squared sds of {of}, times in the unit of the kernel.",
    )
    unit = "years" if f.series.calendar.unit == "years" else "steps"
    yield Text(
        f"Its kernel at the median of the hyperparameters, for time in {unit} since the first "
        f"observation and {'values' if seen is None else seen.scale} brought to mean 0 and sd 1:"
    )
    yield Code(folded(repr(rounded(process.kernels))))
