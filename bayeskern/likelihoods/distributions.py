"""Distributions parametrised by their log mean or by log probabilities.

NumPyro's distributions take the mean itself, which underflows or rounds to 1 in the tails, so that
the log density and its derivatives are wrong there.
"""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array, random
from jax.nn import softplus
from jax.scipy.special import gammaln, xlogy
from numpyro.distributions import Distribution, constraints

Shape = tuple[int, ...]


class ScalarDistribution(Distribution):
    """Distribution of a number; parameters broadcast, in order of `arg_constraints`."""

    def __init__(self, *parameters: Array | float):
        for name, value in zip(self.arg_constraints, parameters, strict=True):
            setattr(self, name, value)
        super().__init__(jnp.broadcast_shapes(*map(jnp.shape, parameters)))


class PoissonLogMean(ScalarDistribution):
    """y ~ Poisson(exp(log_mean))."""

    log_mean: Array

    arg_constraints: ClassVar = {"log_mean": constraints.real}
    support = constraints.nonnegative_integer  # pyright: ignore[reportAssignmentType]

    def log_prob(self, value: Array) -> Array:
        return value * self.log_mean - jnp.exp(self.log_mean) - gammaln(value + 1.0)

    def sample(self, key: Array, sample_shape: Shape = ()) -> Array:
        return random.poisson(key, self.mean, sample_shape + self.batch_shape)

    @property
    def mean(self) -> Array:
        return jnp.exp(self.log_mean)

    @property
    def variance(self) -> Array:
        return self.mean


class ConcentratedLogMean(ScalarDistribution):
    """Distribution with mean mu = exp(log_mean) and a concentration."""

    log_mean: Array
    concentration: Array

    arg_constraints: ClassVar = {
        "log_mean": constraints.real,
        "concentration": constraints.positive,
    }

    @property
    def mean(self) -> Array:
        return jnp.broadcast_to(jnp.exp(self.log_mean), self.batch_shape)

    def _gamma_draws(self, key: Array, sample_shape: Shape) -> Array:
        """Draws of a gamma distribution with this mean and concentration."""
        shape = sample_shape + self.batch_shape
        return random.gamma(key, self.concentration, shape) * self.mean / self.concentration


class NegativeBinomialLogMean(ConcentratedLogMean):
    """Negative binomial with mean mu = exp(log_mean) and variance mu + mu^2 / concentration."""

    support = constraints.nonnegative_integer  # pyright: ignore[reportAssignmentType]

    def log_prob(self, value: Array) -> Array:
        a = self.concentration
        log_odds = self.log_mean - jnp.log(a)
        log_coefficient = log_rising(a, value) - gammaln(value + 1.0)
        return log_coefficient - a * softplus(log_odds) - value * softplus(-log_odds)

    def sample(self, key: Array, sample_shape: Shape = ()) -> Array:
        key_rate, key_count = random.split(key)
        return random.poisson(key_count, self._gamma_draws(key_rate, sample_shape))

    @property
    def variance(self) -> Array:
        return self.mean + self.mean**2 / self.concentration


class GammaLogMean(ConcentratedLogMean):
    """Gamma with mean mu = exp(log_mean) and variance mu^2 / concentration."""

    support = constraints.positive  # pyright: ignore[reportAssignmentType]

    def log_prob(self, value: Array) -> Array:
        k = self.concentration
        log_mean_terms = k * (self.log_mean + value * jnp.exp(-self.log_mean))
        return xlogy(k, k) - gammaln(k) + xlogy(k - 1.0, value) - log_mean_terms

    def sample(self, key: Array, sample_shape: Shape = ()) -> Array:
        return self._gamma_draws(key, sample_shape)

    @property
    def variance(self) -> Array:
        return self.mean**2 / self.concentration


class BernoulliLogProbs(ScalarDistribution):
    """Bernoulli: 1 with log probability log_p, 0 with log probability log_q."""

    log_p: Array
    log_q: Array

    arg_constraints: ClassVar = {"log_p": constraints.real, "log_q": constraints.real}
    support = constraints.boolean  # pyright: ignore[reportAssignmentType]

    def log_prob(self, value: Array) -> Array:
        return value * self.log_p + (1 - value) * self.log_q

    def sample(self, key: Array, sample_shape: Shape = ()) -> Array:
        draws = random.bernoulli(key, self.mean, sample_shape + self.batch_shape)
        return draws.astype(jnp.result_type(int))

    @property
    def mean(self) -> Array:
        return jnp.exp(self.log_p)

    @property
    def variance(self) -> Array:
        return jnp.exp(self.log_p + self.log_q)


class BinomialLogProbs(ScalarDistribution):
    """Binomial with log probabilities log_p of success and log_q of failure."""

    log_p: Array
    log_q: Array
    trials: Array

    arg_constraints: ClassVar = {
        "log_p": constraints.real,
        "log_q": constraints.real,
        "trials": constraints.nonnegative_integer,
    }

    @constraints.dependent_property(is_discrete=True, event_dim=0)  # pyright: ignore[reportArgumentType]
    def support(self) -> constraints.Constraint:
        return constraints.integer_interval(0, self.trials)

    def log_prob(self, value: Array) -> Array:
        failures = self.trials - value
        log_coefficient = gammaln(self.trials + 1.0) - gammaln(value + 1.0)
        log_coefficient = log_coefficient - gammaln(failures + 1.0)
        return log_coefficient + value * self.log_p + failures * self.log_q

    def sample(self, key: Array, sample_shape: Shape = ()) -> Array:
        shape = sample_shape + self.batch_shape
        draws = random.binomial(key, self.trials, jnp.exp(self.log_p), shape)
        return draws.astype(jnp.result_type(int))

    @property
    def mean(self) -> Array:
        return self.trials * jnp.exp(self.log_p)

    @property
    def variance(self) -> Array:
        return self.trials * jnp.exp(self.log_p + self.log_q)


