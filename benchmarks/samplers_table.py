"""Tables of `benchmarks.samplers`: effective draws per 1,000 gradients and per CPU second."""

from collections.abc import Iterator

import numpy as np

# What an effective draw costs, and the unit of the tables.
COSTS = {"gradients": 1000.0, "cpu": 1.0}
TITLES = {"gradients": "effective draws per 1,000 gradients", "cpu": "per CPU second"}


def show(lines: list[dict]) -> None:
    """Print a table for each cost, and the ratios of the first sampler to the others."""
    for cost in COSTS:
        print(f"\n{TITLES[cost]}; ! where R-hat is not below 1.01 or there is one row of draws")
        for row in table(lines, cost):
            print(row)


def table(lines: list[dict], cost: str) -> Iterator[str]:
    """Rows of a table."""
    samplers = list(dict.fromkeys(line["sampler"] for line in lines))
    sizes = {line["model"]: line["size"] for line in lines if "size" in line}
    results = {(line["model"], line["sampler"]): line for line in lines if "ess" in line}
    failed = {(line["model"], line["sampler"]) for line in lines if "failure" in line}
    yield f"{'model':42}{'d':>5}" + "".join(f"{sampler:>17}" for sampler in samplers)
    for model, size in sizes.items():
        cells = []
        for sampler in samplers:
            result = results.get((model, sampler))
            cell = "failed" if (model, sampler) in failed else ""
            if result is not None:
                agrees = result["rhat"] is not None and result["rhat"] < 1.01
                cell = f"{efficiency(result, cost):,.1f}{' ' if agrees else '!'}"
            cells.append(f"{cell:>17}")
        yield f"{model[:41]:42}{size:>5}" + "".join(cells)
    for sampler in samplers[1:]:
        both = [m for m in sizes if (m, samplers[0]) in results and (m, sampler) in results]
        if both:
            yield ratios(results, both, samplers[0], sampler, cost)


def efficiency(result: dict, cost: str) -> float:
    """Smallest bulk ESS per unit of cost."""
    return COSTS[cost] * result["ess"] / result[cost]


def ratios(results: dict, models: list[str], first: str, other: str, cost: str) -> str:
    """Geometric mean and range of the ratios of two samplers."""
    by_model = np.array(
        [efficiency(results[m, first], cost) / efficiency(results[m, other], cost) for m in models]
    )
    mean, worst = np.exp(np.mean(np.log(by_model))), int(np.argmin(by_model))
    return (
        f"{first} over {other}, {len(models)} models: geometric mean {mean:.2f}, from "
        f"{by_model[worst]:.2f} ({models[worst]}) to {by_model.max():.1f}"
    )
