"""NumPyro's NUTS kernel on a Target, compiled once for any number of steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.hmc import HMCState, hmc
from numpyro.infer.hmc_util import build_adaptation_schedule
from numpyro.infer.util import ParamInfo
from scipy.linalg import solve_triangular

from bayeskern.inference.mcmc.blocks import Blocks
from bayeskern.inference.model.target import Target
from bayeskern.inference.optimization.objective import NegativeLogDensity

# Maximum number of steps of one compiled call.
MAX_CALL_STEPS = 250
# Number of points of every compiled call, so that a density is compiled once.
BLOCK_POINTS = 256


class KernelOptions(NamedTuple):
    """Options that the kernel is compiled for.

    Attributes:
        warmup: Steps of adaptation.
        target_accept: Target acceptance probability, as an array, so that another value does not
            recompile.
        max_tree_depth: Maximum number of doublings of a trajectory.
        dense_mass: True if a block of the mass matrix is full.
        blocks: Blocks of the mass matrix; None for a single full or diagonal matrix.
    """

    warmup: int
    target_accept: np.ndarray
    max_tree_depth: int
    dense_mass: bool
    blocks: Blocks | None

    def join(self, z: jax.Array | dict) -> jax.Array:
        """z (..., d), from the kernel's array or dict of blocks."""
        return z if self.blocks is None else self.blocks.join(z)  # pyright: ignore[reportReturnType, reportArgumentType]


class ScaledTarget(eqx.Module):
    """A target in coordinates u, z = scale u, in which its sds are about 1.

    NumPyro shrinks the inverse mass matrix a little towards a multiple of the unit matrix, which is
    much too large for a parameter with an sd of 1e-3.

    Attributes:
        target: The model.
        scale: The sds, (d,); or a root of the covariance, (d, d), if a diagonal mass matrix would
            not suffice.
    """

    target: Target
    scale: jax.Array

    def potential(self, u: jax.Array) -> jax.Array:
        """-log p(z) at u (d,)."""
        return NegativeLogDensity(self.target, jacobian=True)(jnp.asarray(unscaled(self.scale, u)))


def unscaled(scale: jax.Array | np.ndarray, u: jax.Array | np.ndarray) -> jax.Array | np.ndarray:
    """z = scale u at coordinates u (..., d) of a `ScaledTarget`."""
    return scale * u if scale.ndim == 1 else u @ scale.T


class InitialPoint(NamedTuple):
    """Start of a chain.

    Attributes:
        z: The point, (d,).
        potential: -log p(z).
        gradient: Gradient of -log p, (d,).
        inverse_mass: First inverse mass matrix, (d, d), or (d,) for its diagonal.
        at_mode: True if the inverse mass matrix is the covariance at a mode.
    """

    z: np.ndarray
    potential: np.ndarray
    gradient: np.ndarray
    inverse_mass: np.ndarray
    at_mode: bool = False

    def rescaled(self, scale: np.ndarray) -> InitialPoint:
        """This point in the coordinates of a `ScaledTarget`."""
        if scale.ndim == 2:
            # In these coordinates the inverse mass matrix is close to the unit matrix, and its
            # diagonal suffices.
            half = solve_triangular(scale, self.inverse_mass, lower=True)
            inverse_mass = np.diag(solve_triangular(scale, half.T, lower=True))
            z = solve_triangular(scale, self.z, lower=True)
            return InitialPoint(z, self.potential, scale.T @ self.gradient, inverse_mass)
        square = np.square(scale) if self.inverse_mass.ndim == 1 else np.outer(scale, scale)
        inverse_mass = self.inverse_mass / square
        return InitialPoint(self.z / scale, self.potential, self.gradient * scale, inverse_mass)


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
    def of(cls, options: KernelOptions, density: ScaledTarget, state: HMCState) -> Transitions:
        """Statistics of the step that led to a state."""
        return cls(
            unscaled(density.scale, options.join(state.z)),  # pyright: ignore[reportArgumentType]
            state.diverging,
            state.energy,
            state.potential_energy,
            state.num_steps,
            state.accept_prob,
            state.adapt_state.step_size,
        )

    def thinned(self, interval: int) -> Transitions:
        """Last step of each thinning interval of chains (chains, n, ...).

        A kept step counts as divergent if any step of its interval diverged. n is a multiple of
        the interval.
        """
        intervals = Transitions(*(x.reshape(len(x), -1, interval, *x.shape[2:]) for x in self))
        last = Transitions(*(x[:, :, -1] for x in intervals))
        return last._replace(diverging=intervals.diverging.any(axis=2))

    @classmethod
    def joined(cls, parts: Iterable[Transitions], axis: int) -> Transitions:
        """Concatenate transitions in time (axis 1) or over chains (axis 0)."""
        return cls(*(np.concatenate(x, axis=axis) for x in zip(*parts, strict=True)))


