"""Estimates of generalized linear models against statsmodels, scikit-learn and NumPyro."""

import warnings
from collections.abc import Callable
from typing import NamedTuple

import arviz as az
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import statsmodels.api as sm
from scipy import stats
from scipy.special import expit
from sklearn.linear_model import (
    GammaRegressor,
    LogisticRegression,
    PoissonRegressor,
    QuantileRegressor,
)
from statsmodels.miscmodels.ordinal_model import OrderedModel
from statsmodels.othermod.betareg import BetaModel

import bayeskern as bk
from bayeskern import likelihoods as lk
from bayeskern import priors
from tests.linear.glm_data import (
    BINARY,
    COLLINEAR,
    ETA,
    EXPOSURE,
    NEGATIVE,
    POISSON,
    SUCCESSES,
    THREE,
    TRIALS,
    UNIFORM,
    N,
    X,
    fit,
)
from tests.marks import slow

Z = sm.add_constant(X)
FLAT = {"prior": priors.Flat(), "intercept": priors.Flat()}
LINKS = sm.families.links


def coefficients(posterior):
    """[intercept, weights] of every draw: (S, 1 + p)."""
    return np.column_stack([posterior.flat["intercept"], posterior.flat["weights"]])


# -- flat priors: maximum likelihood ---------------------------------------------------------------


class Case(NamedTuple):
    """likelihood: with its dispersion at `fitted`'s estimate of it."""

    likelihood: Callable
    y: np.ndarray
    fitted: Callable
    extra: dict = {}  # noqa: RUF012


def glm(family, scale=None, **options):
    """Estimates and standard errors, from the observed information where links differ."""

    def fitted(y):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = sm.GLM(y, Z, family=family, **options)
        found = model.fit(tol=1e-14, tol_criterion="params", maxiter=200)
        information = -model.hessian(found.params, scale=scale or found.scale, observed=True)
        return found.params, np.sqrt(np.diag(np.linalg.inv(information))), found.scale

    return fitted


def given_dispersion(found):
    """Standard errors of the weights at the dispersion that was found."""
    information = -np.asarray(found.model.hessian(np.asarray(found.params)))[:-1, :-1]
    return np.sqrt(np.diag(np.linalg.inv(information)))


def negative_binomial(y):
    found = sm.NegativeBinomial(y, Z).fit(disp=0, method="newton", maxiter=100, tol=1e-12)
    return found.params[:-1], given_dispersion(found), found.params[-1]


def beta(y):
    found = BetaModel(y, Z).fit(disp=0, method="newton", maxiter=100)
    return np.asarray(found.params)[:-1], given_dispersion(found), np.exp(found.params[-1])


GAMMA = stats.gamma(3.0, scale=np.exp(ETA) / 3.0).ppf(UNIFORM)
SHARE = stats.beta(8.0 * expit(ETA), 8.0 * expit(-ETA)).ppf(UNIFORM)
INVERSE = stats.gamma(3.0, scale=1.0 / (ETA + 3.0) / 3.0).ppf(UNIFORM)
CASES = {
    "gaussian": Case(
        lambda s: lk.Gaussian(s), ETA + stats.norm.ppf(UNIFORM), glm(sm.families.Gaussian())
    ),
    "logit": Case(lambda s: lk.Bernoulli(), BINARY, glm(sm.families.Binomial())),
    "probit": Case(
        lambda s: lk.Bernoulli(link="probit"), BINARY, glm(sm.families.Binomial(LINKS.Probit()))
    ),
    "cloglog": Case(
        lambda s: lk.Bernoulli(link="cloglog"), BINARY, glm(sm.families.Binomial(LINKS.CLogLog()))
    ),
    "binomial": Case(
        lambda s: lk.Binomial(),
        SUCCESSES,
        lambda y: glm(sm.families.Binomial())(np.column_stack([y, TRIALS - y])),
        {"trials": TRIALS},
    ),
    "poisson": Case(
        lambda s: lk.Poisson(),
        POISSON,
        glm(sm.families.Poisson(), exposure=EXPOSURE),
        {"exposure": EXPOSURE},
    ),
    "poisson identity": Case(
        lambda s: lk.Poisson(link="identity"),
        stats.poisson(ETA + 3.0).ppf(UNIFORM),
        glm(sm.families.Poisson(LINKS.Identity())),
    ),
    "gamma": Case(lambda s: lk.Gamma(1.0 / s), GAMMA, glm(sm.families.Gamma(LINKS.Log()))),
    "gamma inverse": Case(
        lambda s: lk.Gamma(1.0 / s, link="inverse"), INVERSE, glm(sm.families.Gamma())
    ),
    "exponential": Case(
        lambda s: lk.Exponential(), GAMMA, glm(sm.families.Gamma(LINKS.Log()), scale=1.0)
    ),
    "negative binomial": Case(lambda s: lk.NegativeBinomial(1.0 / s), NEGATIVE, negative_binomial),
    "beta": Case(lambda s: lk.Beta(s), SHARE, beta),
}


