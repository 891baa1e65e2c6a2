"""NUTS of this project beside other samplers: effective draws per gradient and per CPU second.

    uv run --group bench python -m benchmarks.samplers [--models arK-arK ...]
        [--samplers nutpie ...] [--log samplers.jsonl]

Models: the posteriors of shared/posteriordb, the gallery, and NumPyro's examples. All samplers get
the same log density in unconstrained coordinates, compiled by JAX, and give four chains of 1,000
draws after their own default warmup. Each sampler runs in a process of its own, with one thread,
twice for each model; the second run, with another seed, is the one reported. Gradients are leapfrog
steps, warmup included. CPU seconds leave out compilation; ours include the search for modes and the
verdict. With --log a run that was killed goes on from the results in the file.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

CHAINS, DRAWS = 4, 1000
SECONDS = 600
OURS = "bayeskern"


class Draws(NamedTuple):
    """Draws in unconstrained coordinates, (chains, n, d), and what they cost."""

    z: np.ndarray
    gradients: int
    cpu: float
    verdict: str = ""


# -- models ----------------------------------------------------------------------------------------


def problems() -> dict[str, Callable]:
    """For each model a function that returns its `Problem`."""
    import bayeskern as bk
    from bayeskern import gallery
    from benchmarks.numpyro_examples import examples
    from tests import posteriordb

    found: dict[str, Callable] = {}
    if posteriordb.FOLDER.is_dir():
        found |= {
            name: lambda name=name: bk.Problem(*posteriordb.load(name)[:2])
            for name in posteriordb.NAMES
        }
    found |= {name: lambda name=name: gallery.load(name) for name in gallery.names()}
    found |= {name: lambda case=case: bk.Problem(*case[:2]) for name, case in examples().items()}
    return found


def target_of(problem):
    """The density that `bk.infer(method="nuts")` samples; None without latents."""
    import bayeskern as bk
    from bayeskern.inference.methods.marginalization import form_of
    from bayeskern.inference.model.target import Target
    from bayeskern.inference.problem import bind

    target, marginal = form_of(bk.NUTS(), bind(problem, (), {}).target())
    if marginal is not None:
        target = Target.of(marginal.model, marginal.args, {})
    return target if target.latents else None


# -- samplers --------------------------------------------------------------------------------------


def cpu_seconds(run: Callable) -> tuple[float, object]:
    """CPU seconds of a call, and its result."""
    import jax

    start = time.process_time()
    result = jax.block_until_ready(run())
    return time.process_time() - start, result


def ours(target, problem, seed: int) -> Draws:
    import bayeskern as bk

    def run():
        method = bk.NUTS(chain_method="sequential")
        posterior = problem.fit(method, seed=seed, progress=False)
        return posterior, posterior.trust

    cpu, (posterior, trust) = cpu_seconds(run)
    z, steps = posterior.z, posterior.trace["leapfrog_steps"]
    return Draws(z, int(steps), cpu, trust.verdict)


def with_numpyro(target, problem, seed: int) -> Draws:
    import jax
    from numpyro.infer.hmc import hmc

    @jax.jit
    def chain(start, key):
        init, step = hmc(_potential(target), algo="NUTS")
        state = init(start, 1000, rng_key=key)

        def advance(state, _):
            state = step(state)
            return state, (state.z, state.num_steps)

        _, (z, steps) = jax.lax.scan(advance, state, length=1000 + DRAWS)
        return z[1000:], steps.sum()

    return _chain_by_chain(chain, target, seed)


def with_blackjax(target, problem, seed: int) -> Draws:
    import blackjax
    import jax

    potential = _potential(target)

    def log_density(z):
        return -potential(z)

    @jax.jit
    def chain(start, key):
        warmup_key, key = jax.random.split(key)
        warmup = blackjax.window_adaptation(blackjax.nuts, log_density)
        (state, parameters), info = warmup.run(warmup_key, start, 1000)
        kernel = blackjax.nuts(log_density, **parameters)

        def step(state, key):
            state, info = kernel.step(key, state)
            return state, (state.position, info.num_integration_steps)

        _, (z, steps) = jax.lax.scan(step, state, jax.random.split(key, DRAWS))
        return z, info.info.num_integration_steps.sum() + steps.sum()

    return _chain_by_chain(chain, target, seed)


def with_nutpie(target, problem, seed: int, adaptation: str = "diag") -> Draws:
    import jax
    import nutpie
    from nutpie.compiled_pyfunc import from_pyfunc

    value_and_gradient = jax.jit(jax.value_and_grad(lambda z: -_potential(target)(z)))

    def make_log_density():
        def log_density(z):
            value, gradient = value_and_gradient(z)
            return float(value), np.asarray(gradient)

        return log_density

    def make_expand(*_):
        return lambda z: {"z": np.asarray(z)}

    size = target.size
    compiled = from_pyfunc(size, make_log_density, make_expand, [np.dtype(float)], [(size,)], ["z"])

    def run():
        return nutpie.sample(
            compiled,
            draws=DRAWS,
            chains=CHAINS,
            cores=1,
            seed=seed,
            adaptation=adaptation,
            progress_bar=False,
        )

    make_log_density()(np.zeros(size))
    cpu, tree = cpu_seconds(run)
    groups = ("warmup_sample_stats", "sample_stats")
    steps = sum(float(tree[group]["n_steps"].sum()) for group in groups)
    return Draws(np.asarray(tree["posterior"]["z"]), int(steps), cpu)


def with_nutpie_low_rank(target, problem, seed: int) -> Draws:
    return with_nutpie(target, problem, seed, "low_rank")


SAMPLERS: dict[str, Callable] = {
    OURS: ours,
    "NumPyro": with_numpyro,
    "blackjax": with_blackjax,
    "nutpie": with_nutpie,
    "nutpie low-rank": with_nutpie_low_rank,
}


def _chain_by_chain(chain: Callable, target, seed: int) -> Draws:
    """Draws and steps of `chain(start, key)`, compiled before the clock starts."""
    import jax

    starts, keys = _starts(target, seed), jax.random.split(jax.random.key(seed), CHAINS)
    compiled = chain.lower(starts[0], keys[0]).compile()

    def run():
        return [compiled(start, key) for start, key in zip(starts, keys, strict=True)]

    cpu, chains = cpu_seconds(run)
    z, steps = zip(*chains, strict=True)
    return Draws(np.stack(z), int(sum(steps)), cpu)


def _potential(target):
    from bayeskern.inference.optimization.objective import NegativeLogDensity

    return NegativeLogDensity(target, jacobian=True)


def _starts(target, seed: int) -> np.ndarray:
    """Uniform starts on (-2, 2)^d with a finite density, as NumPyro's and Stan's."""
    from bayeskern.inference.mcmc.kernel import potential_and_gradient

    z = np.random.default_rng(seed).uniform(-2.0, 2.0, (256, target.size))
    potential, gradient = potential_and_gradient(target, z)
    finite = np.isfinite(potential) & np.all(np.isfinite(gradient), axis=1)
    return z[finite][:CHAINS]


# -- one sampler in its process --------------------------------------------------------------------


def run_all(sampler: str, names: list[str]) -> None:
    """Print a line of JSON for each model."""
    warnings.simplefilter("ignore")
    from arviz_stats.base import array_stats

    for name in names:
        line: dict = {"model": name, "sampler": sampler}
        try:
            problem = problems()[name]()
            target = target_of(problem)
            if target is None:
                continue
            line["size"] = target.size
            if sampler == OURS:
                # The first call compiles.
                SAMPLERS[sampler](target, problem, 0)
            draws = SAMPLERS[sampler](target, problem, 1)
            by_number = np.moveaxis(draws.z, -1, 0)
            line |= {
                "ess": min(float(array_stats.ess(x, method="bulk")) for x in by_number),
                "rhat": max(float(array_stats.rhat(x)) for x in by_number)
                if len(draws.z) > 1
                else None,
                "gradients": draws.gradients,
                "cpu": draws.cpu,
                "verdict": draws.verdict,
                "mean": draws.z.mean(axis=(0, 1)).tolist(),
                "sd": draws.z.std(axis=(0, 1)).tolist(),
            }
        except Exception as error:
            line["failure"] = f"{type(error).__name__}: {error}"[:200]
        print(json.dumps(line), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", nargs="*")
    parser.add_argument("--samplers", nargs="*", choices=SAMPLERS, default=list(SAMPLERS))
    parser.add_argument("--log", type=Path, default=Path("samplers.jsonl"))
    parser.add_argument("--child", action="store_true")
    options = parser.parse_args()
    if options.child:
        run_all(options.samplers[0], options.models)
        return
    names = options.models or list(problems())
    lines = (
        [json.loads(x) for x in options.log.read_text().splitlines()]
        if options.log.exists()
        else []
    )
    finished = {(x["model"], x["sampler"]) for x in lines}
    single = {
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    }
    for sampler in options.samplers:
        missing = [name for name in names if (name, sampler) not in finished]
        command = [sys.executable, "-m", "benchmarks.samplers", "--child", "--samplers", sampler]
        with options.log.open("a") as log:
            subprocess.run([*command, "--models", *missing], env=os.environ | single, stdout=log)
    from benchmarks.samplers_table import show

    show([json.loads(x) for x in options.log.read_text().splitlines()])


if __name__ == "__main__":
    main()
