"""Adam on the ELBO, for several fits side by side: a single one is a stack of one.

A step on a small model costs what its many small operations cost to start, so that a stack of them
by vmap is cheaper than one after the other.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from bayeskern.core.progress import Progress
from bayeskern.inference.approximation.stopping import Plateau

# Steps between two looks at the ELBO.
STRETCH = 100
# Draws for each step: the score-function gradient is the noisier.
PARTICLES = {"pathwise": 8, "score": 64}


class Ascended(NamedTuple):
    """Parameters averaged over the last steps, the ELBO at each step, and doubts, if any."""

    params: object
    trace: np.ndarray
    doubt: str | None


def ascend(
    families: list, targets: list, seeds, gradient: str, rates, steps: int, progress: bool
) -> list[Ascended]:
    """Adam from each family's start, at each of the learning rates until the ELBO is level.

    families, targets: of the same structure and shapes. steps: at most so many. Each fit goes
    through the rates at its own pace; one that has arrived waits for the others.
    """
    family, target = Stack.of(families), Stack.of(targets)
    setting = gradient, PARTICLES[gradient]
    state = _begin(family, target, jnp.stack([jax.random.key(seed) for seed in seeds]))
    climbs = [Climb(rates, steps) for _ in families]
    with Progress("SVI", steps, progress) as bar:
        while not all(climb.finished for climb in climbs):
            rate, count = (jnp.asarray(x) for x in zip(*(c.next for c in climbs), strict=True))
            state, *found = _stretch(family, target, state, rate, count, setting)
            found = jax.device_get(found)
            for i, climb in enumerate(climbs):
                climb.add(*_lane(found, i))
            done = max(climb.done for climb in climbs)
            bar.to(done, f"ELBO {climbs[0].plateau.latest:.3f}")
    last = jax.device_get(state.params)
    return [climb.end(_lane(last, i)) for i, climb in enumerate(climbs)]


class Climb:
    """How far one fit has come: its learning rate, and what the last steps said."""

    def __init__(self, rates, steps: int):
        self.rates, self.steps, self.done = list(rates), steps, 0
        self.plateau, self.averages = Plateau(), []

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
        """Take note of a stretch: the mean of the parameters, and the ELBO (STRETCH,)."""
        if self.finished:
            return
        count = self.next[1]
        self.averages.append(average)
        self.plateau.add(elbo[:count])
        self.done += count
        while self.rates and (self.plateau.reached or self.done == self.steps):
            self.rates.pop(0)
            if self.rates:
                self.plateau.next_level()
                self.averages = []

    def end(self, last) -> Ascended:
        """What was found; last: the parameters after the last step."""
        # The iterates wander about the optimum; their mean over the second half does not.
        half = self.averages[len(self.averages) // 2 :] or [last]
        mean = jax.tree.map(lambda *x: np.mean(x, axis=0), *half)
        doubt = None if self.plateau.reached else self.plateau.describe(self.steps)
        return Ascended(mean, self.plateau.trace, doubt)


class State(NamedTuple):
    """Where the fits stand; every leaf has an axis of fits in front."""

    params: object
    optimiser: optax.OptState
    key: jax.Array


class Stack(eqx.Module):
    """Pytrees of one structure: `own` has an axis of them in front, `shared` is the same in all.

    So that what they have in common, such as the arguments of a model, is there once.
    """

    own: object
    shared: object

    @classmethod
    def of(cls, items) -> Stack:
        arrays, others = zip(*(eqx.partition(item, eqx.is_array) for item in items), strict=True)
        if not all(eqx.tree_equal(others[0], other) for other in others):
            raise ValueError("they differ in more than arrays, so that they cannot be stacked.")
        own = jax.tree.map(lambda *x: None if _is_one(x) else jnp.stack(x), *arrays)
        shared = jax.tree.map(lambda *x: x[0] if _is_one(x) else None, *arrays)
        return cls(own, eqx.combine(shared, others[0]))


def _is_one(arrays) -> bool:
    return all(x is arrays[0] for x in arrays)


def _lane(stacked, i: int):
    return jax.tree.map(lambda x: x[i], stacked)


def _each(one, stacks: tuple[Stack, ...], *stacked):
    """one(...) for each lane of the stacks, and of arrays; their axis comes first in the result."""

    def at(own, *others):
        parts = [eqx.combine(o, s.shared) for o, s in zip(own, stacks, strict=True)]
        return one(*parts, *others)

    given = (tuple(s.own for s in stacks), *stacked)
    if jax.tree.leaves(stacked)[0].shape[0] > 1:
        return jax.vmap(at)(*given)
    # As it is, since vmap takes time to compile.
    return jax.tree.map(lambda x: x[None], at(*_lane(given, 0)))


@eqx.filter_jit
def _begin(families: Stack, targets: Stack, keys) -> State:
    """Parameters at the better of two widths, and Adam's state."""

    def one(family, target, key):
        starts = [family.init(scale) for scale in (1.0, 0.1)]
        elbos = [_elbo(family, target, params, key, ("pathwise", 64))[1] for params in starts]
        # NaN is the worse.
        first = ~(elbos[1] > elbos[0]) & jnp.isfinite(elbos[0])
        params = jax.tree.map(lambda a, b: jnp.where(first, a, b), *starts)
        return State(params, optax.adam(1.0).init(params), key)

    return _each(one, (families, targets), keys)


@eqx.filter_jit
def _stretch(families: Stack, targets: Stack, states, rates, counts, setting):
    """`count` steps each; also the mean of the parameters over them, and the ELBO at each."""

    def one(family, target, state, rate, count):
        return _climb(family, target, state, rate, count, setting)

    return _each(one, (families, targets), states, rates, counts)


def _climb(family, target, state, rate, count, setting):
    gradient = jax.value_and_grad(
        lambda params, key: _elbo(family, target, params, key, setting), has_aux=True
    )
    after, key = jax.random.split(state.key)

    def step(carry, i):
        params, optimiser, total = carry
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
        return (params, optimiser, total), elbo

    zero = jax.tree.map(jnp.zeros_like, state.params)
    carry, elbos = jax.lax.scan(step, (state.params, state.optimiser, zero), jnp.arange(STRETCH))
    params, optimiser, total = carry
    mean = jax.tree.map(lambda t: t / jnp.maximum(count, 1), total)
    return State(params, optimiser, after), mean, elbos


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
    log_q = jax.vmap(lambda one: family.log_density(params, one))(z)
    return -jnp.mean(advantage * log_q), elbo
