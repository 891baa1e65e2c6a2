"""Hamiltonian Monte Carlo moves of many particles, as one compiled program.

Leapfrog steps in coordinates in which the particles have unit covariance. Neal (2011), "MCMC using
Hamiltonian dynamics", section 5.2. NumPy draws the random numbers outside the program; blackjax's
kernel would evaluate the density two more times in each compiled move.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core.sharding import current_mesh
from bayeskern.core.threads import in_threads
from bayeskern.inference.approximation.proposals import Sample
from bayeskern.inference.model.cost import is_costly
from bayeskern.inference.model.evaluation import points_at_once
from bayeskern.inference.model.target import Target
from bayeskern.inference.smc.start import TraceableStart


class TemperedPath(eqx.Module):
    """The path log pi_t = (1 - t) log q0 + t log p, from q0 at t = 0 to p at t = 1.

    Attributes:
        target: The posterior, with log density log p.
        start: log q0.
    """

    target: Target
    start: TraceableStart

    def __call__(
        self, z: jax.Array, temperature: jax.Array
    ) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        """log pi_t(z), with log p(z) and log q0(z); at t = 1 log q0 is returned as 0."""
        log_p = self.target.log_density(z)
        # pi_1 does not depend on q0.
        log_q = jax.lax.cond(
            temperature < 1.0, lambda z: self.start(z), lambda z: jnp.zeros_like(log_p), z
        )
        return temperature * log_p + (1.0 - temperature) * log_q, (log_p, log_q)


def move(
    path: TemperedPath,
    temperature: float,
    tril: np.ndarray,
    particles: Sample,
    momentum: np.ndarray,
    log_uniform: np.ndarray,
    step_size: np.ndarray,
    leapfrogs: int,
) -> tuple[Sample, np.ndarray]:
    """Propose one trajectory for each particle, and accept or reject it.

    Args:
        path: The path of densities.
        temperature: The temperature t.
        tril: Cholesky factor of the covariance of the particles, (d, d).
        particles: n particles with log p and log q0.
        momentum: Standard normal momenta, (n, d).
        log_uniform: Logs of uniform numbers; a move is accepted if its log ratio is larger, (n,).
        step_size: Step sizes in whitened coordinates, (n,).
        leapfrogs: Leapfrog steps of each trajectory, at least 1.

    Returns:
        The particles after the move, and their acceptance probabilities, (n,).
    """
    n = len(particles.z)
    # Fewer particles in one call of the program for a costly density.
    rows = 32 if is_costly(path.target) else min(512, 2 ** int(np.ceil(np.log2(n))))
    shared = jnp.asarray(float(temperature)), jnp.asarray(tril), jnp.asarray(leapfrogs)
    trajectories = momentum, log_uniform, step_size

    def call(index):
        inputs = jax.tree.map(lambda x: jnp.asarray(x[index]), (particles, trajectories))
        return jax.device_get(_move(path, *shared, *inputs))

    # Repeated particles fill the last part, so that all parts have one shape.
    first, *others = np.resize(np.arange(n), (-(-n // rows), rows))
    # The first part runs alone, since threads would each compile. Devices that share work must run
    # in one order.
    threads = current_mesh() is None
    results = [call(first), *(in_threads(call, others) if threads else map(call, others))]
    moved, acceptance = jax.tree.map(lambda *x: np.concatenate(x)[:n], *results)
    return moved, acceptance


@eqx.filter_jit
def _move(path, temperature, tril, leapfrogs, particles, trajectories):
    """`move` for some of the particles."""

    def move_one(item):
        (z, log_p, log_q), (momentum, log_uniform, step_size) = item
        density = jax.value_and_grad(path, has_aux=True)

        def leapfrog(i, carried):
            z, r, begin_value, _ = carried
            (value, logs), gradient = density(z, temperature)
            # Half a step of momentum at either end. A loop with one evaluation of the density
            # compiles in half the time of a program with two.
            ends = (i == 0) | (i == leapfrogs)
            r = r + jnp.where(ends, 0.5, 1.0) * step_size * (tril.T @ gradient)
            new_z = jnp.where(i < leapfrogs, z + step_size * (tril @ r), z)
            return new_z, r, jnp.where(i == 0, value, begin_value), (value, logs)

        zero = jnp.zeros_like(log_p)
        state = (z, momentum, zero, (zero, (zero, zero)))
        end, r, begin_value, (end_value, logs) = jax.lax.fori_loop(
            0, leapfrogs + 1, leapfrog, state
        )
        kinetic = 0.5 * (jnp.sum(jnp.square(momentum)) - jnp.sum(jnp.square(r)))
        log_ratio = end_value - begin_value + kinetic
        # A point without a finite density is rejected.
        valid = jnp.isfinite(end_value) & jnp.all(jnp.isfinite(end)) & jnp.isfinite(log_ratio)
        log_ratio = jnp.where(valid, log_ratio, -jnp.inf)
        accept = log_uniform < log_ratio
        old, new = Sample(z, log_p, log_q), Sample(end, *logs)
        chosen = jax.tree.map(lambda new, old: jnp.where(accept, new, old), new, old)
        return chosen, jnp.exp(jnp.minimum(log_ratio, 0.0))

    batch = points_at_once(path.target, len(particles.z))
    return jax.lax.map(move_one, (particles, trajectories), batch_size=batch if batch > 1 else None)
