"""Likelihoods of counts and shares in NumPy, with their derivatives: for `NumpyLatentEvidence`.

They are those of `bayeskern.likelihoods`, with the default link, as functions of a latent f. Their
own hyperparameters are theta, in unconstrained coordinates.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from scipy.special import (
    betainc,
    betaln,
    digamma,
    expit,
    gammaln,
    logit,
    pdtr,
    polygamma,
    xlogy,
)

from bayeskern.likelihoods import Beta, Likelihood, NegativeBinomial, Poisson, ZeroInflated
from bayeskern.prediction.response_mixture import MAX_MEAN, Response

# The median of a half-normal distribution.
HALF_NORMAL_MEDIAN = 0.6744897501960817


class NumpyLikelihood(Response):
    """log p(y | f, theta), value by value: y and f are (n,), or broadcast.

    Attributes:
        names: The names of the hyperparameters, as sites of a `LatentGP`: k of them.
        middle: Their median, in unconstrained coordinates: (k,).
        takes_ends: Whether y can be the ends of what it can be themselves.
        log_concave: Whether the curvature is never negative, and its own information.
        title: What is observed, in words.
        scale: What f is, in words.
        unit: That of exp(f), where it is not that of the mean.
    """

    names: ClassVar[tuple[str, ...]] = ()
    middle: ClassVar[tuple[float, ...]] = ()
    takes_ends: ClassVar[bool] = True
    log_concave: ClassVar[bool] = True
    title: ClassVar[str]
    scale: ClassVar[str] = "the logarithm of the mean"
    unit: ClassVar[str] = ""

    @property
    @abstractmethod
    def model(self) -> Likelihood:
        """The same as a likelihood of models."""

    @abstractmethod
    def slope(self, f, y, theta):
        """Its derivative in f."""

    @abstractmethod
    def curvature(self, f, y, theta):
        """Minus its second derivative in f, which may be negative."""

    def information(self, f, y, theta):
        """A curvature that is never negative: the same, or its mean over y, Fisher's."""
        return self.curvature(f, y, theta)

    @abstractmethod
    def values(self, theta) -> dict[str, np.ndarray]:
        """The hyperparameters by name, of theta (..., k)."""

    @abstractmethod
    def log_prior(self, theta) -> tuple[float, np.ndarray]:
        """The log density of theta, and its gradient: (k,)."""

    @abstractmethod
    def location_scale(self, y) -> tuple[float, float]:
        """About where f lies, and how far it varies."""


class NumpyPoisson(NumpyLikelihood):
    """`Poisson`."""

    title = "Poisson counts"

    @property
    def model(self):
        return Poisson()

    def log_density(self, f, y, theta):
        return y * f - np.exp(f) - gammaln(y + 1.0)

    def slope(self, f, y, theta):
        return y - np.exp(f)

    def curvature(self, f, y, theta):
        return np.exp(f)

    def values(self, theta):
        return {}

    def log_prior(self, theta):
        return 0.0, np.zeros(0)

    def below(self, y, f, theta):
        return pdtr(y, np.exp(f))

    def moments(self, f, theta):
        return np.exp(f), np.exp(f)

    def draw(self, rng, f, theta):
        return rng.poisson(np.minimum(np.exp(f), MAX_MEAN)).astype(float)

    def location_scale(self, y):
        # What varies beyond Poisson noise, or could do so unseen.
        mean, variance = np.mean(y), np.var(y)
        excess = max(variance - mean, np.sqrt(2.0 / len(y)) * variance)
        return float(np.log(mean)), float(np.sqrt(np.log1p(excess / mean**2)))


class NumpyNegativeBinomial(NumpyPoisson):
    """`NegativeBinomial`: theta is the log of its concentration."""

    title = "negative binomial counts"
    names = ("likelihood.concentration",)
    middle = (-2.0 * float(np.log(HALF_NORMAL_MEDIAN)),)

    @property
    def model(self):
        return NegativeBinomial()

    def log_density(self, f, y, theta):
        log_r = theta[0]
        r = np.exp(log_r)
        # log [Gamma(r + y) / (Gamma(r) y!)] = -log [y B(r, y)], without a loss of digits.
        counted = np.where(y > 0, -np.log(np.maximum(y, 1.0)) - betaln(r, np.maximum(y, 1.0)), 0.0)
        odds = f - log_r
        return counted - r * np.logaddexp(0.0, odds) - y * np.logaddexp(0.0, -odds)

    def slope(self, f, y, theta):
        log_r = theta[0]
        return y - (y + np.exp(log_r)) * expit(f - log_r)

    def curvature(self, f, y, theta):
        log_r = theta[0]
        return (y + np.exp(log_r)) * expit(f - log_r) * expit(log_r - f)

    def values(self, theta):
        return {self.names[0]: np.exp(theta[..., 0])}

    def log_prior(self, theta):
        return _half_normal_of_inverse_root(theta[0])

    def below(self, y, f, theta):
        log_r = theta[0]
        return betainc(np.exp(log_r), np.floor(y) + 1.0, expit(log_r - f))

    def moments(self, f, theta):
        mean = np.exp(f)
        return mean, mean + mean * np.exp(f - theta[0])

    def draw(self, rng, f, theta):
        r = np.exp(theta[0])
        rate = rng.gamma(r, np.exp(f) / r)
        return rng.poisson(np.minimum(rate, MAX_MEAN)).astype(float)


