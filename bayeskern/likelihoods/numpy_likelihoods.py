"""NumPy likelihoods of counts and shares with analytic derivatives, for forecasts.

They equal the likelihoods of `bayeskern.likelihoods` with the default link, as functions of a
latent f. Derivatives are explicit formulas, so that nothing is compiled. theta holds the
unconstrained hyperparameters.
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

# Numbers or arrays of shapes that broadcast together.
Values = np.ndarray | float


class NumpyLikelihood(Response):
    """Elementwise log p(y | f, theta), for y and f of shape (n,) or broadcastable.

    Attributes:
        model: The corresponding likelihood of `bayeskern.likelihoods`.
        names: Names of the k hyperparameters, as sites of a `LatentGP`.
        middle: Prior medians of theta, (k,).
        takes_ends: Whether y may equal the bounds of its range.
        log_concave: Whether the log density is concave in f, so that `information` is the
            curvature.
        title: Description of the observations.
        scale: Description of f.
        unit: Description of exp(f) if it is not the mean; otherwise "".
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
        """Non-negative curvature: the curvature itself, or the Fisher information."""
        return self.curvature(f, y, theta)

    def values(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Hyperparameters by name, for theta (..., k)."""
        return {}

    def log_prior(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Log prior density of theta, and its gradient (k,)."""
        return 0.0, np.zeros(0)

    @abstractmethod
    def location_scale(self, y: np.ndarray) -> tuple[float, float]:
        """Estimate the location and the standard deviation of f from y."""


class Dispersed(NumpyLikelihood):
    """Likelihood with theta[0] = log a and the prior 1 / sqrt(a) ~ HalfNormal(1)."""

    # The median of a half-normal distribution is 0.674.
    middle = (-2.0 * float(np.log(0.6744897501960817)),)

    def values(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        return {self.names[0]: np.exp(theta[..., 0])}

    def log_prior(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        # log HalfNormal(s) + log |ds / d log a| for s = 1 / sqrt(a).
        log_a = theta[0]
        value = 0.5 * np.log(2.0 / np.pi) - 0.5 * np.exp(-log_a) - np.log(2.0) - 0.5 * log_a
        return float(value), np.array([0.5 * np.exp(-log_a) - 0.5])


class NumpyPoisson(NumpyLikelihood):
    """NumPy version of `Poisson`: counts with mean exp(f)."""

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
        # Variance in excess of Poisson noise, at least the standard error of the variance.
        # exp(f) with f ~ N(m, s^2) has squared coefficient of variation exp(s^2) - 1.
        mean, variance = np.mean(y), np.var(y)
        excess = max(variance - mean, np.sqrt(2.0 / len(y)) * variance)
        return float(np.log(mean)), float(np.sqrt(np.log1p(excess / mean**2)))


class NumpyNegativeBinomial(Dispersed, NumpyPoisson):
    """NumPy version of `NegativeBinomial`: theta is the log concentration."""

    model = NegativeBinomial()
    title = "negative binomial counts"
    names = ("likelihood.concentration",)

    def log_density(self, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        log_r = theta[0]
        r = np.exp(log_r)
        # log [Gamma(r + y) / (Gamma(r) y!)] = -log [y B(r, y)], without cancellation.
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
    """NumPy version of `ZeroInflated`: theta is (log concentration, logit of gate)."""

    model = ZeroInflated()
    title = "zero-inflated counts"
    names = ("likelihood.concentration", "likelihood.gate")
    middle = (*NumpyNegativeBinomial.middle, 0.0)
    log_concave = False

    def log_density(self, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        log_gate, log_open = -np.logaddexp(0.0, -theta[1]), -np.logaddexp(0.0, theta[1])
        count_log_joint = log_open + super().log_density(f, y, theta)
        return np.where(y > 0, count_log_joint, np.logaddexp(log_gate, count_log_joint))

    def slope(self, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        return self._count_probability(f, y, theta) * super().slope(f, y, theta)

    def curvature(self, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        q, slope = self._count_probability(f, y, theta), super().slope(f, y, theta)
        return q * super().curvature(f, y, theta) - q * (1.0 - q) * slope**2

    def information(self, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        # Mean of `curvature` over y: (1 - gate) I (1 - P(count 0) (1 - q(0)) I), where
        # I = r expit(f - log r) is the information of a count, and minus its slope at y = 0.
        log_r, zero = theta[0], np.zeros_like(f)
        count_information = np.exp(log_r) * expit(f - log_r)
        zero_probability = np.exp(super().log_density(f, zero, theta))
        q = self._count_probability(f, zero, theta)
        lost_share = zero_probability * (1.0 - q) * count_information
        return expit(-theta[1]) * count_information * (1.0 - lost_share)

    def _count_probability(self, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        """Probability q that y comes from the counts, not from the gate."""
        log_odds = super().log_density(f, np.zeros_like(f), theta) - theta[1]
        return np.where(y > 0, 1.0, expit(log_odds))

    def values(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        return {**super().values(theta), self.names[1]: expit(theta[..., 1])}

    def log_prior(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, (slope,) = super().log_prior(theta)
        # The gate is uniform on (0, 1).
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
    """NumPy version of `Beta`: theta is the log precision."""

    model = Beta()
    names = ("likelihood.precision",)
    whole = False
    largest = 1.0
    takes_ends = False
    log_concave = False
    title = "shares with a beta distribution"
    scale, unit = "the log odds of the mean", "odds"

    def log_density(self, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        a, b = self._shapes(f, theta)
        return xlogy(a - 1.0, y) + xlogy(b - 1.0, 1.0 - y) - betaln(a, b)

    def slope(self, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        # da / df = a expit(-f) = -db / df.
        a, b = self._shapes(f, theta)
        return a * expit(-f) * (logit(y) - digamma(a) + digamma(b))

    def curvature(self, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        # d log(a expit(-f)) / df = tanh(-f / 2).
        return self.information(f, y, theta) - np.tanh(-0.5 * f) * self.slope(f, y, theta)

    def information(self, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        a, b = self._shapes(f, theta)
        return np.square(a * expit(-f)) * (polygamma(1, a) + polygamma(1, b))

    def _shapes(self, f: Values, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Parameters a and b of Beta(a, b), with mean expit(f)."""
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


#: likelihoods by the name passed to `forecast`
LIKELIHOODS = {
    "poisson": NumpyPoisson(),
    "negative_binomial": NumpyNegativeBinomial(),
    "zero_inflated": NumpyZeroInflated(),
    "beta": NumpyBeta(),
}
