"""Linear regression with full covariance matrices P of the weights and R of the noise."""

import copy
import pickle
from functools import partial

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro.infer.util import log_density
from scipy import stats

import bayeskern as bk
from bayeskern import likelihoods, priors
from tests.compilations import compilations
from tests.marks import slow

infer = partial(bk.infer, progress=False)
# More rows than weights, and fewer: the posterior is computed in weight or in function space.
shapes = pytest.mark.parametrize("shape", [(12, 3), slow((5, 9))], ids=["weights", "functions"])


def problem(n, p, seed=0):
    """X, y, the mean m and covariance P of the weights, and the covariance R of the noise."""
    rng = np.random.default_rng(seed)
    A, B = rng.normal(size=(p, p)), rng.normal(size=(n, n))
    P, R = A @ A.T + 0.3 * np.eye(p), B @ B.T + 0.2 * np.eye(n)
    X, m = rng.normal(size=(n, p)), rng.normal(size=p)
    return X, X @ m + rng.multivariate_normal(np.zeros(n), R), m, P, R


def closed_form(X, y, m, P, R):
    """Mean and covariance of the weights, both ways round, and the log evidence."""
    precision = np.linalg.inv(P) + X.T @ np.linalg.solve(R, X)
    V = X @ P @ X.T + R
    gain = np.linalg.solve(precision, X.T @ np.linalg.inv(R))
    # The lemma: (P^-1 + X'R^-1 X)^-1 X'R^-1 = P X'(X P X' + R)^-1.
    np.testing.assert_allclose(gain, P @ X.T @ np.linalg.inv(V), rtol=1e-8, atol=1e-9)
    log_evidence = stats.multivariate_normal(X @ m, V).logpdf(y)
    return m + gain @ (y - X @ m), np.linalg.inv(precision), log_evidence


@shapes
def test_full_covariances_in_closed_form(shape):
    X, y, m, P, R = problem(*shape)
    mean, covariance, log_evidence = closed_form(X, y, m, P, R)
    model = bk.BayesianLinearRegression(
        prior=dist.MultivariateNormal(m, P), noise_covariance=R, intercept=False
    )
    posterior = infer(model, X, y, method="exact")
    assert posterior.trust.verdict == "good"
    assert posterior.log_evidence.value == pytest.approx(log_evidence, rel=1e-11)
    np.testing.assert_allclose(
        infer(model, X, y, method="map").draws["weights"][0, 0], mean, rtol=1e-9
    )
    new = np.random.default_rng(1).normal(size=(6, shape[1]))
    prediction = posterior.predict(new, latent=True)
    np.testing.assert_allclose(prediction.mean, new @ mean, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(prediction.variance, np.sum(new @ covariance * new, 1), rtol=1e-8)
    draws = np.asarray(posterior.flat["weights"])
    error = np.sqrt(np.diag(covariance) / len(draws))
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 5.0 * error)
    np.testing.assert_allclose(
        np.cov(draws.T), covariance, atol=6.0 * np.max(np.diag(covariance)) / np.sqrt(len(draws))
    )


