"""Exercises and identities of the lecture notes: public calls against closed forms.

What is tested at length elsewhere is not here: least squares, ridge and lasso (tests/ridge,
tests/linear), the kernels' formulas and their algebra (tests/kernels), Laplace's approximation,
importance sampling and SVI (tests/inference).
"""

import inspect
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy import stats
from scipy.optimize import linprog
from sklearn.ensemble import BaggingRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.preprocessing import FunctionTransformer

import bayeskern as bk
from bayeskern import kernels, priors
from bayeskern import likelihoods as lk
from bayeskern.course.matching_pursuit import KernelMatchingPursuit
from bayeskern.kernels import (
    RBF,
    AllSubsets,
    Linear,
    MarkovRBF,
    Matern32,
    Multiquadric,
    Polynomial,
)
from bayeskern.kernels.families.periodic import Seasonal
from bayeskern.kernels.families.trend import Trend

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(6)
X, Z = RNG.normal(size=(8, 3)), RNG.normal(size=(5, 3))
infer = partial(bk.infer, progress=False)


def close(actual, expected, rtol=1e-12, atol=1e-12):
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=rtol, atol=atol)


# -- maximum likelihood and maximum a posteriori ---------------------------------------------------

TIMES = np.array([1.0, 2.0, 3.0, 3.0, 4.0])


def test_maximum_likelihood_of_an_exponential_rate():
    def model(y):
        rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
        numpyro.sample("y", dist.Exponential(rate), obs=y)

    close(infer(model, TIMES, method="mle").draws["rate"].item(), 5 / 13, rtol=1e-7)


def test_maximum_likelihood_of_gaussian_mean_and_variance():
    def model(y):
        mean = numpyro.sample("mean", dist.Normal(0.0, 10.0))
        variance = numpyro.sample("variance", dist.HalfNormal(10.0))
        numpyro.sample("y", dist.Normal(mean, jnp.sqrt(variance)), obs=y)

    estimate = infer(model, TIMES, method="mle").draws
    close(estimate["mean"].item(), TIMES.mean(), rtol=1e-6)
    close(estimate["variance"].item(), np.mean((TIMES - TIMES.mean()) ** 2), rtol=1e-6)


def test_laplace_noise_is_absolute_loss():
    x = RNG.normal(size=(25, 2))
    y = 1.0 + x @ [2.0, -1.0] + RNG.laplace(size=25)
    model = bk.BayesianLinearRegression(
        prior=priors.Flat(), intercept=priors.Flat(), noise=lk.Laplace(1.0)
    )
    estimate = infer(model, x, y, method="map").draws
    # min sum t with -t <= y - a - x'b <= t, a linear program.
    D, one = np.column_stack([np.ones(25), x]), np.eye(25)
    sides = np.block([[-D, -one], [D, -one]])
    cost, bounds = np.repeat([0.0, 1.0], [3, 25]), [(None, None)] * 3 + [(0, None)] * 25
    truth = linprog(cost, sides, np.concatenate([-y, y]), bounds=bounds).x[:3]
    close([estimate["intercept"].item(), *estimate["weights"].ravel()], truth, rtol=1e-6)


def test_gaussian_prior_is_ridge():
    noise, alpha = 0.7, 0.3
    x, y = RNG.normal(size=(30, 4)), RNG.normal(size=30)

    def model(x, y):
        w = numpyro.sample("w", dist.Normal(0.0, jnp.sqrt(alpha)).expand([4]).to_event(1))
        numpyro.sample("y", dist.Normal(x @ w, jnp.sqrt(noise)), obs=y)

    ridge = Ridge(noise / alpha, fit_intercept=False, solver="svd").fit(x, y).coef_
    close(infer(model, x, y, method="map").draws["w"][0, 0], ridge, rtol=1e-5, atol=1e-8)
    regression = bk.BayesianLinearRegression(
        prior_sd=np.sqrt(alpha), noise_variance=noise, intercept=False
    )
    close(infer(regression, x, y, method="map").draws["weights"][0, 0], ridge)


