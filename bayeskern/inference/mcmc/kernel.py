"""NumPyro's NUTS kernel on a Target, compiled once and advanced by as many steps as one likes."""

from __future__ import annotations

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

# A compiled call takes, and stores, at most so many steps.
ROWS = 250
# Densities are evaluated at so many points at once, so that they are compiled once.
BLOCK = 256


class KernelOptions(NamedTuple):
    """What the kernel is compiled for.

    blocks: of the mass matrix; None for one that is full or diagonal.
    """

    warmup: int
    target_accept: np.ndarray
    max_tree_depth: int
    dense_mass: bool
    blocks: Blocks | None

    def join(self, z):
        """z (..., d), from what the kernel has."""
        return z if self.blocks is None else self.blocks.join(z)


class ScaledTarget(eqx.Module):
    """A target in coordinates u, z = scale u, in which its sds are about 1.

    NumPyro adds a little of the unit matrix to what it learns of the mass matrix, which is far too
    much where a parameter is of size 1e-3. scale: the sds, (d,); or a root of the covariance,
    (d, d), where a diagonal mass matrix would not do.
    """

    target: Target
    scale: jax.Array

    def potential(self, u):
        return NegativeLogDensity(self.target, jacobian=True)(unscaled(self.scale, u))


def unscaled(scale, u):
    """z = scale u at coordinates u (..., d) of a `ScaledTarget`."""
    return scale * u if scale.ndim == 1 else u @ scale.T


class InitialPoint(NamedTuple):
    """Where a chain starts: z (d,), -log p(z), its gradient, and a first inverse mass matrix.

    inverse_mass: (d, d), or (d,) for its diagonal; at_mode: whether it is the covariance at a mode.
    """

    z: np.ndarray
    potential: np.ndarray
    gradient: np.ndarray
    inverse_mass: np.ndarray
    at_mode: bool = False

    def over(self, scale) -> InitialPoint:
        """This point in the coordinates of a `ScaledTarget`."""
        if scale.ndim == 2:
            # What is left of the inverse mass is close to the unit matrix.
            half = solve_triangular(scale, self.inverse_mass, lower=True)
            mass = np.diag(solve_triangular(scale, half.T, lower=True))
            z = solve_triangular(scale, self.z, lower=True)
            return InitialPoint(z, self.potential, scale.T @ self.gradient, mass)
        square = np.square(scale) if self.inverse_mass.ndim == 1 else np.outer(scale, scale)
        mass = self.inverse_mass / square
        return InitialPoint(self.z / scale, self.potential, self.gradient * scale, mass)


class Transitions(NamedTuple):
    """What is kept of each step: (steps, ...)."""

    z: jax.Array
    diverging: jax.Array
    energy: jax.Array
    potential: jax.Array
    n_steps: jax.Array
    acceptance_rate: jax.Array
    step_size: jax.Array

    @classmethod
    def of(cls, options: KernelOptions, density: ScaledTarget, state: HMCState) -> Transitions:
        return cls(
            unscaled(density.scale, options.join(state.z)),
            state.diverging,
            state.energy,
            state.potential_energy,
            state.num_steps,
            state.accept_prob,
            state.adapt_state.step_size,
        )

    def thinned(self, every: int) -> Transitions:
        """Every so manieth step of chains, (chains, a multiple of that, ...).

        One diverges where any of those since the one before it did.
        """
        stretches = Transitions(*(x.reshape(len(x), -1, every, *x.shape[2:]) for x in self))
        last = Transitions(*(x[:, :, -1] for x in stretches))
        return last._replace(diverging=stretches.diverging.any(axis=2))


@eqx.filter_jit
def initial_state(
    options: KernelOptions, density: ScaledTarget, point: InitialPoint, key
) -> HMCState:
    """The state of a chain before its first step."""
    blocks, (z, potential, gradient, mass, _) = options.blocks, point
    if blocks is not None:
        z, gradient, mass = blocks.split(z), blocks.split(gradient), blocks.of_matrix(mass)
    return _kernel(options, density, InitialPoint(z, potential, gradient, mass), key)[0]


def at_step(state: HMCState, step: int, warmup: int) -> HMCState:
    """The state of a chain as if so many steps of its warmup lay behind it.

    Its mass matrix and step size adapt in what is then left of NumPyro's schedule.
    """
    ends = [window.end for window in build_adaptation_schedule(warmup)]
    adaptation, window = state.adapt_state, np.searchsorted(ends, step)
    adaptation = adaptation._replace(window_idx=jnp.full_like(adaptation.window_idx, window))
    return state._replace(i=jnp.full_like(state.i, step), adapt_state=adaptation)


@eqx.filter_jit
def take_steps(
    options: KernelOptions, density: ScaledTarget, state: HMCState, steps
) -> tuple[HMCState, Transitions]:
    """One chain, `steps` <= ROWS steps further; only the first `steps` rows have a meaning."""
    return _advance(options, density, state, steps)


@eqx.filter_jit
def take_steps_vectorized(options: KernelOptions, density: ScaledTarget, states: HMCState, steps):
    """The same for several chains in step: every leaf has an axis of chains in front."""
    return jax.vmap(lambda state: _advance(options, density, state, steps))(states)


def potential_and_gradient(target: Target, z) -> tuple[np.ndarray, np.ndarray]:
    """-log p(z) and its gradient, for z (..., d): (...,) and (..., d)."""
    flat = np.reshape(z, (-1, z.shape[-1]))
    # Points that come again fill the last block.
    blocks = np.resize(flat, (-(-len(flat) // BLOCK), BLOCK, flat.shape[1]))
    parts = [jax.device_get(_potential_and_gradient(target, jnp.asarray(b))) for b in blocks]
    potential, gradient = (np.concatenate(x)[: len(flat)] for x in zip(*parts, strict=True))
    return potential.reshape(z.shape[:-1]), gradient.reshape(z.shape)


@eqx.filter_jit
def _potential_and_gradient(target, z):
    return jax.lax.map(jax.value_and_grad(NegativeLogDensity(target, jacobian=True)), z)


def _advance(options, density, state, steps):
    here = InitialPoint(state.z, state.potential_energy, state.z_grad, None)
    _, step = _kernel(options, density, here, state.rng_key)
    rows = jax.tree.map(
        lambda x: jnp.zeros((ROWS, *x.shape), x.dtype), Transitions.of(options, density, state)
    )

    def body(i, carried):
        state, rows = carried
        state = step(state)
        return state, jax.tree.map(
            lambda row, x: row.at[i].set(x), rows, Transitions.of(options, density, state)
        )

    return jax.lax.fori_loop(0, steps, body, (state, rows))


def _kernel(options, density, point, key):
    """A first state, and the function from one state to the next.

    point: with z as the kernel has it. NumPyro's second function works only once the first has been
    called; its state may be dropped.
    """
    init, step = hmc(lambda z: density.potential(options.join(z)), algo="NUTS")
    state = init(
        ParamInfo(point.z, point.potential, point.gradient),
        options.warmup,
        inverse_mass_matrix=point.inverse_mass,
        dense_mass=options.dense_mass if options.blocks is None else options.blocks.dense,
        target_accept_prob=options.target_accept,
        max_tree_depth=options.max_tree_depth,
        rng_key=key,
    )
    return state, step
