"""The prior on the intercept."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import Distribution

from bayeskern import hyperparameters as hyper
from bayeskern.linear.priors import Flat


class Intercept(eqx.Module):
    """The prior on eta at x = center: intercept + center'weights ~ N(loc, sd^2).

    Fields that are None are set from the data: by default, loc is the location of eta estimated
    from y (in linear regression, the mean of y), and center is the mean of x.

    Attributes:
        loc: The mean: a number, or one for each output.
        sd: The standard deviation; infinite if the prior is flat.
        center: The point x, (p,).
        is_flat: Whether the prior is flat.
        is_fixed: Whether eta is fixed to 0 at x = center, so that no intercept is inferred.
    """

    loc: np.ndarray | jax.Array | None = None
    sd: np.ndarray | jax.Array | None = None
    center: np.ndarray | jax.Array | None = None
    is_flat: bool = eqx.field(static=True, default=False)
    is_fixed: bool = eqx.field(static=True, default=False)

    @property
    def moments(self) -> tuple[jax.Array, jax.Array]:
        """The mean and sd; set in prepared models."""
        assert self.loc is not None and self.sd is not None
        return jnp.asarray(self.loc), jnp.asarray(self.sd)

    @property
    def point(self) -> jax.Array:
        """The center; set in prepared models."""
        assert self.center is not None
        return jnp.asarray(self.center)

    def __repr__(self) -> str:
        if self.is_flat or self.is_fixed:
            return "flat" if self.is_flat else "in the cutpoints"
        if self.sd is None:
            return "True"
        is_zero = self.center is None or not np.any(self.center)
        center = "x = 0" if is_zero else "the mean of x"
        return f"Normal({hyper.show(self.loc)}, {hyper.show(self.sd)}) at {center}"

    def with_defaults(self, mean_x: np.ndarray, location, sd: float) -> Intercept:
        """Copy with these values for fields that are None; mean_x is (p,)."""
        if self.is_fixed:
            return dataclasses.replace(self, center=np.asarray(mean_x))
        if self.is_flat:
            # loc and center do not change a flat prior: they only set where optimisation starts.
            return dataclasses.replace(self, loc=np.asarray(location), center=np.asarray(mean_x))
        if self.sd is not None and self.center is None:
            return dataclasses.replace(self, center=np.zeros(len(mean_x)))
        if self.sd is None:
            return Intercept(np.asarray(location), np.asarray(sd), np.asarray(mean_x))
        return self


FIXED = Intercept(np.asarray(0.0), np.asarray(0.0), is_fixed=True)


def as_intercept(value: bool | Distribution | Flat | Intercept | None) -> Intercept | None:
    """Read a prior on eta: True (default), False (none), or Normal or Flat at x = 0."""
    if isinstance(value, Intercept) or value is None:
        return value
    if value is True or value is False:
        return Intercept() if value else None
    if isinstance(value, Flat):
        return Intercept(np.asarray(0.0), np.asarray(np.inf), is_flat=True)
    if type(value) is dist.Normal and np.shape(value.loc) == np.shape(value.scale) == ():
        return Intercept(np.asarray(value.loc, float), np.asarray(value.scale, float))
    kind = type(value).__name__
    hint = " with numbers, so that it can be integrated out" * isinstance(value, Distribution)
    raise TypeError(
        "intercept must be True (a weak prior around the data), False, or a prior at x = 0: "
        f"priors.Flat() or a NumPyro Normal{hint}; got {kind}."
    )
