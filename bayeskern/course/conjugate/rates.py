"""Gamma prior on a rate, of counts or of waiting times."""

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
from bayeskern.course.conjugate.model import ConjugateModel, above_0
from bayeskern.likelihoods import Exponential, Likelihood, Poisson


class GammaRate(ConjugateModel):
    """Base of models with rate ~ Gamma(a, b): worth a events in the time b."""

    a: np.ndarray = eqx.field(converter=above_0("a"))
    b: np.ndarray = eqx.field(converter=above_0("b"))

    def parameters(self) -> dict:
        return {"rate": numpyro.sample("rate", dist.Gamma(self.a, self.b))}

    def marginals(self) -> dict[str, dist.Distribution]:
        return {"rate": dist.Gamma(self.a, self.b)}

    def after(self, events, time) -> Self:
        """The model after `events` more events in `time` more units of time."""
        return dataclasses.replace(self, a=self.a + events, b=self.b + time)


class GammaPoisson(GammaRate):
    """y_i ~ Poisson(rate), rate ~ Gamma(a, b), so rate | y ~ Gamma(a + sum(y), b + n).

    An instance is a NumPyro model, model(y=None), with the site `rate`. For counts over
    unequal times, areas or populations, pass these as `exposure=`: y_i ~ Poisson(exposure_i rate),
    and b grows by the sum of the exposures. The prior is worth b observations with counts
    that sum to a. A new observation is negative binomial.

    Args:
        a: The number of events that the prior is worth, above 0.
        b: The number of observations, or the exposure, that the prior is worth, above 0.

    Raises:
        ValueError: If a or b is not above 0.

    References:
        Gelman et al. (2013), Bayesian Data Analysis, section 2.6; Diaconis and Ylvisaker (1979),
        Conjugate priors for exponential families.

    Examples:
        Rate of asthma deaths per 100,000 people, after three deaths in a year in a city of 200,000
        (Gelman et al. 2013):

        >>> import bayeskern as bk
        >>> model = bk.GammaPoisson(3.0, 5.0).update([3], exposure=2.0)
        >>> model
        GammaPoisson(a=6, b=7), worth 7 observations of mean 0.857
        >>> bk.infer(model, method="exact").predict(exposure=2.0).mean.round(2)
        array([1.71])
    """

    likelihood: ClassVar[Likelihood] = Poisson()

    @classmethod
    def of(cls, mean: float, strength: float) -> Self:
        """The model whose prior is worth `strength` observations with this mean.

        Args:
            mean: The prior mean of the rate, above 0.
            strength: The number of observations, of exposure 1, that the prior is worth, above 0.

        Returns:
            The model.

        Raises:
            ValueError: If mean or strength is not above 0.
        """
        strength = validation.positive(strength, "strength")
        return cls(strength * validation.positive(mean, "mean"), strength)

    @property
    def mean(self) -> np.ndarray | float:
        """The prior mean of the rate: a / b."""
        return self.a / self.b

    @property
    def strength(self) -> np.ndarray:
        """The number of observations that the prior is worth: b."""
        return self.b

    def observation(self, rate, exposure) -> dist.Distribution:
        return dist.Poisson(exposure * rate)

    def given(self, y, exposure) -> Self:
        return self.after(y.sum(), exposure.sum())

    def new(self, exposure=1.0):
        return scipy.stats.nbinom(self.a, self.b / (self.b + exposure))


class GammaExponential(GammaRate):
    """y_i ~ Exponential(rate), rate ~ Gamma(a, b), so rate | y ~ Gamma(a + n, b + sum(y)).

    An instance is a NumPyro model, model(y=None), with the site `rate`; y are waiting times.
    The prior is worth a - 1 waiting times with the sum b; if a <= 1, the expected waiting time is
    infinite. A new observation has a Lomax distribution (a Pareto distribution that starts at 0).

    Args:
        a: One more than the number of waiting times that the prior is worth, above 0.
        b: The sum of these waiting times, above 0.

    Raises:
        ValueError: If a or b is not above 0.

    References:
        Gelman et al. (2013), Bayesian Data Analysis, section 2.6; Diaconis and Ylvisaker (1979),
        Conjugate priors for exponential families.

    Examples:
        >>> import bayeskern as bk
        >>> model = bk.GammaExponential.of(mean=2.0, strength=3.0)
        >>> bk.infer(model, [1.0, 2.0, 4.0], method="exact").predict().mean.round(3)
        array([2.167])
    """

    likelihood: ClassVar[Exponential] = Exponential()  # pyright: ignore[reportIncompatibleVariableOverride]

    @classmethod
    def of(cls, mean: float, strength: float) -> Self:
        """The model whose prior is worth `strength` waiting times with this mean.

        Args:
            mean: The expected waiting time under the prior, above 0.
            strength: The number of waiting times that the prior is worth, above 0.

        Returns:
            The model.

        Raises:
            ValueError: If mean or strength is not above 0.
        """
        strength = validation.positive(strength, "strength")
        return cls(strength + 1.0, strength * validation.positive(mean, "mean"))

    @property
    def mean(self) -> np.ndarray | float:
        """The expected waiting time under the prior: b / (a - 1); infinite if a <= 1."""
        return self.b / self.strength if self.strength > 0 else np.inf

    @property
    def strength(self) -> np.ndarray:
        """The number of waiting times that the prior is worth: a - 1."""
        return self.a - 1.0

    def observation(self, rate) -> dist.Distribution:
        # NumPyro's exponential distribution excludes a waiting time of 0.
        return self.likelihood.of_log_mean(-jnp.log(rate))

    def given(self, y) -> Self:
        return self.after(y.size, y.sum())

    def new(self):
        return scipy.stats.lomax(self.a, scale=self.b)
