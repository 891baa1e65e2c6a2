"""Likelihood of real numbers of which some are known only as limits."""

from __future__ import annotations

from typing import ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.stats import norm
from numpyro.distributions import constraints

from bayeskern.hyperparameters import DefaultedHyperparameter, from_sd, hyperparameter
from bayeskern.likelihoods.continuous import RealValued
from bayeskern.likelihoods.distributions import ScalarDistribution

# What a value says of the observation: the observation itself, "at least", or "at most".
OBSERVED, AT_LEAST, AT_MOST = 1.0, 2.0, 3.0


class Censored(RealValued):
    """Real numbers with Gaussian noise, of which some are known only as limits (Tobit).

    A row of `censored` is 1 if y is observed, 2 if the observation is at least y, and 3 if it is at
    most y. Its density is then the probability of the half-line. Predictions and draws are those of
    the observation itself.

    Args:
        noise: Variance. By default its square root is Exponential with mean sd(y).

    References:
        Tobin (1958), "Estimation of relationships for limited dependent variables".
    """

    noise: DefaultedHyperparameter = hyperparameter(None)

    needs: ClassVar = {"censored": OBSERVED}

    def distribution(self, eta: Array, censored: Array) -> CensoredNormal:
        return CensoredNormal(eta, jnp.sqrt(self.noise), censored)  # pyright: ignore[reportArgumentType]

    def with_default_priors(self, y: np.ndarray) -> Self:
        if self.noise is not None:
            return self
        prior = from_sd(self.default_prior("noise", self.spread_of(y), y[0], len(y)))
        return self.with_hyperparameters(noise=prior)

    def vanishing_tails(self, y: np.ndarray, censored: Array) -> tuple[np.ndarray, np.ndarray]:
        return np.asarray(censored) != AT_LEAST, np.asarray(censored) != AT_MOST


class CensoredNormal(ScalarDistribution):
    """Normal distribution with the densities of values that are limits; draws are uncensored."""

    loc: Array
    scale: Array
    censored: Array

    arg_constraints: ClassVar = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "censored": constraints.positive,
    }
    support = constraints.real  # pyright: ignore[reportAssignmentType]

    def log_prob(self, value: Array) -> Array:
        z = (value - self.loc) / self.scale
        limit = norm.logcdf(jnp.where(self.censored == AT_LEAST, -z, z))
        return jnp.where(self.censored == OBSERVED, norm.logpdf(z) - jnp.log(self.scale), limit)

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        shape = sample_shape + self.batch_shape
        return self.loc + self.scale * jax.random.normal(key, shape)

    @property
    def mean(self) -> Array:
        return jnp.broadcast_to(self.loc, self.batch_shape)

    @property
    def variance(self) -> Array:
        return jnp.broadcast_to(jnp.square(self.scale), self.batch_shape)
