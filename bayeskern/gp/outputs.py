"""Independent processes of one kernel at the same inputs, by one factor of their covariance."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from numpyro.distributions import Distribution, constraints

from bayeskern.gp.posterior import ConditionedGP, ProcessPredictive
from bayeskern.gp.prior import mask_residual
from bayeskern.gp.process import GaussianProcess


class IndependentProcesses(Distribution):
    """The distribution of Y (n, k), whose columns are independent draws of one process.

    log p(Y) = sum_j log N(Y_j; m, K + noise I), and the covariance is factored once.

    Args:
        process: The distribution of each column.
        outputs: How many columns there are, k.
    """

    support = constraints.real_matrix
    pytree_data_fields = ("process",)
    pytree_aux_fields = ("outputs",)

    def __init__(self, process: GaussianProcess, outputs: int, *, validate_args=None):
        self.process, self.outputs = process, outputs
        shape = (*process.event_shape, outputs)
        super().__init__(batch_shape=(), event_shape=shape, validate_args=validate_args)

    @property
    def mean(self):
        return jnp.broadcast_to(self.process.mean[:, None], self.event_shape)

    @property
    def variance(self):
        variance = jnp.broadcast_to(self.process.variance, self.process.event_shape)
        return jnp.broadcast_to(variance[:, None], self.event_shape)

    def sample(self, key, sample_shape=()):
        return _turned(self.process.sample(key, (*sample_shape, self.outputs)))

    def log_prob(self, value):
        """The log density of all columns: (..., n, k) -> (...)."""
        return jnp.sum(self.process.log_prob(_turned(value)), axis=-1)

    def pointwise(self, value):
        """The log density of each value given the others of its column, and which count."""
        log_densities, counted = self.process.pointwise(_turned(value))
        return _turned(log_densities), jnp.broadcast_to(counted[:, None], self.event_shape)

    def condition(self, Y) -> tuple[ConditionedGP, ...]:
        """Each process given its column of Y (n, k)."""
        first = self.process.condition(Y[:, 0])
        observed = None if first.observed is None else first.observed[:, None]
        weights = first.factor.solve(mask_residual(Y - self.mean, observed))
        return tuple(
            dataclasses.replace(first, y=Y[:, j], weights=weights[:, j])
            for j in range(self.outputs)
        )


class OutputsPredictive(eqx.Module):
    """Several processes given data at new points, the outputs of one point after one another.

    parts: one for each output; only their data differ.
    """

    parts: tuple[ProcessPredictive, ...]

    def mean(self) -> jax.Array:
        """The means: (m k,)."""
        return self._means().reshape(-1)

    def moments(self) -> tuple[jax.Array, jax.Array]:
        """The means and variances: (m k,), (m k,)."""
        means, (_, variance) = self._means(), self.parts[0].moments()
        return means.reshape(-1), jnp.broadcast_to(variance[:, None], means.shape).reshape(-1)

    def sample(self, key, n: int) -> jax.Array:
        """Joint draws: (n, m k)."""
        # How draws differ from their mean does not depend on the data.
        first, means = self.parts[0], self._means()
        deviations = first.sample(key, n * len(self.parts)) - first.mean()
        deviations = _turned(deviations.reshape(n, len(self.parts), -1))
        return (means + deviations).reshape(n, -1)

    def _means(self) -> jax.Array:
        return jnp.stack([part.mean() for part in self.parts], axis=-1)


def _turned(values) -> jax.Array:
    """Rows as columns, and columns as rows."""
    return jnp.swapaxes(values, -1, -2)