@pytest.mark.slow
@shapes
def test_each_covariance_alone_and_with_an_intercept(shape):
    X, y, _, P, R = problem(*shape, seed=3)
    n, p = shape
    D = np.column_stack([np.ones(n), X])
    scales = np.linspace(0.5, 2.0, p)
    for arguments, prior, noise in (
        ({"prior_covariance": P, "noise_variance": 0.4}, P, 0.4 * np.eye(n)),
        ({"prior": priors.Gaussian(scales), "noise_covariance": R}, np.diag(scales**2), R),
        ({"prior_covariance": P, "noise_covariance": R}, P, R),
    ):
        joint = np.zeros((p + 1, p + 1))
        joint[0, 0], joint[1:, 1:] = 9.0, prior
        mean, covariance, log_evidence = closed_form(D, y, np.full(p + 1, 0.0), joint, noise)
        model = bk.BayesianLinearRegression(intercept=dist.Normal(0.0, 3.0), **arguments)
        posterior = infer(model, X, y, method="exact")
        assert posterior.log_evidence.value == pytest.approx(log_evidence, rel=1e-10)
        prediction = posterior.predict(X, latent=True)
        np.testing.assert_allclose(prediction.mean, D @ mean, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(prediction.variance, np.sum(D @ covariance * D, 1), rtol=1e-8)


@pytest.mark.slow
def test_weights_with_a_covariance_are_a_gaussian_process():
    X, y, _, P, _ = problem(12, 3)
    L = np.linalg.cholesky(P)
    process = bk.GaussianProcess(bk.kernels.Linear().warp(lambda x: x @ L), X, noise=0.4)
    model = bk.BayesianLinearRegression(prior_covariance=P, noise_variance=0.4, intercept=False)
    posterior, function = infer(model, X, y, method="exact"), process.condition(y).predict(X)
    np.testing.assert_allclose(posterior.predict(X).mean, function.mean, rtol=1e-9)
    np.testing.assert_allclose(posterior.predict(X).variance, function.variance, rtol=1e-9)
    assert posterior.log_evidence.value == pytest.approx(float(process.log_prob(y)), rel=1e-11)


@pytest.mark.slow
def test_several_outputs_have_the_same_covariance_of_the_weights():
    X, y, _, P, _ = problem(12, 3)
    Y, R = np.stack([y, np.roll(y, 1)], axis=1), 0.4 * np.eye(12)
    model = bk.BayesianLinearRegression(prior_covariance=P, noise_variance=0.4, intercept=False)
    posterior = infer(model, X, Y, method="exact")
    parts = [closed_form(X, column, np.zeros(3), P, R) for column in Y.T]
    total = sum(log_evidence for _, _, log_evidence in parts)
    assert posterior.log_evidence.value == pytest.approx(total, rel=1e-11)
    means = posterior.predict(np.eye(3), latent=True).mean
    np.testing.assert_allclose(means, np.stack([mean for mean, *_ in parts], 1), rtol=1e-9)


def test_the_full_model_has_the_same_joint_density():
    X, y, m, P, R = problem(5, 3)
    model, args = bk.BayesianLinearRegression(
        prior=dist.MultivariateNormal(m, P), noise_covariance=R, intercept=False
    ).prepare(X, y)
    w = np.arange(3.0)
    ours = log_density(model, args, {}, {"weights": jnp.asarray(w)})[0]
    truth = stats.multivariate_normal(m, P).logpdf(w)
    truth += stats.multivariate_normal(X @ w, R).logpdf(y)
    assert float(ours) == pytest.approx(truth, rel=1e-11)


@pytest.mark.slow
def test_correlated_noise_under_a_laplace_prior_is_the_lasso_of_whitened_rows():
    X, y, _, _, R = problem(12, 3)
    L = np.linalg.cholesky(R)
    options = {"prior": priors.Laplace(0.5), "intercept": False}
    ours = bk.BayesianLinearRegression(noise_covariance=R, **options)
    theirs = bk.BayesianLinearRegression(noise_variance=1.0, **options)
    weights = infer(ours, X, y, method="map").draws["weights"]
    white = infer(theirs, np.linalg.solve(L, X), np.linalg.solve(L, y), method="map")
    np.testing.assert_allclose(weights, white.draws["weights"], rtol=1e-6, atol=1e-8)


@pytest.mark.slow
def test_a_glm_takes_a_covariance_of_the_weights():
    X, _, _, P, _ = problem(12, 3)
    labels = (X[:, 0] > 0.0).astype(int)
    joint = bk.BayesianGLM(
        likelihoods.Bernoulli(), prior=dist.MultivariateNormal(np.zeros(3), P), intercept=False
    )
    weights = infer(joint, X, labels, method="map").draws["weights"][0, 0]
    p = 1.0 / (1.0 + np.exp(-X @ weights))
    np.testing.assert_allclose(X.T @ (labels - p), np.linalg.solve(P, weights), atol=1e-4)


def test_prior_predictive_draws_have_the_covariance_of_the_marginal():
    X, _, m, P, R = problem(5, 3)
    model = bk.BayesianLinearRegression(
        prior=dist.MultivariateNormal(m, P), noise_covariance=R, intercept=False
    )
    draws = model.prior_predictive(X, draws=20_000).draws
    V = X @ P @ X.T + R
    np.testing.assert_allclose(np.cov(np.asarray(draws).T), V, atol=0.06 * np.max(np.diag(V)))


def test_models_with_covariances_can_be_copied():
    X, y, _, P, R = problem(12, 3)
    model = bk.BayesianLinearRegression(prior_covariance=P, noise_covariance=R, intercept=False)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        evidence = infer(other, X, y, method="exact").log_evidence.value
        assert evidence == infer(model, X, y, method="exact").log_evidence.value


@pytest.mark.slow
def test_a_second_fit_does_not_recompile():
    X, y, _, P, R = problem(12, 3)

    def fit(scale):
        model = bk.BayesianLinearRegression(prior_covariance=scale * P, noise_covariance=scale * R)
        return infer(model, X, scale * y, method="exact")

    fit(1.0)
    before = len(compilations)
    fit(2.0)
    assert len(compilations) == before > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"prior_covariance": np.eye(3), "prior_sd": 1.0}, "prior_covariance, prior_sd and prior"),
        ({"noise_covariance": np.eye(12), "noise_variance": 1.0}, "noise_variance and noise"),
        ({"prior_covariance": np.ones(3)}, r"must be a square matrix, got shape \(3,\)"),
        ({"prior_covariance": [[1.0, 0.5], [0.2, 1.0]]}, "prior_covariance must be symmetric"),
        ({"noise_covariance": np.ones((12, 12))}, "noise_covariance is not positive definite"),
        ({"noise_covariance": np.full((2, 2), np.nan)}, "NaN or infinite"),
        ({"prior_covariance": np.eye(2)}, "is for 2 weights, but there are 3 features"),
        ({"noise_covariance": np.eye(7)}, "covariance of 7 rows, but X has 12"),
    ],
)
def test_bad_covariances_are_refused(arguments, message):
    X, y, *_ = problem(12, 3)
    with pytest.raises((ValueError, bk.NotPositiveDefiniteError), match=message):
        infer(bk.BayesianLinearRegression(**arguments), X, y, method="exact")


def test_noise_of_all_rows_is_not_that_of_new_rows():
    X, y, *_, R = problem(12, 3)
    model = bk.BayesianLinearRegression(prior_sd=1.0, noise_covariance=R)
    with pytest.raises(ValueError, match="predict with latent=True"):
        infer(model, X, y, method="exact").predict(X)
    with pytest.raises(ValueError, match="one output, and y has 2 columns"):
        infer(model, X, np.stack([y, y], axis=1), method="exact")
    with pytest.raises(ValueError, match="fit them at once"):
        model.update(X, y)
