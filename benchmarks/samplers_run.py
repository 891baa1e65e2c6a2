"""Samplers of `benchmarks.samplers`: four chains of 1,000 draws after their own default warmup.

NumPyro, blackjax and this project run compiled loops; nutpie calls the compiled density from
Python, a gradient at a time.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

import blackjax
import jax
import numpy as np
from blackjax.mcmc import adjusted_mclmc_dynamic as mams
from numpyro.infer.hmc import hmc

import bayeskern as bk
from bayeskern.inference.mcmc.kernel import potential_and_gradient
from bayeskern.inference.model.evaluation import join_chains, unconstrain
from bayeskern.inference.search.objective import NegativeLogDensity

CHAINS, DRAWS = 4, 1000
OURS = "bayeskern"


class Draws(NamedTuple):
    """Draws in unconstrained coordinates, (chains, n, d), and what they cost.

    `sampling` is the part of the CPU seconds without a search for modes and a verdict.
    """

    z: np.ndarray
    gradients: int
    cpu: float
    verdict: str = ""
    sampling: float | None = None


def cpu_seconds(run: Callable) -> tuple[float, object]:
    """CPU seconds of a call, and its result."""
    start = time.process_time()
    result = jax.block_until_ready(run())
    return time.process_time() - start, result


def ours(target, problem, seed: int) -> Draws:
    def run(seed: int = seed):
        method = bk.NUTS(chain_method="sequential")
        posterior = problem.fit(method, seed=seed, progress=False)
        return posterior, posterior.trust

    # The first call compiles.
    run(seed + 1)
    cpu, (posterior, trust) = cpu_seconds(run)
    # Centring changes the coordinates of the chains: those of the target are comparable.
    latents = join_chains({s.name: posterior.draws[s.name] for s in target.latents})
    z = unconstrain(target, latents)[0].reshape(posterior.z.shape)
    steps, sampling = int(posterior.trace["leapfrog_steps"]), posterior.timing["sampling"]
    return Draws(z, steps, cpu, trust.verdict, sampling)


def with_numpyro(target, problem, seed: int) -> Draws:
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
    log_density = _log_density(target)

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


def with_mams(target, problem, seed: int) -> Draws:
    """Adjusted microcanonical sampling (Robnik, Cohn-Gordon and Seljak 2025) by blackjax.

    Each fourth of 4,000 draws is kept; a step of the integrator takes two gradients.
    """
    if target.size == 1:
        raise ValueError("a momentum of constant length cannot change in one dimension")
    log_density = _log_density(target)
    lengths = mams.make_random_trajectory_length_fn(True)
    kernel = mams.build_kernel(integration_steps_fn=lengths)

    @jax.jit
    def chain(start, key):
        start_key, warmup_key, key = jax.random.split(key, 3)
        # A fifth of 5,000 steps is the warmup.
        state, parameters, warmup_steps = blackjax.adjusted_mclmc_find_L_and_step_size(
            kernel, log_density, 5000, mams.init(start, log_density, start_key), warmup_key, 0.9
        )
        length = parameters.L / parameters.step_size

        def step(state, key):
            state, info = kernel(
                key,
                state,
                log_density,
                parameters.step_size,
                inverse_mass_matrix=parameters.inverse_mass_matrix,
                integration_steps_params=(length,),
            )
            return state, (state.position, info.num_integration_steps)

        _, (z, steps) = jax.lax.scan(step, state, jax.random.split(key, 4 * DRAWS))
        return z[3::4], 2 * (warmup_steps + steps.sum())

    return _chain_by_chain(chain, target, seed)


def with_nutpie(target, problem, seed: int, adaptation: str = "diag") -> Draws:
    import nutpie
    from nutpie.compiled_pyfunc import from_pyfunc

    value_and_gradient = jax.jit(jax.value_and_grad(_log_density(target)))

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
    "MAMS": with_mams,
    "nutpie": with_nutpie,
    "nutpie low-rank": with_nutpie_low_rank,
}


def _chain_by_chain(chain: Callable, target, seed: int) -> Draws:
    """Draws and steps of `chain(start, key)`, compiled before the clock starts."""
    starts, keys = _starts(target, seed), jax.random.split(jax.random.key(seed), CHAINS)
    compiled = chain.lower(starts[0], keys[0]).compile()

    def run():
        return [compiled(start, key) for start, key in zip(starts, keys, strict=True)]

    cpu, chains = cpu_seconds(run)
    z, steps = zip(*chains, strict=True)
    return Draws(np.stack(z), int(sum(steps)), cpu)


def _potential(target):
    return NegativeLogDensity(target, jacobian=True)


def _log_density(target) -> Callable:
    potential = _potential(target)
    return lambda z: -potential(z)


def _starts(target, seed: int) -> np.ndarray:
    """Uniform starts on (-2, 2)^d with a finite density, as NumPyro's and Stan's."""
    z = np.random.default_rng(seed).uniform(-2.0, 2.0, (256, target.size))
    potential, gradient = potential_and_gradient(target, z)
    finite = np.isfinite(potential) & np.all(np.isfinite(gradient), axis=1)
    return z[finite][:CHAINS]
