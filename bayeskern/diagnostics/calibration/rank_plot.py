"""Rank plots of simulation-based calibration: ECDF minus uniform, by parameter."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from bayeskern.core.plotting import BLUE, ORANGE, figure
from bayeskern.diagnostics.calibration.ecdf_band import Band, counts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def rank_plot(
    uniforms: dict[str, np.ndarray], band: Band, verdicts: dict[str, str], title: str
) -> Figure:
    """Plot a panel for each parameter; curves that leave the band are orange.

    Args:
        uniforms: Ranks scaled to (0, 1), (n,), by parameter.
        band: Simultaneous band of the ECDF of uniform ranks.
        verdicts: Text below the name of each parameter.
        title: Title of the figure.
    """
    columns = min(4, len(uniforms))
    rows = -(-len(uniforms) // columns)
    fig = figure((0.6 + 2.6 * max(columns, 2), 1.0 + 2.2 * rows))
    panels = fig.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for panel, (name, u) in zip(panels, uniforms.items(), strict=False):
        curve(panel, u, band)
        verdict = textwrap.fill(verdicts[name], 34)
        panel.set_title(f"{name}\n{verdict}", fontsize=9, parse_math=False)
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(labelsize=8)
    for panel in panels[len(uniforms) :]:
        panel.set_visible(False)
    # Panels above an empty place in the last row need tick labels too.
    for panel in panels[max(0, len(uniforms) - columns) : len(uniforms)]:
        panel.tick_params(labelbottom=True)
    fig.suptitle(textwrap.fill(title, 34 * max(columns, 2)), fontsize=10, parse_math=False)
    fig.supxlabel("rank of the truth among the draws, as a share", fontsize=9)
    fig.supylabel("ECDF minus uniform", fontsize=9)
    return fig


def curve(panel: Axes, u: np.ndarray, band: Band) -> None:
    """Draw the ECDF of u (n,) minus the uniform ECDF, orange if it leaves the band."""
    grid = np.concatenate([[0.0], band.grid, [1.0]])
    lower = np.concatenate([[0.0], band.lower - band.grid, [0.0]])
    upper = np.concatenate([[0.0], band.upper - band.grid, [0.0]])
    difference = counts(u, grid) / len(u) - grid
    outside = np.any((difference < lower - 1e-9) | (difference > upper + 1e-9))
    panel.axhline(0.0, color="0.6", linewidth=0.8)
    panel.fill_between(grid, lower, upper, color="0.5", alpha=0.25, linewidth=0)
    panel.plot(grid, difference, color=ORANGE if outside else BLUE, linewidth=1.5)
    panel.set_xlim(0.0, 1.0)
    panel.set_xticks([0.0, 0.5, 1.0], ["0", "0.5", "1"])