# -- primal and dual solutions ---------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(20, 4), (4, 20)], ids=["weight space", "dual"])
def test_push_through_identity(shape):
    # (P^-1 + B'R^-1 B)^-1 B'R^-1 = P B'(B P B' + R)^-1
    n, d = shape
    B, y, noise = RNG.normal(size=shape), RNG.normal(size=n), 0.4
    sds = np.linspace(0.5, 2.0, d)
    P, R = np.diag(sds**2), noise * np.eye(n)
    precision = np.linalg.inv(P) + B.T @ np.linalg.solve(R, B)
    weight_space = np.linalg.solve(precision, B.T @ np.linalg.solve(R, y))
    dual = P @ B.T @ np.linalg.solve(B @ P @ B.T + R, y)
    close(weight_space, dual)
    # With fewer rows than weights ours goes through the n x n system, otherwise the other way.
    model = bk.BayesianLinearRegression(
        prior=priors.Gaussian(sds), noise_variance=noise, intercept=False
    )
    posterior = infer(model, B, y, method="map")
    close(posterior.draws["weights"][0, 0], dual)
    prediction = infer(model, B, y, method="exact").predict(np.eye(d), latent=True)
    close(prediction.mean, dual)
    close(prediction.variance, np.diag(np.linalg.inv(precision)))


def test_function_space_equals_weight_space():
    kernel = 0.5 * Polynomial(degree=2) + AllSubsets()
    y, new = RNG.normal(size=8), RNG.normal(size=(6, 3))
    model = bk.BayesianLinearRegression(
        features=FunctionTransformer(kernel.feature_map),
        prior_sd=1.0,
        noise_variance=0.2,
        intercept=False,
    )
    weights = infer(model, X, y, method="exact")
    process = bk.GaussianProcess(kernel, X, noise=0.2)
    function = process.condition(y).predict(new)
    close(weights.predict(new).mean, function.mean, rtol=1e-9, atol=1e-9)
    close(weights.predict(new).variance, function.variance, rtol=1e-9)
    close(weights.log_evidence.value, process.log_prob(y), rtol=1e-10)


def test_representer_theorem():
    y, penalty, kernel = RNG.normal(size=8), 0.3, RBF(1.5) + Linear()
    dual = KernelRidge(alpha=penalty, kernel="precomputed").fit(kernel(X), y)
    mean = bk.GaussianProcess(kernel, X, noise=penalty).condition(y).predict(Z).mean
    close(mean, np.asarray(kernel(Z, X)) @ dual.dual_coef_, rtol=1e-10)


def test_leave_one_out_residuals_are_r_over_one_minus_leverage():
    # A = K (K + lambda 1)^-1
    y, penalty, kernel = RNG.normal(size=8), 0.3, Matern32(1.2)
    K = np.asarray(kernel(X))
    A = K @ np.linalg.inv(K + penalty * np.eye(8))
    loo = bk.GaussianProcess(kernel, X, noise=penalty).condition(y).loo()
    close(y - loo.mean, (y - A @ y) / (1.0 - np.diag(A)), rtol=1e-9)
    # They are those of cross-validation in n folds.
    machine = bk.KernelRidge(kernel, alpha=penalty)
    folds = [machine.fit(X[k], y[k]).predict(X[~k])[0] for k in ~np.eye(8, dtype=bool)]
    close(folds, loo.mean, rtol=1e-9)


# -- kernels and their features --------------------------------------------------------------------


def test_features_of_the_quadratic_kernel():
    phi = np.asarray(Polynomial(degree=2).feature_map(X[:, :2]))
    x1, x2, root = X[:, 0], X[:, 1], np.sqrt(2.0)
    expected = [np.ones(8), root * x1, root * x2, x1**2, root * x1 * x2, x2**2]
    close(phi, np.stack(expected, axis=1))
    close((1.0 + X[:, :2] @ X[:, :2].T) ** 2, phi @ phi.T)


def test_all_subsets_kernel_has_2_to_the_d_features():
    phi, psi = AllSubsets().feature_map(X), AllSubsets().feature_map(Z)
    assert phi.shape == (8, 2**3)
    close(phi @ psi.T, np.prod(1.0 + X[:, None] * Z[None], axis=2))


