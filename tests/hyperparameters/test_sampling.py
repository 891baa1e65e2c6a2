"""Hyperparameters inside a NumPyro model."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.distributions import constraints
from scipy import stats

from bayeskern.hyperparameters import at_medians
from bayeskern.kernels import (
    RBF,
    Free,
    Linear,
    Matern32,
    Periodic,
    from_sd,
    sample,
)


def test_sample():
    k = (
        (Periodic(period=dist.Gamma(2.0, 1.0)) * RBF(variance=Free(0.4))).named("season")
        + dist.HalfNormal(2.0) * Linear(center=Free([0.1, 0.2]))
        + Matern32(lengthscale=dist.LogNormal(jnp.zeros(2), 1.0).to_event(1)).named("short")
    )
    seen = {}

    def model():
        seen["kernel"] = sample(k, "f")

    trace = handlers.trace(handlers.seed(model, 3)).get_trace()
    priors = {
        "f.season.periodic.period": dist.Gamma,
        "f.linear.scale": dist.HalfNormal,
        "f.short.lengthscale": dist.Independent,
    }
    free = {"f.season.rbf.variance": 0.4, "f.linear.center": [0.1, 0.2]}
    assert set(trace) == {*priors, *free}
    for name, kind in priors.items():
        assert trace[name]["type"] == "sample" and isinstance(trace[name]["fn"], kind)
    for name, value in free.items():
        assert trace[name]["type"] == "param"
        np.testing.assert_array_equal(trace[name]["value"], value)
    assert trace["f.season.rbf.variance"]["kwargs"]["constraint"] is constraints.positive
    assert trace["f.linear.center"]["kwargs"]["constraint"] is constraints.real
    # the concrete kernel holds the values of the trace, and nothing else has changed
    values = seen["kernel"].require_concrete().hyperparameters()
    for name, site in trace.items():
        np.testing.assert_array_equal(values[name.removeprefix("f.")], site["value"])
    rest = set(values) - {name.removeprefix("f.") for name in trace}
    for name in rest:
        np.testing.assert_array_equal(values[name], k.hyperparameters()[name])


def test_sample_uses_substituted_values():
    k = RBF(lengthscale=dist.LogNormal(0.0, 1.0), variance=Free(1.0))
    X, values = np.linspace(0.0, 1.0, 4), {"lengthscale": 0.3, "variance": 2.0}
    actual = handlers.substitute(lambda: sample(k)(X), values)()
    np.testing.assert_allclose(actual, RBF(lengthscale=0.3, variance=2.0)(X), rtol=1e-14)


def test_concrete_kernel_has_no_sites():
    k = RBF() + Linear()
    assert handlers.trace(lambda: sample(k)).get_trace() == {}
    assert sample(k) is k


@pytest.mark.slow
def test_sample_a_metric():
    k = RBF(lengthscale=dist.LKJCholesky(3, 2.0))
    L = handlers.seed(lambda: sample(k), 0)().lengthscale
    X = np.random.default_rng(0).normal(size=(4, 3))
    y = np.linalg.solve(np.asarray(L), X.T).T
    expected = np.exp(-((y[:, None] - y[None]) ** 2).sum(-1) / 2)
    np.testing.assert_allclose(RBF(lengthscale=L)(X), expected, rtol=1e-12)
    free = RBF(lengthscale=Free(np.eye(2)))
    trace = handlers.trace(lambda: sample(free)).get_trace()
    assert trace["lengthscale"]["kwargs"]["constraint"] is constraints.lower_cholesky


def test_log_density_of_sampled_kernel():
    k = RBF(lengthscale=dist.LogNormal(0.2, 0.5), variance=from_sd(dist.HalfNormal(0.5)))
    values = {"k.lengthscale": 0.8, "k.variance": 0.36}
    actual, _ = numpyro.infer.util.log_density(lambda: sample(k, "k"), (), {}, values)
    expected = stats.lognorm(0.5, scale=np.exp(0.2)).logpdf(0.8)
    expected += stats.halfnorm(scale=0.5).logpdf(0.6) - np.log(2 * 0.6)
    np.testing.assert_allclose(actual, expected, rtol=1e-12)


@pytest.mark.slow
def test_medians_of_priors():
    kernel = (
        (Periodic(dist.LogNormal(0.3, 2.0), Free(0.4), from_sd(dist.HalfNormal(2.0)))).named("a")
        + Matern32(dist.LogNormal(jnp.array([0.1, -1.0]), 1.0).to_event(1), variance=7.0).named("b")
        + RBF(dist.Gamma(2.0, 3.0), dist.HalfNormal(jnp.array(0.5))).named("c")
    )
    found = at_medians(kernel).require_concrete().hyperparameters()
    half_normal = stats.norm.ppf(0.75)
    exact = {
        "a.period": np.exp(0.3),
        "a.lengthscale": 0.4,
        "a.variance": (2.0 * half_normal) ** 2,
        "b.variance": 7.0,
        "c.variance": 0.5 * half_normal,
    }
    for name, median in exact.items():
        np.testing.assert_allclose(found[name], median, rtol=1e-9)
    # Of 10,001 draws, the standard error of the median is 1 / (2 density sqrt(10,001)).
    gamma, log_normal = stats.gamma(2.0, scale=1 / 3), stats.lognorm(1.0, scale=np.exp([0.1, -1.0]))
    for name, prior in {"b.lengthscale": log_normal, "c.lengthscale": gamma}.items():
        error = 0.5 / (prior.pdf(prior.median()) * np.sqrt(10_001))
        assert np.all(np.abs(found[name] - prior.median()) < 4.5 * error)
