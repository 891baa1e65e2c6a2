"""Likelihoods of counts: Poisson, negative binomial, zero-inflated, binomial."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from jax.scipy.special import gammaln
from numpy.typing import ArrayLike
from numpyro.distributions import Distribution, constraints

from bayeskern.core import validation
from bayeskern.hyperparameters import Hyperparameter, hyperparameter
from bayeskern.likelihoods.base import Likelihood
from bayeskern.likelihoods.distributions import (
    BinomialLogProbs,
    NegativeBinomialLogMean,
    PoissonLogMean,
    log_rising,
)
from bayeskern.likelihoods.links import LOG_MEANS, LOG_PROBABILITIES, log1mexp, log_odds
from bayeskern.likelihoods.positive import PositiveMean, on_inverse_root


class Count(PositiveMean):
    """Whole numbers of at least 0 with mean exposure * g^-1(eta).

    The exposure, (n,), is the time, area or population at risk; 1 by default.
    """

    links: ClassVar = ("log", "identity", "softplus")
    needs: ClassVar = {"exposure": 1.0}
    support_description: ClassVar = "a whole number of at least 0"

    def in_support(self, y: np.ndarray, exposure: np.ndarray) -> np.ndarray:
        return (y >= 0) & (y == np.round(y))


class Poisson(Count):
    """Counts: y ~ Poisson(exposure * g^-1(eta)).

    `exposure=` is the time, area or population at risk of each row: a number or n numbers, 1 by
    default. Under the link `identity` the density is 0 for eta <= 0.

    Args:
        link: "log" (default), "identity" or "softplus".

    Examples:
        >>> from bayeskern import likelihoods
        >>> likelihoods.Poisson().mean(0.0, exposure=2.0)
        Array(2., dtype=float64, weak_type=True)
    """

    def of_log_mean(self, log_mean: Array, exposure: Array) -> Distribution:
        return PoissonLogMean(log_mean + jnp.log(exposure))

    def natural_parameter(self, eta: Array, exposure: Array) -> Array:
        return LOG_MEANS[self.link_name](eta) + jnp.log(exposure)

    def log_normalizer(self, theta: Array, **extra: Array) -> Array:
        return jnp.exp(theta)

    def base_measure(self, y: Array, **extra: Array) -> Array:
        return jnp.exp(-gammaln(y + 1.0))


class NegativeBinomial(Count):
    """Overdispersed counts: mean mu = exposure * g^-1(eta), variance mu + mu^2 / concentration.

    It is a mixture of Poisson distributions whose rates have the coefficient of variation
    1 / sqrt(concentration). `exposure=` is as in `Poisson`. Under the link `identity` the density
    is 0 for eta <= 0.

    Args:
        concentration: By default 1 / sqrt(concentration) is HalfNormal(1). Its density is
            positive at 0, the limit in which y is Poisson.
        link: "log" (default), "identity" or "softplus".

    References:
        Simpson, Rue, Riebler, Martins and Sorbye (2017), Penalising model component complexity
        (priors that allow the simpler model).
    """

    concentration: Hyperparameter = hyperparameter(on_inverse_root(dist.HalfNormal(1.0)))

    @property
    def log_concave(self) -> bool:
        return self.link_name == "log"

    def of_log_mean(self, log_mean: Array, exposure: Array) -> Distribution:
        return NegativeBinomialLogMean(log_mean + jnp.log(exposure), self.concentration)

    def natural_parameter(self, eta: Array, exposure: Array) -> Array:
        log_mean = LOG_MEANS[self.link_name](eta) + jnp.log(exposure)
        return -jax.nn.softplus(jnp.log(self.concentration) - log_mean)

    def log_normalizer(self, theta: Array, **extra: Array) -> Array:
        return -self.concentration * log1mexp(-theta)

    def base_measure(self, y: Array, **extra: Array) -> Array:
        return jnp.exp(log_rising(self.concentration, y) - gammaln(y + 1.0))


class ZeroInflated(NegativeBinomial):
    """Counts with excess zeros: 0 with probability `gate`, else negative binomial.

    The mean is (1 - gate) mu, where mu = exposure * g^-1(eta) is the mean of the negative binomial.
    `exposure=` is as in `Poisson`.

    Args:
        concentration: As in `NegativeBinomial`; as it grows, the counts approach a Poisson
            distribution.
        gate: Probability of an excess zero. Uniform(0, 1) by default.
        link: "log" (default), "identity" or "softplus".

    References:
        Lambert (1992), Zero-inflated Poisson regression, with an application to defects in
        manufacturing.
    """

    gate: Hyperparameter = hyperparameter(
        dist.Uniform(0.0, 1.0), constraint=constraints.unit_interval
    )

    # A mixture of exponential families is not one.
    natural_parameter = Likelihood.natural_parameter  # pyright: ignore[reportAssignmentType]
    log_normalizer = Likelihood.log_normalizer
    base_measure = Likelihood.base_measure

    @property
    def log_concave(self) -> bool:
        return False

    def of_log_mean(self, log_mean: Array, exposure: Array) -> Distribution:
        counts = super().of_log_mean(log_mean, exposure)
        return dist.ZeroInflatedDistribution(counts, gate=self.gate)

    def vanishing_tails(self, y: np.ndarray, **extra: Array) -> tuple[np.ndarray, np.ndarray]:
        # At y = 0 the density never vanishes, because a zero may come from the gate.
        high, low = super().vanishing_tails(y, **extra)
        return high & (y > 0), low


class Binomial(Likelihood):
    """Successes in a known number of trials: y ~ Binomial(trials, g^-1(eta)).

    `trials=` is the number of trials of each row: one whole number or n. `prepare` raises
    ValueError if trials is not given, or if y exceeds it.

    Args:
        link: "logit" (default), "probit" or "cloglog".
    """

    links: ClassVar = ("logit", "probit", "cloglog")
    needs: ClassVar = {"trials": None}
    support_description: ClassVar = "a whole number from 0 to trials"

    def distribution(self, eta: Array, trials: Array) -> BinomialLogProbs:
        return BinomialLogProbs(*LOG_PROBABILITIES[self.link_name](eta), trials)

    def natural_parameter(self, eta: Array, **extra: Array) -> Array:
        return log_odds(self.link_name, eta)

    def log_normalizer(self, theta: Array, trials: Array) -> Array:
        return trials * jax.nn.softplus(theta)

    def base_measure(self, y: Array, trials: Array) -> Array:
        return jnp.exp(gammaln(trials + 1.0) - gammaln(y + 1.0) - gammaln(trials - y + 1.0))

    def vanishing_tails(self, y: np.ndarray, trials: Array) -> tuple[np.ndarray, np.ndarray]:
        return y < trials, y > 0

    def in_support(self, y: np.ndarray, trials: np.ndarray) -> np.ndarray:
        return (y >= 0) & (y <= trials) & (y == np.round(y))

    def _read_one_extra(
        self, name: str, value: ArrayLike | None, default: float | None, n: int
    ) -> Array:
        array = super()._read_one_extra(name, value, default, n)
        if not validation.is_traced(array):
            whole = np.asarray(array) == np.round(np.asarray(array))
            if not whole.all():
                row = int(np.argmin(whole))
                raise ValueError(f"{name} must be whole numbers; row {row} has {array[row]}.")
        return array