def test_gaussian_kernel_is_a_series_of_features():
    # exp(-gamma d^2) is RBF with the lengthscale 1 / sqrt(2 gamma).
    gamma = 0.2
    kernel = RBF(1.0 / np.sqrt(2.0 * gamma))
    exact = np.exp(-gamma * np.sum((X[:, None] - Z[None]) ** 2, axis=2))
    errors = [
        np.max(np.abs(kernel.feature_map(X, degree) @ kernel.feature_map(Z, degree).T - exact))
        for degree in (2, 5, 9)
    ]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-3


@pytest.mark.parametrize("turn", [np.pi, 2.0 * np.pi], ids=["half a turn", "a whole turn"])
def test_random_fourier_features_are_unbiased(turn):
    gamma, n = 0.6, 400_000
    w = np.asarray(RBF(1.0 / np.sqrt(2.0 * gamma)).frequencies(jax.random.key(0), n, 3))
    assert stats.kstest(w[:5000, 0], stats.norm(0.0, np.sqrt(2.0 * gamma)).cdf).pvalue > 1e-3
    # sqrt(2) cos(w'x + b), with b uniform over either.
    b = RNG.uniform(0.0, turn, n)
    x, z = 0.5 * X[0], 0.5 * Z[0]
    products = 2.0 * np.cos(w @ x + b) * np.cos(w @ z + b)
    error = stats.sem(products)
    assert abs(products.mean() - np.exp(-gamma * np.sum((x - z) ** 2))) < 4.0 * error
    assert error < 0.002


def public_kernels():
    kinds = [getattr(kernels, name) for name in kernels.__all__]
    kinds = [k for k in kinds if inspect.isclass(k) and issubclass(k, kernels.Kernel)]
    # Kernels of numbered rows and levels have tests of their own.
    kinds = [k for k in kinds if k not in (kernels.Categorical, kernels.Precomputed)]
    # Those that stand for themselves, and what the algebra makes of some of them.
    alone = [k() for k in kinds if not inspect.isabstract(k) and not _wants_arguments(k)]
    alone = [k.on([0]) if isinstance(k, Trend | MarkovRBF | Seasonal) else k for k in alone]
    composed = [
        (RBF() + Linear()) * Matern32() + 0.3,
        (0.1 * Polynomial()).exp(),
        AllSubsets() ** 2,
        Matern32().modulate(lambda x: x[0] - x[1]),
    ]
    return [*alone, *composed, (2.0 * Matern32()).warp(jnp.tanh).on([0, 2])]


def _wants_arguments(kind):
    return any(p.default is p.empty for p in inspect.signature(kind).parameters.values())


@pytest.mark.parametrize("kernel", public_kernels(), ids=repr)
def test_cauchy_schwarz(kernel):
    # |k(x, z)| <= sqrt(k(x, x) k(z, z)), for exactly those that are positive definite.
    bound = np.sqrt(np.outer(kernel.diag(X), kernel.diag(Z)))
    holds = np.abs(np.asarray(kernel(X, Z))) <= bound * (1.0 + 1e-12)
    assert np.all(holds) == kernel.positive_definite


def test_cauchy_schwarz_covers_the_public_kernels():
    assert len(public_kernels()) >= 20
    assert any(isinstance(k, Multiquadric) for k in public_kernels())


# -- Bayesian estimation ---------------------------------------------------------------------------


def test_beta_prior_predicts_by_laplaces_rule():
    # p | heads ~ Beta(a + h, b + n - h), and the next throw is heads with the mean of that.
    heads, throws = 7, 10
    for a, b in ((1.0, 1.0), (2.0, 5.0)):
        posterior = infer(bk.BetaBernoulli(a, b), [heads], trials=throws, method="exact")
        truth = stats.beta(a + heads, b + throws - heads)
        assert stats.kstest(posterior.draws["p"][0], truth.cdf).pvalue > 1e-3
        close(posterior.predict().mean, (a + heads) / (a + b + throws))


