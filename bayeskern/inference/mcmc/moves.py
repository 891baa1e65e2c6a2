"""Draws moved by steps of NUTS, which leave the posterior distribution invariant.

Draws from another distribution move towards the posterior. Gorham and Mackey (2015), "Measuring
sample quality with Stein's method", measure the first, infinitesimal step of such a chain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core.batching import evenly
from bayeskern.inference.mcmc.connectivity import shrunk_covariance
from bayeskern.inference.mcmc.kernel import (
    ChainState,
    KernelOptions,
    PreconditionedTarget,
    log_step_at,
    one_step,
    potential_and_gradient,
)
from bayeskern.inference.mcmc.metric import Metric
from bayeskern.inference.model.cost import cost, is_costly
from bayeskern.inference.model.evaluation import points_at_once
from bayeskern.inference.model.target import Target
from bayeskern.inference.result import MovedDraws
from bayeskern.inference.search.factors import robust_cholesky

# Number of draws that move, and the same number if the density is costly.
MOVED_DRAWS, MOVED_DRAWS_IF_COSTLY = 1024, 512
# Increasing numbers of steps of NUTS after which the moved draws are compared.
MOVE_STEPS = (2, 4, 8, 16, 32)
# Number of array elements, computed by all densities, above which no further steps are taken.
MAX_COMPUTED_NUMBERS = 2**32
# Coordinates up to which the mass matrix is full.
MAX_FULL_MASS_SIZE = 200


def moved_draws(target: Target, z: np.ndarray, batch: int, seed: int) -> Iterator[MovedDraws]:
    """Draws after increasing numbers of steps of NUTS, those of MOVE_STEPS.

    The mass matrix is the inverse covariance of the draws. The step size is tuned to the mean
    acceptance probability over all draws, in steps that are not counted.

    Args:
        target: The posterior.
        z: Draws with a finite log density, (S, d). If there are fewer than MOVED_DRAWS, each
            moves several times.
        batch: Number of the batch, from 0. The batches are different draws, as long as there are
            enough, and make different steps.
        seed: Seed of the moves.
    """
    n, d = MOVED_DRAWS_IF_COSTLY if is_costly(target) else MOVED_DRAWS, z.shape[1]
    start = np.resize(z[(evenly(len(z), n) + batch) % len(z)], (n, d))
    is_dense = d <= MAX_FULL_MASS_SIZE
    root = robust_cholesky(shrunk_covariance(start)) if is_dense else np.std(start, axis=0)
    metric = Metric.of_root(root, d if is_dense else 0)
    run = partial(_step, target, metric)
    key = jax.random.fold_in(jax.random.key(seed), batch)
    states, step_size = _tuned(run, _states(target, metric, start, key))
    steps, numbers, diverged = 0, 0, np.zeros(n, bool)
    for total in MOVE_STEPS:
        last = run(states, step_size, total - steps)
        states, steps, diverged = last.states, total, diverged | last.diverged
        yield MovedDraws(start, metric.to_z(np.asarray(states.u)), steps, diverged)
        numbers += last.gradients * cost(target)
        if numbers > MAX_COMPUTED_NUMBERS:
            return


class _Stepped(NamedTuple):
    """Draws after steps of NUTS.

    Attributes:
        states: States at the draws, with a leading axis of draws.
        accept: Mean acceptance probability.
        diverged: True for a draw with a divergent step, (n,).
        gradients: Number of gradients of all draws together.
    """

    states: ChainState
    accept: float
    diverged: np.ndarray
    gradients: int


def _states(target: Target, metric: Metric, z: np.ndarray, key: jax.Array) -> ChainState:
    """States at draws z (n, d), with a leading axis of draws."""
    potential, gradient = potential_and_gradient(target, z)
    arrays = [jnp.asarray(x) for x in (metric.to_u(z), potential, metric.gradient_in_u(gradient))]
    keys = jax.random.split(key, len(z))
    log_step = tuple(jnp.broadcast_to(x, len(z)) for x in log_step_at(np.zeros(())))
    return ChainState(arrays[0], arrays[1], arrays[2], keys, log_step)


# Range of the mean acceptance probability to which the step size is tuned.
ACCEPTANCE_RANGE = (0.8, 0.95)
# Mean acceptance probability below which the step size is reduced while a draw diverges.
DIVERGING_ACCEPTANCE = 0.99
# Maximum number of rounds of tuning, with one step each.
MAX_TUNING_ROUNDS = 12


def _tuned(run: Callable[..., _Stepped], states: ChainState) -> tuple[ChainState, float]:
    """States after steps whose size is tuned, and the step size."""
    step_size, has_diverged = float(states.u.shape[1]) ** -0.25, False
    low, high = ACCEPTANCE_RANGE
    for _ in range(MAX_TUNING_ROUNDS):
        last = run(states, step_size, 1)
        states, accept = last.states, last.accept
        if last.diverged.any() and accept < DIVERGING_ACCEPTANCE:
            # A step size that suits most draws is too large in a narrow tail.
            step_size, has_diverged = 0.6 * step_size, True
        elif accept < low or (accept > high and not has_diverged):
            step_size *= np.exp(3.0 * (accept - 0.5 * (low + high)))
        else:
            break
    return states, step_size


def _step(
    target: Target, metric: Metric, states: ChainState, step_size: float, count: int
) -> _Stepped:
    """States after `count` steps of NUTS from each."""
    # With a fixed type, so that the program is compiled once.
    size, steps = jnp.asarray(step_size, float), jnp.asarray(count, int)
    states, *statistics = _compiled_steps(target, metric, states, size, steps)
    accept, diverged, gradients = jax.device_get(statistics)
    return _Stepped(states, float(np.mean(accept)) / count, diverged, int(np.sum(gradients)))


# Maximum number of doublings of a trajectory.
MAX_TREE_DEPTH = 8


@eqx.filter_jit
def _compiled_steps(target, metric, states, step_size, count):
    density = PreconditionedTarget(target, metric)
    # The step size does not adapt, so that its target does not matter.
    options = KernelOptions(np.asarray(0.0), MAX_TREE_DEPTH)

    def body(_, carried):
        state, accept, diverged, gradients = carried
        state, step = one_step(options, density, state, jnp.asarray(False))
        accept, gradients = accept + step.acceptance_rate, gradients + step.n_steps
        return state, accept, diverged | step.diverging, gradients

    def move(state):
        state = state._replace(log_step=log_step_at(jnp.log(step_size)))
        start = (state, jnp.asarray(0.0), jnp.asarray(False), jnp.asarray(0))
        return jax.lax.fori_loop(0, count, body, start)

    return jax.lax.map(move, states, batch_size=points_at_once(target, len(states.u)))
