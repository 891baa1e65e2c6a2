"""Regressions without groups."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro import deterministic, plate, sample


def linear_regression(rng: np.random.Generator) -> Callable[[], None]:
    """Rent by area, rooms and age, 120 flats."""
    X = np.stack([rng.normal(70, 25, 120), rng.poisson(3, 120), rng.uniform(0, 80, 120)], axis=1)
    y = 250.0 + X @ [9.0, 40.0, -2.0] + rng.normal(0, 90, 120)

    def model():
        b0, sd = sample("b0", dist.Normal(800, 500)), sample("sd", dist.Exponential(0.01))
        b = sample("b", dist.Normal(0, 100).expand([3]).to_event(1))
        sample("y", dist.Normal(b0 + jnp.asarray(X) @ b, sd), obs=jnp.asarray(y))

    return model


def logistic_regression(rng: np.random.Generator) -> Callable[[], None]:
    """Default by income and debt, 200 persons."""
    X = np.stack([rng.lognormal(10.3, 0.4, 200) / 1e4, rng.gamma(2.0, 2.0, 200)], axis=1)
    y = rng.binomial(1, 1 / (1 + np.exp(1.0 + 0.5 * X[:, 0] - 0.4 * X[:, 1])))

    def model():
        a, b = sample("a", dist.Normal(0, 5)), sample("b", dist.Normal(0, 2).expand([2]))
        sample("y", dist.Bernoulli(logits=a + jnp.asarray(X) @ b), obs=jnp.asarray(y))

    return model


def negative_binomial(rng: np.random.Generator) -> Callable[[], None]:
    """Visits to a doctor by age and insurance, 150 persons."""
    age, insured = rng.uniform(20, 80, 150), rng.binomial(1, 0.7, 150)
    mean = np.exp(0.2 + 0.015 * age + 0.4 * insured)
    y = rng.poisson(mean * rng.gamma(1.5, 1 / 1.5, 150))

    def model():
        a, b = sample("a", dist.Normal(0, 3)), sample("b", dist.Normal(0, 0.1))
        c, shape = sample("c", dist.Normal(0, 2)), sample("shape", dist.Gamma(2, 1))
        mean = jnp.exp(a + b * jnp.asarray(age) + c * jnp.asarray(insured))
        sample("y", dist.NegativeBinomial2(mean, shape), obs=jnp.asarray(y))

    return model


def ordered_grades(rng: np.random.Generator) -> Callable[[], None]:
    """Grades 0 to 3 by hours of study, 120 pupils."""
    hours = rng.gamma(3.0, 3.0, 120)
    y = np.sum(0.2 * hours[:, None] + rng.logistic(size=(120, 1)) > [0.0, 1.5, 3.5], axis=1)

    def model():
        b = sample("b", dist.Normal(0, 1))
        ordered = dist.transforms.OrderedTransform()
        cuts = sample("cuts", dist.TransformedDistribution(dist.Normal(0, 3).expand([3]), ordered))
        sample("y", dist.OrderedLogistic(b * jnp.asarray(hours), cuts), obs=jnp.asarray(y))

    return model


def weibull_survival(rng: np.random.Generator) -> Callable[[], None]:
    """Days to failure of 80 machines, censored after 400 days."""
    load = rng.uniform(0.5, 2.0, 80)
    t = 350.0 / load * rng.weibull(1.6, 80)
    failed, t = t < 400.0, np.minimum(t, 400.0)

    def model():
        a, b = sample("a", dist.Normal(6, 2)), sample("b", dist.Normal(0, 2))
        k = sample("k", dist.Gamma(2, 1))
        z = k * (jnp.log(t) - a - b * jnp.log(load))
        numpyro.factor("y", jnp.sum(failed * (jnp.log(k / t) + z) - jnp.exp(z)))

    return model


def shares(rng: np.random.Generator) -> Callable[[], None]:
    """Share of a budget spent on food by income, beta regression, 90 households."""
    income = rng.lognormal(8.0, 0.5, 90)
    mean = 1 / (1 + np.exp(-(6.0 - 0.9 * np.log(income))))
    y = np.clip(rng.beta(20 * mean, 20 * (1 - mean)), 1e-4, 1 - 1e-4)

    def model():
        a, b = sample("a", dist.Normal(0, 10)), sample("b", dist.Normal(0, 2))
        precision = sample("precision", dist.HalfNormal(50))
        mean = jax.nn.sigmoid(a + b * jnp.log(income))
        sample("y", dist.BetaProportion(mean, precision), obs=jnp.asarray(y))

    return model


def robust_regression(rng: np.random.Generator) -> Callable[[], None]:
    """Calibration of an instrument with outliers, 60 readings."""
    x = rng.uniform(0, 100, 60)
    y = 3.0 + 1.7 * x + 2.0 * rng.standard_t(2.0, 60)

    def model():
        a, b = sample("a", dist.Normal(0, 50)), sample("b", dist.Normal(0, 10))
        sd, nu = sample("sd", dist.HalfNormal(10)), sample("nu", dist.Gamma(2, 0.1))
        sample("y", dist.StudentT(nu, a + b * jnp.asarray(x), sd), obs=jnp.asarray(y))

    return model


def emergency_visits(rng: np.random.Generator) -> Callable[[], None]:
    """Zero-inflated counts by temperature, 200 days."""
    warm = rng.normal(15, 8, 200)
    y = rng.poisson(np.exp(0.3 + 0.05 * warm)) * rng.binomial(1, 0.7, 200)

    def model():
        a, b = sample("a", dist.Normal(0, 2)), sample("b", dist.Normal(0, 0.5))
        gate = sample("gate", dist.Beta(1, 1))
        rate = jnp.exp(a + b * jnp.asarray(warm))
        sample("y", dist.ZeroInflatedPoisson(gate, rate), obs=jnp.asarray(y))

    return model


def dose_response(rng: np.random.Generator) -> Callable[[], None]:
    """Four-parameter logistic curve of an assay, 8 doses x 3, in fluorescence units."""
    dose = np.repeat(10.0 ** np.arange(-2, 6) / 3, 3)
    y = 400 + 5200 / (1 + (35.0 / dose) ** 1.2) + rng.normal(0, 150, 24)

    def model():
        low, high = sample("low", dist.Normal(500, 500)), sample("high", dist.Normal(5000, 2000))
        log_half = sample("log_half", dist.Normal(3, 3))
        slope = sample("slope", dist.LogNormal(0, 0.7))
        sd = sample("sd", dist.HalfNormal(500))
        share = jax.nn.sigmoid(slope * (jnp.log(jnp.asarray(dose)) - log_half))
        sample("y", dist.Normal(low + (high - low) * share, sd), obs=jnp.asarray(y))

    return model


def travel_choices(rng: np.random.Generator) -> Callable[[], None]:
    """Three means of transport by income and distance, 150 persons."""
    X = np.stack([rng.lognormal(0, 0.5, 150), rng.gamma(2, 3, 150)], axis=1)
    utility = np.array([0.0, 0.5, -1.0]) + X @ np.array([[0, 0.8, 0.2], [0, -0.1, 0.2]])
    y = np.argmax(utility + rng.gumbel(size=(150, 3)), axis=1)

    def model():
        a = sample("a", dist.Normal(0, 2).expand([2]).to_event(1))
        b = sample("b", dist.Normal(0, 1).expand([2, 2]).to_event(2))
        logits = jnp.pad(a + jnp.asarray(X) @ b, ((0, 0), (1, 0)))
        sample("y", dist.Categorical(logits=logits), obs=jnp.asarray(y))

    return model


def horseshoe(rng: np.random.Generator) -> Callable[[], None]:
    """Regularised horseshoe, 30 columns of which 3 matter, 80 rows."""
    X = rng.normal(size=(80, 30))
    y = X[:, :3] @ [2.0, -1.5, 1.0] + rng.normal(size=80)

    def model():
        sd, tau = sample("sd", dist.HalfNormal(2)), sample("tau", dist.HalfCauchy(0.05))
        slab2 = sample("slab2", dist.InverseGamma(2, 8))
        with plate("column", 30):
            local, z = sample("local", dist.HalfCauchy(1)), sample("z", dist.Normal(0, 1))
        scale = jnp.sqrt(slab2 * local**2 / (slab2 + tau**2 * local**2))
        b = deterministic("b", z * tau * scale)
        sample("y", dist.Normal(jnp.asarray(X) @ b, sd), obs=jnp.asarray(y))

    return model


MODELS = (
    linear_regression,
    logistic_regression,
    negative_binomial,
    ordered_grades,
    weibull_survival,
    shares,
    robust_regression,
    emergency_visits,
    dose_response,
    travel_choices,
    horseshoe,
)