def test_sequential_updates_equal_one_update():
    # The evidence of a sequence is the product of its predictive chances.
    throws, model, log_evidence = [1, 1, 0, 1, 0, 0, 1], bk.BetaBernoulli(2.0, 3.0), 0.0
    for heads in throws:
        log_evidence += model.new().logpmf(heads)
        model = model.update([heads])
    prior = bk.BetaBernoulli(2.0, 3.0)
    close(infer(prior, throws, method="exact").log_evidence.value, log_evidence, rtol=1e-10)
    # If the order is not told, 7 over 4 sequences have as many heads.
    at_once = infer(prior, [4], trials=7, method="exact").log_evidence.value
    close(at_once, log_evidence + np.log(35.0), rtol=1e-10)


def test_predictive_variance_grows_away_from_the_data():
    x = RNG.uniform(-1.0, 1.0, (20, 1))
    y, noise, alpha = 2.0 * x[:, 0] + 0.1 * RNG.normal(size=20), 0.01, 4.0
    model = bk.BayesianLinearRegression(
        prior_sd=np.sqrt(1.0 / alpha),
        intercept=dist.Normal(0.0, np.sqrt(1.0 / alpha)),
        noise_variance=noise,
    )
    new = np.linspace(x.mean(), 30.0, 40)[:, None]
    variance = infer(model, x, y, method="exact").predict(new).variance
    # 1/beta + phi(x)'S phi(x), with S^-1 = alpha + beta Phi'Phi.
    D, N = (np.column_stack([np.ones(len(a)), a]) for a in (x, new))
    S = np.linalg.inv(alpha * np.eye(2) + D.T @ D / noise)
    close(variance, noise + np.sum(N @ S * N, axis=1))
    assert np.all(np.diff(variance) > 0.0)


def test_evidence_of_linear_regression_in_closed_form():
    # Bishop (2006), equation 3.86; the notes print N/2 log alpha for M/2.
    N, M, alpha, beta = 15, 4, 2.5, 3.0
    Phi, y = RNG.normal(size=(N, M)), RNG.normal(size=N)
    A = alpha * np.eye(M) + beta * Phi.T @ Phi
    m = beta * np.linalg.solve(A, Phi.T @ y)
    energy = 0.5 * beta * np.sum((y - Phi @ m) ** 2) + 0.5 * alpha * m @ m
    constant = 0.5 * (M * np.log(alpha) + N * np.log(beta) - N * np.log(2.0 * np.pi))
    evidence = constant - energy - 0.5 * np.linalg.slogdet(A)[1]
    model = bk.BayesianLinearRegression(
        prior_sd=alpha**-0.5, noise_variance=1.0 / beta, intercept=False
    )
    close(infer(model, Phi, y, method="exact").log_evidence.value, evidence)


# -- bagging ---------------------------------------------------------------------------------------


def test_bagging_lowers_variance_and_keeps_bias():
    # Breiman (1996), section 2.2: which of correlated variables are taken changes with the sample.
    rng = np.random.default_rng(0)
    root = np.linalg.cholesky(0.7 ** np.abs(np.subtract.outer(np.arange(30), np.arange(30))))
    truth, new = np.tile([1 / 3, 0.0, 0.0], 10), rng.normal(size=(100, 30)) @ root.T
    alone = KernelMatchingPursuit(dictionary="linear", n_nonzero=4)
    models = {"alone": alone, "bagged": BaggingRegressor(alone, n_estimators=25, random_state=0)}
    predictions = {name: [] for name in models}
    for _ in range(12):
        x = rng.normal(size=(60, 30)) @ root.T
        y = x @ truth + rng.normal(size=60)
        for name, model in models.items():
            predictions[name].append(model.fit(x, y).predict(new))
    variance = {name: np.mean(np.var(runs, axis=0)) for name, runs in predictions.items()}
    bias = {
        name: np.mean((np.mean(runs, axis=0) - new @ truth) ** 2)
        for name, runs in predictions.items()
    }
    assert variance["bagged"] < 0.5 * variance["alone"]
    assert 0.7 < bias["bagged"] / bias["alone"] < 1.1
