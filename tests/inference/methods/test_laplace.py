"""The Laplace approximation against posteriors in closed form, and its verdicts."""

import re

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.distributions import constraints
from scipy import stats
from scipy.special import gammaln

import bayeskern as bk
from bayeskern.inference import Laplace
from bayeskern.inference.model import cost
from bayeskern.inference.search.modes import Optimum
from bayeskern.protocols import DoesNotApplyError
from tests.marks import few, slow

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3)) * [1.0, 100.0, 0.01]
Y = X @ [1.0, 0.02, -50.0] + 0.5 * RNG.normal(size=30)
PRIOR_SD = np.array([2.0, 0.05, 100.0])


def fit(model, *args, seed=0, **options):
    return bk.infer(model, *args, method=Laplace(**options), seed=seed, progress=False)


def regression(X, y, noise=0.5):
    w = numpyro.sample("w", dist.Normal(0.0, PRIOR_SD).to_event(1))
    numpyro.sample("y", dist.Normal(X @ w, noise), obs=y)


def test_gaussian_posterior_is_exact():
    # Linear regression with known noise: Bishop (2006), equations 3.50, 3.51; the evidence is
    # Gaussian with covariance X P X' + noise^2 I.
    posterior = fit(regression, X, Y, draws=20_000)
    precision = X.T @ X / 0.25 + np.diag(PRIOR_SD**-2.0)
    covariance = np.linalg.inv(precision)
    mean = covariance @ X.T @ Y / 0.25
    q, sd = posterior.approximation, np.sqrt(np.diag(covariance))
    np.testing.assert_allclose((q.means[0] - mean) / sd, 0.0, atol=1e-3)
    np.testing.assert_allclose(q.trils[0] @ q.trils[0].T, covariance, rtol=1e-6)
    evidence = stats.multivariate_normal(
        np.zeros(30), (X * PRIOR_SD**2) @ X.T + 0.25 * np.eye(30)
    ).logpdf(Y)
    np.testing.assert_allclose(posterior.log_evidence.value, evidence, atol=1e-5)
    assert np.isnan(posterior.log_evidence.error)
    # An exact approximation is good.
    assert posterior.trust.verdict == "good"
    np.testing.assert_allclose(posterior.elbo.value, evidence, atol=1e-5)
    assert posterior.trust.evidence["mean_shift"] < 0.05
    # And the draws follow it: 5 standard errors.
    draws = posterior.flat["w"]
    np.testing.assert_allclose((draws.mean(0) - mean) / sd, 0.0, atol=5 / np.sqrt(20_000))
    np.testing.assert_allclose(draws.std(0) / sd, 1.0, atol=5 / np.sqrt(40_000))
    assert posterior.draws["w"].shape == (1, 20_000, 3)


def test_gaussian_is_in_unconstrained_coordinates():
    # Gamma(3, 1): in log s the mode is log 3 with curvature 3.
    posterior = fit(lambda: numpyro.sample("s", dist.Gamma(3.0, 1.0)), draws=20_000)
    z = np.log(posterior.flat["s"])
    assert stats.kstest(z, stats.norm(np.log(3.0), 3.0**-0.5).cdf).pvalue > 1e-4
    # Laplace's formula for the integral of e^(3 z - e^z) is Stirling's for Gamma(3).
    stirling = 3 * np.log(3) - 3 + 0.5 * np.log(2 * np.pi / 3)
    np.testing.assert_allclose(posterior.log_evidence.value, stirling - gammaln(3.0), atol=1e-7)


@pytest.mark.slow
def test_flat_priors_in_raw_units():
    # Intercept -8e4, slope 1e3, sigma 2e4: the posterior is in closed form, and flat priors have
    # no evidence.
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 120, 400)
    A = np.stack([np.ones(400), x], axis=1)
    y = A @ [-8e4, 1e3] + 2e4 * rng.normal(size=400)

    def model(A, y):
        b = numpyro.sample("b", dist.ImproperUniform(constraints.real, (), (2,)))
        s = numpyro.sample("s", dist.ImproperUniform(constraints.positive, (), ()))
        numpyro.sample("y", dist.Normal(A @ b, s), obs=y)

    posterior = fit(model, A, y)
    assert posterior.optimum.converged and posterior.log_evidence is None
    assert posterior.trust.verdict == "good"
    b, (rss,) = np.linalg.lstsq(A, y)[:2]
    # sigma^2 / rss is inverse chi-square with n - d - 1 degrees of freedom, and b a Student t.
    sd = np.sqrt(rss / (397 - 2) * np.diag(np.linalg.inv(A.T @ A)))
    np.testing.assert_allclose((posterior.flat["b"].mean(0) - b) / sd, 0.0, atol=0.1)
    np.testing.assert_allclose(posterior.flat["b"].std(0) / sd, 1.0, atol=0.1)


# -- invalid Hessians ----------------------------------------------------------------------------


def test_flat_direction_names_the_site():
    def model(y):
        idle = numpyro.sample("idle", dist.ImproperUniform(constraints.real, (), ()))
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(mu + 0.0 * idle, 1.0), obs=y)

    posterior = fit(model, np.arange(3.0))
    assert posterior.trust.verdict == "bad"
    assert "is flat along idle" in posterior.trust.advice
    assert posterior.log_evidence is None
    assert np.all(np.isfinite(posterior.z))


