"""Minimise from several starts by L-BFGS, in compiled stretches, so that progress shows.

Nocedal and Wright (2006), "Numerical optimization", algorithm 7.5, with the line search of Lewis
and Overton (2013), "Nonsmooth optimization via quasi-Newton methods", which takes an infinite value
for a high one. It is all one loop with one evaluation a turn, so that the objective is compiled
once: optax's L-BFGS evaluates it in several places.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

# How many differences of gradients the curvature is known by.
MEMORY = 20
# Steps between two looks at the progress bar.
STRETCH = 25
# A start that has not improved for this many steps is at the limit of its precision.
PATIENCE = 10
# A step is long enough where the slope has risen to this share of the first one, and not too long
# where the value has fallen by this share of what the first slope foretold; values closer than
# this, relative to them, differ by rounding.
FLATTER, LOWER, ROUNDING = 0.9, 1e-4, 1e-12
# Evaluations of a line search, after which the curvature is forgotten, or the search ends.
MOST_TRIES = 40
# What a step that was too short is multiplied by.
FURTHER = 4.0


class State(NamedTuple):
    """Where one start stands (batched over starts).

    z, value, gradient: the lowest point so far, and where the line search begins; its direction,
    the slope there, the length that is tried next, the longest that was too short and the shortest
    that was too long, and how many were tried; pairs: differences of z and of the gradient, (2,
    MEMORY, d), with the inverses of their products, (MEMORY,), and how many there have been; taken:
    steps; idle: steps since the value fell; stopped: whether nothing lower can be found.
    """

    z: jax.Array
    value: jax.Array
    gradient: jax.Array
    direction: jax.Array
    slope: jax.Array
    length: jax.Array
    short: jax.Array
    long: jax.Array
    tries: jax.Array
    pairs: jax.Array
    inverses: jax.Array
    count: jax.Array
    taken: jax.Array
    idle: jax.Array
    stopped: jax.Array

    @classmethod
    def at(cls, starts) -> State:
        """Before the first evaluation, which is a step of no length from an infinite value."""
        k, d = starts.shape
        zero, none = np.zeros(k), np.zeros(k, int)
        return cls(
            z=starts,
            value=np.full(k, np.inf),
            gradient=np.full((k, d), np.nan),
            direction=np.zeros((k, d)),
            slope=zero,
            length=zero,
            short=zero,
            long=np.full(k, np.inf),
            tries=none,
            pairs=np.zeros((k, 2, MEMORY, d)),
            inverses=np.zeros((k, MEMORY)),
            count=none,
            taken=none - 1,
            idle=none,
            stopped=np.zeros(k, bool),
        )

    def running(self, tolerance):
        """Whether this start still moves: before its first evaluation yes."""
        steep = ~(abs(self.gradient).max(axis=-1) <= tolerance)
        return steep & (self.idle < PATIENCE) & ~self.stopped


def minimise(
    objective: Callable,
    starts,
    steps: int,
    tolerance: float,
    report: Callable = lambda n, state: None,
    state: State | None = None,
):
    """Minimise `objective` (a pytree that is called with z) from each of the starts (k, d).

    state: where an earlier search stood, to go on from there. Returns the best z seen, its value
    and its gradient, batched over the starts; the value is infinite where none was finite.
    report(steps done, state) is called between stretches.
    """
    tolerance = np.asarray(tolerance)
    state = State.at(np.asarray(starts, float)) if state is None else state
    taken = max(0, int(np.max(state.taken)))
    for end in range(taken - taken % STRETCH + STRETCH, steps + STRETCH, STRETCH):
        state = jax.device_get(_stretch(objective, state, np.array(min(end, steps)), tolerance))
        report(min(end, steps), state)
        if not np.any(state.running(tolerance)):
            break
    return state.z, state.value, state.gradient


def evaluate(objective: Callable, z) -> tuple[np.ndarray, np.ndarray]:
    """`objective` and its gradient at points z (k, d), by the program of a search from k starts.

    Both are (inf, NaN) where one of them is not finite.
    """
    state = State.at(np.asarray(z, float))
    state = jax.device_get(_stretch(objective, state, np.array(0), np.asarray(0.0)))
    return state.value, state.gradient


@eqx.filter_jit
def _stretch(objective, state, steps, tolerance):
    """The starts further, to so many steps each."""

    def turn(s):
        z = s.z + s.length * s.direction
        value, gradient = jax.value_and_grad(objective)(z)
        finite = jnp.isfinite(value) & jnp.all(jnp.isfinite(gradient))
        most = s.value + LOWER * s.length * s.slope + ROUNDING * jnp.abs(s.value)
        low = finite & (value <= most)
        is_long_enough = gradient @ s.direction >= FLATTER * s.slope
        done = low & (is_long_enough | (s.tries >= MOST_TRIES))
        return jax.lax.cond(
            done,
            lambda: _stepped(s, z, value, gradient),
            lambda: jax.lax.cond(
                s.tries < MOST_TRIES, lambda: _tried(s, low), lambda: _forgotten(s)
            ),
        )

    def one(s):
        return jax.lax.while_loop(lambda s: s.running(tolerance) & (s.taken < steps), turn, s)

    # Not vmap: it would turn every branch into both branches.
    return jax.lax.map(one, state)


def _tried(s: State, low) -> State:
    """The state after a length that was too short (low), or too long."""
    short, long = jnp.where(low, s.length, s.short), jnp.where(low, s.long, s.length)
    length = jnp.where(jnp.isinf(long), FURTHER * s.length, 0.5 * (short + long))
    # Where not even the start has a value there is nothing to search.
    nowhere = jnp.isinf(s.value)
    return s._replace(
        short=short, long=long, length=length, tries=s.tries + 1, stopped=s.stopped | nowhere
    )


def _forgotten(s: State) -> State:
    """The state down the gradient, without what was known of the curvature; or at its end."""
    new = s._replace(inverses=jnp.zeros_like(s.inverses), count=jnp.zeros_like(s.count))
    return _towards(new._replace(stopped=s.count == 0))


def _stepped(s: State, z, value, gradient) -> State:
    """The state at a new lowest point."""
    along, change = z - s.z, jnp.where(jnp.isinf(s.value), 0.0, gradient - s.gradient)
    product, at = along @ change, s.count % MEMORY
    curved = product > 1e-16 * jnp.sqrt((along @ along) * (change @ change))
    pairs = s.pairs.at[:, at].set(jnp.where(curved, jnp.stack([along, change]), s.pairs[:, at]))
    inverse = jnp.where(curved, 1.0 / jnp.where(curved, product, 1.0), s.inverses[at])
    improved = value < s.value - ROUNDING * jnp.abs(s.value)
    return _towards(
        s._replace(
            z=z,
            value=value,
            gradient=gradient,
            pairs=pairs,
            inverses=s.inverses.at[at].set(inverse),
            count=s.count + curved,
            taken=s.taken + 1,
            idle=jnp.where(improved | jnp.isinf(s.value), 0, s.idle + 1),
        )
    )


def _towards(s: State) -> State:
    """The state at the beginning of a line search in the direction of quasi-Newton."""
    # From the newest pair to the oldest; those that are not there have inverses of zero.
    order = (s.count - 1 - jnp.arange(MEMORY)) % MEMORY
    pairs, inverses = s.pairs[:, order], s.inverses[order]

    def back(q, pair):
        along, change, inverse = pair
        weight = inverse * (along @ q)
        return q - weight * change, weight

    def forth(q, pair):
        along, change, inverse, weight = pair
        return q + (weight - inverse * (change @ q)) * along, None

    q, weights = jax.lax.scan(back, -s.gradient, (pairs[0], pairs[1], inverses))
    size = 1.0 / jnp.where(s.count > 0, inverses[0] * (pairs[1, 0] @ pairs[1, 0]), 1.0)
    direction, _ = jax.lax.scan(
        forth, size * q, (pairs[0], pairs[1], inverses, weights), reverse=True
    )
    # Rounding may turn it uphill.
    downhill = (s.count > 0) & (s.gradient @ direction < 0.0)
    direction = jnp.where(downhill, direction, -s.gradient)
    steepness = jnp.sqrt(s.gradient @ s.gradient)
    return s._replace(
        direction=direction,
        slope=s.gradient @ direction,
        length=jnp.where(downhill, 1.0, 1.0 / jnp.maximum(1.0, steepness)),
        short=jnp.zeros_like(s.short),
        long=jnp.full_like(s.long, jnp.inf),
        tries=jnp.zeros_like(s.tries),
    )
