"""Draws moved by steps of NUTS, which leave a sample of a posterior a sample of it.

Draws from another distribution move towards the posterior. Gorham and Mackey (2015), "Measuring
sample quality with Stein's method", measure the first, infinitesimal step of such a chain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.hmc import hmc

from bayeskern.core.batching import evenly
from bayeskern.inference.mcmc.connectivity import shrunk_covariance
from bayeskern.inference.model.cost import cost, is_costly
from bayeskern.inference.model.evaluation import points_at_once
from bayeskern.inference.model.target import Target
from bayeskern.inference.optimization.factors import robust_cholesky
from bayeskern.inference.optimization.objective import NegativeLogDensity
from bayeskern.inference.result import Moved


@dataclass(frozen=True)
class StepOptions:
    """Options of the moves.

    Attributes:
        points: Number of draws that move.
        points_if_costly: The same number, if the density is costly.
        steps: Steps of NUTS after which the moved draws are compared, in turn.
        max_numbers: Array elements that all densities may compute, beyond which no further steps
            are taken.
        accept: Range of the mean acceptance probability to which the step size is tuned.
        accept_if_diverging: Mean acceptance probability up to which steps get smaller while a
            draw diverges.
        tuning_rounds: Maximum number of rounds of tuning, with one step each.
        max_tree_depth: Maximum number of doublings of a trajectory.
        max_dense_size: Coordinates up to which the mass matrix is full.
    """

    points: int = 1024
    points_if_costly: int = 512
    steps: tuple[int, ...] = (2, 4, 8, 16, 32)
    max_numbers: int = 2**32
    accept: tuple[float, float] = (0.8, 0.95)
    accept_if_diverging: float = 0.99
    tuning_rounds: int = 12
    max_tree_depth: int = 8
    max_dense_size: int = 200


MOVES = StepOptions()


def moved_draws(target: Target, z: np.ndarray, seed: int) -> Iterator[Moved]:
    """Draws after more and more steps of NUTS, `MOVES.steps` in turn.

    The mass matrix is the inverse covariance of the draws. The step size is tuned to the mean
    acceptance probability over all draws, in steps that are not counted.

    Args:
        target: The posterior.
        z: Draws with a finite log density, (S, d). If there are fewer than `MOVES.points`, each
            moves several times.
        seed: Seed of the moves.
    """
    n = MOVES.points_if_costly if is_costly(target) else MOVES.points
    start = np.resize(z[evenly(len(z), n)], (n, z.shape[1]))
    scale = np.std(start, axis=0)
    if z.shape[1] <= MOVES.max_dense_size:
        scale = robust_cholesky(shrunk_covariance(start))
    run = partial(_step, target, scale)
    key = jax.random.key(seed)
    end, step_size = _tuned(run, start, key)
    steps, numbers, diverged = 0, 0, np.zeros(n, bool)
    for total in MOVES.steps:
        last = run(end, step_size, jax.random.fold_in(key, total), total - steps)
        end, steps, diverged = last.z, total, diverged | last.diverged
        yield Moved(start, end, steps, diverged)
        numbers += last.gradients * cost(target)
        if numbers > MOVES.max_numbers:
            return


class _Stepped(NamedTuple):
    """Draws after steps of NUTS.

    Attributes:
        z: The draws, (n, d).
        accept: Mean acceptance probability.
        diverged: True for a draw of which a step diverged, (n,).
        gradients: Number of gradients of all draws together.
    """

    z: np.ndarray
    accept: float
    diverged: np.ndarray
    gradients: int


def _tuned(run: Callable[..., _Stepped], z: np.ndarray, key: jax.Array) -> tuple[np.ndarray, float]:
    """Draws after steps whose size is tuned, and the step size."""
    step_size, has_diverged = float(z.shape[1]) ** -0.25, False
    low, high = MOVES.accept
    for i in range(MOVES.tuning_rounds):
        last = run(z, step_size, jax.random.fold_in(key, 1000 + i), 1)
        z, accept = last.z, last.accept
        if last.diverged.any() and accept < MOVES.accept_if_diverging:
            # Steps that are right on average are too long in a narrow tail.
            step_size, has_diverged = 0.6 * step_size, True
        elif accept < low or (accept > high and not has_diverged):
            step_size *= np.exp(3.0 * (accept - 0.5 * (low + high)))
        else:
            break
    return z, step_size


def _step(
    target: Target, scale: np.ndarray, z: np.ndarray, step_size: float, key: jax.Array, count: int
) -> _Stepped:
    """Draws after `count` steps of NUTS from each."""
    # With a fixed type, so that the program is compiled once.
    size, steps = jnp.asarray(step_size, float), jnp.asarray(count, int)
    results = _compiled_steps(target, jnp.asarray(scale), jnp.asarray(z), size, steps, key)
    end, accept, diverged, gradients = jax.device_get(results)
    return _Stepped(end, float(np.mean(accept)), diverged, int(np.sum(gradients)))


@eqx.filter_jit
def _compiled_steps(target, scale, z, step_size, count, key):
    def unscaled(u):
        return scale @ u if scale.ndim == 2 else scale * u

    def potential(u):
        return NegativeLogDensity(target, jacobian=True)(unscaled(u))

    def move(item):
        u, key = item
        init, step = hmc(potential, algo="NUTS")
        state = init(
            u,
            0,
            step_size=step_size,
            inverse_mass_matrix=jnp.ones(len(u)),
            adapt_step_size=False,
            adapt_mass_matrix=False,
            max_tree_depth=MOVES.max_tree_depth,
            rng_key=key,
        )

        def body(_, carried):
            state, diverged, gradients = carried
            state = step(state)
            return state, diverged | state.diverging, gradients + state.num_steps

        first = (state, jnp.asarray(False), jnp.asarray(0))
        state, diverged, gradients = jax.lax.fori_loop(0, count, body, first)
        return unscaled(state.z), state.mean_accept_prob, diverged, gradients

    if scale.ndim == 2:
        u = jax.scipy.linalg.solve_triangular(scale, z.T, lower=True).T
    else:
        u = z / scale
    keys = jax.random.split(key, len(z))
    return jax.lax.map(move, (u, keys), batch_size=points_at_once(target, len(z)))
