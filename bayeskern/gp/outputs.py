"""Independent processes of one kernel at the same inputs, by one factor of their covariance."""

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

    log p(Y) = sum_j log N(Y_j; m, K + noise I), and the covariance is factored once.

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
        return _swapped(self.process.sample(key, (*sample_shape, self.outputs)))

    def log_prob(self, value: Array) -> Array:
        """Log density of all columns: (..., n, k) -> (...)."""
        return jnp.sum(self.process.log_prob(_swapped(value)), axis=-1)

    def pointwise(self, value: Array) -> tuple[Array, Array]:
        """Log density of each value given the others of its column, and a mask of those counted."""
        log_densities, counted = self.process.pointwise(_swapped(value))
        return _swapped(log_densities), jnp.broadcast_to(counted[:, None], self.event_shape)

    def condition(self, Y: Array) -> tuple[ConditionedGP, ...]:
        """Each process given its column of Y (n, k)."""
        first = self.process.condition(Y[:, 0])
        observed = None if first.observed is None else first.observed[:, None]
        weights = first.factor.solve(mask_residual(Y - self.mean, observed))
        return tuple(
            dataclasses.replace(first, y=Y[:, j], weights=weights[:, j])
            for j in range(self.outputs)
        )


class OutputsPredictive(eqx.Module):
    """Several processes given data at new points; outputs of one point follow one another.

    parts: one for each output; they differ in their data only.
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
        # Deviations of draws from their mean do not depend on the data.
        first, means = self.parts[0], self._means()
        deviations = first.sample(key, n * len(self.parts)) - first.mean()
        deviations = _swapped(deviations.reshape(n, len(self.parts), -1))
        return (means + deviations).reshape(n, -1)

    def _means(self) -> Array:
        return jnp.stack([part.mean() for part in self.parts], axis=-1)


def _swapped(values: Array) -> Array:
    """The last two axes swapped."""
    return jnp.swapaxes(values, -1, -2)
