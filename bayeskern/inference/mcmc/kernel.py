"""The No-U-Turn sampler on a Target, compiled once for any number of steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.hmc_util import (
    IntegratorState,
    build_tree,
    dual_averaging,
    euclidean_kinetic_energy,
    velocity_verlet,
)

from bayeskern.inference.mcmc.metric import Metric
from bayeskern.inference.model.target import Target
from bayeskern.inference.search.objective import NegativeLogDensity

type Array = jax.Array | np.ndarray

# Maximum number of draws of one compiled call.
MAX_CALL_DRAWS = 250


class KernelOptions(NamedTuple):
    """Options that the kernel is compiled for.

    Attributes:
        target_accept: Target acceptance probability, as an array, so that another value does not
            recompile.
        max_tree_depth: Maximum number of doublings of a trajectory.
    """

    target_accept: np.ndarray
    max_tree_depth: int


class PreconditionedTarget(eqx.Module):
    """A target in coordinates u, z = A u, with a covariance of about I.

    Attributes:
        target: The model.
        metric: The map from u to z.
    """

    target: Target
    metric: Metric

    def potential(self, u: jax.Array) -> jax.Array:
        """-log p(z) at u (d,)."""
        return NegativeLogDensity(self.target, jacobian=True)(self.metric.z(u))


class InitialPoint(NamedTuple):
    """Start of a chain.

    Attributes:
        z: The point, (d,).
        potential: -log p(z).
        gradient: Gradient of -log p, (d,).
        root: Root of the covariance at a mode, (d, d); or sds, (d,).
    """

    z: np.ndarray
    potential: np.ndarray
    gradient: np.ndarray
    root: np.ndarray


class ChainState(NamedTuple):
    """State of a chain between two steps, as JAX or NumPy arrays.

    Attributes:
        u: Point, (d,).
        potential: -log p there.
        gradient: Gradient of -log p in u, (d,).
        key: Random key of the next step.
        log_step: State of the dual averaging of the log step size: its value, its average, the
            average excess of the target acceptance probability, the number of steps, and the value
            towards which it is pulled.
    """

    u: Array
    potential: Array
    gradient: Array
    key: jax.Array
    log_step: tuple[Array, ...]

    @classmethod
    def at(cls, point: InitialPoint, metric: Metric, key: jax.Array) -> Self:
        """State at a start."""
        step_size = len(point.z) ** -0.25
        u, gradient = metric.to_u(point.z), metric.gradient_in_u(point.gradient)
        potential = np.asarray(point.potential)
        return cls(u, potential, gradient, key, log_step_at(np.asarray(np.log(step_size))))

    def moved(self, old: Metric, new: Metric) -> Self:
        """State at the same point with another metric; its step size adapts anew."""
        u = new.to_u(old.to_z(np.asarray(self.u)))
        gradient = new.gradient_in_u(old.gradient_in_z(np.asarray(self.gradient)))
        log_step = log_step_at(np.asarray(self.log_step[1]))
        return self._replace(u=u, gradient=gradient, log_step=log_step)


class Transitions(NamedTuple):
    """Draws and statistics of each step, (steps, ...) each; NumPy on the host."""

    z: np.ndarray
    diverging: np.ndarray
    energy: np.ndarray
    potential: np.ndarray
    n_steps: np.ndarray
    acceptance_rate: np.ndarray
    step_size: np.ndarray

    @classmethod
    def joined(cls, parts: Iterable[Transitions], axis: int) -> Transitions:
        """Concatenate transitions in time (axis 1) or over chains (axis 0)."""
        return cls(*(np.concatenate(x, axis=axis) for x in zip(*parts, strict=True)))


class Stretch(NamedTuple):
    """Draws of one compiled call, as arrays, so that other numbers do not recompile.

    Attributes:
        draws: Number of draws, at most MAX_CALL_DRAWS.
        thin: Steps for each draw.
        adapts: True to adapt the step size.
    """

    draws: np.ndarray
    thin: np.ndarray
    adapts: np.ndarray


@eqx.filter_jit
def take_steps(
    options: KernelOptions, target: Target, metric: Metric, state: ChainState, stretch: Stretch
) -> tuple[ChainState, Transitions, jax.Array]:
    """State of a chain after some draws; transitions and gradients of the draws.

    Only the first `stretch.draws` rows are valid. A draw counts as divergent if any of its steps
    diverged. Chains that run together have a leading axis of chains.
    """

    def advance(metric: Metric, state: ChainState) -> tuple[ChainState, Transitions, jax.Array]:
        return _advance(options, PreconditionedTarget(target, metric), state, stretch)

    together = state.potential.ndim == 1
    return eqx.filter_vmap(advance)(metric, state) if together else advance(metric, state)


# Number of points of every evaluation of the density, so that it is compiled once.
CALL_POINTS = 256


def potential_and_gradient(target: Target, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """-log p(z) and its gradient, for z (..., d): (...,) and (..., d)."""
    flat = np.reshape(z, (-1, z.shape[-1]))
    # Repeated points fill the last block.
    blocks = np.resize(flat, (-(-len(flat) // CALL_POINTS), CALL_POINTS, flat.shape[1]))
    parts = [jax.device_get(_potential_and_gradient(target, jnp.asarray(b))) for b in blocks]
    potential, gradient = (np.concatenate(x)[: len(flat)] for x in zip(*parts, strict=True))
    return potential.reshape(z.shape[:-1]), gradient.reshape(z.shape)


@eqx.filter_jit
def _potential_and_gradient(target, z):
    return jax.lax.map(jax.value_and_grad(NegativeLogDensity(target, jacobian=True)), z)


# Multiple of the initial step size towards which dual averaging pulls.
STEP_SIZE_PULL = 2.0


def log_step_at(log_step_size: Array) -> tuple[Array, ...]:
    """State of the dual averaging at its start, in NumPyro's order."""
    pull = log_step_size + np.asarray(np.log(STEP_SIZE_PULL))
    return log_step_size, log_step_size, np.zeros(()), np.zeros((), int), pull


