"""Minimise a batch of starts by L-BFGS: optax's, in compiled stretches, so that progress shows.

optax's own test of convergence is not relied on; the caller looks at gradient and curvature.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

# Steps between two looks at the progress bar.
STRETCH = 25
# A start that has not improved for this many steps is at the limit of its precision.
PATIENCE = 10

_solver = optax.lbfgs(memory_size=20)


class State(NamedTuple):
    """Where one start stands (batched over starts)."""

    z: jax.Array
    solver: optax.OptState
    value: jax.Array
    gradient_norm: jax.Array
    best: jax.Array
    best_z: jax.Array
    best_gradient: jax.Array
    idle: jax.Array

    def running(self, tolerance):
        """Whether this start still moves: before its first step yes, and no longer at NaN."""
        ongoing = (self.gradient_norm > tolerance) & (self.idle < PATIENCE)
        return ongoing & (self.value == self.value)


def _strong(state, like):
    # optax mixes weak and strong types in its state; a change of type would compile a second time.
    return jax.tree.map(lambda new, old: new.astype(old.dtype), state, like)


@eqx.filter_jit
def _begin(starts):
    def one(z):
        infinity = jnp.asarray(jnp.inf, z.dtype)
        state = State(
            z,
            _solver.init(z),
            infinity,
            infinity,
            infinity,
            z,
            jnp.full_like(z, jnp.nan),
            jnp.zeros((), int),
        )
        return _strong(state, state)

    return jax.lax.map(one, starts)


@eqx.filter_jit
def _stretch(objective, state, steps, tolerance):
    # The line search calls it in several places; compiled by itself it is traced only once.
    objective = eqx.filter_jit(objective)
    value_and_grad = optax.value_and_grad_from_state(objective)

    def step(item):
        s, i = item
        value, gradient = value_and_grad(s.z, state=s.solver)
        updates, solver = _solver.update(
            gradient, s.solver, s.z, value=value, grad=gradient, value_fn=objective
        )
        norm = jnp.max(jnp.abs(gradient))
        done = norm <= tolerance
        z = jnp.where(done, s.z, optax.apply_updates(s.z, updates))
        improved = (value < s.best - 1e-12 * jnp.abs(s.best)) | ~jnp.isfinite(s.best)
        idle = jnp.where(improved, 0, s.idle + 1)
        # Of values that differ by rounding only, the one with the smaller gradient is the better.
        slack = 1e-10 * (1.0 + jnp.abs(s.best))
        flatter = norm < jnp.max(jnp.abs(s.best_gradient))
        better = (value < s.best - slack) | ((value < s.best + slack) & flatter)
        better = better | ~jnp.isfinite(s.best)
        current, best = (value, s.z, gradient), (s.best, s.best_z, s.best_gradient)
        best = [jnp.where(better, new, old) for new, old in zip(current, best, strict=True)]
        state = State(z, solver, value, norm, *best, idle)
        return _strong(state, s), i + 1

    def one(s):
        state, _ = jax.lax.while_loop(
            lambda item: item[0].running(tolerance) & (item[1] < steps), step, (s, 0)
        )
        return state

    # Not vmap: it would turn every branch of the line search into both branches, three times the
    # work, and the covariance matrices are what costs.
    return jax.lax.map(one, state)


def minimise(
    objective: Callable,
    starts,
    steps: int,
    tolerance: float,
    report: Callable = lambda n, value: None,
):
    """Minimise `objective` (a pytree that is called with z) from each of the starts (k, d).

    Returns the best z seen, its value and its gradient, batched over the starts; the value is
    infinite where none was finite. report(steps done, values) is called between stretches.
    """
    state = _begin(starts)
    for done in range(0, steps, STRETCH):
        state = _stretch(objective, state, jnp.asarray(min(STRETCH, steps - done)), tolerance)
        seen = jax.device_get(state)
        report(min(done + STRETCH, steps), seen.best)
        if not np.any(seen.running(tolerance)):
            break
    return seen.best_z, seen.best, seen.best_gradient
