"""Generalised linear models beside statsmodels, scikit-learn, NumPyro by hand, and simulation."""

import warnings
from collections.abc import Callable
from typing import NamedTuple

import arviz as az
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats
from scipy.special import expit, logsumexp
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

rng = np.random.default_rng(0)
N = 300
X = rng.normal(size=(N, 2)) * [0.6, 6.0] + [0.0, 20.0]
ETA = 0.4 + X @ [1.0, 0.05] - 1.0
Z = sm.add_constant(X)
FLAT = {"prior": priors.Flat(), "intercept": priors.Flat()}
LINKS = sm.families.links


def fit(model, X, y, method="laplace", **options):
    return bk.infer(model, X, y, method=method, progress=False, **options)


def coefficients(posterior):
    """[intercept, weights] of every draw: (S, 1 + p)."""
    return np.column_stack([posterior.flat["intercept"], posterior.flat["weights"]])


THREE = np.digitize(ETA + stats.logistic.ppf(rng.uniform(size=N)), [-0.5, 1.0])
LABELS = np.array(["low", "mid", "top"])
FRAME = pd.DataFrame(X, columns=["dose", "age"])


@pytest.fixture(scope="module")
def of_labels():
    return fit(bk.BayesianGLM(lk.Categorical()), FRAME, LABELS[THREE])


@pytest.fixture(scope="module")
def ordered():
    return fit(bk.BayesianGLM(lk.Ordered(), prior=priors.Flat()), X, THREE)


@pytest.fixture(scope="module")
def binary():
    return fit(bk.BayesianGLM(lk.Bernoulli()), FRAME, np.where(BINARY > 0, "yes", "no"))


@pytest.fixture(scope="module")
def counts():
    return fit(bk.BayesianGLM(lk.Poisson()), FRAME, POISSON, exposure=EXPOSURE)


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


EXPOSURE = rng.uniform(0.5, 4.0, N)
UNIFORM = rng.uniform(size=N)
TRIALS = 7.0
POISSON = stats.poisson(EXPOSURE * np.exp(ETA)).ppf(UNIFORM)
GAMMA = stats.gamma(3.0, scale=np.exp(ETA) / 3.0).ppf(UNIFORM)
NEGATIVE = stats.nbinom(4.0, 4.0 / (4.0 + 3.0 * np.exp(ETA))).ppf(UNIFORM)
SHARE = stats.beta(8.0 * expit(ETA), 8.0 * expit(-ETA)).ppf(UNIFORM)
SUCCESSES = stats.binom(7, expit(ETA)).ppf(UNIFORM)
INVERSE = stats.gamma(3.0, scale=1.0 / (ETA + 3.0) / 3.0).ppf(UNIFORM)

BINARY = (expit(ETA) > UNIFORM).astype(float)
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


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_under_flat_priors_the_mode_and_its_curvature_are_those_of_statsmodels(case):
    estimate, error, scale = case.fitted(case.y)
    model = bk.BayesianGLM(case.likelihood(scale), **FLAT)
    posterior = fit(model, X, case.y, bk.Laplace(draws=10_000, starts=1), **case.extra)
    mode = posterior.reduced.draws(posterior.optimum.z[None, None])
    mode = np.append(mode["intercept"], mode["weights"])
    np.testing.assert_allclose(mode, estimate, rtol=1e-5, atol=1e-5)
    # The standard error of an sd of 10,000 draws is 0.7 %.
    np.testing.assert_allclose(coefficients(posterior).std(axis=0), error, rtol=0.03)


