"""The Gaussian linear model given its scales, against function space."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayeskern.linear.gaussian_posterior import (
    FunctionSpace,
    LinearGaussian,
    SharedScale,
    WeightSpace,
)
from bayeskern.linear.statistics import SufficientStatistics
from tests.marks import few, slow

# More rows than coefficients, as many, and fewer.
SIZES = [(30, 4), (4, 4), (6, 10)]


def problem(n, p):
    rng = np.random.default_rng(n + p)
    X, y = rng.normal(size=(n, p)) + 3.0, rng.normal(size=n) + 2.0
    return X, y, rng.normal(size=p), rng.uniform(0.5, 2.0, p), 0.3


def truth(X, y, loc, sd, noise):
    """The log evidence, and mean and covariance of the coefficients, in function space."""
    K = (X * sd**2) @ X.T + noise * np.eye(len(X))
    cross = (X * sd**2).T
    mean = loc + cross @ np.linalg.solve(K, y - X @ loc)
    covariance = np.diag(sd**2) - cross @ np.linalg.solve(K, cross.T)
    r = y - X @ loc
    quadratic, logdet = r @ np.linalg.solve(K, r), np.linalg.slogdet(K)[1]
    return -0.5 * (quadratic + logdet + len(y) * np.log(2.0 * np.pi)), mean, covariance


@pytest.mark.parametrize(("n", "p"), SIZES)
@pytest.mark.parametrize("relative_sds", few(["of the prior", "another"], "another"))
def test_evidence_mean_and_variance_against_function_space(n, p, relative_sds):
    X, y, loc, sd, noise = problem(n, p)
    rng = np.random.default_rng(0)
    relative_sds = 3.0 * sd if relative_sds == "of the prior" else rng.uniform(0.1, 1.0, p)
    model = LinearGaussian.reduced(n, SufficientStatistics.of(X, y).about_zero(), relative_sds)
    assert type(model) is (FunctionSpace if n < p else WeightSpace)
    evidence, mean, covariance = truth(X, y, loc, sd, noise)
    posterior, new = model.posterior(loc, sd, noise), rng.normal(size=(3, p))
    np.testing.assert_allclose(model.log_marginal(loc, sd, noise), evidence, rtol=1e-10)
    np.testing.assert_allclose(posterior.mean, mean, atol=1e-9)
    expected = np.einsum("ij,jk,ik->i", new, covariance, new)
    np.testing.assert_allclose(posterior.variance(new), expected, atol=1e-9)
    assert model.residual(posterior.mean, loc, sd, noise) < 1e-10


@pytest.mark.parametrize(("first", "factor"), [(0.2, 3.0), (np.inf, 0.1)])
def test_shared_scale_equals_weight_space(first, factor):
    X, y, loc, sd, noise = problem(30, 4)
    M = SufficientStatistics.of(X, y).about_zero()
    fast, slow = (
        LinearGaussian.reduced(30, M, sd, shared_scale=True),
        LinearGaussian.reduced(30, M, sd),
    )
    assert type(fast) is SharedScale and type(slow) is WeightSpace
    now = sd * np.array([first, factor, factor, factor])
    expected = slow.log_marginal(loc, now, noise)
    np.testing.assert_allclose(fast.log_marginal(loc, now, noise), expected, rtol=1e-10)
    np.testing.assert_allclose(
        fast.posterior(loc, now, noise).mean, slow.posterior(loc, now, noise).mean
    )
    if np.isfinite(first):
        np.testing.assert_allclose(expected, truth(X, y, loc, now, noise)[0], rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "p"), [slow(30, 4), (6, 10)])
def test_draws_have_posterior_mean_and_covariance(n, p):
    X, y, loc, sd, noise = problem(n, p)
    model = LinearGaussian.reduced(n, SufficientStatistics.of(X, y).about_zero(), sd)
    _, mean, covariance = truth(X, y, loc, sd, noise)
    count = 200_000
    draws = jax.vmap(model.posterior(loc, sd, noise).draw)(
        jax.random.split(jax.random.key(0), count)
    )
    sds = np.sqrt(np.diag(covariance))
    off = (np.asarray(draws).mean(axis=0) - mean) / sds * np.sqrt(count)
    assert np.abs(off).max() < 5.0
    # The correlations of whitened draws are 1 / sqrt(count) from those of the identity.
    white = np.linalg.solve(np.linalg.cholesky(covariance), (np.asarray(draws) - mean).T)
    np.testing.assert_allclose(white @ white.T / count, np.eye(p), atol=6.0 * np.sqrt(2.0 / count))


@pytest.mark.slow
@pytest.mark.parametrize(("n", "p"), SIZES)
def test_gradient_of_the_log_marginal(n, p):
    X, y, loc, sd, noise = problem(n, p)
    model = LinearGaussian.reduced(n, SufficientStatistics.of(X, y).about_zero(), np.ones(p))

    def evidence(v):
        return model.log_marginal(loc, jnp.exp(v[:p]), jnp.exp(v[p]))

    at = np.log(np.append(sd, noise))
    step = 1e-5 * np.eye(p + 1)
    expected = [(evidence(at + e) - evidence(at - e)) / 2e-5 for e in step]
    np.testing.assert_allclose(jax.grad(evidence)(at), expected, rtol=1e-5, atol=1e-6)
    assert np.all(np.isfinite(jax.hessian(evidence)(at)))


@pytest.mark.parametrize("apart", [1.0, 1e-6])
@pytest.mark.parametrize("tiny", few([1e-8, 1e-16, 1e-30], 1e-16))
def test_tiny_prior_sd_of_one_weight_keeps_precision(tiny, apart):
    X, y, _, sd, noise = problem(30, 4)
    # Two columns that are nearly copies of each other besides.
    X[:, 1] = X[:, 0] + apart * X[:, 1]
    zero, without = np.zeros(4), np.delete(X, 2, axis=1)
    model = LinearGaussian.reduced(30, SufficientStatistics.of(X, y).about_zero(), np.ones(4))
    other_sds = np.delete(sd, 2)
    sd[2] = tiny
    expected, mean, _ = truth(without, y, np.zeros(3), other_sds, noise)
    found = model.posterior(zero, sd, noise).mean
    np.testing.assert_allclose(np.delete(found, 2), mean, atol=1e-7)
    assert abs(found[2]) < tiny**2 * 1e4

    def evidence(log_sd):
        return model.log_marginal(zero, jnp.exp(log_sd), noise)

    np.testing.assert_allclose(evidence(np.log(sd)), expected, rtol=1e-10)
    # d log p(y) / d log sd_j = (E[b_j^2] / sd_j^2) - 1 under the posterior.
    K = (without * other_sds**2) @ without.T + noise * np.eye(30)
    pull = without.T @ np.linalg.solve(K, y)
    spread = np.einsum("ij,ij->j", without, np.linalg.solve(K, without))
    gradient = np.insert(other_sds**2 * (pull**2 - spread), 2, 0.0)
    np.testing.assert_allclose(jax.grad(evidence)(np.log(sd)), gradient, atol=1e-7)


def test_flat_priors_give_least_squares():
    X, y, _, _, noise = problem(30, 4)
    flat, zero = np.full(4, np.inf), np.zeros(4)
    model = LinearGaussian.reduced(
        30, SufficientStatistics.of(X, y).about_zero(), np.ones(4), proper=False
    )
    posterior = model.posterior(zero, flat, noise)
    np.testing.assert_allclose(posterior.mean, np.linalg.lstsq(X, y)[0], atol=1e-11)
    inverse = np.linalg.inv(X.T @ X)
    np.testing.assert_allclose(
        np.linalg.inv(posterior.R.T @ posterior.R), noise * inverse, atol=1e-12
    )
    # With density 1 it is the integral of the likelihood, a normal density in the weights.
    squares = np.sum(np.square(y - X @ posterior.mean))
    limit = -0.5 * (squares / noise + 26 * np.log(2 * np.pi * noise))
    limit -= 0.5 * np.linalg.slogdet(X.T @ X)[1]
    np.testing.assert_allclose(model.log_marginal(zero, flat, noise), limit, rtol=1e-10)


def test_flat_intercept_with_more_weights_than_rows():
    X, y, loc, sd, noise = problem(6, 10)
    sd[0], X[:, 0] = np.inf, 1.0
    model = LinearGaussian.reduced(
        6, SufficientStatistics.of(X, y).about_zero(), np.ones(10), proper=False
    )
    # Generalised least squares for the level, then the others around it.
    Z, sds = X[:, 1:], sd[1:]
    K, r, ones = (Z * sds**2) @ Z.T + noise * np.eye(6), y - Z @ loc[1:], np.ones(6)
    level = ones @ np.linalg.solve(K, r) / (ones @ np.linalg.solve(K, ones))
    weights = loc[1:] + sds**2 * (Z.T @ np.linalg.solve(K, r - level))
    found = model.posterior(loc, sd, noise).mean
    np.testing.assert_allclose(found, np.append(level, weights), atol=1e-9)


@pytest.mark.parametrize("degree", [8, 12])
def test_ill_conditioned_monomials_against_svd(degree):
    # Their cross product is singular in double precision: 1e16 and more.
    x = np.linspace(10.0, 12.0, 200)
    X = np.stack([x**k for k in range(1, degree + 1)], axis=1)
    y = np.sin(3.0 * x)
    assert np.linalg.cond(X) > 1e15
    sd = 1.0 / X.std(axis=0)
    M = SufficientStatistics.of(X, y).around(X.mean(axis=0))[:, 1:]
    model = LinearGaussian.reduced(200, M, sd)
    noise = 1e-2
    posterior = model.posterior(np.zeros(degree), sd, noise)
    A, Z = (X - X.mean(axis=0)) * sd, y - y.mean()
    U, S, _ = np.linalg.svd(A, full_matrices=False)
    fit = U @ (S**2 / (S**2 + noise) * (U.T @ Z))
    np.testing.assert_allclose((X - X.mean(axis=0)) @ posterior.mean, fit, atol=1e-9)
