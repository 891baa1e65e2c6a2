"""Bayesian linear regression: exact where it is exact, and the same posterior by every method."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import polars as pl
import posteriordb
import pytest
from scipy.stats import multivariate_normal, multivariate_t
from scipy.stats import t as student
from sklearn.linear_model import ARDRegression, BayesianRidge, Ridge
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import bayeskern as bk
from bayeskern import likelihoods, priors
from bayeskern.kernels import (
    RBF,
    Matern32,
    NystromFeatures,
    Polynomial,
    RandomFourierFeatures,
)

rng = np.random.default_rng(0)
N, P = 60, 3
X = rng.normal(size=(N, P)) * [1.0, 10.0, 0.1] + [0.0, 50.0, 3.0]
TRUE = np.array([1.0, 0.2, -3.0])
Y = 2.0 + X @ TRUE + rng.normal(size=N)
NEW = X[:5] + 0.3


def fit(model, *data, method="exact", **options):
    return bk.infer(model, *(data or (X, Y)), method=method, progress=False, **options)


def blr(**options):
    return bk.BayesianLinearRegression(**options)


def gaussian(scale, level, noise, X=X, Y=Y):
    """Mean and covariance of [intercept, weights] and the log evidence, in function space."""
    Z, sd = np.column_stack([np.ones(len(X)), X]), np.append(level, scale)
    K = (Z * sd**2) @ Z.T + noise * np.eye(len(X))
    cross = (Z * sd**2).T
    covariance = np.diag(sd**2) - cross @ np.linalg.solve(K, cross.T)
    evidence = multivariate_normal(np.zeros(len(X)), K).logpdf(Y)
    return cross @ np.linalg.solve(K, Y), covariance, evidence


SCALES = np.array([2.0, 0.5, 10.0])
KNOWN = {"prior": priors.Gaussian(SCALES), "intercept": dist.Normal(0.0, 5.0), "noise": 0.8}


# -- exact -----------------------------------------------------------------------------------------


def test_known_noise_and_gaussian_prior_have_a_closed_form():
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


def test_fewer_rows_than_features():
    rng = np.random.default_rng(1)
    wide = rng.normal(size=(8, 20))
    y = wide[:, 0] + rng.normal(size=8)
    options = {"prior": 0.7, "intercept": dist.Normal(0.0, 5.0), "noise": 0.5}
    posterior = fit(blr(**options), wide, y)
    mean, covariance, evidence = gaussian(np.full(20, 0.7), 5.0, 0.5, wide, y)
    np.testing.assert_allclose(posterior.log_evidence.value, evidence, rtol=1e-10)
    new = rng.normal(size=(4, 20))
    Z = np.column_stack([np.ones(4), new])
    prediction = posterior.predict(new, latent=True)
    np.testing.assert_allclose(prediction.mean, Z @ mean, atol=1e-9)
    np.testing.assert_allclose(
        prediction.variance, np.einsum("ij,jk,ik->i", Z, covariance, Z), rtol=1e-8
    )


@pytest.mark.parametrize("wide", [1e4, 1e7])
def test_a_wide_prior_costs_no_digits_of_the_variance(wide):
    own = np.random.default_rng(3)
    x = own.normal(size=(5, 8))
    model = blr(prior=1.0, noise=0.01, intercept=dist.Normal(0.0, wide))
    found = fit(model, x, x[:, 0] + 3.0).predict(x, latent=True).sd
    # In the limit the level takes one observation, and the others shrink by K (K + noise)^-1.
    K = x @ x.T
    A = K + 0.01 * np.eye(5)
    ones, V = np.ones(5), np.linalg.inv(A)
    left = ones - K @ V @ ones
    variance = np.diag(K - K @ V @ K) + left**2 / (ones @ V @ ones)
    np.testing.assert_allclose(found, np.sqrt(variance), rtol=1e-4)


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e10])
def test_the_units_of_y_change_nothing_but_units(unit):
    own = np.random.default_rng(0)
    x = own.normal(size=(20, 2))
    y = x @ [1.0, 2.0] + 0.3 * own.normal(size=20) + 5.0
    noise = fit(blr(intercept=priors.Flat()), x, unit * y, method="laplace").flat["noise"]
    wanted = fit(blr(intercept=priors.Flat()), x, y, method="laplace").flat["noise"]
    np.testing.assert_allclose(noise.mean() / unit**2, wanted.mean(), rtol=1e-6)


def test_conjugate_noise_gives_students_t():
    a, b, scale = 3.0, 2.0, np.array([2.0, 0.5, 10.0])
    model = blr(
        prior=priors.Conjugate(scale), noise=dist.InverseGamma(a, b), intercept=dist.Normal(0, 4.0)
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
    wanted = student(2 * a + N, x @ mean, spread).interval(0.95)
    prediction = posterior.predict(NEW)
    np.testing.assert_allclose([v[0] for v in prediction.interval(0.95)], wanted, rtol=1e-9)
    own = student(2 * a + N, x @ mean, spread)
    np.testing.assert_allclose(prediction.log_density(np.ones(5))[0], own.logpdf(1.0), rtol=1e-9)
    np.testing.assert_allclose(prediction.sd[0], own.std(), rtol=1e-9)
    draws = prediction.sample(20_000, seed=1)
    assert kstest(draws[:, 0], own.cdf).pvalue > 1e-3
    # Jointly: what two points share is their line.
    Z = np.column_stack([np.ones(5), NEW])
    shared = np.corrcoef(draws.T)[0, 1]
    V = Z @ covariance @ Z.T + np.eye(5)
    assert abs(shared - V[0, 1] / np.sqrt(V[0, 0] * V[1, 1])) < 5.0 / np.sqrt(20_000)
    at_the_function = posterior.predict(NEW, latent=True)
    np.testing.assert_allclose(
        at_the_function.scale[0], np.sqrt(rate / (a + N / 2) * (x @ covariance @ x)), rtol=1e-8
    )


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "noise is to be inferred"),
        ({"noise": 1.0, "prior": priors.Gaussian(dist.HalfNormal(1.0))}, "scales of the Gaussian"),
        ({"noise": 1.0, "prior": priors.Horseshoe()}, "scales of the Horseshoe"),
        ({"noise": 1.0, "prior": priors.Laplace(1.0)}, "Laplace prior is not Gaussian"),
        ({"noise": dist.InverseGamma(2.0, 1.0)}, "take priors.Conjugate"),
        ({"noise": likelihoods.StudentT()}, "StudentT noise is not Gaussian"),
    ],
)
def test_where_there_is_no_closed_form_the_reason_is_said(options, reason):
    with pytest.raises(ValueError, match=reason):
        fit(blr(**options))


# -- other libraries -------------------------------------------------------------------------------


def test_map_is_ridge_regression():
    scale, noise = 0.6, 0.8
    posterior = fit(blr(prior=scale, noise=noise, intercept=bk.priors.Flat()), method="map")
    ridge = Ridge(alpha=noise / scale**2, solver="svd", tol=1e-12).fit(X, Y)
    np.testing.assert_allclose(posterior.draws["weights"][0, 0], ridge.coef_, rtol=1e-8)
    np.testing.assert_allclose(posterior.draws["intercept"].item(), ridge.intercept_, rtol=1e-8)
    np.testing.assert_allclose(posterior.predict(NEW).mean, ridge.predict(NEW), rtol=1e-9)


def test_evidence_maximisation_is_bayesian_ridge():
    Z, y = StandardScaler().fit_transform(X), Y - Y.mean()
    model = blr(prior=priors.Gaussian(bk.Free(1.0)), noise=bk.Free(1.0), intercept=False)
    posterior = fit(model, Z, y, method="mle")
    tiny = dict.fromkeys(["alpha_1", "alpha_2", "lambda_1", "lambda_2"], 1e-12)
    other = BayesianRidge(fit_intercept=False, tol=1e-10, max_iter=5000, **tiny).fit(Z, y)
    np.testing.assert_allclose(posterior.draws["weights"][0, 0], other.coef_, rtol=1e-4)
    np.testing.assert_allclose(posterior.draws["noise"].item(), 1.0 / other.alpha_, rtol=1e-4)
    scale = posterior.draws["prior.scale"].item()
    np.testing.assert_allclose(scale**2, 1.0 / other.lambda_, rtol=1e-3)


def test_evidence_maximisation_feature_by_feature_is_ard_regression():
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(100, 6))
    y = Z[:, :3] @ np.array([2.0, -1.0, 0.5]) + 0.5 * rng.normal(size=100)
    model = blr(prior=priors.ARD(bk.Free(1.0)), noise=bk.Free(1.0), intercept=False)
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


def test_weight_space_is_function_space():
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (30, 2))
    y = np.sin(3 * x[:, 0]) + 0.1 * rng.normal(size=30)
    # (1 + x'z)^2 has the features 1, sqrt2 x1, sqrt2 x2, x1^2, sqrt2 x1 x2, x2^2.
    root = np.sqrt(2.0)
    model = blr(
        features=PolynomialFeatures(2),
        prior=priors.Gaussian(np.array([1.0, root, root, 1.0, root, 1.0])),
        intercept=False,
        noise=0.01,
    )
    new = rng.uniform(-2, 2, (20, 2))
    gp = bk.GaussianProcess(Polynomial(degree=2), x, noise=0.01).condition(y).predict(new)
    prediction = fit(model, x, y).predict(new)
    np.testing.assert_allclose(prediction.mean, gp.mean, atol=1e-8)
    np.testing.assert_allclose(prediction.variance, gp.variance, atol=1e-8)
    evidence = bk.GaussianProcess(Polynomial(degree=2), x, noise=0.01).log_prob(y)
    np.testing.assert_allclose(fit(model, x, y).log_evidence.value, evidence, rtol=1e-8)


def test_nystrom_features_of_all_points_are_the_gaussian_process():
    x = np.linspace(-2.0, 2.0, 25)[:, None]
    y, kernel = np.sin(3.0 * x[:, 0]), Matern32(0.7, variance=2.0)
    features = NystromFeatures(kernel, n_components=25, selection="random")
    posterior = fit(blr(features=features, prior=1.0, noise=0.01, intercept=False), x, y)
    gp = bk.GaussianProcess(kernel, x, noise=0.01)
    np.testing.assert_allclose(posterior.log_evidence.value, gp.log_prob(y), rtol=1e-8)
    # The features have no covariance away from the points, but the same mean.
    new = np.linspace(-2.5, 2.5, 11)[:, None]
    wanted = gp.condition(y).predict(new).mean
    np.testing.assert_allclose(posterior.predict(new).mean, wanted, atol=1e-7)


def test_random_features_come_close_to_the_gaussian_process():
    x = np.linspace(-2.0, 2.0, 25)[:, None]
    y, kernel = np.sin(3.0 * x[:, 0]), RBF(0.7)
    features = RandomFourierFeatures(kernel, n_components=2000)
    posterior = fit(blr(features=features, prior=1.0, noise=0.01, intercept=False), x, y)
    wanted = bk.GaussianProcess(kernel, x, noise=0.01).condition(y).predict(x)
    np.testing.assert_allclose(posterior.predict(x).mean, wanted.mean, atol=0.05)
    np.testing.assert_allclose(posterior.predict(x).sd, wanted.sd, rtol=0.05)


# -- reference posteriors --------------------------------------------------------------------------

ARK = {"prior": dist.Normal(0.0, 10.0), "intercept": dist.Normal(0.0, 10.0)}
REFERENCES = {
    "kidiq-kidscore_momiq": {"prior": priors.Flat(), "intercept": priors.Flat()},
    "kidiq-kidscore_interaction": {"prior": priors.Flat(), "intercept": priors.Flat()},
    "sblrc-blr": {"prior": dist.Normal(0.0, 10.0), "intercept": False},
    "arK-arK": ARK,
}


@posteriordb.needed
@pytest.mark.parametrize("name", REFERENCES)
def test_the_reference_posteriors(name):
    _, (design, y), reference = posteriordb.load(name)
    options = REFERENCES[name]
    sd = dist.HalfNormal(10.0) if name == "sblrc-blr" else dist.HalfCauchy(2.5)
    ones = name.startswith("kidiq")
    model = blr(noise=bk.from_sd(sd), **options)
    posterior = fit(model, design[:, 1:] if ones else design, y, method="nuts")
    assert posterior.trust.verdict == "good"
    draws = posterior.flat
    found = {"sigma": np.sqrt(draws["noise"])}
    weights = draws["weights"]
    if ones:
        weights = np.column_stack([draws["intercept"], weights])
    elif options["intercept"]:
        found["alpha"] = draws["intercept"]
    found |= {f"beta[{j + 1}]": weights[:, j] for j in range(weights.shape[1])}
    for name, wanted in reference.items():
        assert abs(found[name].mean() - wanted["mean"]) < 0.1 * wanted["sd"], name
        assert abs(found[name].std() / wanted["sd"] - 1.0) < 0.1, name


# -- every method finds the same posterior ---------------------------------------------------------

INFERRED = {"noise": bk.from_sd(dist.HalfNormal(3.0)), "intercept": dist.Normal(0.0, 5.0)}


def plain(X, y, scale=SCALES):
    noise = numpyro.sample("noise", bk.from_sd(dist.HalfNormal(3.0)))
    weights = numpyro.sample("weights", dist.Normal(0.0, scale).to_event(1))
    intercept = numpyro.sample("intercept", dist.Normal(0.0, 5.0))
    numpyro.sample("y", dist.Normal(intercept + X @ weights, jnp.sqrt(noise)), obs=y)


@pytest.fixture(scope="module")
def by_hand():
    return fit(plain, jnp.asarray(X), jnp.asarray(Y), method=bk.NUTS(dense_mass=True, draws=2000))


@pytest.mark.parametrize("method", ["laplace", "svi", "importance", "nuts", "pathfinder", "auto"])
def test_every_method_finds_the_posterior_of_the_model_by_hand(method, by_hand):
    posterior = fit(blr(prior=priors.Gaussian(SCALES), **INFERRED), method=method)
    for name in ("noise", "weights", "intercept"):
        mine, theirs = posterior.flat[name], by_hand.flat[name]
        sd = theirs.std(axis=0)
        np.testing.assert_array_less(np.abs(mine.mean(axis=0) - theirs.mean(axis=0)) / sd, 0.12)
        np.testing.assert_allclose(mine.std(axis=0), sd, rtol=0.12)
    assert posterior.draws.keys() == by_hand.draws.keys()


def test_the_model_itself_is_the_model_by_hand():
    model, data = blr(prior=priors.Gaussian(SCALES), **INFERRED).prepare(X, Y)
    at = {"noise": jnp.asarray(0.7), "weights": jnp.asarray(TRUE), "intercept": jnp.asarray(1.5)}
    mine = numpyro.infer.util.log_density(model, data, {}, at)[0]
    theirs = numpyro.infer.util.log_density(plain, (X, Y), {}, at)[0]
    np.testing.assert_allclose(mine, theirs, rtol=1e-12)


def test_numpyros_own_sampler_takes_it_as_it_stands():
    model = blr(prior=priors.Gaussian(1.0 / X.std(axis=0)), noise=0.8)
    center = X - X.mean(axis=0)
    nuts = numpyro.infer.NUTS(model, dense_mass=True)
    mcmc = numpyro.infer.MCMC(nuts, num_warmup=300, num_samples=1000, progress_bar=False)
    mcmc.run(jax.random.key(0), center, Y)
    theirs, mine = mcmc.get_samples(), fit(model, center, Y).flat
    for name in ("weights", "intercept"):
        sd = mine[name].std(axis=0)
        off = np.abs(np.mean(theirs[name], axis=0) - mine[name].mean(axis=0)) / sd
        np.testing.assert_array_less(off, 0.25)


def test_the_evidence_is_that_of_a_gaussian_process():
    model = blr(prior=priors.Gaussian(SCALES), **INFERRED)
    found = fit(model, method="importance").log_evidence
    from scipy.integrate import quad

    prior = bk.from_sd(dist.HalfNormal(3.0))

    def integrand(noise):
        return np.exp(gaussian(SCALES, 5.0, noise)[2] + float(prior.log_prob(noise)) + 110.0)

    wanted = np.log(quad(integrand, 0.2, 4.0, epsabs=0, epsrel=1e-8, points=[0.9])[0]) - 110.0
    assert abs(found.value - wanted) < max(4.0 * found.error, 0.01)


@pytest.mark.parametrize(
    "prior", [priors.Horseshoe(scale=0.1, unit=1.0), priors.ARD(dist.HalfNormal(2.0))]
)
def test_scales_of_each_weight_are_those_of_the_model_by_hand(prior):
    Z = X / X.std(axis=0)

    def hand(X, y):
        noise = numpyro.sample("noise", bk.from_sd(dist.HalfNormal(3.0)))
        if isinstance(prior, priors.ARD):
            sd = numpyro.sample("scale", dist.HalfNormal(2.0).expand([P]).to_event(1))
        else:
            tau = numpyro.sample("tau", dist.HalfCauchy(0.1))
            local = numpyro.sample("local", dist.HalfCauchy(1.0).expand([P]).to_event(1))
            slab = numpyro.sample("slab", dist.InverseGamma(2.0, 2.0 * 2.5**2))
            sd = jnp.sqrt(slab) * tau * local / jnp.sqrt(slab + (tau * local) ** 2)
        white = numpyro.sample("white", dist.Normal(0.0, 1.0).expand([P]).to_event(1))
        weights = numpyro.deterministic("weights", white * sd)
        intercept = numpyro.sample("intercept", dist.Normal(0.0, 5.0))
        numpyro.sample("y", dist.Normal(intercept + X @ weights, jnp.sqrt(noise)), obs=y)

    nuts = bk.NUTS(target_accept=0.95, draws=2000)
    mine = fit(blr(prior=prior, **INFERRED), Z, Y, method=nuts).flat
    theirs = fit(hand, jnp.asarray(Z), jnp.asarray(Y), method=nuts).flat
    for name in ("noise", "weights", "intercept"):
        sd = theirs[name].std(axis=0)
        off = np.abs(mine[name].mean(axis=0) - theirs[name].mean(axis=0)) / sd
        np.testing.assert_array_less(off, 0.2)
        np.testing.assert_allclose(mine[name].std(axis=0), sd, rtol=0.2)


# -- sequential ------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, KNOWN, {"prior": 1.0, "noise": 0.5, "intercept": False}])
def test_ten_updates_are_one_fit(options):
    options = {"noise": 0.8, **options}
    once = fit(blr(**options))
    model = blr(**options).stream(zip(np.array_split(X, 10), np.array_split(Y, 10), strict=True))
    after = bk.infer(model, method="exact", progress=False)
    np.testing.assert_allclose(after.log_evidence.value, once.log_evidence.value, rtol=1e-10)
    np.testing.assert_allclose(after.predict(NEW).mean, once.predict(NEW).mean, rtol=1e-10)
    np.testing.assert_allclose(after.predict(NEW).sd, once.predict(NEW).sd, rtol=1e-10)
    # Some before, some now.
    mixed = fit(blr(**options).update(X[:20], Y[:20]), X[20:], Y[20:])
    np.testing.assert_allclose(mixed.predict(NEW).mean, once.predict(NEW).mean, rtol=1e-10)
    np.testing.assert_allclose(mixed.predict(NEW).sd, once.predict(NEW).sd, rtol=1e-10)


def test_the_first_rows_need_not_vary():
    # One row, then two of the same y: no scale for a default noise until more has been seen.
    y = np.append(np.full(3, 2.0), Y[3:])
    rows = [slice(0, 1), slice(1, 3), slice(3, N)]
    model = blr().stream((X[own], y[own]) for own in rows)
    after, data = model.prepare()
    once, rest = blr().prepare(X, y)
    at = {"noise": 0.7, "weights": jnp.asarray(TRUE), "intercept": 1.5}
    found = numpyro.infer.util.log_density(after, data, {}, at)[0]
    wanted = numpyro.infer.util.log_density(once, rest, {}, at)[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-10)


def test_a_fitted_model_goes_on_from_its_posterior():
    first = fit(blr(**KNOWN), X[:30], Y[:30])
    then = bk.infer(first.target.model.update(X[30:], Y[30:]), method="exact", progress=False)
    np.testing.assert_allclose(
        then.predict(NEW).mean, fit(blr(**KNOWN)).predict(NEW).mean, rtol=1e-10
    )


def test_a_posterior_of_what_was_seen_goes_everywhere(tmp_path):
    posterior = bk.infer(blr(noise=0.8).update(X, Y), method="exact", progress=False)
    assert {"weights", "intercept"} == set(posterior.to_arviz().posterior.data_vars)
    assert posterior.log_likelihood() == {}
    posterior.save(tmp_path / "seen.nc")
    loaded = bk.load(tmp_path / "seen.nc")
    np.testing.assert_array_equal(loaded.draws["weights"], posterior.draws["weights"])
    assert "exact" in repr(bk.compare({"a": posterior, "b": posterior}))


def test_what_was_seen_counts_for_every_method():
    seen = blr(prior=priors.Gaussian(SCALES), **INFERRED).update(X[:40], Y[:40])
    model, data = seen.prepare(X[40:], Y[40:])
    at = {"noise": jnp.asarray(0.7), "weights": jnp.asarray(TRUE), "intercept": jnp.asarray(1.5)}
    mine = numpyro.infer.util.log_density(model, data, {}, at)[0]
    theirs = numpyro.infer.util.log_density(plain, (X, Y), {}, at)[0]
    np.testing.assert_allclose(mine, theirs, rtol=1e-12)


# -- data as people have them ----------------------------------------------------------------------


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames_keep_their_names(frame):
    data = frame({"age": X[:, 0], "height": X[:, 1], "dose": X[:, 2]})
    posterior = fit(blr(**KNOWN), data, Y)
    tree = posterior.to_arviz()
    assert list(tree.posterior.coords["feature"].values) == ["age", "height", "dose"]
    assert tree.posterior["weights"].dims == ("chain", "draw", "feature")
    new = frame({"dose": NEW[:, 2], "age": NEW[:, 0], "height": NEW[:, 1]})
    np.testing.assert_allclose(
        posterior.predict(new).mean, fit(blr(**KNOWN)).predict(NEW).mean, rtol=1e-12
    )
    with pytest.raises(ValueError, match="'dose'"):
        posterior.predict(frame({"age": [1.0], "height": [1.0]}))


def test_transformers_make_the_features():
    posterior = fit(blr(features=PolynomialFeatures(2, include_bias=False)), X, Y, method="map")
    assert posterior.draws["weights"].shape == (1, 1, 9)
    assert posterior.coords["feature"][3] == "x0^2"
    other = fit(blr(), PolynomialFeatures(2, include_bias=False).fit_transform(X), Y, method="map")
    np.testing.assert_allclose(
        posterior.predict(NEW).mean,
        other.predict(PolynomialFeatures(2, include_bias=False).fit_transform(NEW)).mean,
        rtol=1e-10,
    )


def test_categories_by_one_hot_encoding_and_one_that_is_new():
    from sklearn.compose import make_column_transformer
    from sklearn.preprocessing import OneHotEncoder

    frame = pd.DataFrame({"x": X[:, 0], "kind": np.where(X[:, 1] > 50, "a", "b")})
    encode = make_column_transformer(
        (OneHotEncoder(drop="first"), ["kind"]), remainder="passthrough"
    )
    posterior = fit(blr(features=encode, noise=1.0), frame, Y)
    assert len(posterior.coords["feature"]) == 2
    with pytest.raises(ValueError, match="unknown categories"):
        posterior.predict(pd.DataFrame({"x": [0.0], "kind": ["c"]}))
    with pytest.raises(ValueError, match="kind"):
        posterior.predict(pd.DataFrame({"x": [0.0]}))


def test_default_priors_are_on_the_scale_of_the_data():
    model, _ = blr().prepare(X, Y)
    np.testing.assert_allclose(model.prior.scale, 2.5 * Y.std() / X.std(axis=0), rtol=1e-10)
    np.testing.assert_allclose(model.intercept.loc, Y.mean())
    np.testing.assert_allclose(model.intercept.center, X.mean(axis=0))
    # In other units the predictions are the same, in those units.
    first = fit(blr(), method="laplace").predict(NEW)
    other = fit(blr(), X * 1000.0 + 5.0, Y / 100.0, method="laplace").predict(NEW * 1000.0 + 5.0)
    np.testing.assert_allclose(other.mean * 100.0, first.mean, rtol=1e-3)
    np.testing.assert_allclose(other.sd * 100.0, first.sd, rtol=0.02)


def test_the_prior_predictive_is_the_models_own():
    draws = blr(**KNOWN).prior_predictive(X, draws=20_000, seed=1).draws
    Z, sd = np.column_stack([np.ones(N), X]), np.append(5.0, SCALES)
    wanted = np.sqrt(np.sum((Z * sd) ** 2, axis=1) + 0.8)
    np.testing.assert_allclose(draws.std(axis=0), wanted, rtol=0.04)
    assert blr().prior_predictive(X, Y).draws.shape == (1000, N)


# -- trust, storage, speed -------------------------------------------------------------------------


def test_joint_draws_of_a_prediction_are_correlated_as_they_ought_to_be():
    posterior = fit(blr(**KNOWN))
    _, covariance, _ = gaussian(SCALES, 5.0, 0.8)
    Z = np.column_stack([np.ones(5), NEW])
    wanted = Z @ covariance @ Z.T
    draws = posterior.predict(NEW, latent=True).sample(40_000, seed=1)
    np.testing.assert_allclose(np.cov(draws.T), wanted, atol=0.05 * wanted.max())


def test_the_seed_decides_draws_under_robust_noise():
    posterior = fit(blr(noise=likelihoods.StudentT()), method="map")
    first, again, other = (posterior.predict(NEW, seed=s).draws for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_predictions_at_many_points_take_fewer_draws(monkeypatch):
    model = blr(prior=priors.Laplace(0.5), noise=0.8)
    posterior = fit(model, method=bk.NUTS(warmup=200, draws=300, chains=2))
    whole = posterior.predict(NEW)
    assert len(whole.parts[0]) == 600
    monkeypatch.setattr("bayeskern.linear.model.NUMBERS", 300 * len(NEW))
    fewer = posterior.predict(NEW)
    assert len(fewer.parts[0]) == 300
    off = np.abs(fewer.mean - whole.mean) / np.sqrt(whole.variance - 0.8)
    assert np.all(off < 5.0 / np.sqrt(300))
    monkeypatch.setattr("bayeskern.linear.model.NUMBERS", 1)
    assert len(posterior.predict(NEW).parts[0]) == 200


def test_the_log_likelihood_is_pointwise():
    posterior = fit(blr(prior=priors.Gaussian(SCALES), **INFERRED), method="nuts")
    found = posterior.log_likelihood()["y"]
    draws = posterior.draws
    mean = draws["intercept"][0, 7] + X @ draws["weights"][0, 7]
    wanted = dist.Normal(mean, np.sqrt(draws["noise"][0, 7])).log_prob(Y)
    np.testing.assert_allclose(found[0, 7], wanted, rtol=1e-10)


@pytest.mark.parametrize("method", ["map", "laplace", "nuts"])
def test_a_second_fit_compiles_nothing(method):
    model = blr(prior=priors.Gaussian(dist.HalfNormal(3.0)))
    run = bk.NUTS(warmup=50, draws=50) if method == "nuts" else method
    fit(model, method=run)
    with jax.log_compiles(), warnings.catch_warnings():
        import logging

        seen = []
        handler = logging.Handler()
        handler.emit = lambda record: seen.append(record.getMessage())
        logger = logging.getLogger("jax._src.interpreters.pxla")
        logger.addHandler(handler)
        try:
            other = blr(prior=priors.Gaussian(dist.HalfNormal(4.0)))
            fit(other, X + 1.0, 2.0 * Y, method=run)
        finally:
            logger.removeHandler(handler)
    assert not [line for line in seen if line.startswith("Compiling")], seen


def test_it_is_saved_and_loaded(tmp_path):
    frame = pd.DataFrame(X, columns=["age", "height", "dose"])
    posterior = fit(blr(**KNOWN), frame, Y)
    posterior.save(tmp_path / "fit.nc")
    loaded = bk.load(tmp_path / "fit.nc", model=blr(**KNOWN))
    # In another order, which is set right by name.
    new = frame[["dose", "age", "height"]].iloc[:4]
    np.testing.assert_array_equal(loaded.draws["weights"], posterior.draws["weights"])
    np.testing.assert_allclose(loaded.predict(new).mean, posterior.predict(new).mean, rtol=1e-12)
    assert loaded.to_arviz().posterior["weights"].coords["feature"].values[0] == "age"


def test_features_that_were_learnt_need_the_fitted_model(tmp_path):
    model = blr(features=StandardScaler(), noise=1.0)
    posterior = fit(model)
    posterior.save(tmp_path / "fit.nc")
    with pytest.raises(ValueError, match="load it with model=posterior.target.model"):
        bk.load(tmp_path / "fit.nc", model=model).predict(NEW)
    loaded = bk.load(tmp_path / "fit.nc", model=posterior.target.model)
    np.testing.assert_allclose(loaded.predict(NEW).mean, posterior.predict(NEW).mean, rtol=1e-12)
