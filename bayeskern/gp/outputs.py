"""Independent processes with the same kernel and inputs, which share one factor."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax.numpy as jnp
from jax import Array
from numpyro.distributions import Distribution, constraints

from bayeskern.gp.posterior import ConditionedGP, ProcessPredictive
from bayeskern.gp.prior import mask_residual
from bayeskern.gp.process import GaussianProcess


class IndependentProcesses(Distribution):
    """Distribution of Y (n, k), whose columns are independent draws of one process.

    log p(Y) = sum_j log N(Y_j; m, K + noise I) for the columns Y_j; the covariance is factored
    once.

    Args:
        process: Distribution of each column.
        outputs: Number of columns, k.
    """

    support = constraints.real_matrix  # pyright: ignore[reportAssignmentType]
    pytree_data_fields = ("process",)
    pytree_aux_fields = ("outputs",)

    def __init__(
        self, process: GaussianProcess, outputs: int, *, validate_args: bool | None = None
    ):
        self.process, self.outputs = process, outputs
        shape = (*process.event_shape, outputs)
        super().__init__(batch_shape=(), event_shape=shape, validate_args=validate_args)

    @property
    def mean(self) -> Array:
        return jnp.broadcast_to(self.process.mean[:, None], self.event_shape)

    @property
    def variance(self) -> Array:
        variance = jnp.broadcast_to(self.process.variance, self.process.event_shape)
        return jnp.broadcast_to(variance[:, None], self.event_shape)

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        return _swap_last_axes(self.process.sample(key, (*sample_shape, self.outputs)))

    def log_prob(self, value: Array) -> Array:
        """Log density of all columns: (..., n, k) -> (...)."""
        return jnp.sum(self.process.log_prob(_swap_last_axes(value)), axis=-1)

    def pointwise(self, value: Array) -> tuple[Array, Array]:
        """Log density of each value given the others in its column, and the observed mask.

        Shapes (..., n, k) and (n, k).
        """
        log_densities, observed = self.process.pointwise(_swap_last_axes(value))
        return _swap_last_axes(log_densities), jnp.broadcast_to(observed[:, None], self.event_shape)

    def condition(self, Y: Array) -> tuple[ConditionedGP, ...]:
        """Condition each process on its column of Y (n, k)."""
        first = self.process.condition(Y[:, 0])
        observed = None if first.observed is None else first.observed[:, None]
        weights = first.factor.solve(mask_residual(Y - self.mean, observed))
        return tuple(
            dataclasses.replace(first, y=Y[:, j], weights=weights[:, j])
            for j in range(self.outputs)
        )


class OutputsPredictive(eqx.Module):
    """k processes given data, at m new points, as vectors (m k,).

    The output index runs fastest. parts: One for each output; they differ only in their data.
    """

    parts: tuple[ProcessPredictive, ...]

    def mean(self) -> Array:
        """Means: (m k,)."""
        return self._means().reshape(-1)

    def moments(self) -> tuple[Array, Array]:
        """Means and variances: (m k,), (m k,)."""
        means, (_, variance) = self._means(), self.parts[0].moments()
        return means.reshape(-1), jnp.broadcast_to(variance[:, None], means.shape).reshape(-1)

    def sample(self, key: Array, n: int) -> Array:
        """Joint draws: (n, m k)."""
        # Deviations from the posterior mean do not depend on y: one process draws them all.
        first, means = self.parts[0], self._means()
        deviations = first.sample(key, n * len(self.parts)) - first.mean()
        deviations = _swap_last_axes(deviations.reshape(n, len(self.parts), -1))
        return (means + deviations).reshape(n, -1)

    def _means(self) -> Array:
        return jnp.stack([part.mean() for part in self.parts], axis=-1)


def _swap_last_axes(values: Array) -> Array:
    """Swap the last two axes."""
    return jnp.swapaxes(values, -1, -2)
