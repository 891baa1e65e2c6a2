"""Likelihoods with a positive mean: the common base class, gamma and exponential."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from jax.scipy.special import gammaln
from numpyro.distributions import Distribution, TransformedDistribution
from numpyro.distributions.transforms import PowerTransform

from bayeskern.hyperparameters import Hyperparameter, hyperparameter
from bayeskern.likelihoods.base import Likelihood
from bayeskern.likelihoods.distributions import GammaLogMean, Within
from bayeskern.likelihoods.links import LOG_MEANS


def on_inverse_root(prior: Distribution) -> Distribution:
    """Turn a prior on 1 / sqrt(a) into a prior on a."""
    return TransformedDistribution(prior, PowerTransform(-2.0))


class PositiveMean(Likelihood):
    """Likelihood with E[y] > 0, computed from log E[y].

    Under the links `identity` and `inverse` the mean is not positive if eta <= 0: the log density
    is then -inf with a gradient of 0, and mean and draws are NaN.
    """

    links: ClassVar = ("log",)

    @abstractmethod
    def of_log_mean(self, log_mean: Array, **extra: Array) -> Distribution:
        """Distribution of y with E[y] = exp(log_mean), for log_mean (n,)."""

    def distribution(self, eta: Array, **extra: Array) -> Distribution:
        log_mean = LOG_MEANS[self.link_name]
        if self.link_name not in ("identity", "inverse"):
            return self.of_log_mean(log_mean(eta), **extra)
        inside = eta > 0.0
        return Within(self.of_log_mean(log_mean(jnp.where(inside, eta, 1.0)), **extra), inside)

    def vanishing_tails(self, y: np.ndarray, **extra: Array) -> tuple[np.ndarray, np.ndarray]:
        all_rows = np.ones(len(y), bool)
        # The density vanishes as the mean goes to infinity, and, unless y = 0, as it goes to 0.
        # Under `identity` and `inverse`, it is also 0 for eta <= 0.
        return {"inverse": (y > 0, all_rows), "identity": (all_rows, all_rows)}.get(
            self.link_name, (all_rows, y > 0)
        )

    def eta_location_scale(self, y: np.ndarray, extra: Mapping[str, Array]) -> tuple[float, float]:
        exposure = np.asarray(extra.get("exposure", np.ones(len(y))))
        # If all counts are 0, half an event: a rate of 0 has no logarithm.
        rate = float((np.sum(np.asarray(y)) or 0.5) / np.sum(exposure))
        location, scale = {
            "log": (np.log(rate), 1.0),
            "softplus": (rate + np.log(-np.expm1(-rate)), max(rate, 1.0)),
            "identity": (rate, rate),
            "inverse": (1.0 / rate, 1.0 / rate),
        }[self.link_name]
        return float(location), float(scale)


class Gamma(PositiveMean):
    """Gamma with mean g^-1(eta): positive y, constant coefficient of variation.

    The variance is mean^2 / shape. The default link is `log`, because under the canonical link
    `inverse` the density is 0 for eta <= 0, where a centered Gaussian prior has half of its mass.

    Args:
        shape: By default the coefficient of variation 1 / sqrt(shape) is HalfNormal(1).
        link: "log" (default) or "inverse".
    """

    shape: Hyperparameter = hyperparameter(on_inverse_root(dist.HalfNormal(1.0)))

    links: ClassVar = ("log", "inverse")
    support_description: ClassVar = "above 0"

    def of_log_mean(self, log_mean: Array) -> Distribution:
        return GammaLogMean(log_mean, self.shape)

    def natural_parameter(self, eta: Array) -> Array:
        rate = self.shape * jnp.exp(-LOG_MEANS[self.link_name](eta))
        return jnp.stack([jnp.broadcast_to(self.shape, rate.shape), -rate], -1)

    def sufficient_statistic(self, y: Array) -> Array:
        return jnp.stack([jnp.log(y), y], -1)

    def log_normalizer(self, theta: Array) -> Array:
        return gammaln(theta[..., 0]) - theta[..., 0] * jnp.log(-theta[..., 1])

    def base_measure(self, y: Array) -> Array:
        return 1.0 / y

    def in_support(self, y: np.ndarray) -> np.ndarray:
        return y > 0


class Exponential(PositiveMean):
    """Memoryless waiting times: Exponential with mean g^-1(eta).

    The default link is `log`, because under the canonical link `inverse` the density is 0 for
    eta <= 0, where a centered Gaussian prior has half of its mass.

    Args:
        link: "log" (default) or "inverse".
    """

    links: ClassVar = ("log", "inverse")
    support_description: ClassVar = "at least 0"

    def of_log_mean(self, log_mean: Array) -> Distribution:
        return GammaLogMean(log_mean, 1.0)

    def natural_parameter(self, eta: Array) -> Array:
        return -jnp.exp(-LOG_MEANS[self.link_name](eta))

    def log_normalizer(self, theta: Array) -> Array:
        return -jnp.log(-theta)

    def in_support(self, y: np.ndarray) -> np.ndarray:
        return y >= 0
