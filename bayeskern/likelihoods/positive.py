"""Likelihoods of positive numbers: Gamma and exponential; what those with a positive mean share."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import Distribution, TransformedDistribution
from numpyro.distributions.transforms import PowerTransform

from bayeskern.hyperparameters import hyperparameter
from bayeskern.likelihoods.base import Likelihood
from bayeskern.likelihoods.distributions import GammaLogMean, Within
from bayeskern.likelihoods.links import HALF_LINE, LOG_MEANS


def on_inverse_root(prior: Distribution) -> Distribution:
    """Turn a prior on 1 / sqrt(a) into one on a."""
    return TransformedDistribution(prior, PowerTransform(-2.0))


class PositiveMean(Likelihood):
    """Those with E[y] > 0, computed from log E[y].

    Where a link has no positive mean (eta <= 0 under `identity` and `inverse`) the density is 0,
    its logarithm -inf with a gradient of 0, and mean and draws are NaN.
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

    def restrained(self, y, **extra):
        always = np.ones(len(y), bool)
        # A mean that goes to 0 leaves a y of 0 its density.
        return {"inverse": (y > 0, always), "identity": (always, always)}.get(
            self.link_name, (always, y > 0)
        )

    def level(self, y, extra):
        # Half an event where there was none: a rate of 0 has no logarithm.
        total = np.sum(np.asarray(y))
        rate = float((total or 0.5) / np.sum(np.asarray(extra.get("exposure", np.ones(len(y))))))
        level = {
            "log": np.log(rate),
            "softplus": rate + np.log(-np.expm1(-rate)),
            "identity": rate,
            "inverse": 1.0 / rate,
        }[self.link_name]
        spread = {"log": 1.0, "softplus": max(rate, 1.0)}.get(self.link_name, level)
        return float(level), float(spread)


class Gamma(PositiveMean):
    """y ~ Gamma with mean g^-1(eta) and variance mean^2 / shape: positive, with a constant
    coefficient of variation 1 / sqrt(shape).

    By default 1 / sqrt(shape) is HalfNormal(1). The default link is `log`: under the canonical
    `inverse`, half of what a Gaussian prior on eta allows has no mean. Its density is 0 there.
    """

    shape: jax.Array = hyperparameter(on_inverse_root(dist.HalfNormal(1.0)))

    links: ClassVar = ("log", "inverse")
    wanted: ClassVar = "above 0"

    def of_log_mean(self, log_mean):
        return GammaLogMean(log_mean, self.shape)

    def _fits(self, y):
        return y > 0


class Exponential(PositiveMean):
    """y ~ Exponential with mean g^-1(eta): waiting times without memory.

    The default link is `log`: under the canonical `inverse`, half of what a Gaussian prior on eta
    allows has no mean. Its density is 0 there.
    """

    links: ClassVar = ("log", "inverse")
    wanted: ClassVar = "at least 0"

    def of_log_mean(self, log_mean):
        return GammaLogMean(log_mean, 1.0)

    def _fits(self, y):
        return y >= 0
