"""Structures of a forecast by weight, and the hyperparameters of the first one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from bayeskern.core.formatting import counted, number
from bayeskern.core.scalars import scalar_columns
from bayeskern.diagnostics.report.blocks import Block
from bayeskern.diagnostics.report.kernel_description import rounded
from bayeskern.diagnostics.report.subject import Subject
from bayeskern.diagnostics.report.wording import folded, percent
from bayeskern.forecast.model.kernels import GIVEN, HISTORY, TRENDS
from bayeskern.forecast.result import Forecast

block = partial(Block, "structures")


def structures(subject: Subject) -> Iterator[Block]:
    """Blocks of the section "Structures" of a forecast."""
    process = subject.forecast_process
    f = process.forecast
    likelihood = f.choices.likelihood
    yield _weights(f)
    names, draws = scalar_columns(process.values)
    quantiles = np.quantile(draws, (0.5, 0.05, 0.95), axis=0).T
    only_mode = f.parts[0].draws.is_point
    rows = [
        (name, number(median))
        if only_mode
        else (name, number(median), f"{number(low)} to {number(high)}")
        for name, (median, low, high) in zip(names, quantiles, strict=True)
    ]
    scale = "the series" if likelihood is None else likelihood.scale
    yield block("hyperparameters", rows=rows, scale=scale, only_mode=only_mode)
    yield block(
        "kernel",
        kernel=folded(repr(rounded(process.kernels))),
        estimate="mode" if only_mode else "median",
        unit="years" if f.series.calendar.unit == "years" else "steps",
        values="values" if likelihood is None else likelihood.scale,
    )


def _weights(f: Forecast) -> Block:
    """Table of the structures and their weights."""
    names = {GIVEN: "the kernel as given", HISTORY: "level and slope as random walks", **TRENDS}
    likelihood, rows = f.choices.likelihood, []
    for part in f.parts:
        trend, log, changes = part.structure
        name = str(names.get(trend, trend))
        if changes:
            name += f", {counted(len(changes), 'change')} of level and slope"
        scale = "as given" if likelihood is None else likelihood.scale
        rows.append((name, "logarithm" if log else scale, percent(part.weight)))
    return block("weights", rows=rows)