@pytest.mark.parametrize(
    "case",
    [case if name == "negative binomial" else slow(case) for name, case in CASES.items()],
    ids=CASES,
)
def test_mode_and_curvature_under_flat_priors_against_statsmodels(case):
    estimate, error, scale = case.fitted(case.y)
    model = bk.BayesianGLM(case.likelihood(scale), **FLAT)
    posterior = fit(model, X, case.y, bk.Laplace(draws=10_000, starts=1), **case.extra)
    mode = posterior.marginalized.draws(posterior.optimum.z[None, None])
    mode = np.append(mode["intercept"], mode["weights"])
    np.testing.assert_allclose(mode, estimate, rtol=1e-5, atol=1e-5)
    # The standard error of an sd of 10,000 draws is 0.7 %.
    np.testing.assert_allclose(coefficients(posterior).std(axis=0), error, rtol=0.03)


@pytest.mark.slow
def test_free_dispersion_against_statsmodels():
    model = bk.BayesianGLM(lk.NegativeBinomial(bk.Free(1.0)), **FLAT)
    mode = fit(model, X, NEGATIVE, "map")
    estimate, _, dispersion = negative_binomial(NEGATIVE)
    np.testing.assert_allclose(coefficients(mode)[0], estimate, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(1.0 / mode.flat["concentration"][0], dispersion, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("link", ["logit", slow("probit")])
def test_ordered_regression_against_statsmodels(link, ordered):
    found = OrderedModel(THREE, X, distr=link).fit(method="newton", disp=0, tol=1e-12)
    cutpoints = found.model.transform_threshold_params(found.params)[1:-1]
    free = lk.Ordered(bk.Free(np.array([-1.0, 1.0])), link=link)
    mode = fit(bk.BayesianGLM(free, prior=priors.Flat()), X, THREE, "map")
    np.testing.assert_allclose(mode.flat["weights"][0], found.params[:2], rtol=1e-4, atol=1e-5)
    at_0 = mode.flat["cutpoints"][0] - mode.flat["intercept"][0]
    np.testing.assert_allclose(at_0, cutpoints, rtol=1e-4)
    if link == "logit":
        # The prior on the cutpoints weighs next to nothing beside 300 rows.
        np.testing.assert_allclose(ordered.flat["weights"].std(axis=0), found.bse[:2], rtol=0.05)


@pytest.mark.slow
def test_categorical_against_multinomial_logit_of_statsmodels():
    found = sm.MNLogit(THREE, Z).fit(method="newton", disp=0, tol=1e-12)
    wide = bk.BayesianGLM(lk.Categorical(), prior_sd=1e3, intercept=dist.Normal(0.0, 1e4))
    mode = fit(wide, X, THREE, "map")
    b = np.column_stack([mode.flat["intercept"][0], mode.flat["weights"][0]])
    np.testing.assert_allclose((b[1:] - b[0]).T, found.params, rtol=1e-4, atol=1e-4)
    draws = fit(wide, X, THREE).flat["weights"]
    np.testing.assert_allclose(
        (draws[:, 1:] - draws[:, :1]).std(axis=0).T, found.bse[1:], rtol=0.05
    )


# -- Gaussian priors: penalised likelihood ---------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.1, 2.0])
def test_mode_under_a_gaussian_prior_against_scikit_learn(scale):
    model = LogisticRegression(C=scale**2, tol=1e-12, max_iter=10_000, solver="newton-cholesky")
    _agree(lk.Bernoulli(), scale, BINARY, model)
    penalty = 1.0 / (N * scale**2)
    _agree(lk.Poisson(), scale, NEGATIVE, PoissonRegressor(alpha=penalty, **SETTINGS))
    # Half a deviance is -log p / shape.
    _agree(lk.Gamma(3.0), scale, GAMMA, GammaRegressor(alpha=penalty / 3.0, **SETTINGS))


SETTINGS = {"tol": 1e-12, "max_iter": 10_000, "solver": "newton-cholesky"}


def _agree(likelihood, scale, y, estimator):
    estimator.fit(X, y)
    model = bk.BayesianGLM(likelihood, prior_sd=scale, intercept=priors.Flat())
    found = coefficients(fit(model, X, y, "map"))[0]
    expected = np.append(estimator.intercept_, estimator.coef_)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


# -- whitened coordinates --------------------------------------------------------------------------

BY_HAND = {
    "logistic": (lk.Bernoulli(), lambda eta: dist.Bernoulli(logits=eta), stats.bernoulli, expit),
    "poisson": (lk.Poisson(), lambda eta: dist.Poisson(jnp.exp(eta)), stats.poisson, np.exp),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_HAND)
def test_whitened_coordinates_sample_collinear_features_better(name):
    likelihood, distribution, truth, inverse = BY_HAND[name]
    y = truth(inverse(COLLINEAR @ [0.5, 0.2, -0.5])).rvs(random_state=1)
    scale = np.array([1.0, 1.5, 0.7])

    def by_hand(X, y):
        weights = numpyro.sample("weights", dist.Normal(0.0, scale).to_event(1))
        intercept = numpyro.sample("intercept", dist.Normal(0.3, 2.0))
        numpyro.sample("y", distribution(intercept + X @ weights), obs=y)

    model = bk.BayesianGLM(likelihood, prior_sd=scale, intercept=dist.Normal(0.3, 2.0))
    # A dense mass matrix learns the correlations of the plain coordinates.
    nuts = bk.NUTS(warmup=500, draws=1500, chains=2, mass_matrix="diagonal")
    whitened, plain = fit(model, COLLINEAR, y, nuts), fit(by_hand, COLLINEAR, y, nuts)
    assert whitened.trust.verdict == "good"
    effort = []
    for posterior in (whitened, plain):
        effective = az.ess(posterior.to_arviz().posterior, method="bulk")["weights"].min()
        effort.append(float(effective) / posterior.sample_stats["n_steps"].sum())
    assert effort[0] > 3.0 * effort[1]
    mine, theirs = coefficients(whitened), coefficients(plain)
    size = theirs.std(axis=0)
    np.testing.assert_allclose(mine.mean(axis=0) / size, theirs.mean(axis=0) / size, atol=0.15)
    np.testing.assert_allclose(mine.std(axis=0), size, rtol=0.1)


# -- scales that are inferred ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prior", "kept"),
    [
        (priors.Gaussian(dist.HalfNormal(2.0)), 1.0),
        (priors.ARD(dist.HalfNormal(1.0)), 0.75),
        (priors.Horseshoe(), 0.4),
    ],
    ids=lambda value: type(value).__name__,
)
def test_inferred_scales_find_relevant_features(prior, kept):
    rng = np.random.default_rng(3)
    wide = rng.normal(size=(250, 8))
    truth = np.array([2.0, -1.5, 0, 0, 0, 0, 0, 0])
    y = rng.random(250) < expit(wide @ truth)
    nuts = bk.NUTS(warmup=500, draws=500, target_accept=0.95, chains=2)
    posterior = fit(bk.BayesianGLM(lk.Bernoulli(), prior=prior), wide, y, nuts)
    assert posterior.trust.verdict in ("good", "caution")
    weights = posterior.flat["weights"]
    mean, sd = weights.mean(axis=0), weights.std(axis=0)
    assert np.all(np.abs(mean - truth) < 3.0 * sd)
    assert np.all(np.abs(mean[:2]) > 3.0 * np.abs(mean[2:]).max())
    # Of what does not matter less is kept, the better a prior tells features apart.
    plain = sm.Logit(y, sm.add_constant(wide)).fit(disp=0).params[3:]
    assert np.sum(mean[2:] ** 2) < kept * np.sum(plain**2)


# -- default priors --------------------------------------------------------------------------------


def test_default_priors_scale_with_the_linear_predictor():
    model, _ = bk.BayesianGLM(lk.Poisson()).prepare(X, 1000.0 * NEGATIVE)
    np.testing.assert_allclose(model.prior.scale, 2.5 / X.std(axis=0), rtol=1e-12)
    np.testing.assert_allclose(model.intercept.loc, np.log(1000.0 * NEGATIVE.mean()))
    np.testing.assert_allclose(model.intercept.center, X.mean(axis=0))
    model, _ = bk.BayesianGLM(lk.StudentT()).prepare(X, 1000.0 * ETA)
    spread = 1000.0 * stats.median_abs_deviation(ETA, scale="normal")
    np.testing.assert_allclose(model.prior.scale, 2.5 * spread / X.std(axis=0), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("prior", [None, *map(slow, (priors.ARD(), priors.Horseshoe()))], ids=repr)
def test_predictions_do_not_depend_on_units_of_features(prior):
    model = bk.BayesianGLM(lk.Bernoulli(), prior=prior)
    one, other = (
        model.prior_predictive(data, BINARY, draws=100).draws
        for data in (X, X * [1000.0, 0.01] + [5.0, -3.0])
    )
    # A rounding may turn a draw over.
    assert np.mean(one == other) > 0.999
    assert 0.2 < one.mean() < 0.8


@pytest.mark.slow
def test_cutpoints_apply_at_the_mean_of_x(ordered):
    moved = fit(bk.BayesianGLM(lk.Ordered(), prior=priors.Flat()), X + 1000.0, THREE)
    for site in ("cutpoints", "weights"):
        np.testing.assert_allclose(moved.flat[site], ordered.flat[site], rtol=1e-5, atol=1e-8)
    at_0 = bk.BayesianGLM(lk.Ordered([-1.0, 1.0]), prior_sd=1.0, intercept=False)
    assert "intercept" not in fit(at_0, X, THREE, "map").draws


# -- robust regression -----------------------------------------------------------------------------


def _with_outliers():
    rng = np.random.default_rng(2)
    x = rng.uniform(0.0, 10.0, (60, 1))
    y = 1.0 + 2.0 * x[:, 0] + 0.3 * rng.normal(size=60)
    y[x[:, 0] > 9.0] -= 40.0
    return x, y


@pytest.mark.slow
@pytest.mark.parametrize("noise", [lk.StudentT(), slow(lk.Laplace())], ids=repr)
def test_heavy_tailed_noise_resists_outliers(noise):
    x, y = _with_outliers()
    gaussian = fit(bk.BayesianLinearRegression(), x, y, "map")
    assert abs(gaussian.flat["weights"].mean() - 2.0) > 0.5
    method = bk.NUTS(warmup=300, draws=400, chains=2) if noise.kinked else "laplace"
    robust = fit(bk.BayesianLinearRegression(noise=noise), x, y, method)
    assert abs(robust.flat["weights"].mean() - 2.0) < 0.1


def test_laplace_approximation_refuses_kinks():
    x, y = _with_outliers()
    with pytest.raises(ValueError, match="the site 'y' has kinks"):
        fit(bk.BayesianLinearRegression(noise=lk.Laplace()), x, y)
    with pytest.raises(ValueError, match="the site 'weights' has kinks"):
        fit(bk.BayesianGLM(lk.Bernoulli(), prior=priors.Laplace(1.0)), X, BINARY)


@pytest.mark.slow
def test_mode_under_laplace_noise_is_median_regression():
    x, y = _with_outliers()
    model = bk.BayesianLinearRegression(noise=lk.Laplace(1.0), **FLAT)
    found = coefficients(fit(model, x, y, "map"))[0]
    truth = QuantileRegressor(quantile=0.5, alpha=0.0).fit(x, y)
    np.testing.assert_allclose(found, np.append(truth.intercept_, truth.coef_), rtol=1e-6)
