"""Maximum likelihood where the log density has plateaus, limits and ridges."""

from functools import cache

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.distributions import constraints
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

import bayeskern as bk
from bayeskern import Free
from bayeskern.kernels import RBF, Matern12

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0.0, 10.0, 50))
Y = np.sin(X) + 0.1 * RNG.normal(size=50)
# Two places, a distance of 120 apart.
PAIRS = np.array([30.0, 30.0, 150.0, 150.0]), np.array([705.0, 650.0, 1190.0, 1245.0])


def gp(scale=1.0, noise=None, **options):
    kernel = RBF(Free(1.0), variance=Free(1.0))
    kernel = kernel if scale == 1.0 else Free(scale) * kernel
    return bk.GPRegression(kernel, noise=Free(1.0) if noise is None else noise, **options)


def mle(model, *data, **options):
    method = bk.MLE(**options)
    return bk.infer(model, *data, method=method, seed=0, progress=False)


def log_marginal_likelihood(log_parameters, x, y):
    lengthscale, variance, noise = np.exp(log_parameters)
    K = variance * np.exp(-0.5 * ((x[:, None] - x) / lengthscale) ** 2) + noise * np.eye(len(x))
    return multivariate_normal(cov=K, allow_singular=False).logpdf(y)


def best_of_many_starts(x, y, centre):
    rng = np.random.default_rng(1)
    starts = np.log(centre) + rng.normal(size=(5, 3))
    options = {"maxiter": 4000, "xatol": 1e-7, "fatol": 1e-10}
    fits = [
        minimize(
            lambda t: -log_marginal_likelihood(t, x, y),
            start,
            method="Nelder-Mead",
            options=options,
        )
        for start in starts
    ]
    best = min(fits, key=lambda fit: fit.fun)
    return np.exp(best.x), -best.fun


@cache
def peer_of_data():
    """Parameters and log density that SciPy finds for X and Y."""
    return best_of_many_starts(X, Y, [2.0, 1.0, 0.01])


def test_two_places_far_from_the_start():
    """By hand: sum and difference of the two means have variances 2 v (1 +- r) + noise."""
    noise = (55.0**2 + 55.0**2) / 4.0
    sums, differences = 0.5 * (677.5 + 1217.5) ** 2, 0.5 * (677.5 - 1217.5) ** 2
    v = 0.5 * (sums + differences - noise)
    r = 0.5 * (sums - differences) / v
    lengthscale = 120.0 / np.sqrt(-2.0 * np.log(r))
    expected = [lengthscale, v, noise]
    log_density = log_marginal_likelihood(np.log(expected), *PAIRS)
    np.testing.assert_allclose([lengthscale, log_density], [210.829, -26.8358], rtol=1e-5)
    found, peer = best_of_many_starts(*PAIRS, [100.0, 1e6, 1e3])
    np.testing.assert_allclose(found, expected, rtol=1e-3)
    np.testing.assert_allclose(peer, log_density, atol=1e-6)

    posterior = mle(gp(), *PAIRS)
    point = posterior.point()
    ours = [point[name] for name in ("lengthscale", "variance", "noise")]
    np.testing.assert_allclose(ours, expected, rtol=1e-4)
    np.testing.assert_allclose(posterior.optimum.log_density, log_density, atol=1e-6)
    # The plateau of short lengthscales is 0.64 nats lower: the data hardly exclude it.
    assert posterior.trust.verdict == "bad" and "0.64 nats lower" in posterior.trust.advice


@pytest.mark.slow
def test_model_without_known_units_leaves_the_plateau():
    def model(x, y):
        ell, v, s = (
            numpyro.param(name, 1.0, constraint=constraints.positive) for name in ("ell", "v", "s")
        )
        K = v * jnp.exp(-0.5 * ((x[:, None] - x) / ell) ** 2) + s * jnp.eye(len(x))
        numpyro.sample("y", dist.MultivariateNormal(0.0, K), obs=y)

    posterior = mle(model, *PAIRS)
    np.testing.assert_allclose(posterior.optimum.log_density, -26.83582, atol=1e-4)
    np.testing.assert_allclose(posterior.point()["ell"], 210.829, rtol=1e-3)
    # One start alone stays where it is, and says so.
    alone = mle(model, *PAIRS, starts=1)
    assert alone.trust.verdict == "bad"
    assert "data do not determine ell:" in alone.trust.advice


def test_the_verdict_names_what_the_data_do_not_determine():
    """Alternating signs, far apart: every lengthscale below 30 has the same density."""
    x, y = 120.0 * np.arange(6), np.array([1.0, -1.0, 1.2, -0.8, 1.1, -1.3])
    posterior = mle(gp(), x, y)
    at = np.log([posterior.point()[name] for name in ("lengthscale", "variance", "noise")])
    changes = [
        log_marginal_likelihood(at + np.array([s, 0.0, 0.0]), x, y) for s in (-2.3, 0.0, 2.3)
    ]
    assert np.ptp(changes) < 1e-3
    assert posterior.trust.verdict == "bad"
    assert "data do not determine lengthscale:" in posterior.trust.advice


@pytest.mark.slow
def test_the_verdict_names_a_ridge():
    posterior = mle(gp(scale=1.5), X, Y)
    assert posterior.trust.verdict == "bad"
    assert "data do not determine scale and variance apart" in posterior.trust.advice


@pytest.mark.parametrize(("a", "b"), [(1e-6, 1e-9), (1.0, 1e9), (1e6, 1.0)])
def test_well_determined_optima_are_valid_in_all_units(a, b):
    (lengthscale, variance, noise), peer = peer_of_data()
    posterior = mle(gp(), a * X, b * Y)
    point = posterior.point()
    expected = [a * lengthscale, b**2 * variance, b**2 * noise]
    ours = [point[name] for name in ("lengthscale", "variance", "noise")]
    np.testing.assert_allclose(ours, expected, rtol=1e-3)
    np.testing.assert_allclose(
        posterior.optimum.log_density, peer - len(X) * np.log(b), rtol=1e-9, atol=1e-5
    )
    assert posterior.trust.verdict == "not assessable", posterior.trust.advice
    assert posterior.trust.advice.startswith("The optimum is valid")


@pytest.mark.slow
def test_mean_in_large_units():
    """A free mean of 1e9: its curvature of 1e-18 is not a plateau."""
    posterior = mle(gp(mean=Free(0.0)), 1e6 * X, 1e9 * (Y + 5.0))
    assert posterior.trust.advice.startswith("The optimum is valid")
    np.testing.assert_allclose(posterior.point()["mean"] / 1e9, 5.15, atol=0.3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "y", "name", "limit"),
    [
        (Matern12(Free(1.0), variance=Free(1.0)), np.sin(X), "noise", "falls"),
        (RBF(Free(1.0), variance=100.0), 5.0 + 0.3 * RNG.normal(size=50), "lengthscale", "grows"),
    ],
)
def test_optimum_at_a_limit_is_valid_and_said_to_be_one(kernel, y, name, limit):
    posterior = mle(bk.GPRegression(kernel, noise=Free(1.0)), X, y)
    assert posterior.trust.verdict == "not assessable"
    assert f"levels off as {name} {limit}" in posterior.trust.advice