class DirichletLogMean(Distribution):
    """Dirichlet(precision * exp(log_mean)), where exp(log_mean), (..., K), sums to one."""

    arg_constraints: ClassVar = {
        "log_mean": constraints.real_vector,
        "precision": constraints.positive,
    }
    support = constraints.simplex  # pyright: ignore[reportAssignmentType]

    def __init__(self, log_mean: Array, precision: Array):
        self.log_mean, self.precision = log_mean, precision
        *batch, parts = jnp.shape(log_mean)
        super().__init__(jnp.broadcast_shapes(tuple(batch), jnp.shape(precision)), (parts,))

    def log_prob(self, value: Array) -> Array:
        return self.log_prob_of_logs(jnp.log(value))

    def log_prob_of_logs(self, log_value: Array) -> Array:
        """Log density of parts, given their logarithms: (..., K) -> (...)."""
        precision = jnp.expand_dims(self.precision, -1)
        a = precision * jnp.exp(self.log_mean)
        # 1 / Gamma(a) = a / Gamma(1 + a), and log a stays finite even if a underflows to 0.
        parts = jnp.log(precision) + self.log_mean - gammaln(1.0 + a) + (a - 1.0) * log_value
        return gammaln(precision)[..., 0] + jnp.sum(parts, -1)

    def sample(self, key: Array, sample_shape: Shape = ()) -> Array:
        a = jnp.expand_dims(self.precision, -1) * self.mean
        return dist.Dirichlet(jnp.maximum(a, jnp.finfo(a.dtype).tiny)).sample(key, sample_shape)

    @property
    def mean(self) -> Array:
        return jnp.broadcast_to(jnp.exp(self.log_mean), self.batch_shape + self.event_shape)

    @property
    def variance(self) -> Array:
        return self.mean * (1.0 - self.mean) / (1.0 + jnp.expand_dims(self.precision, -1))


class BetaLogMean(ScalarDistribution):
    """Beta with mean m = exp(log_p), 1 - m = exp(log_q), and variance m (1 - m)/(1 + precision)."""

    log_p: Array
    log_q: Array
    precision: Array

    arg_constraints: ClassVar = {
        "log_p": constraints.real,
        "log_q": constraints.real,
        "precision": constraints.positive,
    }
    support = constraints.unit_interval  # pyright: ignore[reportAssignmentType]

    @property
    def _as_dirichlet(self) -> DirichletLogMean:
        return DirichletLogMean(jnp.stack([self.log_p, self.log_q], -1), self.precision)

    def log_prob(self, value: Array) -> Array:
        log_value = jnp.stack([jnp.log(value), jnp.log1p(-value)], -1)
        return self._as_dirichlet.log_prob_of_logs(log_value)

    def sample(self, key: Array, sample_shape: Shape = ()) -> Array:
        return self._as_dirichlet.sample(key, sample_shape)[..., 0]

    @property
    def mean(self) -> Array:
        return self._as_dirichlet.mean[..., 0]

    @property
    def variance(self) -> Array:
        return jnp.exp(self.log_p + self.log_q) / (1.0 + self.precision)


def log_rising(a: Array | float, y: Array) -> Array:
    """log(Gamma(a + y) / Gamma(a)), y >= 0."""
    # For large a the difference of two log gammas loses all digits. The difference of two Stirling
    # series does not, and for a > 1e3 the series are exact to machine precision.
    is_large = a > 1e3
    large, small = jnp.where(is_large, a, 1e3), jnp.where(is_large, 1e3, a)
    top = large + y
    series = (large - 0.5) * jnp.log1p(y / large) + y * (jnp.log(top) - 1.0)
    series += (1.0 / top - 1.0 / large) / 12.0 - (1.0 / top**3 - 1.0 / large**3) / 360.0
    return jnp.where(is_large, series, gammaln(small + y) - gammaln(small))


class Within(Distribution):
    """The distribution `base` in rows where `inside` is True; undefined in other rows.

    There, the log density is -inf with a gradient of 0, and mean and draws are NaN. Draws are
    always floats, because integers have no NaN.
    """

    arg_constraints: ClassVar = {}
    pytree_data_fields = ("base", "inside")

    def __init__(self, base: Distribution, inside: Array):
        self.base, self.inside = base, inside
        super().__init__(base.batch_shape, base.event_shape)

    @property
    def support(self) -> constraints.Constraint | None:
        return self.base.support

    def log_prob(self, value: Array) -> Array:
        return jnp.where(self.inside, self.base.log_prob(value), -jnp.inf)

    def sample(self, key: Array, sample_shape: Shape = ()) -> Array:
        return jnp.where(self.inside, self.base.sample(key, sample_shape), jnp.nan)

    @property
    def mean(self) -> Array:
        return jnp.where(self.inside, self.base.mean, jnp.nan)

    @property
    def variance(self) -> Array:
        return jnp.where(self.inside, self.base.variance, jnp.nan)