class Statistics(NamedTuple):
    """Statistics of one step, as in `Transitions`."""

    diverging: jax.Array
    energy: jax.Array
    potential: jax.Array
    n_steps: jax.Array
    acceptance_rate: jax.Array
    step_size: jax.Array


# Inverse gain of the dual averaging of the log step size, gamma. With larger gains, such as 0.05 in
# NumPyro and Stan, the step size varies so much that its average is too small: acceptance is
# concave in the log step size.
INVERSE_GAIN = 0.3
# Number of steps that damp the first changes, t0.
DAMPING_STEPS = 20


def one_step(
    options: KernelOptions,
    density: PreconditionedTarget,
    state: ChainState,
    adapts: np.ndarray | jax.Array,
) -> tuple[ChainState, Statistics]:
    """State of a chain after one step, and the statistics of the step.

    Args:
        options: The options of the kernel.
        density: The density in coordinates u, in which the mass matrix is the unit matrix.
        state: State before the step.
        adapts: True to adapt the step size; False to take its average.
    """
    _, verlet = velocity_verlet(density.potential, euclidean_kinetic_energy)
    _, average = dual_averaging(t0=DAMPING_STEPS, gamma=INVERSE_GAIN)
    key, momentum_key, tree_key = jax.random.split(state.key, 3)
    value, averaged, *_ = state.log_step
    step_size = jnp.exp(jnp.where(adapts, value, averaged))
    momentum = jax.random.normal(momentum_key, state.u.shape)
    tree = build_tree(
        verlet,
        euclidean_kinetic_energy,
        IntegratorState(state.u, momentum, state.potential, state.gradient),
        jnp.ones_like(state.u),
        step_size,
        tree_key,
        max_tree_depth=options.max_tree_depth,
    )
    accepted = tree.sum_accept_probs / tree.num_proposals
    adapted = average(options.target_accept - accepted, state.log_step)
    log_step = jax.tree.map(lambda new, old: jnp.where(adapts, new, old), adapted, state.log_step)
    potential, energy = tree.z_proposal_pe, tree.z_proposal_energy
    end = ChainState(tree.z_proposal, potential, tree.z_proposal_grad, key, log_step)
    statistics = (tree.diverging, energy, potential, tree.num_proposals, accepted, step_size)
    return end, Statistics(*statistics)


def _advance(
    options: KernelOptions, density: PreconditionedTarget, state: ChainState, stretch: Stretch
) -> tuple[ChainState, Transitions, jax.Array]:
    def step(_: jax.Array, carried: tuple[ChainState, Statistics]) -> tuple[ChainState, Statistics]:
        state, old = carried
        state, new = one_step(options, density, state, stretch.adapts)
        return state, new._replace(diverging=old.diverging | new.diverging)

    def draw(i: jax.Array, carried: Any) -> Any:
        state, (z, gradients, rows) = carried
        # The only call of `one_step`, because each call compiles the tree again.
        before = jax.tree.map(lambda row: jnp.zeros((), row.dtype), rows)
        state, last = jax.lax.fori_loop(0, stretch.thin, step, (state, before))
        z = z.at[i].set(density.metric.z(state.u))
        gradients = gradients.at[i].set(density.metric.gradient_at_z(state.gradient))
        return state, (z, gradients, jax.tree.map(lambda row, x: row.at[i].set(x), rows, last))

    points = jnp.zeros((MAX_CALL_DRAWS, *state.u.shape))
    kinds = (bool, float, float, int, float, float)
    rows = Statistics(*(jnp.zeros(MAX_CALL_DRAWS, kind) for kind in kinds))
    carried = (state, (points, points, rows))
    state, (z, gradients, rows) = jax.lax.fori_loop(0, stretch.draws, draw, carried)
    return state, Transitions(z, *rows), gradients
