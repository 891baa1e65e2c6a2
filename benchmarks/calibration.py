"""Calibration on eight schools: what a simulation takes, and what fits gain by going side by side.

    uv run python -m benchmarks.calibration

SVI's ascents, and chains of NUTS, each for FITS_AT_ONCE data sets: in one batch by vmap, beside one
after the other. JAX's cache on disk is off; everything has been compiled before the clock is read.
"""

import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import bayeskern as bk
from bayeskern.diagnostics.calibration.refit import FITS_AT_ONCE
from bayeskern.inference.mcmc.initialization import initial_points
from bayeskern.inference.mcmc.kernel import ChainState, KernelOptions, Stretch, take_steps
from bayeskern.inference.mcmc.mass_matrix import MetricShape
from bayeskern.inference.model.target import Target
from benchmarks.timing import best
from models import eight_schools

SIMULATIONS, STEPS = 60, 250
GUIDES = ("mean_field", "full_rank", "flow")


def targets():
    """Targets of eight schools, each with other simulated effects."""
    problem, rng = eight_schools.problem(), np.random.default_rng(0)
    effect, error = eight_schools.data()
    data = [(effect + 10.0 * rng.normal(size=8), error) for _ in range(FITS_AT_ONCE)]
    return [Target.from_model(problem.model, one, {}) for one in data]


def ascents(guide) -> tuple[float, float]:
    """Seconds for each fit, one after the other and side by side."""
    method = bk.SVI(guide=guide)
    starts = [method._start(target, seed, False) for seed, target in enumerate(targets())]
    families = method._families(starts, False)

    def alone():
        pairs = zip(families, starts, strict=True)
        return [method._maximize([family], [start], False) for family, start in pairs]

    def together():
        return method._maximize(families, starts, False)

    return best(alone, repeats=3) / FITS_AT_ONCE, best(together, repeats=3) / FITS_AT_ONCE


def chains() -> tuple[float, float]:
    """Seconds for STEPS steps of each chain, one after the other and in step."""
    options, run = KernelOptions(np.asarray(0.8), 10), Stretch(*map(np.array, (STEPS, 1, True)))
    all_targets, metrics, states = targets(), [], []
    for target in all_targets:
        point = initial_points(target, None, 1, 0)[0]
        metrics.append(MetricShape.from_option(target, "auto").metric(point.root))
        states.append(ChainState.at(point, metrics[-1], jax.random.key(0)))
    arrays, others = eqx.partition(all_targets, eqx.is_array)
    stacked = [jax.tree.map(lambda *x: jnp.stack(x), *trees) for trees in (arrays, metrics, states)]

    @eqx.filter_jit
    def in_step(*stacked):
        def one(target, metric, state):
            return take_steps(options, eqx.combine(target, others[0]), metric, state, run)

        return jax.vmap(one)(*stacked)

    def alone():
        cases = zip(all_targets, metrics, states, strict=True)
        return [take_steps(options, *case, run) for case in cases]

    together = best(lambda: in_step(*stacked), repeats=3)
    return best(alone, repeats=3) / FITS_AT_ONCE, together / FITS_AT_ONCE


def show(what, alone, together) -> None:
    print(
        f"{what:34} {1e3 * alone:6.1f} ms each, side by side {together / alone:.2f} x", flush=True
    )


def main():
    jax.config.update("jax_enable_compilation_cache", False)
    problem = eight_schools.problem()
    for method in ("laplace", "svi", "importance", "nuts"):
        seconds = []
        for _ in range(2):
            start = time.perf_counter()
            bk.calibrate(problem, method=method, simulations=SIMULATIONS, progress=False)
            seconds.append(time.perf_counter() - start)
        first, again = seconds
        each = again / SIMULATIONS
        print(f"calibrate, {method:12} {each:.2f} s a simulation; {first - again:.0f} s to compile")
    for guide in GUIDES:
        show(f"SVI's ascent, {guide}", *ascents(guide))
    show(f"NUTS, {STEPS} steps of a chain", *chains())


if __name__ == "__main__":
    main()
