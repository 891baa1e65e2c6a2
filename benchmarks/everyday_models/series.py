"""Walks, smooths and series."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro import sample

from tests.inference.zoo.moments import Moments, gaussian, grid, mixed, on_grid


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


def _monthly_sales(rng: np.random.Generator) -> np.ndarray:
    e = np.zeros(80)
    for t in range(1, 80):
        e[t] = 0.7 * e[t - 1] + rng.normal(0, 30)
    return 900 + 2.5 * np.arange(80) + e


def autoregression(rng: np.random.Generator) -> Callable[[], None]:
    """Trend and first-order errors of 80 monthly sales."""
    y = _monthly_sales(rng)

    def model():
        a, b = sample("a", dist.Normal(1000, 300)), sample("b", dist.Normal(0, 10))
        rho, sd = sample("rho", dist.Uniform(-1, 1)), sample("sd", dist.HalfNormal(100))
        trend = a + b * jnp.arange(80.0)
        left = jnp.asarray(y) - trend
        sample("first", dist.Normal(trend[0], sd / jnp.sqrt(1 - rho**2)), obs=y[0])
        mean = trend[1:] + rho * left[:-1]
        sample("y", dist.Normal(mean, sd).to_event(1), obs=jnp.asarray(y[1:]))

    return model


def autoregression_truth(rng: np.random.Generator) -> dict[str, Moments]:
    """Moments by quadrature over rho and sd, with the trend integrated out.

    Near rho = 1 the level is free. A long chain can stay there, where 4e-5 of the mass lies.
    """
    y = _monthly_sales(rng) - 1000.0
    trend, prior = np.column_stack([np.ones(80), np.arange(80.0)]), np.diag([300.0**-2, 10.0**-2])

    def at(u: float, sd: float) -> tuple[float, Moments]:
        """Log density of (artanh rho, log sd), and the moments of the trend given them."""
        rho = np.tanh(u)
        weights = np.r_[np.sqrt(1.0 - rho**2), np.ones(79)] / sd
        rows = np.column_stack([trend, y])
        rows = weights[:, None] * (rows - rho * np.r_[np.zeros((1, 3)), rows[:-1]])
        X, left = rows[:, :2], rows[:, 2]
        precision, shift = X.T @ X + prior, X.T @ left
        given = gaussian(precision, shift)
        log_p = np.sum(np.log(weights)) - 0.5 * (left @ left - shift @ given.mean)
        log_p -= 0.5 * np.linalg.slogdet(precision)[1] + 0.5 * (sd / 100.0) ** 2
        return log_p + np.log(sd) - 2.0 * np.log(np.cosh(u)), given

    u, sd = grid(np.linspace(-2.0, 9.0, 600), np.exp(np.linspace(np.log(15.0), np.log(70.0), 50)))
    results = [at(*point) for point in zip(*map(np.ravel, np.broadcast_arrays(u, sd)), strict=True)]
    log_p = np.array([x for x, _ in results])
    means, sds = (np.array(x) for x in zip(*(given for _, given in results), strict=True))
    trends = mixed(log_p, means + np.array([1000.0, 0.0]), sds)
    a, b = map(Moments, trends.mean, trends.sd)
    return {"a": a, "b": b, **on_grid(log_p.reshape(600, 50), rho=np.tanh(u), sd=sd)}


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
# Exact moments, from the generator of the data.
EXACT = {"autoregression": autoregression_truth}