class ChainProgress(NamedTuple):
    """Progress of a group of chains.

    Attributes:
        state: State of the kernel, with a leading axis of chains if several chains run together.
        scale: Scale of the coordinates, as in `ScaledTarget`.
        done: Steps so far.
        rows: Transitions after warmup, stretch by stretch, (chains, n, ...) each.
    """

    state: HMCState
    scale: np.ndarray
    done: int = 0
    rows: tuple[Transitions, ...] = ()


@eqx.filter_jit
def initial_state(
    options: KernelOptions, density: ScaledTarget, point: InitialPoint, key: jax.Array
) -> HMCState:
    """State of a chain before its first step.

    Args:
        options: The options of the kernel.
        density: The density.
        point: Start, in the coordinates of the density.
        key: Random key of the chain.
    """
    blocks, (z, potential, gradient, inverse_mass, _) = options.blocks, point
    if blocks is not None:
        z, gradient = blocks.split(z), blocks.split(gradient)
        inverse_mass = blocks.of_matrix(inverse_mass)
    return _kernel(options, density, ParamInfo(z, potential, gradient), inverse_mass, key)[0]


def at_step(state: HMCState, step: int, warmup: int) -> HMCState:
    """State of a chain with the step count set to `step` of its warmup.

    From this step on, mass matrix and step size adapt by NumPyro's schedule.
    """
    ends = [window.end for window in build_adaptation_schedule(warmup)]
    adaptation, window = state.adapt_state, np.searchsorted(ends, step)
    adaptation = adaptation._replace(window_idx=jnp.full_like(adaptation.window_idx, window))
    return state._replace(i=jnp.full_like(state.i, step), adapt_state=adaptation)


@eqx.filter_jit
def take_steps(
    options: KernelOptions, density: ScaledTarget, state: HMCState, steps: jax.Array
) -> tuple[HMCState, Transitions]:
    """State of a chain after at most MAX_CALL_STEPS steps, and its transitions.

    Only the first `steps` rows of the transitions are valid. Chains that run together have a
    leading axis of chains.
    """

    def advance(state: HMCState) -> tuple[HMCState, Transitions]:
        return _advance(options, density, state, steps)

    return jax.vmap(advance)(state) if state.i.ndim else advance(state)


def potential_and_gradient(target: Target, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """-log p(z) and its gradient, for z (..., d): (...,) and (..., d)."""
    flat = np.reshape(z, (-1, z.shape[-1]))
    # Repeated points fill the last block.
    blocks = np.resize(flat, (-(-len(flat) // BLOCK_POINTS), BLOCK_POINTS, flat.shape[1]))
    parts = [jax.device_get(_potential_and_gradient(target, jnp.asarray(b))) for b in blocks]
    potential, gradient = (np.concatenate(x)[: len(flat)] for x in zip(*parts, strict=True))
    return potential.reshape(z.shape[:-1]), gradient.reshape(z.shape)


@eqx.filter_jit
def _potential_and_gradient(target, z):
    return jax.lax.map(jax.value_and_grad(NegativeLogDensity(target, jacobian=True)), z)


def _advance(options, density, state, steps):
    position = ParamInfo(state.z, state.potential_energy, state.z_grad)
    _, step = _kernel(options, density, position, None, state.rng_key)
    rows = jax.tree.map(
        lambda x: jnp.zeros((MAX_CALL_STEPS, *x.shape), x.dtype),
        Transitions.of(options, density, state),
    )

    def body(i, carried):
        state, rows = carried
        state = step(state)
        return state, jax.tree.map(
            lambda row, x: row.at[i].set(x), rows, Transitions.of(options, density, state)
        )

    return jax.lax.fori_loop(0, steps, body, (state, rows))


def _kernel(options, density, position: ParamInfo, inverse_mass, key):
    """First state, and the function from one state to the next.

    NumPyro's `step` works only after a call of `init`, whose state may be dropped.
    """
    init, step = hmc(lambda z: density.potential(options.join(z)), algo="NUTS")
    state = init(
        position,
        options.warmup,
        inverse_mass_matrix=inverse_mass,
        dense_mass=options.dense_mass if options.blocks is None else options.blocks.dense,
        target_accept_prob=options.target_accept,
        max_tree_depth=options.max_tree_depth,
        rng_key=key,
    )
    return state, step
