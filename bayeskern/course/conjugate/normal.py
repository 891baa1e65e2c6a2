"""Normal prior on a mean, with noise of known or unknown variance."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import scipy

from bayeskern.core import validation
from bayeskern.course.conjugate.model import ConjugateModel, above_0, finite
from bayeskern.likelihoods import Gaussian, Likelihood


class NormalNormal(ConjugateModel):
    """y_i ~ N(mu, noise), mu ~ N(mean, variance), with known noise.

    Precisions add up: the posterior precision of mu is 1 / variance + n / noise. The posterior mean
    is the precision-weighted average of the prior mean and the observations. An instance is a
    NumPyro model, model(y=None), with the site `mu`. The prior is worth noise / variance
    observations. A new observation is normal.

    Args:
        mean: The prior mean of mu, in the units of y.
        variance: The prior variance of mu, above 0.
        noise: The variance of y around mu, above 0.

    Raises:
        ValueError: If the mean is not finite, or a variance is not above 0.

    References:
        Gelman et al. (2013), Bayesian Data Analysis, section 2.5; Murphy (2007), Conjugate
        Bayesian analysis of the Gaussian distribution, section 2.

    Examples:
        >>> import bayeskern as bk
        >>> model = bk.NormalNormal.of(mean=0.0, strength=1.0, noise=4.0)
        >>> prediction = bk.infer(model, [3.0, 5.0, 4.0], method="exact").predict()
        >>> prediction.mean, prediction.variance
        (array([3.]), array([5.]))
    """

    likelihood: ClassVar[Likelihood] = Gaussian(1.0)

    mean: np.ndarray = eqx.field(converter=finite("mean"))
    variance: np.ndarray = eqx.field(converter=above_0("variance"))
    noise: np.ndarray = eqx.field(converter=above_0("noise"))

    @classmethod
    def of(cls, mean: float, strength: float, noise: float) -> Self:
        """The model whose prior is worth `strength` observations with this mean.

        Args:
            mean: The prior mean of mu, in the units of y.
            strength: The number of observations that the prior is worth, above 0.
            noise: The variance of y around mu, above 0.

        Returns:
            The model.

        Raises:
            ValueError: If mean is not finite, or strength or noise is not above 0.
        """
        noise = validation.positive(noise, "noise")
        return cls(mean, noise / validation.positive(strength, "strength"), noise)  # pyright: ignore[reportArgumentType]

    @property
    def strength(self) -> np.ndarray:
        """The number of observations that the prior is worth: noise / variance."""
        return self.noise / self.variance

    def parameters(self) -> dict:
        return {"mu": numpyro.sample("mu", dist.Normal(self.mean, jnp.sqrt(self.variance)))}

    def marginals(self) -> dict[str, dist.Distribution]:
        return {"mu": dist.Normal(self.mean, jnp.sqrt(self.variance))}

    def observation(self, mu) -> dist.Distribution:
        return dist.Normal(mu, jnp.sqrt(self.noise))

    def given(self, y) -> Self:
        precision = 1.0 / self.variance + y.size / self.noise
        mean = (self.mean / self.variance + y.sum() / self.noise) / precision
        return dataclasses.replace(self, mean=mean, variance=1.0 / precision)

    def new(self):
        return scipy.stats.norm(self.mean, np.sqrt(self.variance + self.noise))


class NormalGamma(ConjugateModel):
    """y_i ~ N(mu, 1 / precision), both unknown.

    precision ~ Gamma(a, b) and mu | precision ~ N(mean, 1 / (strength precision)). With S the sum
    of squares around the mean ybar of n observations, the posterior has the same form with

        strength -> strength + n,
        mean -> (strength mean + n ybar) / (strength + n),
        a -> a + n / 2,
        b -> b + S / 2 + strength n (ybar - mean)^2 / (2 (strength + n)).

    An instance is a NumPyro model, model(y=None), with the sites `precision` and `mu`. The prior is
    worth `strength` observations for mu and, for the precision, 2 a observations whose squared
    deviations from mu sum to 2 b. A new observation is Student t with 2 a degrees of freedom.

    Args:
        mean: The prior mean of mu, in the units of y.
        strength: The number of observations that the prior of mu is worth, above 0.
        a: The concentration of the gamma prior of the precision, above 0.
        b: The rate of the gamma prior of the precision, in the squared units of y, above 0.

    Raises:
        ValueError: If mean is not finite, or strength, a or b is not above 0.

    References:
        Murphy (2007), Conjugate Bayesian analysis of the Gaussian distribution, section 3; Gelman
        et al. (2013), Bayesian Data Analysis, section 3.3; Bishop (2006), Pattern Recognition and
        Machine Learning, section 2.3.6.

    Examples:
        >>> import bayeskern as bk
        >>> model = bk.NormalGamma.of(mean=0.0, variance=1.0, strength=1.0)
        >>> model.update([3.0, 5.0, 4.0])
        NormalGamma(mean=3, strength=4, a=2, b=7.5), worth 4 observations of mean 3
    """

    likelihood: ClassVar[Likelihood] = Gaussian(1.0)

    mean: np.ndarray = eqx.field(converter=finite("mean"))
    strength: np.ndarray = eqx.field(converter=above_0("strength"))
    a: np.ndarray = eqx.field(converter=above_0("a"))
    b: np.ndarray = eqx.field(converter=above_0("b"))

    @classmethod
    def of(cls, mean: float, variance: float, strength: float) -> Self:
        """The model whose prior is worth `strength` observations with this mean and variance.

        Args:
            mean: The prior mean of mu, in the units of y.
            variance: One over the prior mean of the precision, above 0.
            strength: The number of observations that the prior is worth, for mu and for the
                precision.

        Returns:
            The model.

        Raises:
            ValueError: If mean is not finite, or variance or strength is not above 0.
        """
        half = 0.5 * validation.positive(strength, "strength")
        return cls(mean, strength, half, half * validation.positive(variance, "variance"))

    def parameters(self) -> dict:
        precision = numpyro.sample("precision", dist.Gamma(self.a, self.b))
        sd = 1.0 / jnp.sqrt(self.strength * precision)
        return {"precision": precision, "mu": numpyro.sample("mu", dist.Normal(self.mean, sd))}

    def marginals(self) -> dict[str, dist.Distribution]:
        scale = jnp.sqrt(self.b / (self.a * self.strength))
        mu = dist.StudentT(2.0 * self.a, self.mean, scale)
        return {"precision": dist.Gamma(self.a, self.b), "mu": mu}

    def observation(self, precision, mu) -> dist.Distribution:
        return dist.Normal(mu, 1.0 / jnp.sqrt(precision))

    def given(self, y) -> Self:
        n, strength = y.size, self.strength + y.size
        # Squares around ybar, so that y far from 0 loses no digits.
        ybar = y.sum() / max(n, 1)
        squares = jnp.sum(jnp.square(y - ybar))
        squares += self.strength * n / strength * jnp.square(ybar - self.mean)
        return dataclasses.replace(
            self,
            mean=self.mean + n / strength * (ybar - self.mean),
            strength=strength,
            a=self.a + 0.5 * n,
            b=self.b + 0.5 * squares,
        )

    def new(self):
        scale = np.sqrt(self.b * (1.0 + 1.0 / self.strength) / self.a)
        return scipy.stats.t(2.0 * self.a, self.mean, scale)
