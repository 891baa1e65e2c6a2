"""Predictions, components, leave-one-out and draws of a conditioned Gaussian process."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import multivariate_normal, norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

import bayeskern as bk
from bayeskern.gp import posterior as posterior_module
from bayeskern.kernels import (
    RBF,
    ArcCosine,
    Constant,
    Coregion,
    Linear,
    Matern32,
    Matern52,
    White,
)
from bayeskern.linalg import DenseFactor, solver
from bayeskern.linalg.lapack import MIN_CALLBACK_SIZE
from tests.gp.gp_by_hand import NOISE, data, posterior, rbf


def test_leave_one_out_equals_n_refits():
    X, y = data(n=12, d=2)
    noise, mean = np.linspace(0.05, 0.4, 12), 0.3
    loo = bk.GaussianProcess(Matern32(), X, noise, mean).condition(y).loo()
    for i in range(12):
        rest = np.arange(12) != i
        peer = GaussianProcessRegressor(sk.Matern(nu=1.5), alpha=noise[rest], optimizer=None)
        m, sd = peer.fit(X[rest], y[rest] - mean).predict(X[[i]], return_std=True)
        sd = np.sqrt(sd**2 + noise[i])
        np.testing.assert_allclose(loo.mean[i], m[0] + mean, atol=1e-8)
        np.testing.assert_allclose(loo.variance[i], sd[0] ** 2, atol=1e-8)
        density = norm(m[0] + mean, sd[0]).logpdf(y[i])
        np.testing.assert_allclose(loo.log_density[i], density, atol=1e-8)


@pytest.mark.slow
def test_components_against_the_closed_form():
    X, y = data(n=25)
    X_new = np.linspace(-0.5, 5.0, 11)[:, None]
    kernel = (
        Linear(variance=0.3).named("trend")
        + 1.4 * (RBF(lengthscale=0.5).named("fast") + Matern32(lengthscale=2.0)).named("wave")
        + RBF(lengthscale=3.0, variance=0.2)
        + Constant(0.7)
    )

    def matern(A, B):
        s = np.sqrt(3.0) * np.abs(A - B.T) / 2.0
        return (1.0 + s) * np.exp(-s)

    parts = {
        "trend": lambda A, B: 0.3 * A @ B.T,
        "wave": lambda A, B: 1.4 * (rbf(A, B, 0.5) + matern(A, B)),
        "wave.fast": lambda A, B: 1.4 * rbf(A, B, 0.5),
        "rest": lambda A, B: rbf(A, B, 3.0, 0.2) + 0.7,
    }
    outer = ["trend", "wave", "rest"]
    K = sum(parts[name](X, X) for name in outer)
    prediction = bk.GaussianProcess(kernel, X, NOISE, mean=0.5).condition(y).predict(X_new)
    assert list(prediction.components) == outer
    for name, k in parts.items():
        found = prediction.component(name)
        mean, covariance = posterior(K, k(X, X_new), k(X_new, X_new), y - 0.5, NOISE)
        np.testing.assert_allclose(found.mean, mean, atol=1e-10)
        np.testing.assert_allclose(found.variance, np.diag(covariance), atol=1e-10)
    total = 0.5 + sum(prediction.component(name).mean for name in outer)
    np.testing.assert_allclose(total, prediction.mean, atol=1e-10)
    with pytest.raises(ValueError, match="'wvae' is not known. Did you mean 'wave'"):
        prediction.component("wvae")


@pytest.mark.slow
def test_joint_draws_have_posterior_moments():
    X, y = data(n=8)
    X_new = np.array([[0.1], [0.2], [3.0], [7.0]])
    mean, covariance = posterior(rbf(X, X), rbf(X, X_new), rbf(X_new, X_new), y, NOISE)
    gp, N = bk.GaussianProcess(RBF(), X, NOISE).condition(y), 20_000
    for prediction, K in [
        (gp.predict(X_new, latent=True), covariance),
        (gp.predict(X_new), covariance + NOISE * np.eye(4)),
    ]:
        draws = prediction.sample(N, seed=2)
        assert draws.shape == (N, 4)
        np.testing.assert_array_less(np.abs(draws.mean(0) - mean), 5 * np.sqrt(np.diag(K) / N))
        error = np.sqrt((np.outer(np.diag(K), np.diag(K)) + K**2) / N)
        np.testing.assert_array_less(np.abs(np.cov(draws.T) - K), 5 * error)
        np.testing.assert_array_equal(prediction.sample(3, seed=2), prediction.sample(3, seed=2))
        assert np.all(prediction.sample(3, seed=2) != prediction.sample(3, seed=3))


def test_draws_from_a_singular_posterior_are_finite():
    # 60 points so close that their joint covariance has rank 3 or so, and a point of the data.
    X, y = np.array([0.0, 1.0]), np.array([0.0, 1.0])
    X_new = np.linspace(0.0, 0.1, 60)
    gp = bk.GaussianProcess(RBF(), X, 1e-10).condition(y)
    draws = gp.predict(X_new, latent=True).sample(50, seed=0)
    assert np.all(np.isfinite(draws))
    np.testing.assert_allclose(draws[:, 0], 0.0, atol=1e-4)


def test_variances_are_never_negative():
    # A straight line without noise: what remains of the variance is rounding error, and the plain
    # difference is negative at nearly every point.
    X, X_new = np.linspace(0.1, 1.0, 140), np.linspace(0.1, 1.0, 300)
    gp = bk.GaussianProcess(Linear(), X, 0.0).condition(2.0 * X)
    assert np.mean(np.diag(gp.covariance(X_new)) < 0.0) > 0.5
    prediction = gp.predict(X_new, latent=True)
    assert np.all(prediction.variance > 0.0)
    assert np.all(prediction.variance < 1e-12)
    assert np.all(np.isfinite(prediction.interval(0.95)))


@pytest.mark.slow
def test_chunked_predictions_equal_whole_ones(monkeypatch):
    X, y = data(n=20)
    X_new = np.linspace(0, 5, 600)
    gp = bk.GaussianProcess(RBF() + Linear().named("trend"), X, NOISE).condition(y)
    whole = gp.predict(X_new)
    expected = whole.mean, whole.sd, whole.component("trend").sd
    sizes, original = [], posterior_module.ProcessPredictive.moments
    monkeypatch.setattr("bayeskern.prediction.mixture.CHUNK_NUMBERS", 1)
    monkeypatch.setattr(
        posterior_module,
        "_moments_jit",
        lambda predictive: sizes.append(len(predictive.X)) or original(predictive),
    )
    chunked = gp.predict(X_new)
    found = chunked.mean, chunked.sd, chunked.component("trend").sd
    assert sizes == 2 * [256, 256, 88]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.slow
def test_mean_needs_no_variances(monkeypatch):
    X, y = data(n=21)  # sizes that no other test has compiled
    X_new = np.linspace(0, 1, 13)
    gp = bk.GaussianProcess(RBF(), X, NOISE).condition(y)
    model = bk.GPRegression(RBF(lengthscale=dist.LogNormal()), NOISE)
    mixed = model.predictive({"lengthscale": np.array([1.0, 1.0])}, model.prepare(X, y)[1], X_new)

    def whiten(self, B):
        raise AssertionError("variance work")

    monkeypatch.setattr(DenseFactor, "whiten", whiten)
    mean = rbf(X, X_new[:, None]).T @ np.linalg.solve(rbf(X, X) + NOISE * np.eye(21), y)
    np.testing.assert_allclose(gp.predict(X_new).mean, mean, atol=1e-10)
    np.testing.assert_allclose(mixed.mean, mean, atol=1e-10)
    for prediction in (gp.predict(X_new), mixed):
        with pytest.raises(AssertionError, match="variance work"):
            _ = prediction.sd


def test_white_kernel_adds_variance_to_new_observations():
    X, y = data(n=10)
    gp = bk.GaussianProcess(RBF() + White(variance=0.3).named("white"), X, NOISE).condition(y)
    mean, covariance = posterior(rbf(X, X), rbf(X, X), rbf(X, X), y, NOISE + 0.3)
    found = gp.predict(X, latent=True)
    np.testing.assert_allclose(found.mean, mean, atol=1e-10)
    np.testing.assert_allclose(found.variance, np.diag(covariance) + 0.3, atol=1e-10)


def test_noise_free_interpolation_reports_its_jitter():
    X = np.linspace(0.0, 1.0, 60)
    gp = bk.GaussianProcess(RBF(lengthscale=0.3), X, 0.0).condition(np.sin(6 * X))
    # Relative to a diagonal of 1, at most 1e6 times n eps.
    assert 0.0 < gp.jitter <= 1e6 * 60 * np.finfo(float).eps
    np.testing.assert_allclose(gp.predict(X).mean, np.sin(6 * X), atol=1e-5)


def test_covariance_too_large_for_memory_is_refused():
    gp = bk.GaussianProcess(RBF(), [0.0, 1.0], noise=0.1).condition([0.0, 1.0])
    many = np.linspace(0.0, 1.0, 1_000_000)
    with pytest.raises(ValueError, match=r"1,000,000 points takes 24,000 GB"):
        gp.covariance(many)


@pytest.mark.parametrize("solver", ["dense", "markov"])
def test_residual_finds_an_error_in_a_row_of_small_variance(solver):
    X, noise = np.array([0.0, 50.0]), np.array([1e-4, 1e14])
    gp = bk.GaussianProcess(Matern52(), X, noise, solver=solver).condition([1.0, 0.0])
    assert gp.residual < 1e-14
    # The weights with a jitter of n eps times the mean of the diagonal, .02.
    wrong = dataclasses.replace(gp, weights=jnp.array([1.0 / 1.0223, 0.0]))
    assert 0.02 < wrong.residual < 0.03


def sample_moments(gp, new, size):
    draws = gp.predict(new, latent=True).sample(size, seed=0)
    return draws.mean(axis=0), draws.std(axis=0), np.corrcoef(draws.T)


@pytest.mark.slow
def test_draws_of_functions_have_the_posterior_moments(monkeypatch):
    X, y = data(n=40, d=2)
    kernel = Matern32(1.0).named("short") + Linear(0.1) + 0.5
    gp = bk.GaussianProcess(kernel, X, NOISE).condition(y)
    new = np.random.default_rng(1).uniform(-1.0, 5.0, (20, 2))
    covariance = np.asarray(gp.covariance(new))
    sd = np.sqrt(np.diag(covariance))
    monkeypatch.setattr(solver, "MIN_POINTS_OF_FUNCTIONS", 10)
    mean, sample_sd, correlation = sample_moments(gp, new, 4_000)
    # Five standard errors; the features add up to a tenth of an sd.
    np.testing.assert_allclose((mean - gp.predict(new).mean) / sd, 0.0, atol=0.08)
    np.testing.assert_allclose(sample_sd / sd, 1.0, atol=0.15)
    np.testing.assert_allclose(correlation, covariance / np.outer(sd, sd), atol=0.15)
    # A component has draws of its own.
    part = gp.predict(new, latent=True).component("short")
    ratio = part.sample(4_000, seed=0).std(axis=0) / part.sd
    np.testing.assert_allclose(ratio, 1.0, atol=0.15)


@pytest.mark.slow
def test_draws_at_100_000_points():
    X, y = data(n=100, d=2)
    gp = bk.GaussianProcess(RBF(), X, NOISE).condition(y)
    new = np.random.default_rng(1).uniform(-1.0, 5.0, (100_000, 2))
    new[1] = new[0] + 1e-6
    prediction = gp.predict(new, latent=True)
    draws = prediction.sample(50, seed=0)
    assert draws.shape == (50, 100_000)
    np.testing.assert_allclose(draws[:, 0], draws[:, 1], atol=1e-4)
    np.testing.assert_array_equal(draws, prediction.sample(50, seed=0))
    # Without a spectral density or finitely many features, the joint covariance is refused.
    for kernel in (RBF() * Linear(), ArcCosine()):
        refused = bk.GaussianProcess(kernel, X, NOISE).condition(y).predict(new)
        with pytest.raises(ValueError, match="joint covariance of 100,000 points"):
            refused.sample(2)


# -- one matrix with rows of very different scales -------------------------------------------------


def test_noisy_row_leaves_the_other_row_its_digits():
    gp = bk.GaussianProcess(RBF(), [0.0, 50.0], [1e-4, 1e14]).condition([1.0, 0.0])
    f = gp.predict([0.0], latent=True)
    # The rows are independent up to e^-1250: v = k - k^2 / (k + noise).
    np.testing.assert_allclose(f.mean, 1.0 / 1.0001, rtol=1e-12)
    np.testing.assert_allclose(f.variance, 1e-4 / 1.0001, rtol=1e-10)
    assert gp.jitter == 0.0


@pytest.mark.parametrize("n", [20, MIN_CALLBACK_SIZE])
def test_useless_row_changes_nothing(n):
    X, at = np.linspace(0.0, 4.0, n)[:, None], np.array([[0.5], [2.2]])
    y, noise, useless = np.sin(X[:, 0]), 1e-4, 1e14
    K = rbf(X, X) + noise * np.eye(n)
    mean, covariance = posterior(K, rbf(X, at), rbf(at, at), y, 0.0)

    def process(lengthscale=1.0):
        noises = np.r_[useless, np.full(n, noise)]
        return bk.GaussianProcess(RBF(lengthscale), np.r_[[[50.0]], X], noises, solver="dense")

    y_both = np.r_[0.0, y]
    f = process().condition(y_both).predict(at, latent=True)
    # The condition number of K is about n / noise.
    np.testing.assert_allclose(f.mean, mean, rtol=1e-8)
    np.testing.assert_allclose(f.variance, np.diag(covariance), rtol=1e-7)
    own = multivariate_normal(0.0, useless + 1.0).logpdf(0.0)
    expected = multivariate_normal(np.zeros(n), K).logpdf(y) + own
    value, slope = jax.jit(jax.value_and_grad(lambda s: process(s).log_prob(y_both)))(1.0)
    np.testing.assert_allclose([process().log_prob(y_both), value], expected, rtol=1e-9)
    alone = jax.grad(lambda s: bk.GaussianProcess(RBF(s), X, noise, solver="dense").log_prob(y))
    np.testing.assert_allclose(slope, alone(1.0), rtol=1e-8)


def test_outputs_in_units_of_very_different_size():
    # Pressure in Pa and humidity in kg/kg, with sds of 1e5 and 1e-3.
    units, rng = np.array([1e5, 1e-3]), np.random.default_rng(0)
    X = np.column_stack([rng.uniform(0.0, 5.0, 40), np.repeat([0, 1], 20)])
    rows, w = X[:, 1].astype(int), np.array([0.8, -0.6])
    y, new = np.where(rows == 0, np.sin(X[:, 0]), -np.sin(X[:, 0])), [[2.0, 0.0], [2.0, 1.0]]

    def fit(units):
        between = Coregion(2, weights=(w * units)[:, None], kappa=0.2 * units**2)
        noise = 1e-4 * units[rows] ** 2
        gp = bk.GaussianProcess(RBF(1.2).on([0]) * between.on([1]), X, noise)
        return gp.condition(units[rows] * y).predict(new, latent=True)

    found, expected = fit(units), fit(np.ones(2))
    np.testing.assert_allclose(found.mean / units, expected.mean, rtol=1e-9)
    np.testing.assert_allclose(found.sd / units, expected.sd, rtol=1e-9)


# -- correlated noise ------------------------------------------------------------------------------


def correlated_noise(n=25, seed=4):
    A = np.random.default_rng(seed).normal(size=(n, n)) / np.sqrt(n)
    return 0.1 * (A @ A.T + 0.1 * np.eye(n))


def test_correlated_noise_against_the_closed_form():
    X, y = data(n=25)
    S, new, observed = correlated_noise(), np.array([[0.5], [3.0]]), np.arange(25) % 5 != 2
    for mask in (None, observed):
        rows = np.flatnonzero(np.ones(25) if mask is None else mask)
        C = (rbf(X, X) + S)[np.ix_(rows, rows)]
        mean, covariance = posterior(C, rbf(X, new)[rows], rbf(new, new), y[rows], 0.0)
        process = bk.GaussianProcess(RBF(), X, S, mask=mask)
        expected = multivariate_normal(np.zeros(len(rows)), C).logpdf(y[rows])
        np.testing.assert_allclose(process.log_prob(y), expected, rtol=1e-12)
        gp = process.condition(y)
        np.testing.assert_allclose(gp.covariance(new), covariance, atol=1e-12)
        np.testing.assert_allclose(gp.predict(new, latent=True).mean, mean, atol=1e-12)
        sd = gp.predict(new, noise=[0.1, 0.2]).sd
        np.testing.assert_allclose(
            sd, np.sqrt(np.diag(covariance) + np.array([0.1, 0.2])), rtol=1e-12
        )
        assert gp.residual < 1e-14
        # Leave-one-out: the rest predicts y_i through the noise too.
        i, rest = 3, np.arange(len(rows)) != 3
        b = np.linalg.solve(C[rest][:, rest], C[rest, i])
        loo = gp.loo()
        np.testing.assert_allclose(loo.mean[rows[i]], b @ y[rows][rest], atol=1e-12)
        np.testing.assert_allclose(loo.variance[rows[i]], C[i, i] - b @ C[rest, i], atol=1e-12)


def test_noise_that_is_no_covariance_matrix_is_refused():
    X, S = data(n=25)[0], correlated_noise()
    for make in (lambda S: bk.GaussianProcess(RBF(), X, S), lambda S: bk.GPRegression(RBF(), S)):
        with pytest.raises(ValueError, match=r"noise must be symmetric"):
            make(S + np.triu(S))
        with pytest.raises(ValueError, match=r"positive semi-definite.*eigenvalue"):
            make(-S)
    make(np.ones((25, 25)))  # One error that all rows share.
    with pytest.raises(ValueError, match=r"markov.*correlated between rows"):
        bk.GaussianProcess(Matern32(), X, S, solver="markov")
    with pytest.raises(ValueError, match=r"give noise=.*or latent=True"):
        bk.GaussianProcess(RBF(), X, S).condition(X[:, 0]).predict(X)
