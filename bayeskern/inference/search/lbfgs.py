"""L-BFGS from several starts, in compiled stretches between progress updates.

Nocedal and Wright (2006), "Numerical optimization", algorithm 7.5, with the line search of Lewis
and Overton (2013), "Nonsmooth optimization via quasi-Newton methods", which treats an infinite
value as a high value. The loop evaluates the objective in one place, so that it is compiled once;
optax's L-BFGS evaluates it in several places.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

# Maximum number of pairs (step, change of the gradient), which approximate the curvature.
MAX_PAIRS = 20
# Relative difference of values that counts as a rounding error.
VALUE_ROUNDING = 1e-12


# Largest component of the gradient at which a search ends, well below the limit for a mode.
GRADIENT_TOL = 1e-5
# Steps without improvement after which a search is at its limit of precision.
PATIENCE_STEPS = 10


class SearchState(NamedTuple):
    """State of a search from each start, with an axis of starts in front.

    Attributes:
        z: Lowest point so far, at which the line search begins, (d,).
        value: The objective there.
        gradient: Gradient of the objective there, (d,).
        direction: Direction of the line search, (d,).
        slope: Slope along the direction at z.
        length: Length to try next.
        short: Longest length that was too short.
        long: Shortest length that was too long.
        tries: Evaluations of this line search.
        pairs: Differences of z and of the gradient, (2, MAX_PAIRS, d).
        inverses: Inverse inner products of the pairs, (MAX_PAIRS,); 0 for a missing pair.
        count: Pairs so far.
        taken: Steps so far.
        idle: Steps since the value last fell.
        stopped: True if no lower point can be found.
    """

    z: np.ndarray
    value: np.ndarray
    gradient: np.ndarray
    direction: np.ndarray
    slope: np.ndarray
    length: np.ndarray
    short: np.ndarray
    long: np.ndarray
    tries: np.ndarray
    pairs: np.ndarray
    inverses: np.ndarray
    count: np.ndarray
    taken: np.ndarray
    idle: np.ndarray
    stopped: np.ndarray

    @classmethod
    def at(cls, starts: np.ndarray) -> SearchState:
        """State before the first evaluation, a step of length zero from an infinite value."""
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
            pairs=np.zeros((k, 2, MAX_PAIRS, d)),
            inverses=np.zeros((k, MAX_PAIRS)),
            count=none,
            taken=none - 1,
            idle=none,
            stopped=np.zeros(k, bool),
        )

    @property
    def running(self) -> np.ndarray:
        """True for searches that have not ended, such as before their first evaluation."""
        # NaN, the gradient before the first evaluation, counts as steep.
        steep = ~(abs(self.gradient).max(axis=-1) <= GRADIENT_TOL)
        return steep & (self.idle < PATIENCE_STEPS) & ~self.stopped


# Steps between two updates of the progress bar.
STEPS_PER_UPDATE = 25


def minimise(
    objective: Callable[[jax.Array], jax.Array],
    starts: ArrayLike,
    steps: int,
    report: Callable[[int, SearchState], None] = lambda steps, state: None,
    state: SearchState | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Minimise a function from several starts.

    Args:
        objective: A pytree that is called with z (d,).
        starts: Starts, (k, d); ignored if there is a state.
        steps: Maximum number of steps of each search.
        report: Called between stretches with the steps so far and the state.
        state: State of an earlier search to continue.

    Returns:
        Lowest z of each search (k, d), its value (k,) and its gradient (k, d). The value is
        infinite if a search found no finite value.
    """
    current = SearchState.at(np.asarray(starts, float)) if state is None else state
    taken, stretch = max(0, int(np.max(current.taken))), STEPS_PER_UPDATE
    for end in range(taken - taken % stretch + stretch, steps + stretch, stretch):
        current = jax.device_get(_stretch(objective, current, np.array(min(end, steps))))
        report(min(end, steps), current)
        if not np.any(current.running):
            break
    return current.z, current.value, current.gradient


