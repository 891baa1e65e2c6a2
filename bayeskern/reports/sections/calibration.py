"""Simulation-based calibration of the method that made a posterior."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from bayeskern.diagnostics.calibration.calibration import LIKELIHOOD, MIN_SIMULATIONS, Calibration
from bayeskern.diagnostics.calibration.rank_plot import curve
from bayeskern.forecast.evaluate.scores import COVERAGES
from bayeskern.reports.blocks import Block
from bayeskern.reports.style import as_svg, label_ranks, panels, title
from bayeskern.reports.subject import Subject

block = partial(Block, "calibration")
# Maximum number of panels, and of rows of the table.
MAX_PANELS = 9


def calibration(subject: Subject) -> Iterator[Block]:
    """Blocks of the section "Calibration of the method"."""
    result = subject.calibration
    assert result is not None
    yield block("verdict", result=result, verdict=result.verdict)
    if result.fitted < MIN_SIMULATIONS:
        return
    names = {name: subject.label_of.get(name, name) for name in result.worst(MAX_PANELS)}
    yield block("ranks", figure=as_svg(ranks, result, names), level=result.level)
    coverage = {level: result.coverage(level) for level in COVERAGES}
    rows = [
        (
            label,
            *(f"{100 * shares[name][0]:.0f} %" for shares in coverage.values()),
            result.faults.get(name, "none"),
        )
        for name, label in names.items()
        if name != LIKELIHOOD
    ]
    errors = [100 * np.sqrt(v * (1 - v) / result.fitted) for v in COVERAGES]
    yield block("coverage", levels=COVERAGES, errors=errors, rows=rows)


def ranks(result: Calibration, names: Mapping[str, str]) -> Figure:
    """Plot the ECDF of the ranks minus the uniform ECDF.

    Args:
        result: The calibration.
        names: Title of each panel, by parameter.
    """
    fig, axes = panels(len(names), columns=3, height=1.5, sharex=True, sharey=True)
    for ax, (name, label) in zip(axes, names.items(), strict=True):
        curve(ax, result.uniforms[name], result.band)
        title(ax, label)
        ax.tick_params(labelsize=7.5, labelbottom=True)
    label_ranks(axes, columns=3)
    return fig
