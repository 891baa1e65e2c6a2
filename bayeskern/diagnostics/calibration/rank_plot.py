"""Ranks of the truth, parameter by parameter: their ECDF minus the diagonal, and its band."""

from __future__ import annotations

import textwrap

import numpy as np

from bayeskern.core.plotting import BLUE, ORANGE, figure
from bayeskern.diagnostics.calibration.ecdf_band import Band

COLUMNS = 4
# Titles of panels are broken into lines of so many letters.
LETTERS = 34
INSIDE, OUTSIDE = BLUE, ORANGE


def rank_plot(uniforms: dict[str, np.ndarray], band: Band, verdicts: dict[str, str], title: str):
    """A panel for each parameter, in which a curve that leaves the band has another colour.

    uniforms: the ranks as numbers in (0, 1), each (n,). verdicts: the text below each name. title:
    of the whole figure.
    """
    columns = min(COLUMNS, len(uniforms))
    rows = -(-len(uniforms) // columns)
    fig = figure((0.6 + 2.6 * max(columns, 2), 1.0 + 2.2 * rows))
    panels = fig.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for panel, (name, u) in zip(panels, uniforms.items(), strict=False):
        _curve(panel, u, band)
        verdict = textwrap.fill(verdicts[name], LETTERS)
        panel.set_title(f"{name}\n{verdict}", fontsize=9, parse_math=False)
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(labelsize=8)
    for panel in panels[len(uniforms) :]:
        panel.set_visible(False)
    # Where the last row is not full, the panel above has the labels.
    for panel in panels[max(0, len(uniforms) - columns) : len(uniforms)]:
        panel.tick_params(labelbottom=True)
    fig.suptitle(textwrap.fill(title, LETTERS * max(columns, 2)), fontsize=10, parse_math=False)
    fig.supxlabel("rank of the truth among the draws, as a share", fontsize=9)
    fig.supylabel("ECDF minus uniform", fontsize=9)
    return fig


def _curve(panel, u, band: Band) -> None:
    grid = np.concatenate([[0.0], band.grid, [1.0]])
    lower = np.concatenate([[0.0], band.lower - band.grid, [0.0]])
    upper = np.concatenate([[0.0], band.upper - band.grid, [0.0]])
    difference = np.searchsorted(np.sort(u), grid, side="right") / len(u) - grid
    outside = np.any((difference < lower - 1e-9) | (difference > upper + 1e-9))
    panel.axhline(0.0, color="0.6", linewidth=0.8)
    panel.fill_between(grid, lower, upper, color="0.5", alpha=0.25, linewidth=0)
    panel.plot(grid, difference, color=OUTSIDE if outside else INSIDE, linewidth=1.5)
    panel.set_xlim(0.0, 1.0)
    panel.set_xticks([0.0, 0.5, 1.0], ["0", "0.5", "1"])
