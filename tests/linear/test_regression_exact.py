"""Bayesian linear regression in closed form, and beside other libraries."""

import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import multivariate_normal, multivariate_t
from scipy.stats import t as student
from sklearn.linear_model import ARDRegression, BayesianRidge, Ridge
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import bayeskern as bk
from bayeskern import likelihoods, priors
from bayeskern.kernels import Matern32, NystromFeatures, Polynomial
from tests.linear.regression_data import KNOWN, NEW, SCALES, N, X, Y, blr, fit, gaussian

# -- closed form -----------------------------------------------------------------------------------


def test_gaussian_prior_and_known_noise_in_closed_form():
    posterior = fit(blr(**KNOWN))
    mean, covariance, evidence = gaussian(SCALES, 5.0, 0.8)
    draws = np.column_stack([posterior.flat["intercept"], posterior.flat["weights"]])
    white = np.linalg.solve(np.linalg.cholesky(covariance), (draws - mean).T)
    assert np.abs(white.mean(axis=1)).max() < 5.0 / np.sqrt(len(draws))
    np.testing.assert_allclose(white @ white.T / len(draws), np.eye(4), atol=0.12)
    np.testing.assert_allclose(posterior.log_evidence.value, evidence, rtol=1e-10)
    assert posterior.trust.verdict == "good"
    Z = np.column_stack([np.ones(5), NEW])
    prediction, latent = posterior.predict(NEW), posterior.predict(NEW, latent=True)
    np.testing.assert_allclose(prediction.mean, Z @ mean, rtol=1e-9)
    variance = np.einsum("ij,jk,ik->i", Z, covariance, Z)
    np.testing.assert_allclose(latent.variance, variance, rtol=1e-8)
    np.testing.assert_allclose(prediction.variance, variance + 0.8, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("wide", [1e4, 1e7])
def test_variance_is_accurate_under_a_wide_prior(wide):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(5, 8))
    model = blr(prior_sd=1.0, noise_variance=0.01, intercept=dist.Normal(0.0, wide))
    found = fit(model, x, x[:, 0] + 3.0).predict(x, latent=True).sd
    # In the limit the level takes one observation, and the others shrink by K (K + noise)^-1.
    K = x @ x.T
    A = K + 0.01 * np.eye(5)
    ones, V = np.ones(5), np.linalg.inv(A)
    left = ones - K @ V @ ones
    variance = np.diag(K - K @ V @ K) + left**2 / (ones @ V @ ones)
    np.testing.assert_allclose(found, np.sqrt(variance), rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e10])
def test_noise_scales_with_the_units_of_y(unit):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 2))
    y = x @ [1.0, 2.0] + 0.3 * rng.normal(size=20) + 5.0
    noise = fit(blr(intercept=priors.Flat()), x, unit * y, method="laplace").flat["noise"]
    expected = fit(blr(intercept=priors.Flat()), x, y, method="laplace").flat["noise"]
    np.testing.assert_allclose(noise.mean() / unit**2, expected.mean(), rtol=1e-6)


