"""Priors on the weights of a linear model, in the units of the weights.

Most are Gaussian given their scales, so that the weights can be integrated out. Arguments that are
None are set from the data: see the defaults in each class.
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
from jax.scipy.linalg import solve_triangular
from numpy.typing import ArrayLike
from numpyro.distributions import Distribution, constraints

from bayeskern import hyperparameters as hyper
from bayeskern.core import validation
from bayeskern.hyperparameters import DefaultedHyperparameter, Hyperparameter, hyperparameter
from bayeskern.hyperparameters.parametrized import Parametrized

# Default scale of a weight in units of sd(y) / sd(x), as in rstanarm.
DEFAULT_SCALE_SDS = 2.5


class Prior(Parametrized):
    """The prior distribution of the weights of p features.

    To write a prior, subclass `Prior`, or `GaussianGivenScales` if the weights can be integrated
    out.

    Attributes:
        gaussian: Whether the weights are Gaussian given the scales.
        per_noise: Whether the scales are in units of the sd of the noise.
        kinked: Whether the density has kinks, where the mode may lie.
        has_latents: Whether the prior samples latents besides its hyperparameters.
        proper: Whether the density integrates to 1, so that the weights can be drawn.
        root: L of weights = L u, where `moments` are those of independent u; None for L = I.
    """

    gaussian: ClassVar[bool] = False
    per_noise: ClassVar[bool] = False
    kinked: ClassVar[bool] = False
    has_latents: ClassVar[bool] = False
    proper: ClassVar[bool] = True
    root: ClassVar[jax.Array | None] = None

    def with_defaults(self, sd_x: np.ndarray, sd_y: float, n: int) -> Self:
        """Copy in which scales that are None are set from the data.

        Args:
            sd_x: The standard deviations of the features, shape (p,).
            sd_y: The standard deviation of y, or of the linear predictor.
            n: The number of rows.

        Returns:
            The copy, or the prior itself if no scale is None.
        """
        return self

    def shape(self, sd_x: np.ndarray, sd_y: float) -> np.ndarray | None:
        """The sds of the weights up to a common factor, if they are known.

        Args:
            sd_x: The standard deviations of the features, shape (p,).
            sd_y: The standard deviation of y, or of the linear predictor.

        Returns:
            Relative sds, shape (p,); None if the ratios between them are inferred.
        """
        return None

    @abstractmethod
    def distribution(self, p: int, noise=None) -> Distribution:
        """The distribution of the weights, event shape (p,); may sample its scales.

        Args:
            p: The number of features.
            noise: The variance of the noise; None if the noise is not Gaussian.

        Returns:
            A NumPyro distribution.
        """

    def sample(self) -> Self:
        """Copy with the scales sampled inside a NumPyro model, at sites `prior.<name>`."""
        return hyper.sample(self, "prior")


class GaussianGivenScales(Prior):
    """A prior under which the weights are Gaussian given the scales."""

    gaussian: ClassVar[bool] = True

    @abstractmethod
    def moments(self, p: int) -> tuple[jax.Array, jax.Array]:
        """Sample the scales inside a NumPyro model.

        Args:
            p: The number of features.

        Returns:
            The means and standard deviations of the weights, shapes (p,).
        """

    def distribution(self, p: int, noise=None) -> Distribution:
        loc, sd = self.moments(p)
        if self.per_noise:
            assert noise is not None
            sd = sd * jnp.sqrt(noise)
        return dist.Normal(loc, sd).to_event(1)


class Gaussian(GaussianGivenScales):
    """Gaussian weights, for ridge regression: weights_j ~ N(loc_j, scale_j^2).

    Args:
        scale: The standard deviation: a number, or one for each feature, by default
            2.5 sd(y) / sd(x_j). A distribution is a prior on it. A distribution of one number
            gives all features a common scale, so they should have similar units.
        loc: The mean, one number or one for each feature.

    Examples:
        >>> from bayeskern import priors
        >>> priors.Gaussian([0.5, 2.0])
        Gaussian(scale=[0.5, 2.0], loc=0.0)
    """

    scale: DefaultedHyperparameter = hyperparameter(None, scalar=False)
    loc: Hyperparameter = hyperparameter(0.0, constraints.real, scalar=False)

    def with_defaults(self, sd_x: np.ndarray, sd_y: float, n: int) -> Self:
        return _with_scale(self, _default_scale(sd_x, sd_y))

    def shape(self, sd_x: np.ndarray, sd_y: float) -> np.ndarray | None:
        p = len(sd_x)
        if not hyper.is_specified(self.scale):
            return np.broadcast_to(np.asarray(self.scale), (p,))
        if hyper.shape(self.scale) != ():
            return None
        return np.full(p, sd_y / (np.sqrt(np.mean(np.square(sd_x))) or 1.0))

    def moments(self, p: int) -> tuple[jax.Array, jax.Array]:
        sampled = self.sample()
        return _per_feature("loc", sampled.loc, p), _per_feature("scale", sampled.scale, p)


class Conjugate(Gaussian):
    """Gaussian weights in units of the noise: weights_j | noise ~ N(loc_j, noise scale_j^2).

    With an InverseGamma prior on the noise, the posterior has a closed form.

    Args:
        scale: The standard deviation in units of the sd of the noise: a number, or one for each
            feature. The sd of the intercept has the same units. By default 10 / sd(x_j), and 10 for
            the intercept.
        loc: The mean: a number, or one for each feature.

    References:
        Bishop (2006), exercise 3.12; Gelman et al. (2013), section 14.2.
    """

    per_noise: ClassVar[bool] = True

    def with_defaults(self, sd_x: np.ndarray, sd_y: float, n: int) -> Self:
        return _with_scale(self, _default_scale(sd_x, 10.0 / DEFAULT_SCALE_SDS))


class MultivariateGaussian(GaussianGivenScales):
    """Correlated Gaussian weights: weights ~ N(loc, covariance).

    Args:
        covariance: The covariance matrix, (p, p).
        loc: The mean, one number or one for each feature.

    Raises:
        ValueError: If the matrix is not symmetric.
        NotPositiveDefiniteError: If the matrix is not positive definite.

    Examples:
        >>> from bayeskern import priors
        >>> priors.MultivariateGaussian([[1.0, 0.5], [0.5, 2.0]]).distribution(2).covariance_matrix
        Array([[1. , 0.5],
               [0.5, 2. ]], dtype=float64)
    """

    root: jax.Array = eqx.field(default=None)  # pyright: ignore[reportIncompatibleVariableOverride]
    loc: jax.Array = eqx.field(default=None)

    def __init__(self, covariance: ArrayLike, loc: ArrayLike = 0.0):
        self.root = jnp.asarray(validation.covariance_root(covariance, "prior_covariance"))
        self.loc = jnp.asarray(loc, float)

    def shape(self, sd_x: np.ndarray, sd_y: float) -> np.ndarray | None:
        return np.ones(len(sd_x))

    def moments(self, p: int) -> tuple[jax.Array, jax.Array]:
        return solve_triangular(self.root, self._mean(p), lower=True), jnp.ones(p)

    def distribution(self, p: int, noise=None) -> Distribution:
        return dist.MultivariateNormal(self._mean(p), scale_tril=self.root)

    def _mean(self, p: int) -> jax.Array:
        if len(self.root) != p:
            raise ValueError(
                f"prior_covariance is for {len(self.root)} weights, but there are {p} features."
            )
        return _per_feature("loc", self.loc, p)


class ARD(GaussianGivenScales):
    """Automatic relevance determination: weights_j ~ N(0, scale_j^2), each scale_j inferred.

    Args:
        scale: The prior of each scale_j: a distribution of one number, or `Free`. By default
            HalfCauchy(2.5 sd(y) / sd(x_j)).

    References:
        MacKay (1994), Bayesian non-linear modelling for the prediction competition; Neal (1996),
        Bayesian Learning for Neural Networks.
    """

    scale: DefaultedHyperparameter = hyperparameter(None, scalar=False)

    def with_defaults(self, sd_x: np.ndarray, sd_y: float, n: int) -> Self:
        prior = dist.HalfCauchy(_default_scale(sd_x, sd_y))
        return _with_scale(self, hyper.as_hyperparameter(prior))

    def moments(self, p: int) -> tuple[jax.Array, jax.Array]:
        scale = hyper.sample_value("prior.scale", _expanded(self.scale, p))
        return jnp.zeros(p), _per_feature("scale", scale, p)


class Horseshoe(GaussianGivenScales):
    """Regularized horseshoe: most weights are close to zero, a few are large.

    weights_j = unit_j b_j, b_j ~ N(0, (tau l_j)^2 c^2 / (c^2 + (tau l_j)^2)), l_j ~ HalfCauchy(1),
    tau ~ HalfCauchy(scale), c^2 ~ InverseGamma(slab_df / 2, slab_df slab_scale^2 / 2). The sites
    are `prior.tau`, `prior.local` (l) and `prior.slab` (c^2).

    Args:
        scale: The scale of tau; by default m / (p - m) / sqrt(n), with m = `relevant`.
        slab_scale: The scale of the large weights, in units of `unit`.
        slab_df: The degrees of freedom of the Student t distribution of the large weights.
        unit: The unit of each weight, unit_j; by default sd(y) / sd(x_j).
        relevant: The expected number of relevant features, used only for the default scale.

    References:
        Piironen and Vehtari (2017), Sparsity information and regularization in the horseshoe and
        other shrinkage priors, equations 2.8 and 3.12.
    """

    has_latents: ClassVar[bool] = True

    scale: DefaultedHyperparameter = hyperparameter(None)
    slab_scale: Hyperparameter = hyperparameter(2.5)
    slab_df: Hyperparameter = hyperparameter(4.0)
    unit: DefaultedHyperparameter = hyperparameter(None, scalar=False)
    relevant: int = eqx.field(
        static=True, default=1, converter=lambda m: validation.positive_integer(m, "relevant")
    )

    def with_defaults(self, sd_x: np.ndarray, sd_y: float, n: int) -> Self:
        p, m = len(sd_x), self.relevant
        if self.scale is None and m >= p:
            raise ValueError(
                f"relevant must be below the number of features, {p}, for a default scale; got "
                f"{m}. Give scale=, or use priors.Gaussian."
            )
        prior = self
        if self.scale is None:
            prior = _with_scale(prior, np.asarray(m / (p - m) / np.sqrt(max(1, n))))
        if self.unit is None:
            unit = _default_scale(sd_x, sd_y) / DEFAULT_SCALE_SDS
            prior = hyper.replace(prior, [("unit",)], [unit])
        return prior

    def moments(self, p: int) -> tuple[jax.Array, jax.Array]:
        tau = numpyro.sample("prior.tau", dist.HalfCauchy(self.scale))
        local = numpyro.sample("prior.local", dist.HalfCauchy(jnp.ones(p)).to_event(1))
        half_df = 0.5 * self.slab_df
        slab_prior = dist.InverseGamma(half_df, half_df * self.slab_scale**2)
        slab = numpyro.sample("prior.slab", slab_prior)
        horseshoe = jnp.square(tau * local)
        sd = jnp.sqrt(horseshoe * slab / (slab + horseshoe))
        return jnp.zeros(p), _per_feature("unit", self.unit, p) * sd


class Laplace(Prior):
    """Laplace weights, whose mode is the lasso: weights_j ~ Laplace(0, scale_j).

    Args:
        scale: A number, or one for each feature. By default 2.5 sd(y) / sd(x_j) / sqrt(2), which
            gives the same sd as the default `Gaussian`.

    References:
        Park and Casella (2008), The Bayesian lasso.
    """

    kinked: ClassVar[bool] = True

    scale: DefaultedHyperparameter = hyperparameter(None, scalar=False)

    def with_defaults(self, sd_x: np.ndarray, sd_y: float, n: int) -> Self:
        return _with_scale(self, _default_scale(sd_x, sd_y) / np.sqrt(2.0))

    def distribution(self, p: int, noise=None) -> Distribution:
        scale = _per_feature("scale", self.sample().scale, p)
        return dist.Laplace(jnp.zeros(p), scale).to_event(1)


class Independent(Prior):
    """Weights from any NumPyro distribution.

    Args:
        each: The distribution of each weight, or of all p weights together.
    """

    each: Distribution

    def distribution(self, p: int, noise=None) -> Distribution:
        if self.each.event_shape == () and self.each.batch_shape in ((), (p,)):
            return self.each.expand([p]).to_event(1)
        if self.each.event_shape == (p,) and self.each.batch_shape == ():
            return self.each
        raise ValueError(
            f"prior has shape {self.each.shape()}, but there are {p} features: give a distribution "
            f"of one number, or of {p} numbers."
        )


class Flat(GaussianGivenScales):
    """The improper prior with density 1 everywhere: the mode is the least-squares fit.

    It has no log marginal likelihood and no prior draws. It may also be passed as `intercept=`.
    """

    proper: ClassVar[bool] = False

    def moments(self, p: int) -> tuple[jax.Array, jax.Array]:
        return jnp.zeros(p), jnp.full(p, jnp.inf)

    def distribution(self, p: int, noise=None) -> Distribution:
        return dist.ImproperUniform(constraints.real_vector, (), (p,))


def as_prior(value) -> Prior:
    """Read `prior`: a `Prior`, a distribution of each weight, or None."""
    if value is None:
        return Gaussian()
    if isinstance(value, Prior):
        return value
    if isinstance(value, Distribution):
        if value.is_discrete:
            raise ValueError(f"prior={type(value).__name__} is discrete; weights are real numbers.")
        if type(value) is dist.Normal:
            return Gaussian(scale=value.scale, loc=value.loc)
        if type(value) is dist.Laplace and not np.any(value.loc):
            return Laplace(scale=value.scale)
        known = not validation.is_traced(getattr(value, "scale_tril", None))
        if type(value) is dist.MultivariateNormal and value.batch_shape == () and known:
            return MultivariateGaussian(np.asarray(value.covariance_matrix), value.loc)
        return Independent(value)
    raise TypeError(
        "prior must be one of bayeskern.priors or a NumPyro distribution, got "
        f"{type(value).__name__}. For a standard deviation write prior_sd=2.0."
    )


def gaussian_prior(sd, prior) -> Gaussian:
    """Read `prior_sd`, the sd of Gaussian weights; raise ValueError if `prior` is given too."""
    if prior is not None:
        raise ValueError(
            "prior and prior_sd both set the prior on the weights: give one of them. prior_sd=2.0 "
            "is short for prior=priors.Gaussian(2.0)."
        )
    if isinstance(sd, Prior):
        raise TypeError(f"prior_sd is the sd of Gaussian weights. Write prior={sd!r}.")
    hyper.check("prior_sd", hyper.as_hyperparameter(sd, "prior_sd"), constraints.positive)
    return Gaussian(scale=sd)


def _with_scale[P: Prior](prior: P, default) -> P:
    """Copy with the default scale if `scale` is None, else the prior itself."""
    has_scale = hyper.get(prior, ("scale",)) is not None
    return prior if has_scale else hyper.replace(prior, [("scale",)], [default])


def _default_scale(sd_x, sd_y):
    """2.5 sd(y) / sd(x), or 2.5 sd(y) for constant features: (p,)."""
    sd_x = np.asarray(sd_x)
    return DEFAULT_SCALE_SDS * sd_y / np.where(sd_x > 0, sd_x, 1.0)


def _expanded(scale, p: int):
    """A prior or `Free` of one scale, expanded to p scales; anything else unchanged."""
    if not hyper.is_specified(scale) or hyper.shape(scale) != ():
        return scale
    if isinstance(scale, Distribution):
        return scale.expand([p]).to_event(1)
    return hyper.Free(jnp.full(p, scale.init))


def _per_feature(name: str, value, p: int):
    """Broadcast a value to p features: (p,)."""
    if jnp.shape(value) not in ((), (p,)):
        raise ValueError(
            f"prior: {name} has shape {jnp.shape(value)}, but there are {p} features. Give one "
            f"number, or {p} numbers."
        )
    return jnp.broadcast_to(value, (p,))
