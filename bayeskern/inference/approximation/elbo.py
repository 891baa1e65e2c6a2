"""Maximise the ELBO by Adam, for several fits side by side, or a single one.

Most of the cost of a step of a small model is the launch of many small operations, so that several
fits under vmap are cheaper than one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from bayeskern.core.progress import Progress
from bayeskern.inference.approximation.guides import Guide, UserGuide
from bayeskern.inference.approximation.stopping import StoppingRule
from bayeskern.inference.model.target import Target

# Steps between two tests of the stopping rule.
STEPS_PER_TEST = 100
# Draws for each step: the score-function gradient is noisier.
PARTICLES = {"pathwise": 8, "score": 64}


class MaximizedELBO(NamedTuple):
    """Result of a fit.

    Attributes:
        params: Parameters averaged over the last steps, a pytree.
        trace: The ELBO at each step.
        doubt: Sentence on a fit that has not converged, else None.
    """

    params: Any
    trace: np.ndarray
    doubt: str | None


def maximize_elbo(
    families: Sequence[Guide | UserGuide],
    targets: Sequence[Target],
    seeds: Sequence[int],
    gradient: str,
    rates: Sequence[float],
    steps: int,
    progress: bool,
) -> list[MaximizedELBO]:
    """Maximise the ELBO of each family by Adam, at falling learning rates.

    Each fit has a stopping rule for each rate; finished fits wait for the others.

    Args:
        families: Families of one structure and shape.
        targets: Target of each fit, all of one structure and shape.
        seeds: Seed of each fit.
        gradient: "pathwise" or "score".
        rates: Learning rates.
        steps: Maximum number of steps of each fit.
        progress: True to show a progress bar.
    """
    family, target = Batched.from_items(families), Batched.from_items(targets)
    # Two starts for each fit, with sds of 1 and of 0.1 in the coordinates of its family.
    starts = [_states(families, seeds, width) for width in (1.0, 0.1)]
    state = _better_start(family, target, starts, gradient)
    schedules = [LearningRateSchedule(rates, steps) for _ in families]
    with Progress("SVI", steps, progress) as bar:
        while not all(schedule.finished for schedule in schedules):
            stretches = zip(*(schedule.next for schedule in schedules), strict=True)
            rate, count = map(np.array, stretches)
            length = np.array(count.max())
            state, *results = _run_steps(family, target, state, rate, count, length, gradient)
            results = jax.device_get(results)
            for i, schedule in enumerate(schedules):
                schedule.add(*_item(results, i))
            steps_taken = max(schedule.steps_taken for schedule in schedules)
            bar.to(steps_taken, f"ELBO {schedules[0].stopping.latest:.3f}")
    last = jax.device_get(state.params)
    return [schedule.end(_item(last, i)) for i, schedule in enumerate(schedules)]


class LearningRateSchedule:
    """Learning rates of one fit, and its progress through them.

    Args:
        rates: Learning rates.
        steps: Maximum number of steps in all.
    """

    def __init__(self, rates: Sequence[float], steps: int):
        self.rates, self.steps, self.steps_taken = list(rates), steps, 0
        self.stopping, self.averages, self.trace = StoppingRule(), [], []

    @property
    def finished(self) -> bool:
        """True once all learning rates are done."""
        return not self.rates

    @property
    def next(self) -> tuple[float, int]:
        """Learning rate and steps of the next stretch; 0 and 0 if the fit is finished."""
        if self.finished:
            return 0.0, 0
        return self.rates[0], min(STEPS_PER_TEST, self.steps - self.steps_taken)

    def add(self, average: Any, elbo: np.ndarray) -> None:
        """Record a stretch: mean of the parameters, and the ELBO (STEPS_PER_TEST,)."""
        if self.finished:
            return
        count = self.next[1]
        self.averages.append(average)
        self.trace.append(elbo[:count])
        self.stopping.add(elbo[:count])
        self.steps_taken += count
        while self.rates and (self.stopping.reached or self.steps_taken == self.steps):
            self.rates.pop(0)
            if self.rates:
                self.stopping, self.averages = StoppingRule(), []

    def end(self, last: Any) -> MaximizedELBO:
        """Result of the fit; `last` holds the parameters after the last step."""
        # Iterates fluctuate around the optimum: average them over the second half.
        half = self.averages[len(self.averages) // 2 :] or [last]
        mean = jax.tree.map(lambda *x: np.mean(x, axis=0), *half)
        doubt = None if self.stopping.reached else self.stopping.describe(self.steps)
        return MaximizedELBO(mean, np.concatenate(self.trace), doubt)


class AdamState(NamedTuple):
    """State of the fits; every leaf has an axis of fits in front."""

    params: Any
    optimiser: optax.OptState
    key: jax.Array


class Batched(eqx.Module):
    """Stack of pytrees of one structure, with a single copy of arrays that they share.

    Attributes:
        stacked: Arrays that differ, with an axis of pytrees in front.
        shared: The rest.
    """

    stacked: Any
    shared: Any

    @classmethod
    def from_items(cls, items: Sequence[Any]) -> Batched:
        """Stack pytrees that differ in arrays only."""
        arrays, others = zip(*(eqx.partition(item, eqx.is_array) for item in items), strict=True)
        if not all(eqx.tree_equal(others[0], other) for other in others):
            raise ValueError("the fits differ in more than arrays, so they cannot be stacked.")
        stacked = jax.tree.map(lambda *x: None if _is_shared(x) else jnp.stack(x), *arrays)
        shared = jax.tree.map(lambda *x: x[0] if _is_shared(x) else None, *arrays)
        return cls(stacked, eqx.combine(shared, others[0]))


def _is_shared(arrays: tuple) -> bool:
    return all(x is arrays[0] for x in arrays)


def _item(stacked: Any, i: int) -> Any:
    return jax.tree.map(lambda x: x[i], stacked)


def _states(families: Sequence[Guide | UserGuide], seeds: Sequence[int], width: float) -> AdamState:
    """State of fits before the first step, with sds of `width`."""
    params = [family.init(width) for family in families]
    # In NumPy, because JAX would compile each of these small functions.
    stacked, optimisers = (
        jax.tree.map(lambda *x: np.stack(x), *starts)
        for starts in (params, [optax.adam(1.0).init(start) for start in params])
    )
    keys = jnp.stack([jax.random.key(np.uint32(seed)) for seed in seeds])
    return AdamState(stacked, optimisers, keys)


def _better_start(
    family: Batched, target: Batched, starts: list[AdamState], gradient: str
) -> AdamState:
    """Better of two starts of each fit, by the ELBO of 64 draws."""
    fits, length = len(starts[0].key), np.array(64 // PARTICLES[gradient])
    rates, counts = np.zeros(fits), np.zeros(fits, int)

    def elbo(start):
        # With counts of 0, `_run_steps` takes no step; nothing else has to be compiled.
        by_step = _run_steps(family, target, start, rates, counts, length, gradient)[2]
        return np.mean(np.asarray(by_step)[:, :length], axis=1)

    elbos = [elbo(start) for start in starts]
    # NaN is worse than any number.
    use_first = ~(elbos[1] > elbos[0]) & np.isfinite(elbos[0])

    def choose(x, y):
        return np.where(use_first.reshape(-1, *[1] * (np.ndim(x) - 1)), x, y)

    params = jax.tree.map(choose, *(start.params for start in starts))
    return starts[0]._replace(params=params)


@eqx.filter_jit
def _run_steps(families: Batched, targets: Batched, states, rates, counts, length, gradient):
    """State of each fit after `counts` steps, its mean parameters, and its ELBO by step.

    length: Number of ELBO values to compute, from the largest count to STEPS_PER_TEST.
    """

    def run_fit(family, target, state, rate, count):
        family, target = eqx.combine(family, families.shared), eqx.combine(target, targets.shared)
        return _adam_steps(family, target, state, rate, count, length, gradient)

    stacked = families.stacked, targets.stacked, states, rates, counts
    if len(rates) > 1:
        return jax.vmap(run_fit)(*stacked)
    # A single fit runs without vmap, which takes longer to compile.
    return jax.tree.map(lambda x: x[None], run_fit(*_item(stacked, 0)))


def _adam_steps(family, target, state, rate, count, length, gradient):
    """`_run_steps` of a single fit."""
    slope_of = jax.value_and_grad(
        lambda params, key: _loss_and_elbo(family, target, params, key, gradient), has_aux=True
    )
    new_key, key = jax.random.split(state.key)

    def step(i, carried):
        params, optimiser, total, elbos = carried
        (_, elbo), slope = slope_of(params, jax.random.fold_in(key, i))
        updates, new_optimiser = optax.adam(rate).update(slope, optimiser, params)
        # Skip steps whose gradient is not finite, and steps after the last one.
        is_finite = jnp.all(jnp.array([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(slope)]))
        take = is_finite & (i < count)
        new_params = optax.apply_updates(params, updates)
        params, optimiser = jax.tree.map(
            lambda a, b: jnp.where(take, a, b), (new_params, new_optimiser), (params, optimiser)
        )
        # Sum of the parameters over the steps, for their mean.
        total = jax.tree.map(lambda t, p: t + jnp.where(i < count, p, 0.0), total, params)
        return params, optimiser, total, elbos.at[i].set(elbo)

    zero = jax.tree.map(jnp.zeros_like, state.params)
    begin = state.params, state.optimiser, zero, jnp.zeros(STEPS_PER_TEST)
    params, optimiser, total, elbos = jax.lax.fori_loop(0, length, step, begin)
    mean = jax.tree.map(lambda t: t / jnp.maximum(count, 1), total)
    return AdamState(params, optimiser, new_key), mean, elbos


def _loss_and_elbo(family, target, params, key, gradient):
    """Function to minimise, and the ELBO, estimated from a few draws."""
    particles = PARTICLES[gradient]
    draw_key, model_key = jax.random.split(key)
    z, log_q = jax.vmap(lambda k: family.draw(params, k))(jax.random.split(draw_key, particles))
    if target.subsampled:
        keys = jax.random.split(model_key, particles)
        log_p = jax.vmap(target.noisy_log_density)(z, keys)
    else:
        log_p = jax.vmap(target.log_density)(z)
    elbo = jnp.mean(log_p - log_q)
    if gradient == "pathwise":
        return -elbo, elbo
    z, gain = jax.lax.stop_gradient((z, log_p - log_q))
    # gain_i minus the mean gain of the other draws: an unbiased gradient with less noise.
    advantage = (gain - jnp.mean(gain)) * (particles / (particles - 1))
    log_q = jax.vmap(lambda z: family.log_density(params, z))(z)
    return -jnp.mean(advantage * log_q), elbo
