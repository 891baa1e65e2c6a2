"""Likelihoods of proportions (beta) and compositions (Dirichlet)."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from jax.scipy.special import gammaln
from numpy.typing import ArrayLike
from scipy.special import betainc, betaln, digamma, expit, logit, polygamma, xlogy

from bayeskern.core import validation
from bayeskern.hyperparameters import Hyperparameter, hyperparameter
from bayeskern.likelihoods.analytic import Dispersed, Values
from bayeskern.likelihoods.base import Likelihood
from bayeskern.likelihoods.distributions import BetaLogMean, DirichletLogMean
from bayeskern.likelihoods.links import LOG_PROBABILITIES
from bayeskern.likelihoods.positive import on_inverse_root


def log_multivariate_beta(a: Array) -> Array:
    """log of prod_k Gamma(a_k) / Gamma(sum_k a_k), for a (..., K)."""
    return jnp.sum(gammaln(a), -1) - gammaln(jnp.sum(a, -1))


class Beta(Dispersed):
    """Proportions strictly between 0 and 1: y ~ Beta(mu precision, (1 - mu) precision).

    mu = g^-1(eta) is the mean, and mu (1 - mu) / (1 + precision) the variance.

    Args:
        precision: By default 1 / sqrt(precision) is HalfNormal(1).
        link: "logit" (default), "probit" or "cloglog".

    References:
        Ferrari and Cribari-Neto (2004), Beta regression for modelling rates and proportions.
    """

    precision: Hyperparameter = hyperparameter(on_inverse_root(dist.HalfNormal(1.0)))

    links: ClassVar = ("logit", "probit", "cloglog")
    log_concave: ClassVar = False
    support_description: ClassVar = "strictly between 0 and 1"
    whole: ClassVar = False
    largest: ClassVar = 1.0
    title: ClassVar = "shares with a beta distribution"
    scale: ClassVar = "the log odds of the mean"
    unit: ClassVar = "odds"

    def distribution(self, eta: Array) -> BetaLogMean:
        return BetaLogMean(*LOG_PROBABILITIES[self.link_name](eta), self.precision)

    def natural_parameter(self, eta: Array) -> Array:
        return self.precision * jnp.exp(jnp.stack(LOG_PROBABILITIES[self.link_name](eta), -1))

    def sufficient_statistic(self, y: Array) -> Array:
        return jnp.stack([jnp.log(y), jnp.log1p(-y)], -1)

    def log_normalizer(self, theta: Array) -> Array:
        return log_multivariate_beta(theta)

    def base_measure(self, y: Array) -> Array:
        return 1.0 / (y * (1.0 - y))

    def in_support(self, y: np.ndarray) -> np.ndarray:
        return (y > 0) & (y < 1)

    @classmethod
    def log_density(cls, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        a, b = cls._shapes(f, theta)
        return xlogy(a - 1.0, y) + xlogy(b - 1.0, 1.0 - y) - betaln(a, b)

    @classmethod
    def slope(cls, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        # da / df = a expit(-f) = -db / df.
        a, b = cls._shapes(f, theta)
        return a * expit(-f) * (logit(y) - digamma(a) + digamma(b))

    @classmethod
    def curvature(cls, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        # d log(a expit(-f)) / df = tanh(-f / 2).
        return cls.information(f, y, theta) - np.tanh(-0.5 * f) * cls.slope(f, y, theta)

    @classmethod
    def information(cls, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        a, b = cls._shapes(f, theta)
        return np.square(a * expit(-f)) * (polygamma(1, a) + polygamma(1, b))

    @classmethod
    def _shapes(cls, f: Values, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Parameters a and b of Beta(a, b), with mean expit(f)."""
        precision = np.exp(theta[0])
        return precision * expit(f), precision * expit(-f)

    @classmethod
    def below(cls, y: Values, f: Values, theta: np.ndarray) -> np.ndarray:
        return betainc(*cls._shapes(f, theta), np.clip(y, 0.0, 1.0))

    def moments(self, f: Values, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean = expit(f)
        return mean, mean * expit(-f) / (1.0 + np.exp(theta[0]))

    def draw(self, rng: np.random.Generator, f: Values, theta: np.ndarray) -> np.ndarray:
        return rng.beta(*self._shapes(f, theta))

    def location_scale(self, y: np.ndarray) -> tuple[float, float]:
        f = logit(y)
        return float(np.mean(f)), float(np.std(f))


class Dirichlet(Likelihood):
    """Compositions of K parts: y ~ Dirichlet(precision softmax(eta)), y and eta of shape (n, K).

    A part with mean mu has variance mu (1 - mu) / (1 + precision). Adding a number to all K
    predictors does not change the distribution, so that only the prior determines their common
    level.

    Args:
        precision: By default 1 / sqrt(precision) is HalfNormal(1).
        parts: Number of parts K; by default `prepare` learns it from y.
        link: "softmax", the only one.
    """

    precision: Hyperparameter = hyperparameter(on_inverse_root(dist.HalfNormal(1.0)))
    parts: int | None = eqx.field(static=True, default=None, kw_only=True)

    multivariate: ClassVar = True
    links: ClassVar = ("softmax",)
    log_concave: ClassVar = False
    support_description: ClassVar = "strictly positive shares that sum to one (within 1e-6)"

    @property
    def outputs(self) -> int:
        if self.parts is None:
            raise ValueError(
                "this Dirichlet does not know its number of parts yet. Use the likelihood that "
                "prepare(y, n) returns, or give the number, as in Dirichlet(parts=3)."
            )
        return self.parts

    def inverse_link(self, eta: Array) -> Array:
        """E[y] from eta: (n, K)."""
        return jax.nn.softmax(eta, -1)

    def distribution(self, eta: Array) -> DirichletLogMean:
        return DirichletLogMean(jax.nn.log_softmax(eta, -1), self.precision)

    def natural_parameter(self, eta: Array) -> Array:
        return self.precision * jax.nn.softmax(eta, -1)

    def sufficient_statistic(self, y: Array) -> Array:
        return jnp.log(y)

    def log_normalizer(self, theta: Array) -> Array:
        return log_multivariate_beta(theta)

    def base_measure(self, y: Array) -> Array:
        return 1.0 / jnp.prod(y, -1)

    def read_targets(self, y: ArrayLike, n: int) -> Array:
        shares, _ = validation.inputs(y, "y")
        rows, parts = shares.shape
        if rows != n:
            raise ValueError(f"y has {rows} rows but X has {n} points; they must match.")
        if parts < 2 or self.parts not in (None, parts):
            expected = "at least 2" if self.parts is None else self.parts
            raise ValueError(f"y must have a column for each of {expected} parts, got {parts}.")
        return shares

    def in_support(self, y: np.ndarray) -> np.ndarray:
        return np.all(y > 0, axis=1) & (np.abs(np.sum(y, axis=1) - 1.0) <= 1e-6)

    def with_default_priors(self, y: np.ndarray) -> Self:
        return dataclasses.replace(self, parts=y.shape[1])

    def _arguments(self) -> list[str]:
        shown = [] if self.parts is None else [f"parts={self.parts}"]
        return [*super()._arguments(), *shown]
