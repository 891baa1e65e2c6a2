"""Priors on the weights of a linear model, in the units of the weights.

Most are Gaussian given their scales, so that the weights can be integrated out.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import Distribution, constraints

from bayeskern import hyperparameters as hyper
from bayeskern.core import validation
from bayeskern.hyperparameters import hyperparameter
from bayeskern.hyperparameters.parametrised import Parametrised

# A default scale lets a change of one sd of x change y by this many of its sds, as in rstanarm.
WEAK = 2.5


class Prior(Parametrised):
    """p(weights), for p features."""

    #: whether the weights are Gaussian given the scales
    gaussian: ClassVar[bool] = False
    #: whether the scales are in units of the sd of the noise
    per_noise: ClassVar[bool] = False
    #: whether the density has kinks, so that its mode may lie in one
    kinked: ClassVar[bool] = False
    #: whether it has latents of its own, beside its hyperparameters
    has_latents: ClassVar[bool] = False
    #: whether the density can be drawn from
    proper: ClassVar[bool] = True

    def with_defaults(self, sd_x, sd_y: float, n: int) -> Self:
        """A copy whose scales that are None let each of the features matter; sd_x: (p,)."""
        return self

    def shape(self, sd_x, sd_y: float) -> np.ndarray | None:
        """About the sds of the weights (p,), where only a common factor of them varies."""
        return None

    @abstractmethod
    def distribution(self, p: int, noise=None) -> Distribution:
        """Of the weights, event shape (p,), inside a NumPyro model. noise: its variance."""

    def sample(self) -> Self:
        return hyper.sample(self, "prior")


class GaussianGivenScales(Prior):
    """Weights that can be integrated out."""

    gaussian: ClassVar[bool] = True

    @abstractmethod
    def moments(self, p: int):
        """Sample the scales, inside a NumPyro model; the prior means and sds given them: (p,)."""

    def distribution(self, p, noise=None):
        loc, sd = self.moments(p)
        if self.per_noise:
            sd = sd * jnp.sqrt(noise)
        return dist.Normal(loc, sd).to_event(1)


class Gaussian(GaussianGivenScales):
    """weights_j ~ N(loc, scale^2): ridge regression.

    scale: one sd or one for each feature; a distribution makes it inferred, one of shape (p,)
    feature by feature. By default 2.5 sd(y) / sd(x_j). A single one that is inferred is shared, so
    that it wants features in like units.
    """

    scale: jax.Array | None = hyperparameter(None, scalar=False)
    loc: jax.Array = hyperparameter(0.0, constraints.real, scalar=False)

    def with_defaults(self, sd_x, sd_y, n):
        if self.scale is not None:
            return self
        return hyper.replace(self, [("scale",)], [_weak(sd_x, sd_y)])

    def shape(self, sd_x, sd_y):
        p = len(sd_x)
        if not hyper.is_specified(self.scale):
            return np.broadcast_to(np.asarray(self.scale), (p,))
        if hyper.shape(self.scale) != ():
            return None
        return np.full(p, sd_y / (np.sqrt(np.mean(np.square(sd_x))) or 1.0))

    def moments(self, p):
        own = self.sample()
        return _each("loc", own.loc, p), _each("scale", own.scale, p)


class Conjugate(Gaussian):
    """weights_j | noise ~ N(loc, noise scale^2): with an InverseGamma noise, all in closed form.

    scale: in sds of the noise, as is then the sd of the intercept's prior. By default 10 / sd(x_j),
    and 10 for the intercept.
    """

    per_noise: ClassVar[bool] = True

    def with_defaults(self, sd_x, sd_y, n):
        if self.scale is not None:
            return self
        return hyper.replace(self, [("scale",)], [_weak(sd_x, 10.0 / WEAK)])


class ARD(GaussianGivenScales):
    """weights_j ~ N(0, scale_j^2), each scale_j from the same prior: automatic relevance.

    scale: a distribution of one number, or `Free`. By default HalfCauchy(2.5 sd(y) / sd(x_j)).
    MacKay (1994); Neal (1996).
    """

    scale: jax.Array | None = hyperparameter(None, scalar=False)

    def with_defaults(self, sd_x, sd_y, n):
        if self.scale is not None:
            return self
        default = hyper.as_hyperparameter(dist.HalfCauchy(_weak(sd_x, sd_y)))
        return hyper.replace(self, [("scale",)], [default])

    def moments(self, p):
        scale = _for_each(self.scale, p)
        return jnp.zeros(p), _each("scale", hyper.sample_value("prior.scale", scale), p)


class Horseshoe(GaussianGivenScales):
    """The regularised horseshoe: most weights next to zero, a few free.

    weights_j = unit_j b_j, b_j ~ N(0, (tau l_j)^2 c^2 / (c^2 + (tau l_j)^2)), l_j ~ HalfCauchy(1),
    tau ~ HalfCauchy(scale), c^2 ~ InverseGamma(slab_df / 2, slab_df slab_scale^2 / 2). The sites
    are `prior.tau`, `prior.local` and `prior.slab` = c^2.

    unit: by default sd(y) / sd(x_j). scale: by default m / (p - m) / sqrt(n), where m is how many
    features are thought to be `relevant`. Piironen and Vehtari (2017), equations 2.8 and 3.12.
    """

    has_latents: ClassVar[bool] = True

    scale: jax.Array | None = hyperparameter(None)
    slab_scale: jax.Array = hyperparameter(2.5)
    slab_df: jax.Array = hyperparameter(4.0)
    unit: jax.Array | None = hyperparameter(None, scalar=False)
    relevant: int = eqx.field(
        static=True, default=1, converter=lambda m: validation.positive_integer(m, "relevant")
    )

    def with_defaults(self, sd_x, sd_y, n):
        p, m = len(sd_x), self.relevant
        if self.scale is None and m >= p:
            raise ValueError(
                f"relevant must be below the {p} features for a default scale, got {m}. Give "
                "scale=, or take priors.Gaussian."
            )
        new = self
        if self.scale is None:
            new = hyper.replace(new, [("scale",)], [np.asarray(m / (p - m) / np.sqrt(max(1, n)))])
        if self.unit is None:
            new = hyper.replace(new, [("unit",)], [_weak(sd_x, sd_y) / WEAK])
        return new

    def moments(self, p):
        tau = numpyro.sample("prior.tau", dist.HalfCauchy(self.scale))
        local = numpyro.sample("prior.local", dist.HalfCauchy(jnp.ones(p)).to_event(1))
        half = 0.5 * self.slab_df
        slab = numpyro.sample("prior.slab", dist.InverseGamma(half, half * self.slab_scale**2))
        free = jnp.square(tau * local)
        return jnp.zeros(p), _each("unit", self.unit, p) * jnp.sqrt(free * slab / (slab + free))


class Laplace(Prior):
    """weights_j ~ Laplace(0, scale): the lasso.

    scale: one, or one for each feature. By default 2.5 sd(y) / sd(x_j) / sqrt(2), the scale of the
    same sd as the default Gaussian. Park and Casella (2008).
    """

    kinked: ClassVar[bool] = True

    scale: jax.Array | None = hyperparameter(None, scalar=False)

    def with_defaults(self, sd_x, sd_y, n):
        if self.scale is not None:
            return self
        return hyper.replace(self, [("scale",)], [_weak(sd_x, sd_y) / np.sqrt(2.0)])

    def distribution(self, p, noise=None):
        own = self.sample()
        return dist.Laplace(jnp.zeros(p), _each("scale", own.scale, p)).to_event(1)


class Independent(Prior):
    """weights_j ~ any distribution of one number, or one of p numbers for all of them."""

    each: Distribution

    def distribution(self, p, noise=None):
        if self.each.event_shape == () and self.each.batch_shape in ((), (p,)):
            return self.each.expand([p]).to_event(1)
        if self.each.event_shape == (p,) and self.each.batch_shape == ():
            return self.each
        raise ValueError(
            f"prior has shape {self.each.shape()}, but there are {p} features: give a distribution "
            "of one number, or of one for each feature."
        )


class Flat(GaussianGivenScales):
    """An improper prior, density 1 everywhere: least squares, with no evidence."""

    proper: ClassVar[bool] = False

    def moments(self, p):
        return jnp.zeros(p), jnp.full(p, jnp.inf)

    def distribution(self, p, noise=None):
        return dist.ImproperUniform(constraints.real_vector, (), (p,))


# What a NumPyro distribution with fixed numbers stands for.
_KNOWN = {
    dist.Normal: lambda d: Gaussian(scale=d.scale, loc=d.loc),
    dist.Laplace: lambda d: Laplace(scale=d.scale) if not np.any(d.loc) else Independent(d),
}


def as_prior(value) -> Prior:
    """A prior, a NumPyro distribution of each weight, an sd, or None for the default."""
    if value is None:
        return Gaussian()
    if isinstance(value, Prior):
        return value
    if isinstance(value, Distribution):
        if value.support.is_discrete:
            raise ValueError(f"prior={type(value).__name__} is discrete; weights are real numbers.")
        return _KNOWN.get(type(value), Independent)(value)
    try:
        return Gaussian(scale=value)
    except TypeError:
        raise TypeError(
            "prior must be one of bayeskern.priors, a NumPyro distribution, or a standard "
            f"deviation; got {type(value).__name__}."
        ) from None


def _weak(sd_x, sd_y):
    """2.5 sd(y) / sd(x), for features that vary; for those that do not, 2.5 sd(y)."""
    sd_x = np.asarray(sd_x)
    return WEAK * sd_y / np.where(sd_x > 0, sd_x, 1.0)


def _for_each(scale, p: int):
    """The same prior, or start, for each of p numbers."""
    if not hyper.is_specified(scale) or hyper.shape(scale) != ():
        return scale
    if isinstance(scale, Distribution):
        return scale.expand([p]).to_event(1)
    return hyper.Free(jnp.full(p, scale.init))


def _each(name: str, value, p: int):
    if jnp.shape(value) not in ((), (p,)):
        raise ValueError(
            f"prior: {name} has shape {jnp.shape(value)}, but there are {p} features. Give one "
            "number, or one for each."
        )
    return jnp.broadcast_to(value, (p,))