def evaluate(
    objective: Callable[[jax.Array], jax.Array], z: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """Value (k,) and gradient (k, d) at points z (k, d), by the program of `minimise`.

    At a point where one of them is not finite, the value is inf and the gradient NaN.
    """
    state = SearchState.at(np.asarray(z, float))
    state = jax.device_get(_stretch(objective, state, np.array(0)))
    return state.value, state.gradient


# Evaluations of a line search after which all pairs are dropped; a search without pairs ends.
MAX_TRIES = 40
# A step is long enough if the slope at its end is at least this share of the slope at its start,
# which is negative (the weak Wolfe condition).
CURVATURE_SHARE = 0.9
# A step is short enough if the value falls by at least this share of the linear prediction, length
# times slope at the start (the Armijo condition).
DECREASE_SHARE = 1e-4


@eqx.filter_jit
def _stretch(objective, state, steps):
    """State of each search after `steps` steps in all."""

    def evaluate_once(s):
        z = s.z + s.length * s.direction
        value, gradient = jax.value_and_grad(objective)(z)
        finite = jnp.isfinite(value) & jnp.all(jnp.isfinite(gradient))
        bound = s.value + DECREASE_SHARE * s.length * s.slope
        low = finite & (value <= bound + VALUE_ROUNDING * jnp.abs(s.value))
        is_long_enough = gradient @ s.direction >= CURVATURE_SHARE * s.slope
        accepted = low & (is_long_enough | (s.tries >= MAX_TRIES))
        return jax.lax.cond(
            accepted,
            lambda: _accept(s, z, value, gradient),
            lambda: jax.lax.cond(
                s.tries < MAX_TRIES, lambda: _try_again(s, low), lambda: _restart(s)
            ),
        )

    def search(s):
        return jax.lax.while_loop(lambda s: s.running & (s.taken < steps), evaluate_once, s)

    # Not vmap, which would run both branches of every cond.
    return jax.lax.map(search, state)


# Factor of the length after a step that was too short.
LENGTH_EXPANSION = 4.0


def _try_again(s: SearchState, low) -> SearchState:
    """State after a rejected length: too short if `low`, else too long."""
    short, long = jnp.where(low, s.length, s.short), jnp.where(low, s.long, s.length)
    length = jnp.where(jnp.isinf(long), LENGTH_EXPANSION * s.length, 0.5 * (short + long))
    # A search from a start without a finite value ends.
    stopped = s.stopped | jnp.isinf(s.value)
    return s._replace(short=short, long=long, length=length, tries=s.tries + 1, stopped=stopped)


def _restart(s: SearchState) -> SearchState:
    """State of a search along the gradient without pairs; stopped if there were none."""
    new = s._replace(inverses=jnp.zeros_like(s.inverses), count=jnp.zeros_like(s.count))
    return _begin_line_search(new._replace(stopped=s.count == 0))


def _accept(s: SearchState, z, value, gradient) -> SearchState:
    """State at a new lowest point."""
    step, change = z - s.z, jnp.where(jnp.isinf(s.value), 0.0, gradient - s.gradient)
    product, newest = step @ change, s.count % MAX_PAIRS
    # A pair is stored only if its curvature is positive.
    curved = product > 1e-16 * jnp.sqrt((step @ step) * (change @ change))
    pairs, inverses = jnp.asarray(s.pairs), jnp.asarray(s.inverses)
    pair = jnp.where(curved, jnp.stack([step, change]), pairs[:, newest])
    inverse = jnp.where(curved, 1.0 / jnp.where(curved, product, 1.0), inverses[newest])
    improved = value < s.value - VALUE_ROUNDING * jnp.abs(s.value)
    return _begin_line_search(
        s._replace(
            z=z,
            value=value,
            gradient=gradient,
            pairs=pairs.at[:, newest].set(pair),
            inverses=inverses.at[newest].set(inverse),
            count=s.count + curved,
            taken=s.taken + 1,
            idle=jnp.where(improved | jnp.isinf(s.value), 0, s.idle + 1),
        )
    )


def _begin_line_search(s: SearchState) -> SearchState:
    """State at the start of a line search along the quasi-Newton direction."""
    # From the newest pair to the oldest; missing pairs have inverses of zero.
    order = (s.count - 1 - jnp.arange(MAX_PAIRS)) % MAX_PAIRS
    pairs, inverses = s.pairs[:, order], s.inverses[order]

    def backward(q, pair):
        step, change, inverse = pair
        weight = inverse * (step @ q)
        return q - weight * change, weight

    def forward(q, pair):
        step, change, inverse, weight = pair
        return q + (weight - inverse * (change @ q)) * step, None

    # The two loops around the initial inverse Hessian, (s'y / y'y) times the identity, with the
    # newest step s and change y of the gradient.
    q, weights = jax.lax.scan(backward, -s.gradient, (pairs[0], pairs[1], inverses))
    size = 1.0 / jnp.where(s.count > 0, inverses[0] * (pairs[1, 0] @ pairs[1, 0]), 1.0)
    direction, _ = jax.lax.scan(
        forward, size * q, (pairs[0], pairs[1], inverses, weights), reverse=True
    )
    # Rounding may turn the direction uphill.
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
