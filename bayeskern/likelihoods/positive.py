"""Likelihoods with a positive mean, and two of them: gamma and exponential."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import Distribution, TransformedDistribution
from numpyro.distributions.transforms import PowerTransform

from bayeskern.hyperparameters import Hyperparameter, hyperparameter
from bayeskern.likelihoods.base import Likelihood
from bayeskern.likelihoods.distributions import GammaLogMean, Within
from bayeskern.likelihoods.links import HALF_LINE, LOG_MEANS


def on_inverse_root(prior: Distribution) -> Distribution:
    """Turn a prior on 1 / sqrt(a) into one on a."""
    return TransformedDistribution(prior, PowerTransform(-2.0))


class PositiveMean(Likelihood):
    """A likelihood with E[y] > 0, computed from log E[y].

    Under the links `identity` and `inverse` there is no positive mean where eta <= 0: the density
    is 0 there, its logarithm -inf with a gradient of 0, and mean and draws are NaN.
    """

    links: ClassVar = ("log",)

    @abstractmethod
    def of_log_mean(self, log_mean, **extra) -> Distribution:
        """The distribution of y with E[y] = exp(log_mean), (n,)."""

    def distribution(self, eta, **extra):
        log_mean = LOG_MEANS[self.link_name]
        if self.link_name not in HALF_LINE:
            return self.of_log_mean(log_mean(eta), **extra)
        inside = eta > 0.0
        return Within(self.of_log_mean(log_mean(jnp.where(inside, eta, 1.0)), **extra), inside)

    def vanishing_tails(self, y, **extra):
        all_rows = np.ones(len(y), bool)
        # As the mean goes to 0, the density of y = 0 does not vanish.
        return {"inverse": (y > 0, all_rows), "identity": (all_rows, all_rows)}.get(
            self.link_name, (all_rows, y > 0)
        )

    def eta_location_scale(self, y, extra):
        # Half an event where there was none: a rate of 0 has no logarithm.
        total = np.sum(np.asarray(y))
        rate = float((total or 0.5) / np.sum(np.asarray(extra.get("exposure", np.ones(len(y))))))
        location = {
            "log": np.log(rate),
            "softplus": rate + np.log(-np.expm1(-rate)),
            "identity": rate,
            "inverse": 1.0 / rate,
        }[self.link_name]
        scale = {"log": 1.0, "softplus": max(rate, 1.0)}.get(self.link_name, location)
        return float(location), float(scale)


class Gamma(PositiveMean):
    """Positive numbers with a constant coefficient of variation: Gamma with mean g^-1(eta).

    The variance is mean^2 / shape. Under the canonical link `inverse` the density is 0 where
    eta <= 0, which is half of what a Gaussian prior on eta allows; hence the default `log`.

    Args:
        shape: By default the coefficient of variation 1 / sqrt(shape) is HalfNormal(1).
        link: "log" (default) or "inverse".
    """

    shape: Hyperparameter = hyperparameter(on_inverse_root(dist.HalfNormal(1.0)))

    links: ClassVar = ("log", "inverse")
    support_description: ClassVar = "above 0"

    def of_log_mean(self, log_mean):
        return GammaLogMean(log_mean, self.shape)

    def in_support(self, y):
        return y > 0


class Exponential(PositiveMean):
    """Waiting times without memory: Exponential with mean g^-1(eta).

    Under the canonical link `inverse` the density is 0 where eta <= 0, which is half of what a
    Gaussian prior on eta allows; hence the default `log`.

    Args:
        link: "log" (default) or "inverse".
    """

    links: ClassVar = ("log", "inverse")
    support_description: ClassVar = "at least 0"

    def of_log_mean(self, log_mean):
        return GammaLogMean(log_mean, 1.0)

    def in_support(self, y):
        return y >= 0
