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
from scipy import special
from scipy.special import betainc, betaln, expit, pdtr

from bayeskern.core import validation
from bayeskern.hyperparameters import Hyperparameter, hyperparameter
from bayeskern.likelihoods.analytic import Analytic, Dispersed, Values
from bayeskern.likelihoods.base import Likelihood
from bayeskern.likelihoods.distributions import (
    BinomialLogProbs,
    NegativeBinomialLogMean,
    PoissonLogMean,
    log_rising,
)
from bayeskern.likelihoods.links import LOG_MEANS, LOG_PROBABILITIES, log1mexp, log_odds
from bayeskern.likelihoods.positive import PositiveMean, on_inverse_root
from bayeskern.prediction.response_mixture import MAX_MEAN


class Count(PositiveMean):
    """Whole numbers of at least 0 with mean exposure * g^-1(eta).

    The exposure, (n,), is the time, area or population at risk; 1 by default.
    """

    links: ClassVar = ("log", "identity", "softplus")
    needs: ClassVar = {"exposure": 1.0}
    support_description: ClassVar = "a whole number of at least 0"

    def in_support(self, y: np.ndarray, exposure: np.ndarray) -> np.ndarray:
        return (y >= 0) & (y == np.round(y))

    def location_scale(self, y: np.ndarray) -> tuple[float, float]:
        """Estimate the location and the standard deviation of eta = log E[y] from counts y."""
        # Variance in excess of Poisson noise, at least the standard error of the variance.
        # exp(f) with f ~ N(m, s^2) has squared coefficient of variation exp(s^2) - 1.
        mean, variance = np.mean(y), np.var(y)
        excess = max(variance - mean, np.sqrt(2.0 / len(y)) * variance)
        return float(np.log(mean)), float(np.sqrt(np.log1p(excess / mean**2)))


class Poisson(Count, Analytic):
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

    title: ClassVar = "Poisson counts"

    def of_log_mean(self, log_mean: Array, exposure: Array) -> Distribution:
        return PoissonLogMean(log_mean + jnp.log(exposure))

    def natural_parameter(self, eta: Array, exposure: Array) -> Array:
        return LOG_MEANS[self.link_name](eta) + jnp.log(exposure)

    def log_normalizer(self, theta: Array, **extra: Array) -> Array:
        return jnp.exp(theta)

    def base_measure(self, y: Array, **extra: Array) -> Array:
        return jnp.exp(-gammaln(y + 1.0))

    @classmethod
    def log_density(cls, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        return y * f - np.exp(f) - special.gammaln(y + 1.0)

    @classmethod
    def slope(cls, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        return y - np.exp(f)

    @classmethod
    def curvature(cls, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        return np.exp(f)

    @classmethod
    def below(cls, y: Values, f: Values, theta: np.ndarray) -> np.ndarray:
        return pdtr(y, np.exp(f))

    def moments(self, f: Values, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.exp(f), np.exp(f)

    def draw(self, rng: np.random.Generator, f: Values, theta: np.ndarray) -> np.ndarray:
        return rng.poisson(np.minimum(np.exp(f), MAX_MEAN)).astype(float)


class NegativeBinomial(Count, Dispersed):
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

    title: ClassVar = "negative binomial counts"

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

    @classmethod
    def log_density(cls, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        log_r = theta[0]
        r = np.exp(log_r)
        # log [Gamma(r + y) / (Gamma(r) y!)] = -log [y B(r, y)], without cancellation.
        positive = np.maximum(y, 1.0)
        log_coefficient = np.where(y > 0, -np.log(positive) - betaln(r, positive), 0.0)
        log_odds = f - log_r
        return log_coefficient - r * np.logaddexp(0.0, log_odds) - y * np.logaddexp(0.0, -log_odds)

    @classmethod
    def slope(cls, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        log_r = theta[0]
        return y - (y + np.exp(log_r)) * expit(f - log_r)

    @classmethod
    def curvature(cls, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        log_r = theta[0]
        return (y + np.exp(log_r)) * expit(f - log_r) * expit(log_r - f)

    @classmethod
    def below(cls, y: Values, f: Values, theta: np.ndarray) -> np.ndarray:
        return betainc(np.exp(theta[0]), np.floor(y) + 1.0, expit(theta[0] - f))

    def moments(self, f: Values, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean = np.exp(f)
        return mean, mean + mean * np.exp(f - theta[0])

    def draw(self, rng: np.random.Generator, f: Values, theta: np.ndarray) -> np.ndarray:
        r = np.exp(theta[0])
        rate = rng.gamma(r, np.exp(f) / r)
        return rng.poisson(np.minimum(rate, MAX_MEAN)).astype(float)


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

    middle: ClassVar = (*Dispersed.middle, 0.0)
    title: ClassVar = "zero-inflated counts"

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

    @classmethod
    def log_density(cls, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        log_gate, log_open = -np.logaddexp(0.0, -theta[1]), -np.logaddexp(0.0, theta[1])
        count_log_joint = log_open + super().log_density(f, y, theta)
        return np.where(y > 0, count_log_joint, np.logaddexp(log_gate, count_log_joint))

    @classmethod
    def slope(cls, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        return cls._count_probability(f, y, theta) * super().slope(f, y, theta)

    @classmethod
    def curvature(cls, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        q, slope = cls._count_probability(f, y, theta), super().slope(f, y, theta)
        return q * super().curvature(f, y, theta) - q * (1.0 - q) * slope**2

    @classmethod
    def information(cls, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        # Mean of `curvature` over y: (1 - gate) I (1 - P(count 0) (1 - q(0)) I), where
        # I = r expit(f - log r) is the information of a count, and minus its slope at y = 0.
        log_r, zero = theta[0], np.zeros_like(f)
        count_information = np.exp(log_r) * expit(f - log_r)
        zero_probability = np.exp(super().log_density(f, zero, theta))
        q = cls._count_probability(f, zero, theta)
        lost_share = zero_probability * (1.0 - q) * count_information
        return expit(-theta[1]) * count_information * (1.0 - lost_share)

    @classmethod
    def _count_probability(cls, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        """Probability q that y comes from the counts, not from the gate."""
        log_odds = super().log_density(f, np.zeros_like(f), theta) - theta[1]
        return np.where(y > 0, 1.0, expit(log_odds))

    def values(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        return {**super().values(theta), "likelihood.gate": expit(theta[..., 1])}

    @classmethod
    def log_prior(cls, theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, (slope,) = super().log_prior(theta)
        # The gate is uniform on (0, 1).
        value -= np.logaddexp(0.0, theta[1]) + np.logaddexp(0.0, -theta[1])
        return value, np.array([slope, 1.0 - 2.0 * expit(theta[1])])

    @classmethod
    def below(cls, y: Values, f: Values, theta: np.ndarray) -> np.ndarray:
        gate = expit(theta[1])
        return gate + (1.0 - gate) * super().below(y, f, theta)

    def moments(self, f: Values, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        gate = expit(theta[1])
        mean, variance = super().moments(f, theta)
        return (1.0 - gate) * mean, (1.0 - gate) * (variance + gate * mean**2)

    def draw(self, rng: np.random.Generator, f: Values, theta: np.ndarray) -> np.ndarray:
        closed = rng.random(np.shape(f)) < expit(theta[1])
        return np.where(closed, 0.0, super().draw(rng, f, theta))

    def location_scale(self, y: np.ndarray) -> tuple[float, float]:
        return super().location_scale(y[y > 0])


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
