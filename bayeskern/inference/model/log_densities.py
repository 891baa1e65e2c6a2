"""The log density at many places, by one compiled function for all that ask for it."""

from __future__ import annotations

from itertools import count

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core.batching import BATCH
from bayeskern.core.progress import Progress
from bayeskern.core.sharding import current_mesh
from bayeskern.core.threads import in_threads, one_blas_thread
from bayeskern.inference.model.cost import is_costly, largest_array
from bayeskern.inference.model.target import Target

# Arrays of so many numbers together stay near the processor.
NEAR = 2**18
# Places of one call, where a density does not cost much.
CHUNK_ROWS = 4096
# Seconds of work that need no progress bar.
MOMENT = 2.0


def log_densities(
    target: Target, z, progress: bool = False, jacobian: bool = True, prior: bool = True
) -> np.ndarray:
    """log p(z): (n, d) -> (n,).

    progress: show a bar, where it takes longer than a moment; jacobian, prior: as in
    `Target.log_density`. What costs much is shared out over threads.
    """
    costly = is_costly(target)
    rows = BATCH if costly else CHUNK_ROWS
    # Of one shape, however many places there are, so that the density is compiled once.
    parts = np.resize(z, (-(-len(z) // rows) * rows, z.shape[1])).reshape(-1, rows, z.shape[1])
    counts = np.minimum(rows, len(z) - rows * np.arange(len(parts)))
    total = len(z)
    with Progress("log densities", total, progress, delay=MOMENT) as bar, one_blas_thread():
        done = count(rows, rows)

        def at(part):
            z, count = part
            values = _log_densities(target, jnp.asarray(z), jnp.asarray(count), jacobian, prior)
            values = jax.device_get(values)
            bar.to(min(next(done), total))
            return values

        # The first one alone, since threads would each compile.
        first, *others = zip(parts, counts, strict=True)
        # Devices that share work do so in one order.
        threads = costly and current_mesh() is None
        several = [at(first), *(in_threads(at, others) if threads else map(at, others))]
    return np.concatenate(several)[: len(z)]


@eqx.filter_jit
def _log_densities(target, z, count, jacobian, prior):
    """log p at the first `count` rows of z, batch by batch; 0 at batches without any of them."""
    rows, d = z.shape
    batch = points_at_once(target, rows)

    def density(z):
        return target.log_density(z, jacobian, prior)

    def body(i, values):
        part = jax.lax.dynamic_slice(z, (i * batch, 0), (batch, d))
        # A batch of one is not mapped, since that would change the program.
        new = jax.vmap(density)(part) if batch > 1 else density(part[0])[None]
        return jax.lax.dynamic_update_slice(values, new.astype(z.dtype), (i * batch,))

    return jax.lax.fori_loop(0, -(-count // batch), body, jnp.zeros(rows, z.dtype))


def points_at_once(target, rows: int) -> int:
    """Number of places to compute at once."""
    batch = min(rows, BATCH)
    if jax.default_backend() == "cpu":
        # A power of two, as the number of rows is, since a remainder would be compiled once more.
        batch = min(batch, 2 ** int(np.log2(max(1, NEAR // max(1, largest_array(target))))))
    return batch