@pytest.mark.slow
def test_conjugate_noise_gives_students_t():
    a, b, scale = 3.0, 2.0, np.array([2.0, 0.5, 10.0])
    model = blr(
        prior=priors.Conjugate(scale),
        noise_variance=dist.InverseGamma(a, b),
        intercept=dist.Normal(0, 4.0),
    )
    posterior = fit(model)
    # y is a multivariate t with 2a degrees of freedom; so are the weights, with 2a + n.
    Z, sd = np.column_stack([np.ones(N), X]), np.append(4.0, scale)
    V = (Z * sd**2) @ Z.T + np.eye(N)
    evidence = multivariate_t(np.zeros(N), b / a * V, df=2 * a).logpdf(Y)
    np.testing.assert_allclose(posterior.log_evidence.value, evidence, rtol=1e-10)
    rate = b + 0.5 * Y @ np.linalg.solve(V, Y)
    cross = (Z * sd**2).T
    mean = cross @ np.linalg.solve(V, Y)
    covariance = np.diag(sd**2) - cross @ np.linalg.solve(V, cross.T)
    marginal = student(2 * a + N, mean[1], np.sqrt(rate / (a + N / 2) * covariance[1, 1]))
    from scipy.stats import kstest

    assert kstest(posterior.flat["weights"][:, 0], marginal.cdf).pvalue > 1e-3
    x = np.append(1.0, NEW[0])
    spread = np.sqrt(rate / (a + N / 2) * (1.0 + x @ covariance @ x))
    expected = student(2 * a + N, x @ mean, spread).interval(0.95)
    prediction = posterior.predict(NEW)
    np.testing.assert_allclose([v[0] for v in prediction.interval(0.95)], expected, rtol=1e-9)
    predictive = student(2 * a + N, x @ mean, spread)
    np.testing.assert_allclose(
        prediction.log_density(np.ones(5))[0], predictive.logpdf(1.0), rtol=1e-9
    )
    np.testing.assert_allclose(prediction.sd[0], predictive.std(), rtol=1e-9)
    draws = prediction.sample(20_000, seed=1)
    assert kstest(draws[:, 0], predictive.cdf).pvalue > 1e-3
    # Jointly: what two points share is their line.
    Z = np.column_stack([np.ones(5), NEW])
    shared = np.corrcoef(draws.T)[0, 1]
    V = Z @ covariance @ Z.T + np.eye(5)
    assert abs(shared - V[0, 1] / np.sqrt(V[0, 0] * V[1, 1])) < 5.0 / np.sqrt(20_000)
    at_the_function = posterior.predict(NEW, latent=True)
    spread = np.sqrt(rate / (a + N / 2) * (x @ covariance @ x))
    np.testing.assert_allclose(
        at_the_function.sd[0], student(2 * a + N, x @ mean, spread).std(), rtol=1e-8
    )


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "noise is to be inferred"),
        (
            {"noise_variance": 1.0, "prior": priors.Gaussian(dist.HalfNormal(1.0))},
            "scales of the Gaussian",
        ),
        ({"noise_variance": 1.0, "prior": priors.Horseshoe()}, "scales of the Horseshoe"),
        ({"noise_variance": 1.0, "prior": priors.Laplace(1.0)}, "Laplace prior is not Gaussian"),
        ({"noise_variance": dist.InverseGamma(2.0, 1.0)}, "take priors.Conjugate"),
        ({"noise": likelihoods.StudentT()}, "StudentT noise is not Gaussian"),
    ],
)
def test_missing_closed_form_is_explained(options, reason):
    with pytest.raises(ValueError, match=reason):
        fit(blr(**options))


# -- other libraries -------------------------------------------------------------------------------


def test_map_is_ridge_regression():
    scale, noise = 0.6, 0.8
    posterior = fit(
        blr(prior_sd=scale, noise_variance=noise, intercept=bk.priors.Flat()), method="map"
    )
    ridge = Ridge(alpha=noise / scale**2, solver="svd", tol=1e-12).fit(X, Y)
    np.testing.assert_allclose(posterior.draws["weights"][0, 0], ridge.coef_, rtol=1e-8)
    np.testing.assert_allclose(posterior.draws["intercept"].item(), ridge.intercept_, rtol=1e-8)
    np.testing.assert_allclose(posterior.predict(NEW).mean, ridge.predict(NEW), rtol=1e-9)


@pytest.mark.slow
def test_evidence_maximization_is_bayesian_ridge():
    Z, y = StandardScaler().fit_transform(X), Y - Y.mean()
    model = blr(prior=priors.Gaussian(bk.Free(1.0)), noise_variance=bk.Free(1.0), intercept=False)
    posterior = fit(model, Z, y, method="mle")
    tiny = dict.fromkeys(["alpha_1", "alpha_2", "lambda_1", "lambda_2"], 1e-12)
    other = BayesianRidge(fit_intercept=False, tol=1e-10, max_iter=5000, **tiny).fit(Z, y)
    np.testing.assert_allclose(posterior.draws["weights"][0, 0], other.coef_, rtol=1e-4)
    np.testing.assert_allclose(posterior.draws["noise"].item(), 1.0 / other.alpha_, rtol=1e-4)
    scale = posterior.draws["prior.scale"].item()
    np.testing.assert_allclose(scale**2, 1.0 / other.lambda_, rtol=1e-3)


