"""Likelihoods of counts: Poisson, negative binomial, binomial."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from bayeskern.core import validation
from bayeskern.hyperparameters import hyperparameter
from bayeskern.likelihoods.base import Likelihood
from bayeskern.likelihoods.distributions import (
    BinomialLogProbs,
    NegativeBinomialLogMean,
    PoissonLogMean,
)
from bayeskern.likelihoods.links import LOG_PROBABILITIES
from bayeskern.likelihoods.positive import PositiveMean, on_inverse_root


class Count(PositiveMean):
    """Whole numbers of at least 0 with mean exposure * g^-1(eta).

    exposure: (n,), the time, area or population at risk; 1 where it is not given.
    """

    links: ClassVar = ("log", "identity", "softplus")
    needs: ClassVar = {"exposure": 1.0}
    wanted: ClassVar = "a whole number of at least 0"

    def _fits(self, y, exposure):
        return (y >= 0) & (y == np.round(y))


class Poisson(Count):
    """y ~ Poisson(exposure g^-1(eta)): counts; exposure is the time, area or population at risk.

    Under `identity` the density is 0 where eta <= 0.
    """

    def of_log_mean(self, log_mean, exposure):
        return PoissonLogMean(log_mean + jnp.log(exposure))


class NegativeBinomial(Count):
    """Counts with mean mu = exposure g^-1(eta) and variance mu + mu^2 / concentration.

    By default 1 / sqrt(concentration), the coefficient of variation of the rates that it mixes, is
    HalfNormal(1): its density does not vanish at 0, the Poisson (Simpson, Rue, Riebler, Martins
    and Sorbye 2017, on priors that let the simpler model be). Under `identity` the density is 0
    where eta <= 0.
    """

    concentration: jax.Array = hyperparameter(on_inverse_root(dist.HalfNormal(1.0)))

    @property
    def log_concave(self) -> bool:
        return self.link_name == "log"

    def of_log_mean(self, log_mean, exposure):
        return NegativeBinomialLogMean(log_mean + jnp.log(exposure), self.concentration)


class Binomial(Likelihood):
    """y ~ Binomial(trials, g^-1(eta)): how many of `trials`, (n,), succeeded.

    Raises ValueError where trials is not given, or y exceeds it.
    """

    links: ClassVar = ("logit", "probit", "cloglog")
    needs: ClassVar = {"trials": None}
    wanted: ClassVar = "a whole number from 0 to trials"

    def distribution(self, eta, trials):
        return BinomialLogProbs(*LOG_PROBABILITIES[self.link_name](eta), trials)

    def restrained(self, y, trials):
        return y < trials, y > 0

    def _fits(self, y, trials):
        return (y >= 0) & (y <= trials) & (y == np.round(y))

    def _read_one_extra(self, name, value, default, n):
        value = super()._read_one_extra(name, value, default, n)
        if not validation.is_traced(value):
            whole = np.asarray(value) == np.round(np.asarray(value))
            if not whole.all():
                row = int(np.argmin(whole))
                raise ValueError(f"{name} must be whole numbers; row {row} has {value[row]}.")
        return value
