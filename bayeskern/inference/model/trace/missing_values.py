"""Distributions of the missing and of the observed values of a site."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import (
    Distribution,
    ExpandedDistribution,
    Independent,
    MaskedDistribution,
    constraints,
)

from bayeskern.hyperparameters import innermost
from bayeskern.inference.model.trace.arguments import StaticArray

# Distributions with a known conditional of some coordinates given the others.
CONDITIONABLE = (dist.MultivariateNormal, dist.LowRankMultivariateNormal)


def separate(
    fn: Distribution, shape: tuple[int, ...]
) -> tuple[Distribution, jax.Array | bool, int]:
    """Remove masks and `.to_event`, so that independent values lie along batch axes.

    Args:
        fn: The distribution.
        shape: Shape of the values; its batch shape may be larger than that of `fn`.

    Returns:
        The distribution of the values; its mask, True for values that count in the density; the
        number of axes under `.to_event`.
    """
    core, mask = _core(fn)
    batch = np.broadcast_shapes(core.batch_shape, shape[: len(shape) - core.event_dim])
    return core.expand(batch), mask, fn.event_dim - core.event_dim


def _core(fn: Distribution) -> tuple[Distribution, jax.Array | bool]:
    if isinstance(fn, Independent):
        return _core(fn.base_dist)
    if isinstance(fn, ExpandedDistribution):
        core, mask = _core(fn.base_dist)
        own_axes = fn.event_shape[: fn.event_dim - core.event_dim]
        return core.expand(fn.batch_shape + own_axes), mask
    if isinstance(fn, MaskedDistribution):
        core, mask = _core(fn.base_dist)
        own_mask = jnp.asarray(fn._mask)
        own_mask = own_mask.reshape(own_mask.shape + (1,) * (fn.event_dim - core.event_dim))
        return core, jnp.logical_and(mask, own_mask)
    return fn, True


def entries(values: jax.Array, chosen: np.ndarray) -> jax.Array:
    """Chosen entries, along one last axis; `values` may have further axes in front."""
    front = values.shape[: values.ndim - chosen.ndim]
    return values.reshape(*front, -1)[..., np.flatnonzero(chosen)]


def with_entries(values: jax.Array, chosen: np.ndarray, new: jax.Array) -> jax.Array:
    """Values whose chosen entries are replaced by new ones, the inverse of `entries`."""
    return values.ravel().at[np.flatnonzero(chosen)].set(new).reshape(values.shape)


def observed_part(core: Distribution, missing: np.ndarray) -> Distribution:
    """Distribution of the observed values of a site, without its missing ones.

    Args:
        core: Distribution of all values, from `separate`.
        missing: True for missing values, in the shape of the values.

    Returns:
        A distribution of all values, whose density leaves the missing ones out.
    """
    event_axes = tuple(range(-core.event_dim, 0))
    absent = missing.all(axis=event_axes)
    if np.any(missing & ~np.expand_dims(absent, event_axes)):
        core = PartOfNormal(core, StaticArray(missing))
    return core.mask(jnp.asarray(~absent))


def completed(
    core: Distribution, start: jax.Array, value: jax.Array, missing: jax.Array | np.ndarray
) -> jax.Array:
    """Values with missing entries of `start`, conditioned on observed entries.

    Entries of a multivariate normal distribution are conditioned on the observed coordinates of
    their event by Matheron's rule: x + K_.o K_oo^-1 (value_o - x_o), with x = `start`. This maps a
    draw to a conditional draw, and the mean to the conditional mean.

    Args:
        core: Distribution of all values.
        start: A draw of all values, or their mean.
        value: The values.
        missing: True for missing values, in the shape of the values.

    References:
        Journel and Huijbregts (1978), "Mining geostatistics".
    """
    normal = innermost(core)
    if isinstance(normal, CONDITIONABLE):
        K = jnp.asarray(normal.covariance_matrix)
        residual = jnp.where(missing, 0.0, value - start)
        weights = jnp.linalg.solve(_of_observed(K, missing), residual[..., None])
        start = start + (K @ weights)[..., 0]
    return jnp.where(missing, start, value)


def drawn_where_missing(fn: Distribution, value: jax.Array, key: jax.Array) -> jax.Array:
    """Values with draws in place of NaN, given the observed ones."""
    value = jnp.asarray(value)
    core, _, _ = separate(fn, value.shape)
    return completed(core, jnp.asarray(core.sample(key)), value, jnp.isnan(value))


def _of_observed(K: jax.Array, missing: jax.Array | np.ndarray) -> jax.Array:
    """Covariance of observed coordinates, with the identity for missing ones."""
    kept = ~missing[..., :, None] & ~missing[..., None, :]
    return jnp.where(kept, K, jnp.eye(K.shape[-1]))


class PartOfNormal(Distribution):
    """Observed coordinates of a multivariate normal; draws have all coordinates.

    Args:
        core: The distribution of all coordinates, perhaps expanded.
        missing: True for missing coordinates, in the shape of the values.
    """

    support = constraints.real_vector  # pyright: ignore[reportAssignmentType]
    pytree_data_fields = ("core",)
    pytree_aux_fields = ("missing",)

    def __init__(self, core: Distribution, missing: StaticArray):
        self.core, self.missing = core, missing
        super().__init__(core.batch_shape, core.event_shape)

    def sample(self, key: jax.Array, sample_shape: tuple[int, ...] = ()) -> jax.Array:
        return self.core.sample(key, sample_shape)  # pyright: ignore[reportReturnType]

    @property
    def mean(self) -> jax.Array:
        return self.core.mean  # pyright: ignore[reportReturnType]

    def log_prob(self, value: jax.Array) -> jax.Array:
        """Log density of the observed coordinates of events (..., d): (...)."""
        normal: Any = innermost(self.core)
        missing = self.missing.value
        L = jnp.linalg.cholesky(_of_observed(normal.covariance_matrix, missing))
        residual = jnp.where(missing, 0.0, value - normal.mean)
        white = jax.scipy.linalg.solve_triangular(L, residual[..., None], lower=True)[..., 0]
        diagonal = jnp.diagonal(L, axis1=-2, axis2=-1)
        constant = 0.5 * math.log(2.0 * math.pi) * (~missing).sum(axis=-1)
        return -0.5 * jnp.sum(white**2, -1) - jnp.sum(jnp.log(diagonal), -1) - constant


class MissingValues(Distribution):
    """Missing values of a site given its observed ones, as one vector.

    Args:
        core: Distribution of all values, from `separate`, in the shape of the values.
        value: The values, with anything in place of missing ones.
        missing: True for missing values.
    """

    pytree_data_fields = ("core", "value")
    pytree_aux_fields = ("missing",)

    def __init__(self, core: Distribution, value: jax.Array, missing: StaticArray):
        self.core, self.value, self.missing = core, value, missing
        super().__init__((), (int(missing.value.sum()),))

    @property
    def support(self) -> constraints.Constraint:  # pyright: ignore[reportIncompatibleVariableOverride]
        own: constraints.Constraint = self.core.support  # pyright: ignore[reportAssignmentType]
        if self.core.event_dim:
            return constraints.real_vector
        missing = self.missing.value

        def chosen(bound: jax.Array) -> jax.Array:
            # Bounds may differ from value to value.
            if not np.ndim(bound):
                return bound
            return entries(jnp.broadcast_to(bound, missing.shape), missing)

        return constraints.independent(jax.tree.map(chosen, own), 1)  # pyright: ignore[reportCallIssue]

    def sample(self, key: jax.Array, sample_shape: tuple[int, ...] = ()) -> jax.Array:
        return self._given_observed(jnp.asarray(self.core.sample(key, sample_shape)))

    @property
    def mean(self) -> jax.Array:
        return self._given_observed(jnp.asarray(self.core.mean))

    def log_prob(self, value: jax.Array) -> jax.Array:
        missing = self.missing.value
        log_prob = self.core.log_prob(with_entries(self.value, missing, value))
        if self.core.event_dim:
            given = observed_part(self.core, missing).log_prob(self.value)
            return jnp.sum(log_prob) - jnp.sum(given)
        return jnp.sum(log_prob, where=missing)

    def _given_observed(self, start: jax.Array) -> jax.Array:
        missing = self.missing.value
        start = jnp.broadcast_to(start, (*start.shape[: start.ndim - missing.ndim], *missing.shape))
        return entries(completed(self.core, start, self.value, missing), missing)
