"""Tables and a chart of `benchmarks.samplers`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bayeskern.core.plotting import figure

# What an effective draw costs, and the unit of the tables.
COSTS = {"gradients": 1000.0, "cpu": 1.0, "sampling": 1.0}
TITLES = {
    "gradients": "Effective draws per 1,000 gradients",
    "cpu": "Effective draws per CPU second",
    "sampling": "Effective draws per CPU second of sampling alone",
    "seconds": "CPU seconds, without compilation",
    "error": "Largest error of a mean, in sds of the reference",
}
MAX_RHAT = 1.01
COLORS = {
    "bayeskern": "#1b4f9c",
    "NumPyro": "#d1702f",
    "blackjax": "#7a9a2e",
    "MAMS": "#8c5aa8",
    "nutpie": "#b8860b",
    "nutpie low-rank": "#2a9d8f",
}


class Results:
    """Results by model and sampler, of models that the first sampler and others have run on."""

    def __init__(self, lines: list[dict]) -> None:
        self.samplers = list(dict.fromkeys(line["sampler"] for line in lines))
        self._lines = {(line["model"], line["sampler"]): line for line in lines}
        first, *others = self.samplers
        self.sizes = {
            line["model"]: line["size"]
            for line in lines
            if line["sampler"] == first
            and "size" in line
            and any(self.line(line["model"], other) for other in others)
        }

    def line(self, model: str, sampler: str) -> dict | None:
        """Result of a sampler, None where it was not run or failed."""
        line = self._lines.get((model, sampler))
        return line if line is not None and "ess" in line else None

    def failure(self, model: str, sampler: str) -> str:
        """Message of a sampler that raised an error or was stopped, "" of others."""
        return self._lines.get((model, sampler), {}).get("failure", "")

    def converged(self, model: str, sampler: str) -> bool:
        """True if R-hat of every coordinate is below `MAX_RHAT`."""
        line = self.line(model, sampler)
        return line is not None and line["rhat"] is not None and line["rhat"] < MAX_RHAT

    def efficiency(self, model: str, sampler: str, cost: str) -> float:
        """Smallest bulk ESS per unit of cost."""
        line = self._lines[model, sampler]
        return COSTS[cost] * line["ess"] / self.spent(model, sampler, cost)

    def spent(self, model: str, sampler: str, cost: str) -> float:
        """Gradients, CPU seconds or CPU seconds of sampling alone."""
        line = self._lines[model, sampler]
        # Sampling is timed by the wall clock, which runs on while other programs have the core.
        return min(line.get(cost, line["cpu"]), line["cpu"]) if cost == "sampling" else line[cost]


def show(lines: list[dict]) -> None:
    """Print tables of each efficiency, of the ratios of the first sampler, and of the rest."""
    results = Results(lines)
    for cost in COSTS:
        print(f"\n{TITLES[cost]} (! R-hat is not below {MAX_RHAT})")
        for row in efficiencies(results, cost):
            print(row)
        print()
        for sampler in results.samplers[1:]:
            print(ratios(results, sampler, cost))
    print(f"\n{TITLES['seconds']}, and those of {results.samplers[0]} for sampling alone")
    for row in seconds(results):
        print(row)
    print(f"\n{TITLES['error']}, and the verdict of {results.samplers[0]}")
    for row in errors(results):
        print(row)
    print()
    for row in failures(results):
        print(row)


def efficiencies(results: Results, cost: str) -> Iterator[str]:
    """Rows of a table of effective draws per unit of cost."""
    yield _row("model", "d", results.samplers)
    for model, size in results.sizes.items():
        cells = []
        for sampler in results.samplers:
            cell = "failed" if results.failure(model, sampler) else ""
            if results.line(model, sampler) is not None:
                mark = " " if results.converged(model, sampler) else "!"
                cell = f"{_number(results.efficiency(model, sampler, cost))}{mark}"
            cells.append(cell)
        yield _row(model, size, cells)


def seconds(results: Results) -> Iterator[str]:
    """Rows of a table of CPU seconds."""
    first = results.samplers[0]
    yield _row("model", "d", [*results.samplers, "sampling"])
    for model, size in results.sizes.items():
        spent = [
            results.spent(model, sampler, "cpu") if results.line(model, sampler) else None
            for sampler in results.samplers
        ]
        spent.append(results.spent(model, first, "sampling") if spent[0] is not None else None)
        yield _row(model, size, ["" if x is None else _number(x) for x in spent])


def failures(results: Results) -> Iterator[str]:
    """A line for each run that failed."""
    for model in results.sizes:
        for sampler in results.samplers:
            if failure := results.failure(model, sampler):
                yield f"{sampler} on {model} failed: {failure}"


def errors(results: Results) -> Iterator[str]:
    """Rows of a table of errors and verdicts."""
    yield _row("model", "d", [*results.samplers, "verdict"])
    for model, size in results.sizes.items():
        found = [results.line(model, sampler) for sampler in results.samplers]
        cells = [f"{x['error']:.2f}" if x and x["error"] is not None else "" for x in found]
        verdict = found[0]["verdict"] if found[0] else "no verdict"
        if any(cells):
            yield _row(model, size, [*cells, verdict])


def ratios(results: Results, other: str, cost: str) -> str:
    """Ratios on the models on which both converged, and the models on which only one did."""
    first = results.samplers[0]
    alone = {
        sampler: [m for m in results.sizes if results.converged(m, sampler)]
        for sampler in (first, other)
    }
    models = [model for model in alone[first] if model in alone[other]]
    if not models:
        return f"{first} over {other}: no model on which both converged"
    by_model = np.array(
        [results.efficiency(m, first, cost) / results.efficiency(m, other, cost) for m in models]
    )
    worst = int(np.argmin(by_model))
    return (
        f"{first} over {other}: geometric mean {np.exp(np.mean(np.log(by_model))):.2f}, from "
        f"{by_model[worst]:.2f} ({models[worst]}) to {_number(by_model.max())}, above 1 on "
        f"{np.sum(by_model > 1.0)} of {len(models)} models; only {first} converged on "
        f"{_listed([m for m in alone[first] if m not in models])}, only {other} on "
        f"{_listed([m for m in alone[other] if m not in models])}"
    )


def chart(lines: list[dict]):
    """A point for each model and sampler, hollow where its chains did not converge."""
    results = Results(lines)
    models = sorted(results.sizes, key=lambda m: _best(results, m))
    drawing = figure((11.0, 1.2 + 0.24 * len(models)))
    axes = drawing.subplots(1, 2, sharey=True)
    for ax, cost in zip(axes, ("gradients", "cpu"), strict=True):
        for sampler in results.samplers:
            y = [i for i, m in enumerate(models) if results.line(m, sampler)]
            x = [results.efficiency(models[i], sampler, cost) for i in y]
            color = COLORS[sampler]
            filled = [color if results.converged(models[i], sampler) else "none" for i in y]
            ours = sampler == results.samplers[0]
            ax.scatter(x, y, 46 if ours else 22, filled, edgecolors=color, zorder=2 + ours)
            ax.scatter([], [], 22, color, label=sampler)
        ax.set_xscale("log")
        ax.set_title(TITLES[cost], fontsize=10, loc="left")
        ax.grid(True, axis="both", color="#e4e4e4", lw=0.7)
        ax.set_axisbelow(True)
        ax.tick_params(labelsize=8)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_yticks(range(len(models)), models)
    axes[0].legend(fontsize=8, frameon=False, loc="lower right")
    drawing.supxlabel("hollow: R-hat is not below 1.01", fontsize=8, color="#666666")
    return drawing


def _best(results: Results, model: str) -> float:
    found = [s for s in results.samplers if results.line(model, s)]
    return max(results.efficiency(model, sampler, "gradients") for sampler in found)


def _listed(models: list[str]) -> str:
    """Number of models, and their names."""
    return f"{len(models)} ({', '.join(models)})" if models else "0"


def _number(value: float) -> str:
    """Two digits, or whole numbers from 10."""
    return f"{value:,.0f}" if value >= 10.0 else f"{value:.2g}"


def _row(model: str, size: object, cells: list[str]) -> str:
    return f"{model[:41]:42}{size:>5}" + "".join(f"{cell:>17}" for cell in cells)
