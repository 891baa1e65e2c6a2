"""Claims of notebook 10 (classification and GLMs) against other libraries and print."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import statsmodels.api as sm
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar
from scipy.special import expit
from sklearn.linear_model import LinearRegression, LogisticRegression

import bayeskern as bk
from bayeskern import likelihoods as lk
from bayeskern.course import least_squares
from bayeskern.linear.priors import Flat

pytestmark = pytest.mark.slow

infer = partial(bk.infer, progress=False)

# -- the squared loss ------------------------------------------------------------------------------


def test_distant_points_move_least_squares_but_not_logistic():
    rng = np.random.default_rng(0)
    sign = np.repeat([-1.0, 1.0], 40)
    near = rng.normal(size=(80, 2)) + np.outer(sign, [1.2, 0.0])
    both = np.vstack([near, rng.normal(size=(20, 2)) * 0.7 + [9.0, -7.0]])
    angles, wrong = {"squared": [], "logistic": []}, {"squared": [], "logistic": []}
    for X, y in ((near, sign), (both, np.append(sign, np.ones(20)))):
        plane = least_squares(X, y, intercept=True)
        assert_allclose(plane.coefficients, LinearRegression().fit(X, y).coef_, rtol=1e-10)
        model = bk.BayesianGLM(lk.Bernoulli(), prior=Flat(), intercept=Flat())
        draws = infer(model, X, y, method="map").flat
        theirs = sm.Logit(y > 0, sm.add_constant(X)).fit(disp=0, tol=1e-12).params
        assert_allclose([draws["intercept"][0], *draws["weights"][0]], theirs, rtol=1e-4)
        for name, a, w in (
            ("squared", plane.intercept, plane.coefficients),
            ("logistic", draws["intercept"][0], draws["weights"][0]),
        ):
            angles[name].append(np.degrees(np.arctan2(w[1], w[0])))
            wrong[name].append(np.sum(np.sign(a + near @ w) != sign))
    assert abs(np.diff(angles["squared"])[0]) > 30.0
    assert abs(np.diff(angles["logistic"])[0]) < 1.0
    assert wrong == {"squared": [13, 18], "logistic": [12, 12]}


# -- probabilities ---------------------------------------------------------------------------------


def test_cross_entropy_is_proper():
    q = 0.7
    bernoulli = lk.Bernoulli(classes=(0, 1))

    def charge(eta):
        log_p = [bernoulli.distribution(jnp.array(eta)).log_prob(y) for y in (0, 1)]
        return float(-(1 - q) * log_p[0] - q * log_p[1])

    least = minimize_scalar(charge, bounds=(-5, 5), method="bounded", options={"xatol": 1e-9})
    assert expit(least.x) == pytest.approx(q, abs=1e-6)
    assert least.fun == pytest.approx(-q * np.log(q) - (1 - q) * np.log(1 - q), abs=1e-12)


def test_softmax_regression_agrees_with_scikit_learn():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 2))
    labels = np.array(["a", "b", "c"])[np.argmax(X @ rng.normal(size=(2, 3)) * 2, axis=1)]
    model = bk.BayesianGLM(lk.Categorical(), prior=dist.Normal(0.0, 2.5), intercept=False)
    ours = infer(model, X, labels, method="map")
    theirs = LogisticRegression(C=2.5**2, fit_intercept=False, tol=1e-10).fit(X, labels)
    assert_allclose(ours.predict(X).probabilities, theirs.predict_proba(X), atol=1e-4)
    # What is added to all predictors cancels.
    eta, softmax = jnp.array([[0.3, -2.0, 1.0]]), lk.Categorical(classes=("a", "b", "c"))
    assert_allclose(softmax.mean(eta + 7.0), softmax.mean(eta), rtol=1e-12)


def test_posterior_average_is_calibrated_but_estimate_is_not():
    # Over data from the prior, what is averaged over the posterior is calibrated.
    prior = bk.BayesianGLM(lk.Bernoulli(), prior=dist.Normal(0.0, 0.5), intercept=False)
    flat = bk.BayesianGLM(lk.Bernoulli(), prior=Flat(), intercept=False)
    excess = {"estimate": [], "average": []}
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, w = rng.normal(size=(2060, 8)), 0.5 * rng.normal(size=8)
        y = (rng.uniform(size=2060) < expit(X @ w)).astype(int)
        for name, model, method in (("estimate", flat, "map"), ("average", prior, "importance")):
            p = infer(model, X[:60], y[:60], method=method, seed=seed).predict(X[60:]).mean
            # How much surer it was of what it named than it was right: by 0.05 more or less.
            excess[name].append(np.mean(np.maximum(p, 1 - p)) - np.mean((p > 0.5) == y[60:]))
    assert np.mean(np.subtract(excess["estimate"], excess["average"])) > 0.05
    assert abs(np.mean(excess["average"])) < 3.0 * 0.05 / np.sqrt(4)


# -- counts ----------------------------------------------------------------------------------------

AGE, SMOKER = np.tile(np.arange(1.0, 6.0), 2), np.repeat([1.0, 0.0], 5)
DOCTORS = np.column_stack([AGE, AGE**2, SMOKER, SMOKER * AGE])
DEATHS = np.array([32, 104, 206, 186, 102, 2, 12, 28, 28, 31])
YEARS = np.array([52407, 43248, 28612, 12663, 5317, 18790, 10673, 5710, 2585, 1462])
POISSON = bk.BayesianGLM(lk.Poisson(), prior=Flat(), intercept=Flat())


def test_british_doctors_agree_with_print_and_statsmodels():
    # Dobson and Barnett (2008), table 9.3: estimates and standard errors.
    posterior = infer(POISSON, DOCTORS, DEATHS, exposure=YEARS, method="laplace", seed=0)
    mode = infer(POISSON, DOCTORS, DEATHS, exposure=YEARS, method="map").flat["weights"][0]
    assert_allclose(mode, [2.376, -0.198, 1.441, -0.308], atol=6e-4)
    sds = posterior.flat["weights"].std(axis=0)
    assert_allclose(sds, [0.208, 0.027, 0.372, 0.097], rtol=0.08)
    design = sm.add_constant(DOCTORS)
    theirs = sm.GLM(DEATHS, design, sm.families.Poisson(), exposure=YEARS).fit(tol=1e-12)
    assert_allclose(mode, theirs.params[1:], rtol=1e-5)
    ratio = np.median(np.exp(posterior.flat["weights"] @ np.array([0.0, 0.0, 1.0, 1.0])))
    assert ratio == pytest.approx(np.exp(theirs.params[3] + theirs.params[4]), rel=0.05)


def test_score_equations_hold_at_the_mode():
    best = infer(POISSON, DOCTORS, DEATHS, exposure=YEARS, method="map")
    expected = best.predict(DOCTORS, exposure=YEARS).mean
    design = sm.add_constant(DOCTORS)
    assert_allclose(design.T @ expected, design.T @ DEATHS, rtol=1e-6)
    assert_allclose(expected[SMOKER == 1].sum(), 630, rtol=1e-6)


# -- the log partition function --------------------------------------------------------------------

FAMILIES = {
    "Gaussian": (lk.Gaussian(1.0), lambda e: e**2 / 2, 1.0, [-2.0, 0.5]),
    "Bernoulli": (lk.Bernoulli(classes=(0, 1)), lambda e: jnp.logaddexp(0.0, e), 1.0, [-2.0, 1.0]),
    "Poisson": (lk.Poisson(), jnp.exp, 1.0, [-1.0, 1.5]),
    # Its natural parameter is minus the rate.
    "Exponential": (lk.Exponential(link="inverse"), lambda e: -jnp.log(-e), -1.0, [-3.0, -0.4]),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_log_partition_gives_mean_and_variance(name):
    likelihood, log_partition, sign, etas = FAMILIES[name]
    etas, extra = jnp.array(etas), {need: np.ones(2) for need in likelihood.needs}
    mean, variance = (
        jax.vmap(derivative)(etas)
        for derivative in (jax.grad(log_partition), jax.grad(jax.grad(log_partition)))
    )
    assert_allclose(likelihood.mean(sign * etas, **extra), mean, rtol=1e-12)
    y = likelihood.distribution(sign * etas, **extra).sample(jax.random.key(0), (40_000,))
    error = np.sqrt(np.asarray(variance) / 40_000)
    assert np.all(np.abs(y.mean(axis=0) - mean) < 5.0 * error)
    assert_allclose(y.var(axis=0), variance, rtol=0.1)
    # The density has the exponential form: from y = 0 to y = 1 its logarithm rises with eta.
    support = jnp.array([[0.0], [1.0]])
    log_density = likelihood.distribution(sign * etas, **extra).log_prob(support)
    tilt = np.asarray(log_density[1] - log_density[0])
    assert_allclose(np.diff(tilt), np.diff(np.asarray(etas)), rtol=1e-10)


def test_log_sum_exp_gives_mean_and_covariance():
    eta = jnp.array([0.3, -2.0, 1.0])
    p = np.asarray(lk.Categorical(classes=("a", "b", "c")).mean(eta))
    assert_allclose(jax.grad(jax.nn.logsumexp)(eta), p, rtol=1e-12)
    assert_allclose(jax.hessian(jax.nn.logsumexp)(eta), np.diag(p) - np.outer(p, p), atol=1e-12)