@pytest.mark.slow
def test_evidence_maximization_with_ard_is_ard_regression():
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(100, 6))
    y = Z[:, :3] @ np.array([2.0, -1.0, 0.5]) + 0.5 * rng.normal(size=100)
    model = blr(prior=priors.ARD(bk.Free(1.0)), noise_variance=bk.Free(1.0), intercept=False)
    posterior = fit(model, Z, y, method="mle")
    tiny = dict.fromkeys(["alpha_1", "alpha_2", "lambda_1", "lambda_2"], 1e-12)
    other = ARDRegression(
        fit_intercept=False, tol=1e-10, max_iter=5000, threshold_lambda=1e8, **tiny
    ).fit(Z, y)
    weights, noise = posterior.draws["weights"][0, 0], posterior.draws["noise"].item()
    np.testing.assert_allclose(weights[:3], other.coef_[:3], rtol=1e-5)
    np.testing.assert_allclose(noise, 1.0 / other.alpha_, rtol=1e-5)
    assert posterior.trust.evidence["gradient_norm"] < 1e-4

    def evidence(variances, noise):
        return multivariate_normal(np.zeros(100), (Z * variances) @ Z.T + noise * np.eye(100))

    # Theirs cuts off the scales of features that do not matter, so that mine may be a bit higher.
    mine = evidence(posterior.draws["prior.scale"][0, 0] ** 2, noise).logpdf(y)
    theirs = evidence(1.0 / other.lambda_, 1.0 / other.alpha_).logpdf(y)
    assert theirs < mine < theirs + 1e-4


@pytest.mark.slow
def test_polynomial_features_equal_the_gaussian_process():
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (30, 2))
    y = np.sin(3 * x[:, 0]) + 0.1 * rng.normal(size=30)
    # (1 + x'z)^2 has the features 1, sqrt2 x1, sqrt2 x2, x1^2, sqrt2 x1 x2, x2^2.
    root = np.sqrt(2.0)
    model = blr(
        features=PolynomialFeatures(2),
        prior=priors.Gaussian(np.array([1.0, root, root, 1.0, root, 1.0])),
        intercept=False,
        noise_variance=0.01,
    )
    new = rng.uniform(-2, 2, (20, 2))
    gp = bk.GaussianProcess(Polynomial(degree=2), x, noise=0.01).condition(y).predict(new)
    prediction = fit(model, x, y).predict(new)
    np.testing.assert_allclose(prediction.mean, gp.mean, atol=1e-8)
    np.testing.assert_allclose(prediction.variance, gp.variance, atol=1e-8)
    evidence = bk.GaussianProcess(Polynomial(degree=2), x, noise=0.01).log_prob(y)
    np.testing.assert_allclose(fit(model, x, y).log_evidence.value, evidence, rtol=1e-8)


@pytest.mark.slow
def test_nystrom_features_of_all_points_equal_the_gaussian_process():
    x = np.linspace(-2.0, 2.0, 25)[:, None]
    y, kernel = np.sin(3.0 * x[:, 0]), Matern32(0.7, variance=2.0)
    features = NystromFeatures(kernel, n_components=25, selection="random")
    posterior = fit(
        blr(features=features, prior_sd=1.0, noise_variance=0.01, intercept=False), x, y
    )
    gp = bk.GaussianProcess(kernel, x, noise=0.01)
    np.testing.assert_allclose(posterior.log_evidence.value, gp.log_prob(y), rtol=1e-8)
    # The features have no covariance away from the points, but the same mean.
    new = np.linspace(-2.5, 2.5, 11)[:, None]
    expected = gp.condition(y).predict(new).mean
    np.testing.assert_allclose(posterior.predict(new).mean, expected, atol=1e-7)