def test_a_dispersion_without_a_prior_is_estimated_with_the_weights():
    model = bk.BayesianGLM(lk.NegativeBinomial(bk.Free(1.0)), **FLAT)
    mode = fit(model, X, NEGATIVE, "map")
    estimate, _, dispersion = negative_binomial(NEGATIVE)
    np.testing.assert_allclose(coefficients(mode)[0], estimate, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(1.0 / mode.flat["concentration"][0], dispersion, rtol=1e-4)


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_ordered_regression_is_that_of_statsmodels(link, ordered):
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


def test_differences_of_a_categorical_are_those_of_the_multinomial_logit():
    found = sm.MNLogit(THREE, Z).fit(method="newton", disp=0, tol=1e-12)
    wide = bk.BayesianGLM(lk.Categorical(), prior=1e3, intercept=dist.Normal(0.0, 1e4))
    mode = fit(wide, X, THREE, "map")
    b = np.column_stack([mode.flat["intercept"][0], mode.flat["weights"][0]])
    np.testing.assert_allclose((b[1:] - b[0]).T, found.params, rtol=1e-4, atol=1e-4)
    draws = fit(wide, X, THREE).flat["weights"]
    np.testing.assert_allclose(
        (draws[:, 1:] - draws[:, :1]).std(axis=0).T, found.bse[1:], rtol=0.05
    )


# -- Gaussian priors: penalised likelihood ---------------------------------------------------------


@pytest.mark.parametrize("scale", [0.1, 2.0])
def test_the_mode_under_a_gaussian_prior_is_scikit_learns(scale):
    model = LogisticRegression(C=scale**2, tol=1e-12, max_iter=10_000, solver="newton-cholesky")
    _agree(lk.Bernoulli(), scale, BINARY, model)
    penalty = 1.0 / (N * scale**2)
    _agree(lk.Poisson(), scale, NEGATIVE, PoissonRegressor(alpha=penalty, **SETTINGS))
    # Half a deviance is -log p / shape.
    _agree(lk.Gamma(3.0), scale, GAMMA, GammaRegressor(alpha=penalty / 3.0, **SETTINGS))


SETTINGS = {"tol": 1e-12, "max_iter": 10_000, "solver": "newton-cholesky"}


def _agree(likelihood, scale, y, estimator):
    estimator.fit(X, y)
    model = bk.BayesianGLM(likelihood, prior=scale, intercept=priors.Flat())
    found = coefficients(fit(model, X, y, "map"))[0]
    wanted = np.append(estimator.intercept_, estimator.coef_)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


# -- rotated coordinates ---------------------------------------------------------------------------


FEW = 60
BASE = rng.normal(size=(FEW, 1))
COLLINEAR = np.column_stack([BASE, BASE + 0.03 * rng.normal(size=(FEW, 1)), rng.normal(size=FEW)])
BY_HAND = {
    "logistic": (lk.Bernoulli(), lambda eta: dist.Bernoulli(logits=eta), stats.bernoulli, expit),
    "poisson": (lk.Poisson(), lambda eta: dist.Poisson(jnp.exp(eta)), stats.poisson, np.exp),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_rotated_coordinates_are_the_same_model_and_far_easier_to_move_in(name):
    likelihood, own, truth, inverse = BY_HAND[name]
    y = truth(inverse(COLLINEAR @ [0.5, 0.2, -0.5])).rvs(random_state=1)
    scale = np.array([1.0, 1.5, 0.7])

    def by_hand(X, y):
        weights = numpyro.sample("weights", dist.Normal(0.0, scale).to_event(1))
        intercept = numpyro.sample("intercept", dist.Normal(0.3, 2.0))
        numpyro.sample("y", own(intercept + X @ weights), obs=y)

    model = bk.BayesianGLM(likelihood, prior=scale, intercept=dist.Normal(0.3, 2.0))
    nuts = bk.NUTS(warmup=500, draws=1500, chains=2)
    rotated, plain = fit(model, COLLINEAR, y, nuts), fit(by_hand, COLLINEAR, y, nuts)
    assert rotated.trust.verdict == "good"
    effort = []
    for posterior in (rotated, plain):
        effective = az.ess(posterior.to_arviz().posterior, method="bulk")["weights"].min()
        effort.append(float(effective) / posterior.sample_stats["n_steps"].sum())
    assert effort[0] > 3.0 * effort[1]
    mine, theirs = coefficients(rotated), coefficients(plain)
    size = theirs.std(axis=0)
    np.testing.assert_allclose(mine.mean(axis=0) / size, theirs.mean(axis=0) / size, atol=0.15)
    np.testing.assert_allclose(mine.std(axis=0), size, rtol=0.1)


# -- scales that are inferred ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prior", "kept"),
    [
        (priors.Gaussian(dist.HalfNormal(2.0)), 1.0),
        (priors.ARD(dist.HalfNormal(1.0)), 0.75),
        (priors.Horseshoe(), 0.4),
    ],
    ids=lambda value: type(value).__name__,
)
def test_inferred_scales_find_the_features_that_matter(prior, kept):
    own = np.random.default_rng(3)
    wide = own.normal(size=(250, 8))
    truth = np.array([2.0, -1.5, 0, 0, 0, 0, 0, 0])
    y = own.random(250) < expit(wide @ truth)
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


# -- predictions -----------------------------------------------------------------------------------


def test_chances_are_averages_over_draws_and_sum_to_one(of_labels):
    new = FRAME.iloc[:20]
    prediction = of_labels.predict(new)
    eta = np.einsum("mp,skp->smk", X[:20], of_labels.flat["weights"])
    eta += of_labels.flat["intercept"][:, None]
    chances = np.exp(eta - logsumexp(eta, axis=2, keepdims=True)).mean(axis=0)
    np.testing.assert_allclose(prediction.probabilities, chances, rtol=1e-9)
    np.testing.assert_allclose(prediction.probabilities.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(of_labels.predict(new, latent=True).draws, eta, atol=1e-9)
    assert prediction.classes == ("low", "mid", "top")
    shares = (prediction.draws[..., None] == np.arange(3)).mean(axis=0)
    np.testing.assert_allclose(shares, chances, atol=5.0 / np.sqrt(4 * len(eta)))
    assert list(prediction.most_likely) == list(LABELS[chances.argmax(axis=1)])


def test_the_chance_of_the_second_class_is_the_mean(binary):
    prediction = binary.predict(FRAME.iloc[:9])
    eta = binary.flat["intercept"][:, None] + binary.flat["weights"] @ X[:9].T
    chance = expit(eta).mean(axis=0)
    np.testing.assert_allclose(prediction.mean, chance, rtol=1e-9)
    np.testing.assert_allclose(prediction.probabilities, np.stack([1 - chance, chance], 1))
    assert list(prediction.most_likely) == list(np.where(chance > 0.5, "yes", "no"))


def test_ordered_classes_have_quantiles(ordered):
    prediction = ordered.predict(X[:30])
    eta = ordered.flat["weights"] @ (X[:30] - X.mean(axis=0)).T
    below = expit(ordered.flat["cutpoints"][:, None] - eta[..., None]).mean(axis=0)
    np.testing.assert_allclose(np.cumsum(prediction.probabilities, axis=1)[:, :2], below)
    # The median class is the first whose cumulative chance is a half.
    clear = np.abs(below - 0.5).min(axis=1) > 0.05
    np.testing.assert_array_equal(prediction.median[clear], (below < 0.5).sum(axis=1)[clear])


def test_counts_with_exposure_are_predicted_as_simulation_says(counts):
    new, exposure = FRAME.iloc[:6], np.array([1.0, 2.0, 5.0, 0.5, 10.0, 30.0])
    rate = np.exp(counts.flat["intercept"][:, None] + counts.flat["weights"] @ X[:6].T)
    prediction = counts.predict(new, exposure=exposure)
    np.testing.assert_allclose(prediction.mean, exposure * rate.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(counts.predict(new).mean, rate.mean(axis=0), rtol=1e-9)
    # The distribution function of the mixture, exactly.
    for bound, level in zip(prediction.interval(0.9), (0.05, 0.95), strict=True):
        at, before = (stats.poisson(exposure * rate).cdf(bound - d).mean(axis=0) for d in (0, 1))
        assert np.all(at > level - 0.02)
        assert np.all(before < level + 0.02)
    variance = (exposure * rate).mean(axis=0) + (exposure * rate).var(axis=0)
    np.testing.assert_allclose(prediction.variance, variance, rtol=0.12)


def test_the_seed_decides_the_draws_and_nothing_else(counts):
    new = FRAME.iloc[:6]
    first, same, other = (counts.predict(new, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.draws, same.draws)
    assert np.any(first.draws != other.draws)
    np.testing.assert_array_equal(first.mean, other.mean)


def test_many_points_are_predicted_in_bounded_memory(monkeypatch, of_labels):
    from bayeskern.linear import model

    new = FRAME.iloc[:20]
    whole = of_labels.predict(new)
    monkeypatch.setattr(model, "CHUNK", 7 * 3 * len(whole.draws))
    chunked = of_labels.predict(new)
    np.testing.assert_allclose(chunked.probabilities, whole.probabilities, rtol=1e-9)
    assert chunked.draws.shape == whole.draws.shape
    monkeypatch.setattr(model, "NUMBERS", 300 * 3 * 20)
    thinned = of_labels.predict(new)
    assert thinned.draws.shape == (300, 20)
    np.testing.assert_allclose(thinned.probabilities, whole.probabilities, atol=0.02)
    assert of_labels.predict(new, latent=True).draws.shape == (300, 20, 3)


def test_predictive_intervals_cover_what_is_observed():
    own, covered, inside = np.random.default_rng(5), [], []
    model = bk.BayesianGLM(lk.Poisson(), prior=0.7, intercept=dist.Normal(1.0, 0.5))
    laplace = bk.Laplace(draws=400, starts=1)
    for _ in range(200):
        # The truth comes from the prior, so that coverage is exact on average.
        level, weights = own.normal(1.0, 0.5), 0.7 * own.normal(size=2)
        small = own.normal(size=(15, 2))
        y = own.poisson(np.exp(level + small @ weights))
        prediction = fit(model, small[:14], y[:14], laplace).predict(small[14:])
        lower, upper = prediction.interval(0.9)
        covered.append(lower[0] <= y[14] <= upper[0])
        # Counts make intervals too wide; smeared over their steps they have the very probability.
        rank = np.mean(prediction.draws < y[14]) + own.random() * np.mean(prediction.draws == y[14])
        inside.append(0.05 < rank < 0.95)
    error = np.sqrt(0.9 * 0.1 / 200)
    assert np.mean(covered) > 0.9 - 3.0 * error
    assert abs(np.mean(inside) - 0.9) < 3.0 * error


# -- default priors --------------------------------------------------------------------------------


def test_default_priors_are_on_the_scale_of_the_linear_predictor():
    model, _ = bk.BayesianGLM(lk.Poisson()).prepare(X, 1000.0 * NEGATIVE)
    np.testing.assert_allclose(model.prior.scale, 2.5 / X.std(axis=0), rtol=1e-12)
    np.testing.assert_allclose(model.intercept.loc, np.log(1000.0 * NEGATIVE.mean()))
    np.testing.assert_allclose(model.intercept.center, X.mean(axis=0))
    model, _ = bk.BayesianGLM(lk.StudentT()).prepare(X, 1000.0 * ETA)
    spread = 1000.0 * stats.median_abs_deviation(ETA, scale="normal")
    np.testing.assert_allclose(model.prior.scale, 2.5 * spread / X.std(axis=0), rtol=1e-6)


@pytest.mark.parametrize("prior", [None, priors.ARD(), priors.Horseshoe()], ids=repr)
def test_units_of_the_features_change_nothing_but_the_units_of_the_weights(prior):
    model = bk.BayesianGLM(lk.Bernoulli(), prior=prior)
    one, other = (
        model.prior_predictive(data, BINARY, draws=100).draws
        for data in (X, X * [1000.0, 0.01] + [5.0, -3.0])
    )
    # A rounding may turn a draw over.
    assert np.mean(one == other) > 0.999
    assert 0.2 < one.mean() < 0.8


def test_cutpoints_speak_of_the_mean_of_the_features_or_of_0(ordered):
    moved = fit(bk.BayesianGLM(lk.Ordered(), prior=priors.Flat()), X + 1000.0, THREE)
    for site in ("cutpoints", "weights"):
        np.testing.assert_allclose(moved.flat[site], ordered.flat[site], rtol=1e-5, atol=1e-8)
    at_0 = bk.BayesianGLM(lk.Ordered([-1.0, 1.0]), prior=1.0, intercept=False)
    assert "intercept" not in fit(at_0, X, THREE, "map").draws


# -- robust regression -----------------------------------------------------------------------------


def _with_outliers():
    own = np.random.default_rng(2)
    x = own.uniform(0.0, 10.0, (60, 1))
    y = 1.0 + 2.0 * x[:, 0] + 0.3 * own.normal(size=60)
    y[x[:, 0] > 9.0] -= 40.0
    return x, y


@pytest.mark.parametrize("noise", [lk.StudentT(), lk.Laplace()], ids=repr)
def test_heavy_tailed_noise_is_not_moved_by_outliers(noise):
    x, y = _with_outliers()
    gaussian = fit(bk.BayesianLinearRegression(), x, y, "map")
    assert abs(gaussian.flat["weights"].mean() - 2.0) > 0.5
    method = bk.NUTS(warmup=300, draws=400, chains=2) if noise.kinked else "laplace"
    robust = fit(bk.BayesianLinearRegression(noise=noise), x, y, method)
    assert abs(robust.flat["weights"].mean() - 2.0) < 0.1


def test_laplace_noise_has_no_laplace_approximation():
    x, y = _with_outliers()
    with pytest.raises(ValueError, match="the site 'y' has kinks"):
        fit(bk.BayesianLinearRegression(noise=lk.Laplace()), x, y)
    with pytest.raises(ValueError, match="the site 'weights' has kinks"):
        fit(bk.BayesianGLM(lk.Bernoulli(), prior=priors.Laplace(1.0)), X, BINARY)


@pytest.mark.parametrize("classes", [None, ("no", "yes")], ids=["learnt", "given"])
def test_classes_outlive_a_file(tmp_path, classes):
    y = np.where(BINARY > 0, "yes", "no")
    model = bk.BayesianGLM(lk.Bernoulli(classes=classes))
    posterior = fit(model, FRAME, y)
    posterior.save(tmp_path / "fit.nc")
    new = FRAME.iloc[:5]
    loaded = bk.load(tmp_path / "fit.nc", model=model).predict(new[["age", "dose"]])
    np.testing.assert_allclose(loaded.mean, posterior.predict(new).mean)
    assert loaded.classes == ("no", "yes")


def test_the_mode_under_laplace_noise_is_the_median_regression():
    x, y = _with_outliers()
    model = bk.BayesianLinearRegression(noise=lk.Laplace(1.0), **FLAT)
    found = coefficients(fit(model, x, y, "map"))[0]
    truth = QuantileRegressor(quantile=0.5, alpha=0.0).fit(x, y)
    np.testing.assert_allclose(found, np.append(truth.intercept_, truth.coef_), rtol=1e-6)


# -- ArviZ -----------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Variables y in")
@pytest.mark.parametrize("name", ["binary", "counts", "of_labels"])
def test_arviz_takes_what_it_is_given(name, request):
    posterior = request.getfixturevalue(name)
    tree = posterior.to_arviz()
    assert set(tree.children) == {
        *("posterior", "sample_stats", "log_likelihood", "posterior_predictive"),
        *("prior", "prior_predictive", "observed_data", "constant_data"),
    }
    assert list(tree.posterior.coords["feature"].values) == ["dose", "age"]
    if name == "of_labels":
        assert list(tree.posterior.coords["output"].values) == list(LABELS)
        assert tree.posterior["weights"].dims == ("chain", "draw", "output", "feature")
    # Replicates of a well fitted model repeat the frequencies of the data.
    values = tree.observed_data["y"].to_numpy()
    new = tree.posterior_predictive["y"].to_numpy()
    assert abs(np.mean(new == 0) - np.mean(values == 0)) < 0.05
    assert np.isfinite(az.loo(tree).elpd)
    az.plot_ppc_dist(tree)
    assert any("weights" in row for row in posterior.summary().index)
