"""Walks, smooths and series."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro import sample


def penalised_spline(rng: np.random.Generator) -> Callable[[], None]:
    """A smooth curve by 20 hat functions with a random-walk penalty, 100 points."""
    x = np.sort(rng.uniform(0, 1, 100))
    y = 50.0 + 10.0 * np.sin(6.0 * x) + rng.normal(0, 3, 100)
    knots = np.linspace(0, 1, 20)
    B = np.maximum(0.0, 1.0 - np.abs(x[:, None] - knots) / (knots[1] - knots[0]))

    def model():
        sd, tau = sample("sd", dist.HalfNormal(10)), sample("tau", dist.HalfNormal(10))
        first = sample("first", dist.Normal(50, 30))
        z = sample("z", dist.Normal(0, 1).expand([19]).to_event(1))
        w = first + jnp.concatenate([jnp.zeros(1), tau * jnp.cumsum(z)])
        sample("y", dist.Normal(jnp.asarray(B) @ w, sd), obs=jnp.asarray(y))

    return model


def random_walk_of_counts(rng: np.random.Generator) -> Callable[[], None]:
    """100 weekly counts whose log rate wanders."""
    y = rng.poisson(np.exp(2.0 + np.cumsum(rng.normal(0, 0.15, 100))))

    def model():
        first, tau = sample("first", dist.Normal(2, 2)), sample("tau", dist.HalfNormal(0.5))
        z = sample("z", dist.Normal(0, 1).expand([99]).to_event(1))
        rate = first + jnp.concatenate([jnp.zeros(1), tau * jnp.cumsum(z)])
        sample("y", dist.Poisson(jnp.exp(rate)).to_event(1), obs=jnp.asarray(y))

    return model


def volatile_returns(rng: np.random.Generator) -> Callable[[], None]:
    """Stochastic volatility of 150 daily returns, per cent, non-centred."""
    log_sd = -0.2 + np.cumsum(rng.normal(0, 0.15, 150))
    y = np.exp(log_sd) * rng.standard_t(8, 150)

    def model():
        first, step = sample("first", dist.Normal(0, 1)), sample("step", dist.Exponential(5))
        nu = sample("nu", dist.Gamma(2, 0.1))
        z = sample("z", dist.Normal(0, 1).expand([149]).to_event(1))
        log_sd = first + jnp.concatenate([jnp.zeros(1), step * jnp.cumsum(z)])
        sample("y", dist.StudentT(nu, 0.0, jnp.exp(log_sd)).to_event(1), obs=jnp.asarray(y))

    return model


def autoregression(rng: np.random.Generator) -> Callable[[], None]:
    """Trend and first-order errors of 80 monthly sales."""
    e = np.zeros(80)
    for t in range(1, 80):
        e[t] = 0.7 * e[t - 1] + rng.normal(0, 30)
    y = 900 + 2.5 * np.arange(80) + e

    def model():
        a, b = sample("a", dist.Normal(1000, 300)), sample("b", dist.Normal(0, 10))
        rho, sd = sample("rho", dist.Uniform(-1, 1)), sample("sd", dist.HalfNormal(100))
        trend = a + b * jnp.arange(80.0)
        left = jnp.asarray(y) - trend
        sample("first", dist.Normal(trend[0], sd / jnp.sqrt(1 - rho**2)), obs=y[0])
        mean = trend[1:] + rho * left[:-1]
        sample("y", dist.Normal(mean, sd).to_event(1), obs=jnp.asarray(y[1:]))

    return model


def smooth_by_process(rng: np.random.Generator) -> Callable[[], None]:
    """Gaussian process with its scales, Poisson counts at 30 places of a coast, km."""
    km = np.sort(rng.uniform(0, 100, 30))
    y = rng.poisson(np.exp(1.5 + np.sin(km / 12)))

    def model():
        m, amplitude = sample("m", dist.Normal(1, 1)), sample("amplitude", dist.HalfNormal(1))
        length = sample("length", dist.InverseGamma(3, 40))
        z = sample("z", dist.Normal(0, 1).expand([30]).to_event(1))
        gap = jnp.asarray(km)[:, None] - jnp.asarray(km)
        K = jnp.exp(-0.5 * (gap / length) ** 2) + 1e-6 * jnp.eye(30)
        rate = jnp.exp(m + amplitude * jnp.linalg.cholesky(K) @ z)
        sample("y", dist.Poisson(rate).to_event(1), obs=jnp.asarray(y))

    return model


MODELS = (
    penalised_spline,
    random_walk_of_counts,
    volatile_returns,
    autoregression,
    smooth_by_process,
)