def optimum(hessian):
    d = len(hessian)
    return Optimum(
        z=np.zeros(d),
        log_density=0.0,
        gradient=np.zeros(d),
        curvature=lambda: np.asarray(hessian, float),
        ends=np.zeros((1, d)),
        start_log_densities=np.zeros(1),
        coordinates=("a", "b", "c")[:d],
        mode="unconstrained",
    )


def test_positive_definite_hessian_is_inverted():
    size = np.array([1e-4, 1e3, 1.0])
    correlation = np.array([[1.0, 0.9, 0.2], [0.9, 1.0, 0.1], [0.2, 0.1, 1.0]])
    L, repaired = optimum(correlation / np.outer(size, size)).inverse_root
    assert repaired is None
    np.testing.assert_array_equal(np.triu(L, 1), 0.0)
    np.testing.assert_allclose(
        L @ L.T / np.outer(size, size), np.linalg.inv(correlation), rtol=1e-9
    )


@pytest.mark.parametrize(
    ("hessian", "says"),
    [
        (np.diag([2.0, -1.0, 3.0]), "density rises along b"),
        (np.diag([2.0, 1.0, 0.0]), "density is flat along c"),
        (np.diag([-2.0, 1.0, 0.0]), "rises along a.*is flat along c"),
        (np.diag([np.nan, 1.0, 1.0]), "not finite"),
    ],
)
def test_indefinite_hessian_is_repaired_and_reported(hessian, says):
    L, repaired = optimum(hessian).inverse_root
    assert np.all(np.isfinite(L)) and np.all(np.diag(L) > 0)
    assert re.search(says, repaired)
    # The sound directions are what they would have been.
    if hessian[0, 0] > 0:
        np.testing.assert_allclose(L[0, 0], 2.0**-0.5, rtol=1e-9)


def test_density_without_a_mode_is_bad():
    def model():
        numpyro.sample("mu", dist.Normal())
        up = numpyro.sample("up", dist.ImproperUniform(constraints.real, (), ()))
        numpyro.factor("f", up)

    posterior = fit(model)
    assert posterior.trust.verdict == "bad"
    assert "did not converge" in posterior.trust.advice and "along up" in posterior.trust.advice
    assert posterior.log_evidence is None


@pytest.mark.parametrize("hessian", few(["gauss_newton", "fisher"], "gauss_newton"))
def test_all_hessians_agree_for_a_linear_model(hessian):
    exact, found = fit(regression, X, Y), fit(regression, X, Y, hessian=hessian)
    np.testing.assert_allclose(found.optimum.hessian, exact.optimum.hessian, rtol=1e-8)
    np.testing.assert_allclose(found.log_evidence.value, exact.log_evidence.value, rtol=1e-8)
    assert found.trust.verdict == "good"


def kinked_prior(y):
    with numpyro.plate("groups", 2):
        effect = numpyro.sample("effect", dist.Laplace(0.0, 1.0))
    numpyro.sample("y", dist.Normal(jnp.sum(effect), 1.0), obs=y)


def kinked_noise(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("data", dist.AsymmetricLaplace(mu, 1.0, 0.5).mask(True), obs=y)


def kinked_once_moved(y):
    a = numpyro.sample(
        "a", dist.TransformedDistribution(dist.Laplace(), dist.transforms.ExpTransform())
    )
    numpyro.sample("y", dist.Normal(a, 1.0), obs=y)


@pytest.mark.parametrize(
    ("model", "site"),
    [
        (kinked_noise, "data"),
        slow(kinked_prior, "effect"),
        slow(kinked_once_moved, "a"),
    ],
)
def test_density_with_kinks_is_refused(model, site):
    with pytest.raises(DoesNotApplyError, match=f"the site '{site}' has kinks.*method='nuts'"):
        fit(model, np.array([0.3, -1.0, 2.0]))
    # Its mode is fine.
    mode = bk.infer(model, np.array([0.3, -1.0, 2.0]), method="map", progress=False)
    assert mode.trust.verdict != "good"


@pytest.mark.slow
def test_smooth_relatives_of_kinked_densities_are_accepted():
    def smooth(y):
        mu = numpyro.sample("mu", dist.SoftLaplace(0.0, 1.0))
        numpyro.sample("y", dist.StudentT(5.0, mu, 1.0), obs=y)

    assert fit(smooth, np.array([0.3, -1.0, 2.0])).trust.verdict in ("good", "caution")


@pytest.mark.slow
def test_flat_priors_in_a_plate():
    y, sd = np.array([0.3, -2.0, 5.0]), np.array([1.0, 0.5, 2.0])

    def model(y):
        with numpyro.plate("row", 3):
            x = numpyro.sample("x", dist.ImproperUniform(dist.constraints.real, (), ()))
            numpyro.sample("y", dist.Normal(x, sd), obs=y)

    x = fit(model, y, draws=20_000).flat["x"]
    np.testing.assert_allclose(x.mean(axis=0), y, atol=4.0 * sd.max() / np.sqrt(20_000))
    np.testing.assert_allclose(x.std(axis=0), sd, rtol=0.03)


def test_slow_densities_get_fewer_draws_and_starts(monkeypatch):
    def model():
        numpyro.sample("x", dist.Normal(2.0, 3.0))

    monkeypatch.setattr(cost, "MAX_MODERATE_NUMBERS", 0)
    posterior = fit(model)
    assert posterior.shape == (1, 1000)
    assert posterior.optimum.starts == 3
    assert fit(model, draws=50).shape == (1, 50)
