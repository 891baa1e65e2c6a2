"""Adam on the ELBO, for several fits side by side: a single one is a stack of one.

On a small model most of the cost of a step is starting its many small operations, so that several
fits by vmap are cheaper than one after the other.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from bayeskern.core.progress import Progress
from bayeskern.inference.approximation.stopping import StoppingRule

# Steps between two looks at the ELBO.
STRETCH = 100
# Draws for each step: the score-function gradient is the noisier.
PARTICLES = {"pathwise": 8, "score": 64}
# The widths that a family may start with, and the draws by which they are compared.
WIDTHS, COMPARED = (1.0, 0.1), 64


class MaximizedELBO(NamedTuple):
    """Parameters averaged over the last steps, the ELBO at each step, and doubts, if any."""

    params: object
    trace: np.ndarray
    doubt: str | None


def maximize_elbo(
    families: list, targets: list, seeds, gradient: str, rates, steps: int, progress: bool
) -> list[MaximizedELBO]:
    """Adam from each family's start, at each of the learning rates until the ELBO is level.

    families, targets: of the same structure and shapes. steps: at most so many. Each fit goes
    through the rates at its own pace; one that has arrived waits for the others.
    """
    family, target = Batched.of(families), Batched.of(targets)
    setting = gradient, PARTICLES[gradient]
    state = _better_start(family, target, [_states(families, seeds, w) for w in WIDTHS], setting)
    schedules = [LearningRateSchedule(rates, steps) for _ in families]
    with Progress("SVI", steps, progress) as bar:
        while not all(schedule.finished for schedule in schedules):
            rate, count = (
                np.array(x) for x in zip(*(schedule.next for schedule in schedules), strict=True)
            )
            most = np.array(count.max())
            state, *last_steps = _run_steps(family, target, state, rate, count, most, setting)
            last_steps = jax.device_get(last_steps)
            for i, schedule in enumerate(schedules):
                schedule.add(*_item(last_steps, i))
            done = max(schedule.done for schedule in schedules)
            bar.to(done, f"ELBO {schedules[0].stopping.latest:.3f}")
    last = jax.device_get(state.params)
    return [schedule.end(_item(last, i)) for i, schedule in enumerate(schedules)]


class LearningRateSchedule:
    """The learning rates of one fit, how far it has come, and when it stops."""

    def __init__(self, rates, steps: int):
        self.rates, self.steps, self.done = list(rates), steps, 0
        self.stopping, self.averages = StoppingRule(), []

    @property
    def finished(self) -> bool:
        return not self.rates

    @property
    def next(self) -> tuple[float, int]:
        """The learning rate of the next stretch, and its steps: none where it is finished."""
        if self.finished:
            return 0.0, 0
        return self.rates[0], min(STRETCH, self.steps - self.done)

    def add(self, average, elbo) -> None:
        """Record a stretch: the mean of the parameters, and the ELBO (STRETCH,)."""
        if self.finished:
            return
        count = self.next[1]
        self.averages.append(average)
        self.stopping.add(elbo[:count])
        self.done += count
        while self.rates and (self.stopping.reached or self.done == self.steps):
            self.rates.pop(0)
            if self.rates:
                self.stopping.next_level()
                self.averages = []

    def end(self, last) -> MaximizedELBO:
        """The averaged parameters and the ELBO; last: the parameters after the last step."""
        # The iterates wander about the optimum; their mean over the second half does not.
        half = self.averages[len(self.averages) // 2 :] or [last]
        mean = jax.tree.map(lambda *x: np.mean(x, axis=0), *half)
        doubt = None if self.stopping.reached else self.stopping.describe(self.steps)
        return MaximizedELBO(mean, self.stopping.trace, doubt)


class AdamState(NamedTuple):
    """Where the fits stand; every leaf has an axis of fits in front."""

    params: object
    optimiser: optax.OptState
    key: jax.Array


class Batched(eqx.Module):
    """Pytrees of one structure: `stacked` has an axis of them in front, `shared` is one for all.

    So that what they have in common, such as the arguments of a model, is there once.
    """

    stacked: object
    shared: object

    @classmethod
    def of(cls, items) -> Batched:
        arrays, others = zip(*(eqx.partition(item, eqx.is_array) for item in items), strict=True)
        if not all(eqx.tree_equal(others[0], other) for other in others):
            raise ValueError("they differ in more than arrays, so that they cannot be stacked.")
        stacked = jax.tree.map(lambda *x: None if _is_shared(x) else jnp.stack(x), *arrays)
        shared = jax.tree.map(lambda *x: x[0] if _is_shared(x) else None, *arrays)
        return cls(stacked, eqx.combine(shared, others[0]))


def _is_shared(arrays) -> bool:
    return all(x is arrays[0] for x in arrays)


def _item(stacked, i: int):
    return jax.tree.map(lambda x: x[i], stacked)


def _map_fits(function, batches: tuple[Batched, ...], *arrays):
    """function(...) for each fit; the axis of fits comes first in the batches and in the arrays."""

    def at_one(stacked, *others):
        items = [eqx.combine(x, batch.shared) for x, batch in zip(stacked, batches, strict=True)]
        return function(*items, *others)

    stacked = (tuple(batch.stacked for batch in batches), *arrays)
    if jax.tree.leaves(arrays)[0].shape[0] > 1:
        return jax.vmap(at_one)(*stacked)
    # A single fit goes without vmap, which takes time to compile.
    return jax.tree.map(lambda x: x[None], at_one(*_item(stacked, 0)))


def _states(families: list, seeds, width: float) -> AdamState:
    """Where fits begin, with parameters of this width."""
    params = [family.init(width) for family in families]
    # In NumPy, since each of JAX's functions would be compiled for itself.
    stacked = (
        jax.tree.map(lambda *x: np.stack(x), *starts)
        for starts in (params, [optax.adam(1.0).init(start) for start in params])
    )
    keys = jnp.stack([jax.random.key(np.uint32(seed)) for seed in seeds])
    return AdamState(*stacked, keys)


def _better_start(family: Batched, target: Batched, starts: list[AdamState], setting) -> AdamState:
    """Of two starts of each fit, the one with the higher ELBO."""
    idle, length = np.zeros(len(starts[0].key)), np.array(COMPARED // setting[1])

    def elbo(start):
        # Steps that are not taken, by the function that takes them: nothing else is compiled.
        by_step = _run_steps(family, target, start, idle, idle.astype(int), length, setting)[2]
        return np.mean(np.asarray(by_step)[:, :length], axis=1)

    elbos = [elbo(start) for start in starts]
    # NaN is the worse.
    first = ~(elbos[1] > elbos[0]) & np.isfinite(elbos[0])

    def choose(one, other):
        return np.where(first.reshape(-1, *[1] * (np.ndim(one) - 1)), one, other)

    params = jax.tree.map(choose, *(start.params for start in starts))
    return starts[0]._replace(params=params)


@eqx.filter_jit
def _run_steps(families: Batched, targets: Batched, states, rates, counts, length, setting):
    """`count` steps each; also the mean of the parameters over them, and the ELBO at each.

    length: the most steps of any of them, at most STRETCH; the ELBO is looked at in as many.
    """

    def one(family, target, state, rate, count):
        return _adam_steps(family, target, state, rate, count, length, setting)

    return _map_fits(one, (families, targets), states, rates, counts)


def _adam_steps(family, target, state, rate, count, length, setting):
    gradient = jax.value_and_grad(
        lambda params, key: _elbo(family, target, params, key, setting), has_aux=True
    )
    after, key = jax.random.split(state.key)

    def step(i, carried):
        params, optimiser, total, elbos = carried
        (_, elbo), slope = gradient(params, jax.random.fold_in(key, i))
        updates, moved = optax.adam(rate).update(slope, optimiser, params)
        # A step into the void, or past the last one, is not taken.
        sound = jnp.all(jnp.array([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(slope)]))
        take = sound & (i < count)
        new = optax.apply_updates(params, updates)
        params, optimiser = jax.tree.map(
            lambda a, b: jnp.where(take, a, b), (new, moved), (params, optimiser)
        )
        total = jax.tree.map(lambda t, p: t + jnp.where(i < count, p, 0.0), total, params)
        return params, optimiser, total, elbos.at[i].set(elbo)

    zero = jax.tree.map(jnp.zeros_like, state.params)
    begin = state.params, state.optimiser, zero, jnp.zeros(STRETCH)
    params, optimiser, total, elbos = jax.lax.fori_loop(0, length, step, begin)
    mean = jax.tree.map(lambda t: t / jnp.maximum(count, 1), total)
    return AdamState(params, optimiser, after), mean, elbos


def _elbo(family, target, params, key, setting):
    """(what to minimise, the ELBO), estimated from a few draws."""
    gradient, particles = setting
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
    # Each draw against the mean of the others: unbiased, and far less noisy.
    advantage = (gain - jnp.mean(gain)) * (particles / (particles - 1))
    log_q = jax.vmap(lambda z: family.log_density(params, z))(z)
    return -jnp.mean(advantage * log_q), elbo