class NumpyZeroInflated(NumpyNegativeBinomial):
    """`ZeroInflated`: theta is the log of its concentration and the log odds of its gate."""

    title = "zero-inflated counts"
    names = ("likelihood.concentration", "likelihood.gate")
    middle = (*NumpyNegativeBinomial.middle, 0.0)
    log_concave = False

    @property
    def model(self):
        return ZeroInflated()

    def log_density(self, f, y, theta):
        log_gate, log_open = -np.logaddexp(0.0, -theta[1]), -np.logaddexp(0.0, theta[1])
        counted = log_open + super().log_density(f, y, theta)
        return np.where(y > 0, counted, np.logaddexp(log_gate, counted))

    def slope(self, f, y, theta):
        return self._counted(f, y, theta) * super().slope(f, y, theta)

    def curvature(self, f, y, theta):
        share, slope = self._counted(f, y, theta), super().slope(f, y, theta)
        return share * super().curvature(f, y, theta) - share * (1.0 - share) * slope**2

    def information(self, f, y, theta):
        # The mean over y of the curvature: that of the counts, less what a zero leaves open.
        log_r, zero = theta[0], np.zeros_like(f)
        size = np.exp(log_r) * expit(f - log_r)
        none = np.exp(super().log_density(f, zero, theta))
        lost = none * (1.0 - self._counted(f, zero, theta)) * size
        return expit(-theta[1]) * size * (1.0 - lost)

    def _counted(self, f, y, theta):
        """The probability that a value is a count, and not a zero of the gate."""
        odds = super().log_density(f, np.zeros_like(f), theta) - theta[1]
        return np.where(y > 0, 1.0, expit(odds))

    def values(self, theta):
        return {**super().values(theta), self.names[1]: expit(theta[..., 1])}

    def log_prior(self, theta):
        value, (slope,) = _half_normal_of_inverse_root(theta[0])
        share = expit(theta[1])
        # The gate is uniform.
        value -= np.logaddexp(0.0, theta[1]) + np.logaddexp(0.0, -theta[1])
        return value, np.array([slope, 1.0 - 2.0 * share])

    def below(self, y, f, theta):
        share = expit(theta[1])
        return share + (1.0 - share) * super().below(y, f, theta)

    def moments(self, f, theta):
        share = expit(theta[1])
        mean, variance = super().moments(f, theta)
        return (1.0 - share) * mean, (1.0 - share) * (variance + share * mean**2)

    def draw(self, rng, f, theta):
        closed = rng.random(np.shape(f)) < expit(theta[1])
        return np.where(closed, 0.0, super().draw(rng, f, theta))

    def location_scale(self, y):
        return super().location_scale(y[y > 0])


class NumpyBeta(NumpyLikelihood):
    """`Beta`: theta is the log of its precision."""

    names = ("likelihood.precision",)
    middle = NumpyNegativeBinomial.middle
    whole, largest, takes_ends, log_concave = False, 1.0, False, False
    title = "shares with a beta distribution"
    scale, unit = "the log odds of the mean", "odds"

    @property
    def model(self):
        return Beta()

    def log_density(self, f, y, theta):
        a, b = self._shapes(f, theta)
        return xlogy(a - 1.0, y) + xlogy(b - 1.0, 1.0 - y) - betaln(a, b)

    def slope(self, f, y, theta):
        a, b = self._shapes(f, theta)
        return a * expit(-f) * (logit(y) - digamma(a) + digamma(b))

    def curvature(self, f, y, theta):
        return self.information(f, y, theta) - np.tanh(-0.5 * f) * self.slope(f, y, theta)

    def information(self, f, y, theta):
        a, b = self._shapes(f, theta)
        return np.square(a * expit(-f)) * (polygamma(1, a) + polygamma(1, b))

    def _shapes(self, f, theta):
        precision = np.exp(theta[0])
        return precision * expit(f), precision * expit(-f)

    def values(self, theta):
        return {self.names[0]: np.exp(theta[..., 0])}

    def log_prior(self, theta):
        return _half_normal_of_inverse_root(theta[0])

    def below(self, y, f, theta):
        return betainc(*self._shapes(f, theta), np.clip(y, 0.0, 1.0))

    def moments(self, f, theta):
        mean = expit(f)
        return mean, mean * expit(-f) / (1.0 + np.exp(theta[0]))

    def draw(self, rng, f, theta):
        return rng.beta(*self._shapes(f, theta))

    def location_scale(self, y):
        f = logit(y)
        return float(np.mean(f)), float(np.std(f))


#: by the names that `forecast` takes
LIKELIHOODS = {
    "poisson": NumpyPoisson(),
    "negative_binomial": NumpyNegativeBinomial(),
    "zero_inflated": NumpyZeroInflated(),
    "beta": NumpyBeta(),
}


def _half_normal_of_inverse_root(log_a) -> tuple[float, np.ndarray]:
    """The log density of log a and its slope (1,), where 1 / sqrt(a) ~ HalfNormal(1)."""
    value = 0.5 * np.log(2.0 / np.pi) - 0.5 * np.exp(-log_a) - np.log(2.0) - 0.5 * log_a
    return float(value), np.array([0.5 * np.exp(-log_a) - 0.5])
