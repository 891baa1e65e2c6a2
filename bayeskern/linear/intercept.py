"""The prior on the intercept."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import Distribution

from bayeskern import hyperparameters as hyper
from bayeskern.linear.priors import Flat


class Intercept(eqx.Module):
    """intercept + center'weights ~ N(loc, sd^2), a prior on eta where x is `center`.

    sd is infinite where the prior is flat. Fields that are None are filled in from the data: by
    default the prior is around the mean of y, at the mean of x.
    """

    loc: jax.Array | None = None
    sd: jax.Array | None = None
    center: jax.Array | None = None
    is_flat: bool = eqx.field(static=True, default=False)
    #: whether eta is 0 where x is `center`, so that there is nothing to infer
    is_fixed: bool = eqx.field(static=True, default=False)

    def __repr__(self) -> str:
        if self.is_flat or self.is_fixed:
            return "flat" if self.is_flat else "in the cutpoints"
        if self.sd is None:
            return "True"
        at_zero = self.center is None or not np.any(self.center)
        at = "x = 0" if at_zero else "the mean of x"
        return f"Normal({hyper.show(self.loc)}, {hyper.show(self.sd)}) at {at}"

    def with_defaults(self, mean_x, location: float, sd: float) -> Intercept:
        """A copy with these values, as far as it has none of its own; mean_x: (p,)."""
        if self.is_fixed:
            return dataclasses.replace(self, center=np.asarray(mean_x))
        if self.is_flat:
            # A flat prior is flat wherever it is centered; searches start at its location.
            return dataclasses.replace(self, loc=np.asarray(location), center=np.asarray(mean_x))
        if self.sd is not None and self.center is None:
            return dataclasses.replace(self, center=np.zeros(len(mean_x)))
        if self.sd is None:
            return Intercept(np.asarray(location), np.asarray(sd), np.asarray(mean_x))
        return self


FIXED = Intercept(np.asarray(0.0), np.asarray(0.0), is_fixed=True)


def as_intercept(value) -> Intercept | None:
    """Read True (the default prior), False (no intercept), or a Normal or Flat prior at x = 0."""
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
        "intercept must be True (a weak prior around the data), False, priors.Flat() or a "
        f"NumPyro Normal{hint}, which speaks of x = 0; got {kind}."
    )
