"""The mode under a Laplace prior, against the lasso of scikit-learn."""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from sklearn.linear_model import Lasso

import bayeskern as bk
from bayeskern import priors
from tests.linear.regression_data import N, X, Y, blr


def fit(model, *data):
    return bk.infer(model, *data, method="map", progress=False)


def test_map_under_a_laplace_prior_is_the_lasso():
    scale, noise = 0.05, 0.8
    model = blr(prior=priors.Laplace(scale), noise_variance=noise, intercept=priors.Flat())
    posterior = fit(model, X, Y)
    lasso = Lasso(alpha=noise / (scale * N), tol=1e-12, max_iter=100_000).fit(X, Y)
    assert np.any(lasso.coef_ == 0.0)
    np.testing.assert_array_equal(posterior.draws["weights"][0, 0] == 0.0, lasso.coef_ == 0.0)
    np.testing.assert_allclose(posterior.draws["weights"][0, 0], lasso.coef_, atol=1e-8)
    np.testing.assert_allclose(posterior.draws["intercept"].item(), lasso.intercept_, rtol=1e-7)
    assert posterior.trust.verdict == "not assessable"


def test_lasso_with_inferred_noise_is_a_local_maximum():
    model = blr(prior=priors.Laplace(0.3), noise_variance=bk.from_sd(dist.HalfNormal(2.0)))
    posterior = fit(model, X, Y)
    found = {k: v[0, 0] for k, v in posterior.draws.items()}
    target = posterior.target

    def density(values):
        return numpyro.infer.util.log_density(target.model, target.args, {}, values)[0]

    best = float(density(found))
    for name, value in found.items():
        for step in 1e-4 * np.concatenate([np.eye(np.size(value)), -np.eye(np.size(value))]):
            other = {**found, name: value + step.reshape(np.shape(value))}
            assert float(density(other)) < best, name


@pytest.mark.slow
def test_lasso_finds_the_higher_of_two_modes():
    # All weights at 0 and much noise is a mode too, 11 nats lower.
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 2))
    y = x @ [1.0, 2.0] + 0.3 * rng.normal(size=20)
    prior = dist.InverseGamma(2.0, 1.0)
    model = blr(prior=priors.Laplace(0.1), noise_variance=prior, intercept=False)
    found = fit(model, x, y).draws

    def height(noise):
        lasso = Lasso(alpha=noise / (0.1 * 20), fit_intercept=False, tol=1e-12).fit(x, y)
        rest = np.sum((y - x @ lasso.coef_) ** 2) / noise + 20 * np.log(noise)
        return -0.5 * rest - np.sum(np.abs(lasso.coef_)) / 0.1

    grid = np.geomspace(0.02, 10.0, 1000)
    heights = np.array([height(noise) for noise in grid]) + prior.log_prob(grid)
    best = grid[np.argmax(heights)]
    np.testing.assert_allclose(found["noise"].item(), best, rtol=0.01)
    assert np.all(found["weights"][0, 0] > 0.5)


@pytest.mark.parametrize(
    "noise",
    [None, bk.from_sd(dist.HalfNormal(1.0)), bk.Free(1.0)],
    ids=["default", "root of a prior", "free"],
)
def test_perfect_fit_has_no_mode(noise):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(8, 20)), rng.normal(size=8)
    model = blr(prior=priors.Laplace(1.0), noise_variance=noise)
    with pytest.raises(ValueError, match="no mode: the features fit y perfectly"):
        fit(model, x, y)


@pytest.mark.slow
def test_perfect_fit_has_a_mode_if_the_prior_bounds_the_noise():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(5, 7)), rng.normal(size=5)
    prior = dist.InverseGamma(3.0, 0.5)
    model = blr(prior=priors.Laplace(1.0), noise_variance=prior, intercept=False)
    found = fit(model, x, y).draws
    noise, weights = found["noise"].item(), found["weights"][0, 0]
    # d log p / d noise = 0, and the weights are the lasso's at that noise.
    rest = np.sum((y - x @ weights) ** 2)
    np.testing.assert_allclose(noise, (0.5 + 0.5 * rest) / (0.5 * 5 + 4.0), rtol=1e-6)
    lasso = Lasso(alpha=noise / 5, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(x, y)
    np.testing.assert_allclose(weights, lasso.coef_, atol=1e-6)


def test_lasso_that_does_not_converge_is_refused(monkeypatch):
    monkeypatch.setattr("bayeskern.linear.lasso.MAX_ROUNDS", 2)
    with pytest.raises(ValueError, match="did not settle.*2 rounds"):
        fit(blr(prior=priors.Laplace(0.3)), X, Y)


def test_inferred_scale_of_a_laplace_prior_has_no_mode():
    with pytest.raises(ValueError, match="no mode if the scale"):
        fit(blr(prior=priors.Laplace(dist.HalfNormal(1.0))), X, Y)
