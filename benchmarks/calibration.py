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
from bayeskern.inference.mcmc.kernel import KernelOptions, ScaledTarget, initial_state, take_steps
from bayeskern.inference.model.target import Target
from benchmarks.timing import best
from models import eight_schools

SIMULATIONS, STEPS = 60, 250
GUIDES = ("mean_field", "full_rank", "flow")


def targets():
    """Of eight schools, given other effects each."""
    problem, rng = eight_schools.problem(), np.random.default_rng(0)
    effect, error = eight_schools.data()
    data = [(effect + 10.0 * rng.normal(size=8), error) for _ in range(FITS_AT_ONCE)]
    return [Target.of(problem.model, one, {}) for one in data]


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
    options = KernelOptions(1000, np.asarray(0.8), 10, False, None)
    densities, states = [], []
    for target in targets():
        point = initial_points(target, None, 1, 0)[0]
        scale = np.sqrt(point.inverse_mass)
        densities.append(ScaledTarget(target, jnp.asarray(scale)))
        states.append(
            initial_state(options, densities[-1], point.rescaled(scale), jax.random.key(0))
        )
    steps = jnp.asarray(STEPS)
    arrays, others = eqx.partition(densities, eqx.is_array)
    density = jax.tree.map(lambda *x: jnp.stack(x), *arrays)
    state = jax.tree.map(lambda *x: jnp.stack(x), *states)

    @eqx.filter_jit
    def in_step(density, state):
        def one(density, state):
            return take_steps(options, eqx.combine(density, others[0]), state, steps)

        return jax.vmap(one)(density, state)

    def alone():
        return [take_steps(options, *one, steps) for one in zip(densities, states, strict=True)]

    together = best(lambda: in_step(density, state), repeats=3)
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
