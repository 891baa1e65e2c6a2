"""Charts of time against the number of points."""

from __future__ import annotations

from bayeskern.core.plotting import figure
from benchmarks.table import OURS, Row

COLORS = {
    OURS: "#1b4f9c",
    "tinygp": "#d1702f",
    "smolgp": "#7a9a2e",
    "celerite2": "#8c5aa8",
    "GPBoost": "#b8860b",
    "scikit-learn": "#2a9d8f",
    "autodiff": "#999999",
    "LAPACK": "#444444",
}


def chart(rows: list[Row], machine: str):
    """Seconds by N on logarithmic axes: a panel for each task that has several N, a line for each
    library, with the gradient where there is one."""
    tasks = {row.task: [] for row in rows}
    for row in rows:
        tasks[row.task].append(row)
    panels = {task: found for task, found in tasks.items() if len({row.n for row in found}) > 1}
    shape = -(-len(panels) // 3), 3
    drawing = figure((12.0, 3.6 * shape[0]))
    axes = drawing.subplots(*shape, squeeze=False).ravel()
    for ax, (task, found) in zip(axes, panels.items(), strict=False):
        for library in dict.fromkeys(row.library for row in found):
            own = [row for row in found if row.library == library]
            seconds = [row.gradient or row.seconds for row in own]
            label = (
                library if own[0].gradient or not found[0].gradient else f"{library}, no gradient"
            )
            style = "--" if label.endswith("no gradient") or library == "LAPACK" else "-"
            width = 2.4 if library == OURS else 1.4
            ax.loglog(
                [row.n for row in own], seconds, style, marker="o", ms=4, lw=width, label=label,
                color=COLORS[library], zorder=3 if library == OURS else 2,
            )  # fmt: skip
        gradient = " and gradient" if found[0].gradient and "gradient" not in task else ""
        ax.set_title(f"{task}{gradient}", fontsize=9, loc="left")
        ax.set_xlabel("N", fontsize=8)
        ax.set_ylabel("seconds", fontsize=8)
        ax.grid(True, which="major", color="#e4e4e4", lw=0.7)
        ax.tick_params(labelsize=8)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(fontsize=8, frameon=False)
    for ax in axes[len(panels) :]:
        ax.set_visible(False)
    drawing.supxlabel(machine, fontsize=8, color="#666666")
    return drawing
