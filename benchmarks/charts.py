"""Charts of time against the number of points."""

from __future__ import annotations

import textwrap

from matplotlib.ticker import NullFormatter

from bayeskern.core.plotting import figure
from benchmarks.table import OURS, Row

COLORS = {
    OURS: "#1b4f9c",
    "tinygp": "#d1702f",
    "smolgp": "#7a9a2e",
    "celerite2": "#8c5aa8",
    "GPBoost": "#b8860b",
    "scikit-learn": "#2a9d8f",
    "GPyTorch": "#c23b5a",
    "GPJax": "#6d4c41",
    "autodiff": "#999999",
    "LAPACK": "#444444",
}


def chart(rows: list[Row], machine: str):
    """Seconds by N on logarithmic axes, a line for each library.

    There is a panel for each task that has a gradient and several N.
    """
    tasks = {row.task: [] for row in rows if row.gradient}
    for row in rows:
        tasks.get(row.task, []).append(row)
    panels = {task: found for task, found in tasks.items() if len({row.n for row in found}) > 1}
    shape = max(1, -(-len(panels) // 3)), 3
    drawing = figure((12.0, 3.5 * shape[0]))
    axes = drawing.subplots(*shape, squeeze=False).ravel()
    for ax, (task, found) in zip(axes, panels.items(), strict=False):
        for library in dict.fromkeys(row.library for row in found):
            draw_line(ax, [row for row in found if row.library == library])
        title = textwrap.fill(f"{task} and gradient".replace("evidence and", "evidence with"), 48)
        ax.set_title(title, fontsize=9, loc="left")
        sizes = sorted({row.n for row in found})
        ax.set_xticks(sizes, [f"{n:,}" for n in sizes])
        ax.yaxis.set_major_formatter(lambda seconds, _: f"{seconds:g} s")
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_minor_formatter(NullFormatter())
        ax.grid(True, which="major", color="#e4e4e4", lw=0.7)
        ax.tick_params(labelsize=8)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(fontsize=8, frameon=False)
    for ax in axes[len(panels) :]:
        ax.set_visible(False)
    drawing.supxlabel(f"number of points; {machine}", fontsize=8, color="#666666")
    return drawing


def draw_line(ax, own: list[Row]) -> None:
    """One library; dashed where it has no gradient, or is only the floor, LAPACK."""
    library = own[0].library
    alone = own[0].gradient is None
    ax.loglog(
        [row.n for row in own],
        [row.gradient or row.seconds for row in own],
        "--" if alone or library == "LAPACK" else "-",
        marker="o",
        ms=4,
        lw=2.4 if library == OURS else 1.4,
        label=f"{library}, no gradient" if alone else library,
        color=COLORS[library],
        zorder=3 if library == OURS else 2,
    )
