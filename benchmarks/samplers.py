"""NUTS of this project beside other samplers: effective draws per gradient and per CPU second.

    uv run --group bench python -m benchmarks.samplers [--models arK-arK ...]
        [--samplers nutpie ...] [--limit 1200] [--log samplers.jsonl] [--chart samplers.png]

Models: the posteriors of shared/posteriordb, the gallery, and NumPyro's examples. All samplers get
the same log density in unconstrained coordinates, compiled by JAX, and give four chains of 1,000
draws after their own default warmup. Effective draws are those of these coordinates, also where
this project samples in others. "nutpie" is the default of PyMC 6, too. Each sampler runs on
each model in a process of its own, with one thread, is compiled before the clock starts, and is
stopped after `--limit` seconds. Gradients are those of
leapfrog steps, warmup included. CPU seconds of this project include its search for modes and its
verdict; a third table leaves them out. The error is the largest distance of a mean from that of the
reference (published draws, or a long run), in sds. With --log a run that was killed
goes on from the results in the file.
"""

import argparse
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import numpy as np

import bayeskern as bk
from bayeskern import gallery
from bayeskern.inference.methods.marginalization import form_of
from bayeskern.inference.model.target import Target
from bayeskern.inference.problem import bind
from benchmarks.numpyro_examples import examples
from benchmarks.samplers_run import SAMPLERS
from benchmarks.samplers_table import chart, show
from tests import posteriordb

REFERENCES = Path(__file__).resolve().parents[1] / "tests" / "gallery" / "reference"
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
}


def problems() -> dict[str, Callable]:
    """For each model a function that returns its `Problem`."""
    published = posteriordb.NAMES if posteriordb.FOLDER.is_dir() else ()
    loaders: dict[str, Callable] = {
        name: lambda name=name: bk.Problem(*posteriordb.load(name)[:2]) for name in published
    }
    loaders |= {name: lambda name=name: gallery.load(name) for name in gallery.names()}
    return loaders | {n: lambda case=case: bk.Problem(*case[:2]) for n, case in examples().items()}


def target_of(problem) -> Target | None:
    """The density that `bk.infer(method="nuts")` samples; None without latents."""
    target, marginal = form_of(bk.NUTS(), bind(problem, (), {}).target())
    if marginal is not None:
        target = Target.from_model(marginal.model, marginal.args, {})
    return target if target.latents else None


def reference_of(name: str) -> dict[str, tuple[float, float]]:
    """Mean and sd of each number of a model's reference, {} where it has none."""
    if name in posteriordb.NAMES:
        reference = posteriordb.load(name)[2]
        return {number: (entry["mean"], entry["sd"]) for number, entry in reference.items()}
    file = REFERENCES / f"{name}.json"
    sites = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    means, sds = ({site: sites[site][what] for site in sites} for what in ("mean", "sd"))
    sds = dict(_numbers(sds))
    return {number: (mean, sds[number]) for number, mean in _numbers(means)}


def error_of(target: Target, z: np.ndarray, name: str) -> float | None:
    """Largest distance of a mean of draws z (chains, n, d) from the reference, in its sds."""
    reference = reference_of(name)
    draws = jax.jit(jax.vmap(target.constrain))(z.reshape(-1, z.shape[-1]))
    means = dict(_numbers({site: np.mean(values, axis=0) for site, values in draws.items()}))
    errors = [abs(means[x] - mean) / sd for x, (mean, sd) in reference.items() if x in means]
    return float(np.max(errors)) if errors else None


def _numbers(sites: dict) -> Iterator[tuple[str, float]]:
    """Name and value of each number, with indices from 1: `beta[2]`."""
    for site, values in sites.items():
        for index, value in np.ndenumerate(np.asarray(values, float)):
            indices = ",".join(str(i + 1) for i in index)
            yield f"{site}[{indices}]" if index else site, float(value)


# -- one sampler on one model, in its process ------------------------------------------------------


def print_result(sampler: str, name: str) -> None:
    """Print a line of JSON, none for a model without latents."""
    warnings.simplefilter("ignore")
    line: dict = {"model": name, "sampler": sampler}
    try:
        problem = problems()[name]()
        target = target_of(problem)
        if target is None:
            return
        line["size"] = target.size
        line |= result_of(sampler, target, problem, name)
    except Exception as error:
        line["failure"] = f"{type(error).__name__}: {error}"[:200]
    print(json.dumps(line), flush=True)


def result_of(sampler: str, target: Target, problem, name: str) -> dict:
    """Efficiency and error of a sampler on one model."""
    from arviz_stats.base import array_stats

    draws = SAMPLERS[sampler](target, problem, seed=1)
    by_number = np.moveaxis(draws.z, -1, 0)
    several = len(draws.z) > 1
    return {
        "ess": min(float(array_stats.ess(x, method="bulk")) for x in by_number),
        "rhat": max(float(array_stats.rhat(x)) for x in by_number) if several else None,
        "gradients": draws.gradients,
        "cpu": draws.cpu,
        "sampling": draws.cpu if draws.sampling is None else draws.sampling,
        "verdict": draws.verdict,
        "error": error_of(target, draws.z, name),
    }


def run_apart(sampler: str, name: str, log: Path, limit: float) -> None:
    """Append the result of a process of its own, or a failure after `limit` seconds."""
    program = [sys.executable, "-m", "benchmarks.samplers", "--child"]
    command = [*program, "--samplers", sampler, "--models", name]
    with log.open("a", encoding="utf-8") as stream:
        try:
            subprocess.run(command, env=os.environ | ONE_THREAD, stdout=stream, timeout=limit)
        except subprocess.TimeoutExpired:
            failure = f"stopped after {limit:.0f} s"
            stream.write(json.dumps({"model": name, "sampler": sampler, "failure": failure}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", nargs="*", default=list(problems()))
    parser.add_argument("--samplers", nargs="*", choices=SAMPLERS, default=list(SAMPLERS))
    parser.add_argument("--limit", type=float, default=1200.0, help="seconds for each run")
    parser.add_argument("--log", type=Path, default=Path("samplers.jsonl"))
    parser.add_argument("--chart", type=Path)
    parser.add_argument("--child", action="store_true")
    options = parser.parse_args()
    if options.child:
        print_result(options.samplers[0], options.models[0])
        return
    options.log.touch()
    finished = {(line["model"], line["sampler"]) for line in read(options.log)}
    for name in options.models:
        for sampler in options.samplers:
            if (name, sampler) not in finished:
                run_apart(sampler, name, options.log, options.limit)
    lines = read(options.log)
    show(lines)
    if options.chart is not None:
        chart(lines).savefig(options.chart, dpi=130)


def read(log: Path) -> list[dict]:
    """Results in a file, sorted by the sampler's place in `SAMPLERS`."""
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    return sorted(lines, key=lambda line: list(SAMPLERS).index(line["sampler"]))


if __name__ == "__main__":
    main()
