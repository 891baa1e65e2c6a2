"""Beta prior on a probability, of heads and tails."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Self

import equinox as eqx
import numpy as np
import numpyro
import numpyro.distributions as dist
import scipy

from bayeskern.core import validation
from bayeskern.course.conjugate.model import ConjugateModel, above_0
from bayeskern.likelihoods import Binomial, Likelihood


class BetaBernoulli(ConjugateModel):
    """y_i ~ Bernoulli(p), p ~ Beta(a, b), so p | y ~ Beta(a + heads, b + tails).

    An instance is a NumPyro model, model(y=None), with the site `p`. y are 0 or 1 or,
    with `trials=`, numbers of successes in `trials` trials. The prior is worth a + b trials, a of
    them heads. A new observation is Bernoulli, or beta-binomial for several trials.

    Args:
        a: The number of heads that the prior is worth, above 0.
        b: The number of tails that the prior is worth, above 0.

    Raises:
        ValueError: If a or b is not above 0.

    References:
        Gelman et al. (2013), Bayesian Data Analysis, section 2.4; Diaconis and Ylvisaker (1979),
        Conjugate priors for exponential families.

    Examples:
        >>> import bayeskern as bk
        >>> coin = bk.BetaBernoulli.of(mean=0.5, strength=10)
        >>> coin
        BetaBernoulli(a=5, b=5), worth 10 observations of mean 0.5
        >>> posterior = bk.infer(coin, [1, 1, 0, 1, 1], method="exact")
        >>> posterior.predict().mean
        array([0.6])
        >>> posterior.predict(trials=10).interval(0.9)
        (array([3.]), array([9.]))
    """

    likelihood: ClassVar[Likelihood] = Binomial()
    extra_defaults: ClassVar[dict[str, float]] = {"trials": 1.0}

    a: np.ndarray = eqx.field(converter=above_0("a"))
    b: np.ndarray = eqx.field(converter=above_0("b"))

    @classmethod
    def of(cls, mean: float, strength: float) -> Self:
        """The model whose prior is worth `strength` trials, a share `mean` of them heads.

        Args:
            mean: The prior mean of p, between 0 and 1.
            strength: The number of trials that the prior is worth, above 0.

        Returns:
            The model.

        Raises:
            ValueError: If mean is not between 0 and 1, or strength is not above 0.
        """
        mean, strength = validation.level(mean, "mean"), validation.positive(strength, "strength")
        return cls(strength * mean, strength * (1.0 - mean))

    @property
    def mean(self) -> np.ndarray:
        """The prior mean of p."""
        return self.a / self.strength

    @property
    def strength(self) -> np.ndarray:
        """The number of trials that the prior is worth: a + b."""
        return self.a + self.b

    def parameters(self) -> dict:
        return {"p": numpyro.sample("p", dist.Beta(self.a, self.b))}

    def marginals(self) -> dict[str, dist.Distribution]:
        return {"p": dist.Beta(self.a, self.b)}

    def observation(self, p, trials) -> dist.Distribution:
        return dist.Binomial(trials.astype(int), p)

    def given(self, y, trials) -> Self:
        return dataclasses.replace(self, a=self.a + y.sum(), b=self.b + (trials - y).sum())

    def new(self, trials=1):
        return scipy.stats.betabinom(trials, self.a, self.b)
