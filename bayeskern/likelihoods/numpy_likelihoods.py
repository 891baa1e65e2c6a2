"""Likelihoods of counts and shares in NumPy with formulas for their derivatives, for forecasts.

They are the likelihoods of `bayeskern.likelihoods` with the default link, as functions of a latent
f. JAX differentiates those; here the derivatives are formulas, since nothing is compiled. Their
hyperparameters are theta, in unconstrained coordinates.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from scipy.special import betainc, betaln, digamma, expit, gammaln, logit, pdtr, polygamma, xlogy

from bayeskern.likelihoods.base import Likelihood
from bayeskern.likelihoods.counts import NegativeBinomial, Poisson, ZeroInflated
from bayeskern.likelihoods.proportions import Beta
from bayeskern.prediction.response_mixture import MAX_MEAN, Response

# A number, or arrays that broadcast with one another.
Values = np.ndarray | float


class NumpyLikelihood(Response):
    """log p(y | f, theta), value by value: y and f are (n,), or broadcast.

    Attributes:
        model: The same likelihood for models.
        names: Names of the k hyperparameters, as sites of a `LatentGP`.
        middle: Their prior medians, in unconstrained coordinates: (k,).
        takes_ends: Whether y may lie at the ends of its range.
        log_concave: Whether the curvature is never negative, and so its own information.
        title: Name of the observations.
        scale: Name of f.
        unit: Name of exp(f), where it is not the mean.
    """

    model: ClassVar[Likelihood]
    names: ClassVar[tuple[str, ...]] = ()
    middle: ClassVar[tuple[float, ...]] = ()
    takes_ends: ClassVar[bool] = True
    log_concave: ClassVar[bool] = True
    title: ClassVar[str]
    scale: ClassVar[str] = "the logarithm of the mean"
    unit: ClassVar[str] = ""

    @abstractmethod
    def slope(self, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        """Derivative of the log density in f."""

    @abstractmethod
    def curvature(self, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        """Minus the second derivative of the log density in f, which may be negative."""

    def information(self, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        """Curvature that is never negative: the curvature itself, or its mean over y, Fisher's."""
        return self.curvature(f, y, theta)

    def values(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Hyperparameters by name, for theta (..., k)."""
        return {}

    def log_prior(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Log density of theta, and its gradient: (k,)."""
        return 0.0, np.zeros(0)

    @abstractmethod
    def location_scale(self, y: np.ndarray) -> tuple[float, float]:
        """Estimate the location and the standard deviation of f."""


class Dispersed(NumpyLikelihood):
    """Likelihood with theta[0] = log a, where 1 / sqrt(a) ~ HalfNormal(1)."""

    # The median of a half-normal distribution is 0.674.
    middle = (-2.0 * float(np.log(0.6744897501960817)),)

    def values(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        return {self.names[0]: np.exp(theta[..., 0])}

    def log_prior(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        log_a = theta[0]
        value = 0.5 * np.log(2.0 / np.pi) - 0.5 * np.exp(-log_a) - np.log(2.0) - 0.5 * log_a
        return float(value), np.array([0.5 * np.exp(-log_a) - 0.5])


class NumpyPoisson(NumpyLikelihood):
    """`Poisson`."""

    model = Poisson()
    title = "Poisson counts"

    def log_density(self, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        return y * f - np.exp(f) - gammaln(y + 1.0)

    def slope(self, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        return y - np.exp(f)

    def curvature(self, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        return np.exp(f)

    def below(self, y: Values, f: Values, theta: np.ndarray) -> np.ndarray:
        return pdtr(y, np.exp(f))

    def moments(self, f: Values, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.exp(f), np.exp(f)

    def draw(self, rng: np.random.Generator, f: Values, theta: np.ndarray) -> np.ndarray:
        return rng.poisson(np.minimum(np.exp(f), MAX_MEAN)).astype(float)

    def location_scale(self, y: np.ndarray) -> tuple[float, float]:
        # The variance beyond Poisson noise, or the largest one that its sampling error could hide.
        mean, variance = np.mean(y), np.var(y)
        excess = max(variance - mean, np.sqrt(2.0 / len(y)) * variance)
        return float(np.log(mean)), float(np.sqrt(np.log1p(excess / mean**2)))


class NumpyNegativeBinomial(Dispersed, NumpyPoisson):
    """`NegativeBinomial`: theta is the log of its concentration."""

    model = NegativeBinomial()
    title = "negative binomial counts"
    names = ("likelihood.concentration",)

    def log_density(self, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        log_r = theta[0]
        r = np.exp(log_r)
        # log [Gamma(r + y) / (Gamma(r) y!)] = -log [y B(r, y)], without a loss of digits.
        positive = np.maximum(y, 1.0)
        log_coefficient = np.where(y > 0, -np.log(positive) - betaln(r, positive), 0.0)
        log_odds = f - log_r
        return log_coefficient - r * np.logaddexp(0.0, log_odds) - y * np.logaddexp(0.0, -log_odds)

    def slope(self, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        log_r = theta[0]
        return y - (y + np.exp(log_r)) * expit(f - log_r)

    def curvature(self, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        log_r = theta[0]
        return (y + np.exp(log_r)) * expit(f - log_r) * expit(log_r - f)

    def below(self, y: Values, f: Values, theta: np.ndarray) -> np.ndarray:
        return betainc(np.exp(theta[0]), np.floor(y) + 1.0, expit(theta[0] - f))

    def moments(self, f: Values, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean = np.exp(f)
        return mean, mean + mean * np.exp(f - theta[0])

    def draw(self, rng: np.random.Generator, f: Values, theta: np.ndarray) -> np.ndarray:
        r = np.exp(theta[0])
        rate = rng.gamma(r, np.exp(f) / r)
        return rng.poisson(np.minimum(rate, MAX_MEAN)).astype(float)


class NumpyZeroInflated(NumpyNegativeBinomial):
    """`ZeroInflated`: theta is the log of its concentration and the log odds of its gate."""

    model = ZeroInflated()
    title = "zero-inflated counts"
    names = ("likelihood.concentration", "likelihood.gate")
    middle = (*NumpyNegativeBinomial.middle, 0.0)
    log_concave = False

    def log_density(self, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        log_gate, log_open = -np.logaddexp(0.0, -theta[1]), -np.logaddexp(0.0, theta[1])
        counted = log_open + super().log_density(f, y, theta)
        return np.where(y > 0, counted, np.logaddexp(log_gate, counted))

    def slope(self, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        return self._count_probability(f, y, theta) * super().slope(f, y, theta)

    def curvature(self, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        share, slope = self._count_probability(f, y, theta), super().slope(f, y, theta)
        return share * super().curvature(f, y, theta) - share * (1.0 - share) * slope**2

    def information(self, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        # The information of the counts, minus the part lost since a zero may come from the gate.
        log_r, zero = theta[0], np.zeros_like(f)
        size = np.exp(log_r) * expit(f - log_r)
        zero_probability = np.exp(super().log_density(f, zero, theta))
        lost = zero_probability * (1.0 - self._count_probability(f, zero, theta)) * size
        return expit(-theta[1]) * size * (1.0 - lost)

    def _count_probability(self, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        """Probability that a value is a count, and not a zero of the gate."""
        log_odds = super().log_density(f, np.zeros_like(f), theta) - theta[1]
        return np.where(y > 0, 1.0, expit(log_odds))

    def values(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        return {**super().values(theta), self.names[1]: expit(theta[..., 1])}

    def log_prior(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, (slope,) = super().log_prior(theta)
        # The gate is uniform.
        value -= np.logaddexp(0.0, theta[1]) + np.logaddexp(0.0, -theta[1])
        return value, np.array([slope, 1.0 - 2.0 * expit(theta[1])])

    def below(self, y: Values, f: Values, theta: np.ndarray) -> np.ndarray:
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


class NumpyBeta(Dispersed):
    """`Beta`: theta is the log of its precision."""

    model = Beta()
    names = ("likelihood.precision",)
    whole, largest, takes_ends, log_concave = False, 1.0, False, False
    title = "shares with a beta distribution"
    scale, unit = "the log odds of the mean", "odds"

    def log_density(self, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        a, b = self._shapes(f, theta)
        return xlogy(a - 1.0, y) + xlogy(b - 1.0, 1.0 - y) - betaln(a, b)

    def slope(self, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        a, b = self._shapes(f, theta)
        return a * expit(-f) * (logit(y) - digamma(a) + digamma(b))

    def curvature(self, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        return self.information(f, y, theta) - np.tanh(-0.5 * f) * self.slope(f, y, theta)

    def information(self, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        a, b = self._shapes(f, theta)
        return np.square(a * expit(-f)) * (polygamma(1, a) + polygamma(1, b))

    def _shapes(self, f: Values, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        precision = np.exp(theta[0])
        return precision * expit(f), precision * expit(-f)

    def below(self, y: Values, f: Values, theta: np.ndarray) -> np.ndarray:
        return betainc(*self._shapes(f, theta), np.clip(y, 0.0, 1.0))

    def moments(self, f: Values, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean = expit(f)
        return mean, mean * expit(-f) / (1.0 + np.exp(theta[0]))

    def draw(self, rng: np.random.Generator, f: Values, theta: np.ndarray) -> np.ndarray:
        return rng.beta(*self._shapes(f, theta))

    def location_scale(self, y: np.ndarray) -> tuple[float, float]:
        f = logit(y)
        return float(np.mean(f)), float(np.std(f))


#: by the names that `forecast` takes
LIKELIHOODS = {
    "poisson": NumpyPoisson(),
    "negative_binomial": NumpyNegativeBinomial(),
    "zero_inflated": NumpyZeroInflated(),
    "beta": NumpyBeta(),
}
