"""Evaluate a target at many points: log densities, sites and prior draws."""

from __future__ import annotations

from itertools import count

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from bayeskern.core.batching import BATCH, by_chunk
from bayeskern.core.progress import Progress
from bayeskern.core.random import jax_seed
from bayeskern.core.sharding import current_mesh
from bayeskern.core.threads import in_threads, one_blas_thread
from bayeskern.inference.model.cost import is_costly, largest_array
from bayeskern.inference.model.target import Target

# Seconds of work that need no progress bar.
PROGRESS_DELAY_SECONDS = 2.0


def log_densities(
    target: Target,
    z: np.ndarray,
    progress: bool = False,
    jacobian: bool = True,
    prior: bool = True,
) -> np.ndarray:
    """Log density at many points; a costly density is evaluated in several threads.

    Args:
        target: The log density.
        z: Points in unconstrained coordinates, (n, d).
        progress: True to show a progress bar after two seconds.
        jacobian: As in `Target.log_density`.
        prior: As in `Target.log_density`.

    Returns:
        log p(z), (n,).
    """
    costly = is_costly(target)
    # All calls have the same number of rows, so that the density is compiled once; np.resize
    # repeats points to fill the last call.
    rows = BATCH if costly else 4096
    parts = np.resize(z, (-(-len(z) // rows) * rows, z.shape[1])).reshape(-1, rows, z.shape[1])
    counts = np.minimum(rows, len(z) - rows * np.arange(len(parts)))
    total = len(z)
    bar = Progress("log densities", total, progress, delay=PROGRESS_DELAY_SECONDS)
    with bar, one_blas_thread():
        rows_done = count(rows, rows)

        def evaluate(part: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
            points, used_rows = map(jnp.asarray, part)
            values = jax.device_get(_log_densities(target, points, used_rows, jacobian, prior))
            bar.to(min(next(rows_done), total))
            return values

        # The first part runs alone: otherwise every thread would compile the density.
        first, *others = zip(parts, counts, strict=True)
        # The devices of a mesh must all run the parts in the same order.
        threaded = costly and current_mesh() is None
        first_values = evaluate(first)
        values = in_threads(evaluate, others) if threaded else map(evaluate, others)
        return np.concatenate([first_values, *values])[:total]


class LogDensities:
    """Cache of the log densities of points: each is computed once, when it is first needed.

    Args:
        target: The log density.
        z: Points, (n, d).
        progress: True to show a progress bar.
    """

    def __init__(self, target: Target, z: np.ndarray, progress: bool):
        self._target, self._z, self._progress = target, z, progress
        self._known = np.zeros(0)

    def first(self, count: int) -> np.ndarray:
        """log p(z) of the first `count` points, (count,)."""
        missing = self._z[len(self._known) : count]
        if len(missing):
            values = log_densities(self._target, missing, self._progress)
            self._known = np.concatenate([self._known, values])
        return self._known[:count]


@eqx.filter_jit
def _log_densities(
    target: Target, z: jax.Array, used_rows: jax.Array, jacobian: bool, prior: bool
) -> jax.Array:
    """log p at the first `used_rows` rows of z, in batches; 0 in unused batches."""
    rows, d = z.shape
    batch = points_at_once(target, rows)

    def density(z: jax.Array) -> jax.Array:
        return target.log_density(z, jacobian, prior)

    def body(i: jax.Array, values: jax.Array) -> jax.Array:
        part = jax.lax.dynamic_slice(z, (i * batch, 0), (batch, d))
        # A single point is evaluated without vmap, which would change the program.
        new = jax.vmap(density)(part) if batch > 1 else density(part[0])[None]
        return jax.lax.dynamic_update_slice(values, new.astype(z.dtype), (i * batch,))

    return jax.lax.fori_loop(0, -(-used_rows // batch), body, jnp.zeros(rows, z.dtype))


def points_at_once(target: Target, rows: int) -> int:
    """Batch size of a vectorised log density; on a CPU, its arrays fit into the cache."""
    batch = min(rows, BATCH)
    if jax.default_backend() == "cpu":
        in_cache = 2**18 // max(1, largest_array(target))
        # A power of two divides the number of rows; a shorter last batch would be compiled again.
        batch = min(batch, 2 ** int(np.log2(max(1, in_cache))))
    return batch


def constrain(target: Target, z: ArrayLike) -> dict[str, np.ndarray]:
    """Latent and deterministic sites at points in unconstrained coordinates.

    Args:
        target: The model.
        z: Points, (chains, draws, d).

    Returns:
        Each site, (chains, draws, *site), latent sites first.
    """
    z = np.asarray(z)
    shapes = eqx.filter_eval_shape(_sites, target, jax.ShapeDtypeStruct(z.shape[2:], z.dtype))
    size = sum(s.size for s in shapes.values())
    flat = by_chunk(
        lambda part: _constrain(target, jnp.asarray(part)), z.reshape(-1, z.shape[2]), size
    )
    # Restore the order of the model: a compiled function sorts dictionaries by name.
    order = dict.fromkeys([*(s.name for s in target.latents), *target.deterministics])
    return {
        name: np.reshape(flat.get(name, np.zeros(0)), (*z.shape[:2], *shapes[name].shape))
        for name in order
    }


@eqx.filter_jit
def _sites(target: Target, z: jax.Array) -> dict[str, jax.Array]:
    # Compiled, because JAX caches the trace of a compiled function.
    return target.constrain(z)


@eqx.filter_jit
def _constrain(target: Target, z: jax.Array) -> dict[str, jax.Array]:
    def nonempty(z: jax.Array) -> dict[str, jax.Array]:
        # JAX cannot map empty arrays.
        return {k: v for k, v in _sites(target, z).items() if v.size}

    return jax.lax.map(nonempty, z, batch_size=BATCH)


def unconstrain(target: Target, sites: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Points in unconstrained coordinates at n values of the latent sites, each (n, *site).

    Returns:
        z, (n, d), and log |d value / d z| of each, (n,).
    """
    arrays = {name: jnp.asarray(values) for name, values in sites.items()}
    return jax.device_get(_unconstrain(target, arrays))


@eqx.filter_jit
def _unconstrain(target: Target, sites: dict[str, jax.Array]) -> tuple[jax.Array, jax.Array]:
    return jax.lax.map(target.unconstrain, sites, batch_size=BATCH)


def join_chains(sites: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Sites with their chains joined: each (chains, draws, *site) to (chains * draws, *site)."""
    return {name: np.reshape(values, (-1, *values.shape[2:])) for name, values in sites.items()}


def draw_prior(target: Target, rng: np.random.Generator, spread: ArrayLike) -> np.ndarray:
    """Draws from the prior in unconstrained coordinates.

    Args:
        target: The model.
        rng: Source of the seeds.
        spread: Sd of the coordinates without a proper prior, for each of n draws: (n,).

    Returns:
        z, (n, d).
    """
    # All blocks of draws have the same size, so that the program is compiled once.
    block = 256
    count = np.size(spread)
    padded = np.resize(np.asarray(spread, float), -(-count // block) * block)
    parts = [
        jax.device_get(_draw_prior(target, jax_seed(rng), part))
        for part in padded.reshape(-1, block)
    ]
    return np.concatenate(parts)[:count]


@eqx.filter_jit
def _draw_prior(target: Target, seed: np.uint32, spread: np.ndarray) -> jax.Array:
    keys = jax.random.split(jax.random.key(seed), len(spread))
    # One at a time: under vmap, random numbers take three times as long to compile.
    return jax.lax.map(lambda item: target.draw_prior(*item), (keys, spread))
