"""Likelihoods of real numbers: Gaussian, Student t, Laplace, heteroscedastic Gaussian."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Self

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from numpyro.distributions import Distribution

from bayeskern.hyperparameters import (
    DefaultedHyperparameter,
    Hyperparameter,
    from_sd,
    hyperparameter,
)
from bayeskern.likelihoods.base import Likelihood


def _robust_sd(y: np.ndarray) -> float:
    """sd estimated by the median absolute deviation (MAD); ordinary sd if MAD is 0."""
    # sd / MAD of a Gaussian.
    return 1.4826022185056018 * np.median(np.abs(y - np.median(y))) or np.std(y)


class RealValued(Likelihood):
    """Likelihood of real numbers; eta has the units of y.

    Attributes:
        center: Estimator of the location of y.
        spread: Estimator of the standard deviation of y.
    """

    center: ClassVar[Callable] = staticmethod(np.mean)
    spread: ClassVar[Callable] = staticmethod(np.std)

    def eta_location_scale(self, y: np.ndarray, extra: Mapping[str, Array]) -> tuple[float, float]:
        y = np.asarray(y)
        location, sd = float(self.center(y)), float(self.spread(y))
        return location, sd if sd > 0.0 else max(abs(location), 1.0)

    def spread_of(self, y: np.ndarray) -> float:
        """Spread of y; exactly 0 if y is constant."""
        return 0.0 if np.ptp(y) == 0.0 else float(self.spread(y))

    def default_prior(self, name: str, sd: float, level: float, n: int) -> Distribution:
        """Exponential prior with mean sd for the hyperparameter `name`.

        Raises ValueError if sd is 0: y has the value `level` in all n rows.
        """
        if not sd > 0.0:
            kind = type(self).__name__
            raise ValueError(
                f"y is constant ({float(level)} in all {n} rows), so the default prior on {name} "
                f"has no scale. Give {name} a number, as in {kind}({name}=1.0), or a prior."
            )
        return dist.Exponential(1.0 / sd)


class HeavyTailed(RealValued):
    """Likelihood with heavy tails and a `scale`, whose default prior resists outliers."""

    center: ClassVar[Callable] = staticmethod(np.median)
    spread: ClassVar[Callable] = staticmethod(_robust_sd)

    def with_default_priors(self, y: np.ndarray) -> Self:
        # Subclasses declare the field `scale`, because its position among their arguments differs.
        if self.scale is not None:  # pyright: ignore[reportAttributeAccessIssue]
            return self
        prior = self.default_prior("scale", self.spread_of(y), y[0], len(y))
        return self.with_hyperparameters(scale=prior)


class NormalDensity(RealValued):
    """Likelihood with a normal density, an exponential family with T(y) = (y, y^2)."""

    def natural_parameter(self, eta: Array) -> Array:
        normal = self.distribution(eta)
        return jnp.stack([normal.mean, jnp.full_like(normal.mean, -0.5)], -1) / jnp.expand_dims(
            normal.variance, -1
        )

    def sufficient_statistic(self, y: Array) -> Array:
        return jnp.stack([y, jnp.square(y)], -1)

    def log_normalizer(self, theta: Array) -> Array:
        linear, quadratic = theta[..., 0], theta[..., 1]
        return -jnp.square(linear) / (4.0 * quadratic) - 0.5 * jnp.log(-2.0 * quadratic)

    def base_measure(self, y: Array) -> Array:
        return jnp.full(jnp.shape(y), 1.0 / jnp.sqrt(2.0 * jnp.pi))


class Gaussian(NormalDensity):
    """Real numbers with Gaussian noise: y ~ N(eta, noise).

    Args:
        noise: Variance. By default its square root is Exponential with mean sd(y); `prepare` then
            raises ValueError if y is constant.
    """

    noise: DefaultedHyperparameter = hyperparameter(None)

    def distribution(self, eta: Array) -> dist.Normal:
        # `prepare` replaces None by a prior.
        return dist.Normal(eta, jnp.sqrt(self.noise))  # pyright: ignore[reportArgumentType]

    @property
    def noise_variance(self) -> Array | None:
        """Variance of the noise."""
        return self.noise

    def with_default(self, sd: float, level: float, n: int) -> Self:
        """Copy with the default prior on the noise of n values, unless the noise is given.

        Args:
            sd: Standard deviation of the values.
            level: The constant value if sd is 0, for the error message.
            n: Number of values.

        Returns:
            The copy.

        Raises:
            ValueError: If sd is 0 and the noise is not given.
        """
        if self.noise is not None:
            return self
        return self.with_hyperparameters(noise=from_sd(self.default_prior("noise", sd, level, n)))

    def with_default_priors(self, y: np.ndarray) -> Self:
        return self.with_default(self.spread_of(y), y[0], len(y))


class StudentT(HeavyTailed):
    """Real numbers with outliers: y = eta + scale * e, where e is Student t with df.

    It is not log-concave: the posterior of eta may have several modes. `mean` is eta, which is the
    median for every df and the mean for df > 1.

    Args:
        df: Degrees of freedom, Gamma(2, 0.1) by default.
        scale: Scale, in the units of y. By default Exponential with a mean that resists outliers:
            1.4826 times the median absolute deviation of y, or sd(y) if more than half of the
            values are equal. `prepare` then raises ValueError if y is constant.

    References:
        Juarez and Steel (2010), Model-based clustering of non-Gaussian panel data.
    """

    df: Hyperparameter = hyperparameter(dist.Gamma(2.0, 0.1))
    scale: DefaultedHyperparameter = hyperparameter(None)

    log_concave: ClassVar = False

    def distribution(self, eta: Array) -> dist.StudentT:
        return dist.StudentT(self.df, eta, self.scale)

    def mean(self, eta: Array) -> Array:
        """eta: (n,)."""
        return eta


class Laplace(HeavyTailed):
    """Real numbers, for median regression: p(y) = exp(-|y - eta| / scale) / (2 scale).

    The log density has a kink at eta = y, and no curvature elsewhere.

    Args:
        scale: Scale, in the units of y. By default Exponential with mean 1.4826 times the
            median absolute deviation of y, or sd(y) if more than half of the values are equal.
            `prepare` then raises ValueError if y is constant.
    """

    scale: DefaultedHyperparameter = hyperparameter(None)

    kinked: ClassVar = True

    def distribution(self, eta: Array) -> dist.Laplace:
        return dist.Laplace(eta, self.scale)


class Heteroscedastic(NormalDensity):
    """Real numbers whose noise varies: y ~ N(eta_0, exp(eta_1)^2), eta of shape (n, 2).

    The mean and the log sd each have a predictor. There are no hyperparameters: the sd has the
    units of y, so the prior on eta_1 should allow for the scale of y.
    """

    multivariate: ClassVar = True
    log_concave: ClassVar = False

    @property
    def outputs(self) -> int:
        return 2

    def distribution(self, eta: Array) -> dist.Normal:
        return dist.Normal(eta[..., 0], jnp.exp(eta[..., 1]))

    def eta_location_scale(self, y: np.ndarray, extra: Mapping[str, Array]) -> tuple[float, float]:
        """Location 0 and one sd for both outputs: max(|mean(y)| + sd(y), 1)."""
        mean, sd = super().eta_location_scale(y, extra)
        return 0.0, max(abs(mean) + sd, 1.0)
