"""Location-scale distributions and their forms between the centred and the non-centred one.

A value x = loc + root e has a standardised value e. In the form with the centredness c of each
element it is replaced by

    x' = c loc + scale^c e                                  for independent elements,
    x' = c loc + sds^c (c root / sds + (1 - c) I) e         for a multivariate normal x,
    x' = scale^c (c w + (1 - c) e)                          for a random walk x = scale w,

where sds are the lengths of the rows of the root, and w is the sum of e up to each step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jax.typing import ArrayLike
from numpyro.distributions import (
    Cauchy,
    Distribution,
    ExpandedDistribution,
    GaussianRandomWalk,
    Independent,
    Laplace,
    MultivariateNormal,
    Normal,
    StudentT,
    TransformedDistribution,
    constraints,
)
from numpyro.distributions.transforms import Transform


class LocationScale(Protocol):
    """A location-scale distribution of one event."""

    @property
    def fn(self) -> Distribution:
        """The distribution."""
        ...

    @property
    def loc(self) -> jax.Array:
        """Location."""
        ...

    @property
    def root(self) -> jax.Array:
        """Scale, or root of the covariance."""
        ...

    def decentred(self, c: jax.Array) -> LocationScale:
        """Distribution of x' for the centredness c of each element."""
        ...

    def standardised(self, value: jax.Array) -> jax.Array:
        """Value with location 0 and scale 1."""
        ...

    def located(self, standardised: jax.Array) -> jax.Array:
        """The inverse of `standardised`."""
        ...


@dataclass(frozen=True, eq=False)
class Elementwise:
    """Independent elements."""

    fn: Normal | StudentT | Cauchy | Laplace

    @property
    def loc(self) -> jax.Array:
        return jnp.asarray(self.fn.loc)

    @property
    def root(self) -> jax.Array:
        return jnp.asarray(self.fn.scale)

    def moved(self, loc: ArrayLike, scale: ArrayLike) -> Elementwise:
        """Distribution of the same family with another location and scale."""
        degrees = (self.fn.df,) if isinstance(self.fn, StudentT) else ()
        return Elementwise(type(self.fn)(*degrees, loc, scale))

    def decentred(self, c: jax.Array) -> Elementwise:
        return self.moved(c * self.loc, _power(self.root, c))

    def standardised(self, value: jax.Array) -> jax.Array:
        return (value - self.loc) / self.root

    def located(self, standardised: jax.Array) -> jax.Array:
        return self.loc + self.root * standardised


@dataclass(frozen=True, eq=False)
class Multivariate:
    """A multivariate normal vector."""

    fn: MultivariateNormal

    @property
    def loc(self) -> jax.Array:
        return jnp.asarray(self.fn.loc)

    @property
    def root(self) -> jax.Array:
        return jnp.asarray(self.fn.scale_tril)

    def decentred(self, c: jax.Array) -> Multivariate:
        loc, c = c * self.loc, c[..., None]
        # Rows of the root have the sds as lengths; the rest is a root of the correlations.
        sds = jnp.linalg.norm(self.root, axis=-1, keepdims=True)
        mixed = c * self.root / sds + (1.0 - c) * jnp.eye(self.root.shape[-1])
        return Multivariate(MultivariateNormal(loc, scale_tril=_power(sds, c) * mixed))

    def standardised(self, value: jax.Array) -> jax.Array:
        deviation = value - self.loc
        root = jnp.broadcast_to(self.root, (*deviation.shape, deviation.shape[-1]))
        return solve_triangular(root, deviation[..., None], lower=True)[..., 0]

    def located(self, standardised: jax.Array) -> jax.Array:
        return self.loc + (self.root @ standardised[..., None])[..., 0]


class Walk(Transform):
    """A random walk from 0, as a transform of its standardised steps.

    Args:
        scale: Scale of the steps, one for each walk.
        centredness: Centredness of each element, (..., n).
    """

    domain, codomain = constraints.real_vector, constraints.real_vector  # pyright: ignore

    def __init__(self, scale: jax.Array, centredness: jax.Array) -> None:
        self.scale, self.centredness = scale, centredness

    @property
    def fn(self) -> TransformedDistribution:
        standard = Normal().expand(self.centredness.shape).to_event(1)
        return TransformedDistribution(standard, self)

    @property
    def loc(self) -> jax.Array:
        return jnp.zeros(())

    @property
    def root(self) -> jax.Array:
        return self.scale

    def decentred(self, c: jax.Array) -> Walk:
        return Walk(self.scale, c)

    def standardised(self, value: jax.Array) -> jax.Array:
        def step(walk: jax.Array, element: tuple[jax.Array, jax.Array]):
            c, value = element
            return (1.0 - c) * walk + value, value - c * walk

        value = value / self._powers
        c = jnp.broadcast_to(self.centredness, value.shape)
        elements = jnp.moveaxis(c, -1, 0), jnp.moveaxis(value, -1, 0)
        _, standardised = jax.lax.scan(step, jnp.zeros(value.shape[:-1]), elements)
        return jnp.moveaxis(standardised, 0, -1)

    def located(self, standardised: jax.Array) -> jax.Array:
        c, walk = self.centredness, jnp.cumsum(standardised, axis=-1)
        return self._powers * (c * walk + (1.0 - c) * standardised)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.located(x)

    def _inverse(self, y: jax.Array) -> jax.Array:
        return self.standardised(y)

    def log_abs_det_jacobian(
        self, x: jax.Array, y: jax.Array, intermediates: object = None
    ) -> jax.Array:
        return jnp.sum(self.centredness, axis=-1) * jnp.log(self.scale)

    def tree_flatten(self) -> tuple[tuple, tuple]:
        return (self.scale, self.centredness), (("scale", "centredness"), {})

    @property
    def _powers(self) -> jax.Array:
        return _power(self.scale[..., None], self.centredness)


def location_scale(fn: Distribution) -> LocationScale | None:
    """One event of a distribution before `transforms`; None without location and scale."""
    fn = _event(fn)
    if isinstance(fn, TransformedDistribution):
        is_elementwise = all(t.domain.event_dim == t.codomain.event_dim == 0 for t in fn.transforms)
        return location_scale(fn.base_dist) if is_elementwise else None
    if isinstance(fn, GaussianRandomWalk):
        return Walk(jnp.asarray(fn.scale), jnp.ones(fn.num_steps))
    if isinstance(fn, MultivariateNormal):
        return Multivariate(fn)
    return Elementwise(fn) if isinstance(fn, Normal | StudentT | Cauchy | Laplace) else None


def transforms(fn: Distribution) -> list[Transform]:
    """Transforms of a location-scale distribution, such as the exponential of a log-normal one."""
    fn = _event(fn)
    if not isinstance(fn, TransformedDistribution):
        return []
    return [*transforms(fn.base_dist), *fn.transforms]


def _event(fn: Distribution) -> Distribution:
    """Distribution of one event."""
    while isinstance(fn, Independent | ExpandedDistribution):
        fn = fn.base_dist
    return fn


def _power(scale: jax.Array, c: jax.Array) -> jax.Array:
    """scale^c; XLA computes an exponential faster than a power."""
    return jnp.exp(c * jnp.log(scale))
