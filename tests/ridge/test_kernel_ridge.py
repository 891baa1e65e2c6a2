"""Kernel ridge regression against scikit-learn, SciPy, Gaussian processes and honest refits."""

import pickle
import warnings

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from numpyro import distributions as dist
from scipy import optimize, stats
from scipy.interpolate import RBFInterpolator
from scipy.linalg import LinAlgWarning
from sklearn.base import clone
from sklearn.ensemble import BaggingRegressor
from sklearn.gaussian_process import kernels as sk
from sklearn.kernel_ridge import KernelRidge as SklearnKernelRidge
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold, LeaveOneOut, cross_val_predict
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.estimator_checks import parametrize_with_checks

import bayeskern as bk
from bayeskern.kernels import (
    RBF,
    AllSubsets,
    ArcCosine,
    Constant,
    Cosine,
    Free,
    InverseMultiquadric,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Multiquadric,
    Periodic,
    Polynomial,
    RationalQuadratic,
    SpectralMixture,
    White,
)
from bayeskern.kernels import estimator as blocks_of
from bayeskern.ridge.kernel_ridge import KernelRidge

RNG = np.random.default_rng(5)
N = 30
X = RNG.normal(size=(N, 2))
Y = np.stack([np.sin(2.0 * X[:, 0]) + X[:, 1], 5.0 + X[:, 0] * X[:, 1]], 1)
Y = Y + 0.1 * RNG.normal(size=Y.shape)
y = Y[:, 0]
W = RNG.uniform(0.2, 3.0, size=N)
NEW = RNG.normal(size=(6, 2))

POSITIVE = [
    RBF(0.8, 1.5),
    RBF([0.5, 2.0]),
    Matern12(),
    Matern32(1.2),
    Matern52(0.7),
    RationalQuadratic(0.9, alpha=0.5),
    InverseMultiquadric(),
    Periodic([2.0, 3.0]),
    Cosine([2.0, 3.0]),
    SpectralMixture([1.0, 0.5], [[0.2], [0.5]], [[0.3], [0.1]]),
    Constant(2.0),
    Linear(1.5),
    Polynomial(degree=3),
    AllSubsets(),
    ArcCosine(order=1),
]


def refits(estimator, X, y, weights=None):
    """Leave-one-out predictions, the honest way."""
    weights = np.ones(len(X)) if weights is None else weights
    found = []
    for train, (i,) in LeaveOneOut().split(X):
        fitted = clone(estimator).fit(X[train], y[train], sample_weight=weights[train])
        found.append(fitted.predict(X[[i]])[0])
    return np.array(found)


@parametrize_with_checks(
    [KernelRidge(), KernelRidge(alpha="loo", fit_intercept=True), KernelRidge(Multiquadric())],
    expected_failed_checks=lambda estimator: (
        {
            "check_sample_weight_equivalence_on_dense_data": (
                "leaving one of two equal rows out is not leaving out a row of weight two"
            )
        }
        if estimator.alpha == "loo"
        else {}
    ),
)
def test_it_is_an_estimator_as_scikit_learn_wants_it(estimator, check):
    with warnings.catch_warnings():
        # Some checks give data on which K + alpha is singular.
        warnings.simplefilter("ignore", LinAlgWarning)
        check(estimator)


# -- the solution ----------------------------------------------------------------------------------

OTHERS = [
    (RBF(0.7), sk.RBF(0.7)),
    (RBF([0.7, 2.0]), sk.RBF([0.7, 2.0])),
    (Matern12(1.5), sk.Matern(1.5, nu=0.5)),
    (Matern32(0.6, 2.0), 2.0 * sk.Matern(0.6, nu=1.5)),
    (Matern52(1.1), sk.Matern(1.1, nu=2.5)),
    (RationalQuadratic(0.8, alpha=1.3), sk.RationalQuadratic(0.8, alpha=1.3)),
    (Linear() + Constant(0.25), sk.DotProduct(0.5)),
    (RBF() * Linear() + 2.0 * Matern32(), sk.RBF() * sk.DotProduct(0.0) + 2.0 * sk.Matern(nu=1.5)),
    (Polynomial(degree=3, offset=0.5), sk.Exponentiation(sk.DotProduct(np.sqrt(0.5)), 3)),
]


@pytest.mark.parametrize("weights", [None, W], ids=["", "weights"])
@pytest.mark.parametrize("solver", ["cholesky", "eigen"])
@pytest.mark.parametrize(("ours", "theirs"), OTHERS, ids=[repr(k) for k, _ in OTHERS])
def test_it_is_the_kernel_ridge_of_scikit_learn(ours, theirs, solver, weights):
    peer = SklearnKernelRidge(kernel="precomputed", alpha=[0.3, 0.02])
    peer.fit(theirs(X), Y, sample_weight=weights)
    ours = KernelRidge(ours, [0.3, 0.02], solver="eigen").fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(ours.predict(NEW), peer.predict(theirs(NEW, X)), rtol=1e-9)
    one = clone(ours).set_params(alpha=0.3, solver=solver).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(one.predict(NEW), ours.predict(NEW)[:, 0], rtol=1e-9)
    np.testing.assert_allclose(one.dual_coef_, ours.dual_coef_[:, 0], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("weights", [None, W], ids=["", "weights"])
@pytest.mark.parametrize("intercept", [False, True])
def test_dual_and_primal_ridge_are_one(intercept, weights):
    features = PolynomialFeatures(2).fit(X)
    # The weights of the features of (1 + x'z)^2, in the order of PolynomialFeatures.
    roots = np.sqrt([1.0, 2.0, 2.0, 1.0, 2.0, 1.0])
    primal = Ridge(0.2, fit_intercept=intercept, solver="svd")
    primal.fit(features.transform(X) * roots, Y, sample_weight=weights)
    dual = KernelRidge(Polynomial(degree=2), 0.2, fit_intercept=intercept)
    dual.fit(X, Y, sample_weight=weights)
    expected = primal.predict(features.transform(NEW) * roots)
    np.testing.assert_allclose(dual.predict(NEW), expected, rtol=1e-8)


def assert_is_a_gaussian_process(kernel, alpha):
    ours = KernelRidge(kernel, alpha).fit(X, y)
    mean, sd = ours.predict(NEW, return_std=True)
    process = bk.GaussianProcess(kernel, X, noise=alpha).condition(y).predict(NEW)
    np.testing.assert_allclose(mean, process.mean, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(sd, process.sd, rtol=1e-6)


@pytest.mark.parametrize("kernel", POSITIVE, ids=repr)
def test_it_is_the_mean_of_a_gaussian_process(kernel):
    assert_is_a_gaussian_process(kernel, 0.05)


LEAVES = st.sampled_from(
    [RBF(0.8), Matern32(), Linear(0.5), Constant(0.3), RBF().on([1]), Polynomial(degree=2)]
)
NESTED = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda k: k[0] + k[1]),
        st.tuples(inner, inner).map(lambda k: k[0] * k[1]),
        inner.map(lambda k: 0.4 * k),
        inner.map(lambda k: (0.1 * k) ** 2),
        inner.map(lambda k: k.named("part")),
        inner.map(lambda k: (0.02 * k).exp()),
    ),
    max_leaves=4,
)


@settings(max_examples=15)
@given(NESTED)
def test_it_is_the_mean_of_a_gaussian_process_for_nested_kernels(kernel):
    assert_is_a_gaussian_process(kernel, 0.05)


def test_weights_divide_the_noise():
    ours = KernelRidge(RBF(), 0.1).fit(X, y, sample_weight=W)
    process = bk.GaussianProcess(RBF(), X, noise=0.1 / W).condition(y)
    np.testing.assert_allclose(ours.predict(NEW), process.predict(NEW, latent=True).mean, rtol=1e-9)
    sd = process.predict(NEW, latent=True).sd
    np.testing.assert_allclose(
        ours.predict(NEW, return_std=True)[1], np.sqrt(sd**2 + 0.1), rtol=1e-9
    )


def test_weights_are_repetitions_and_0_leaves_out():
    counts = RNG.integers(0, 3, size=N)
    weighted = KernelRidge(RBF(), 0.1, fit_intercept=True).fit(X, Y, sample_weight=counts)
    repeated = KernelRidge(RBF(), 0.1, fit_intercept=True)
    repeated.fit(np.repeat(X, counts, 0), np.repeat(Y, counts, 0))
    np.testing.assert_allclose(weighted.predict(NEW), repeated.predict(NEW), rtol=1e-10)
    assert weighted.dual_coef_.shape == Y.shape
    assert np.all(weighted.dual_coef_[counts == 0] == 0.0)


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_multiquadrics_are_those_of_scipy(alpha):
    ours = KernelRidge(Multiquadric(0.8), alpha).fit(X, Y)
    theirs = RBFInterpolator(
        X, Y, kernel="multiquadric", epsilon=1 / 0.8, smoothing=alpha, degree=0
    )
    np.testing.assert_allclose(ours.predict(NEW), theirs(NEW), rtol=1e-8)
    np.testing.assert_allclose(ours.loo_predict(), refits(ours, X, Y), rtol=1e-8)
    several = KernelRidge(0.5 * Multiquadric().on([0]) + Multiquadric(), 0.3).fit(X, y)
    K = -(0.5 * Multiquadric()(X[:, :1]) + Multiquadric()(X))
    bordered = np.block(
        [[K + 0.3 * np.eye(N), np.ones((N, 1))], [np.ones((1, N)), np.zeros((1, 1))]]
    )
    solution = np.linalg.solve(bordered, np.append(y, 0.0))
    np.testing.assert_allclose(several.intercept_, solution[-1], rtol=1e-9)
    np.testing.assert_allclose(several.dual_coef_, -solution[:-1], rtol=1e-9, atol=1e-11)


def test_a_constant_that_is_not_penalised_is_one_of_boundless_variance():
    ours = KernelRidge(RBF(), 0.1, fit_intercept=True).fit(X, y + 1000.0, sample_weight=W)
    wide = bk.GaussianProcess(RBF() + Constant(1e7), X, noise=0.1 / W).condition(y + 1000.0)
    mean, sd = ours.predict(NEW, return_std=True)
    latent = wide.predict(NEW, latent=True)
    np.testing.assert_allclose(mean, latent.mean, rtol=1e-7)
    np.testing.assert_allclose(sd, np.sqrt(latent.sd**2 + 0.1), rtol=1e-4)
    # A shift of y is a shift of the predictions.
    plain = KernelRidge(RBF(), 0.1, fit_intercept=True).fit(X, y, sample_weight=W)
    np.testing.assert_allclose(mean - 1000.0, plain.predict(NEW), atol=1e-9)
    np.testing.assert_allclose(ours.intercept_ - 1000.0, plain.intercept_, atol=1e-9)


def test_alpha_0_interpolates():
    ours = KernelRidge(Matern32(), 0.0).fit(X, Y)
    np.testing.assert_allclose(ours.predict(X), Y, atol=1e-10)
    assert ours.effective_dof_ == N
    np.testing.assert_allclose(ours.loo_predict(), refits(ours, X, Y), rtol=1e-8)


def test_of_many_interpolating_functions_the_shortest_is_taken():
    with pytest.warns(LinAlgWarning, match=f"rank 3 of {N}"):
        ours = KernelRidge(Linear() + 1.0, 0.0).fit(X, Y)
    design = np.column_stack([np.ones(N), X])
    b = np.linalg.lstsq(design, Y)[0]
    np.testing.assert_allclose(ours.predict(NEW), np.column_stack([np.ones(6), NEW]) @ b, rtol=1e-8)
    assert ours.effective_dof_ == pytest.approx(3.0)
    # The residuals that least squares leaves, each divided by 1 - leverage.
    hat = design @ np.linalg.pinv(design)
    residuals = (Y - hat @ Y) / (1.0 - np.diagonal(hat))[:, None]
    np.testing.assert_allclose(Y - ours.loo_predict(), residuals, rtol=1e-6)
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        KernelRidge(Linear(), 0.0, solver="cholesky").fit(X, y)


def test_a_kernel_with_priors_comes_from_a_posterior():
    kernel = RBF(dist.LogNormal()).named("bumps") + Linear(dist.HalfNormal()).on([1])
    model = bk.GPRegression(kernel, noise=bk.from_sd(dist.HalfNormal(0.5)))
    posterior = bk.infer(model, X, y, method="map")
    point = posterior.point("mean")
    ours = KernelRidge(kernel.at(point), float(point["noise"])).fit(X, y)
    np.testing.assert_allclose(ours.predict(NEW), posterior.predict(NEW).mean, rtol=1e-9)


# -- leave-one-out and the path --------------------------------------------------------------------


@pytest.mark.parametrize("weights", [None, W], ids=["", "weights"])
@pytest.mark.parametrize("solver", ["cholesky", "eigen"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("kernel", [RBF(), Linear() + Matern12(), Polynomial(degree=2)], ids=repr)
def test_leaving_one_out_is_refitting(kernel, intercept, solver, weights):
    ours = KernelRidge(kernel, 0.05, fit_intercept=intercept, solver=solver)
    ours.fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(ours.loo_predict(), refits(ours, X, Y, weights), atol=1e-8)
    single = clone(ours).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(single.loo_predict(), ours.loo_predict()[:, 0], atol=1e-12)


def test_leaving_one_out_agrees_with_cross_validation_by_scikit_learn():
    ours = KernelRidge(RBF(), 0.1, fit_intercept=True)
    found = cross_val_predict(ours, X, Y, cv=LeaveOneOut())
    np.testing.assert_allclose(ours.fit(X, Y).loo_predict(), found, atol=1e-10)


@pytest.mark.parametrize("alpha", [1e-6, 1e-9, 1e-12])
def test_leaving_one_out_survives_a_small_alpha(alpha):
    ours = KernelRidge(Matern12(), alpha).fit(X, y)
    np.testing.assert_allclose(ours.loo_predict(), refits(ours, X, y), atol=1e-9)


def test_a_point_of_weight_0_has_its_plain_prediction():
    weights = np.where(np.arange(N) < 3, 0.0, W)
    ours = KernelRidge(RBF(), 0.1).fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(ours.loo_predict(), refits(ours, X, Y, weights), atol=1e-10)


def fitted_values(kernel, alpha, weights, intercept):
    """The matrix A of weighted kernel ridge, by the normal equations of the bordered system."""
    u = np.full((N, 1), float(intercept))
    K = np.asarray(kernel(X))
    corner = np.array([[0.0 if intercept else 1.0]])
    inverse = np.linalg.inv(np.block([[K + alpha * np.diag(1 / weights), u], [u.T, corner]]))
    return (np.hstack([K, u]) @ inverse)[:, :N]


@pytest.mark.parametrize("weights", [None, W], ids=["", "weights"])
@pytest.mark.parametrize("intercept", [False, True])
def test_every_point_of_the_path_is_a_fit_of_its_own(intercept, weights):
    alphas = [0.001, 0.03, 0.4, 7.0]
    ours = KernelRidge(RBF(), "loo", alphas=alphas, fit_intercept=intercept)
    ours.fit(X, Y, sample_weight=weights)
    w = np.ones(N) if weights is None else weights
    np.testing.assert_array_equal(ours.alphas_, alphas)
    for a, alpha in enumerate(alphas):
        one = KernelRidge(RBF(), alpha, fit_intercept=intercept).fit(X, Y, sample_weight=weights)
        loo = np.average((Y - one.loo_predict()) ** 2, axis=0, weights=w)
        np.testing.assert_allclose(ours.loo_path_[a], loo, rtol=1e-8)
        A = fitted_values(RBF(), alpha, w, intercept)
        np.testing.assert_allclose(one.effective_dof_, np.trace(A), rtol=1e-8)
        gcv = np.average((Y - A @ Y) ** 2, axis=0, weights=w) / (1.0 - np.trace(A) / N) ** 2
        np.testing.assert_allclose(ours.gcv_path_[a], gcv, rtol=1e-8)
        covariance = np.asarray(RBF()(X)) + np.diag(alpha / w)
        if not intercept:
            evidence = stats.multivariate_normal(np.zeros(N), covariance).logpdf(Y.T)
            np.testing.assert_allclose(ours.evidence_path_[a], evidence, rtol=1e-8)
    assert ours.alpha_ == alphas[np.argmin(ours.loo_path_.sum(axis=1))]


def test_the_evidence_with_a_constant_is_that_of_contrasts():
    ours = KernelRidge(RBF(), "evidence", alphas=[0.1, 0.5], fit_intercept=True).fit(X, y)
    contrasts = np.linalg.qr(np.column_stack([np.ones(N), np.eye(N)[:, 1:]]))[0][:, 1:].T
    for alpha, found in zip(ours.alphas_, ours.evidence_path_, strict=True):
        covariance = contrasts @ (np.asarray(RBF()(X)) + alpha * np.eye(N)) @ contrasts.T
        expected = stats.multivariate_normal(np.zeros(N - 1), covariance).logpdf(contrasts @ y)
        assert found == pytest.approx(expected, rel=1e-9)


def test_alpha_may_be_chosen_for_each_target():
    ours = KernelRidge(RBF(), "loo", alpha_per_target=True).fit(X, Y)
    assert ours.alpha_.shape == (2,)
    for j in range(2):
        one = KernelRidge(RBF(), "loo").fit(X, Y[:, j])
        assert ours.alpha_[j] == one.alpha_
        np.testing.assert_allclose(ours.predict(NEW)[:, j], one.predict(NEW), rtol=1e-9)
        np.testing.assert_allclose(ours.loo_predict()[:, j], one.loo_predict(), rtol=1e-9)
        _, sd = ours.predict(NEW, return_std=True)
        np.testing.assert_allclose(sd[:, j], one.predict(NEW, return_std=True)[1], rtol=1e-9)
        np.testing.assert_allclose(ours.effective_dof_[j], one.effective_dof_)
    assert ours.loo_path_.shape == (50, 2)


@pytest.mark.parametrize("criterion", ["loo", "gcv", "evidence"])
def test_the_default_alphas_hold_the_best_one_inside(criterion):
    for scale in (1e-3, 1.0, 1e3):
        ours = KernelRidge(RBF(variance=scale), criterion).fit(X, np.sqrt(scale) * y)
        assert ours.alphas_[0] < ours.alpha_ < ours.alphas_[-1]


# -- tuning ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("criterion", ["loo", "gcv", "evidence"])
def test_free_hyperparameters_are_at_an_optimum(criterion, intercept):
    ours = KernelRidge(RBF(Free(1.0)), criterion, optimize=criterion, fit_intercept=intercept)
    ours.fit(X, Y, sample_weight=W)

    def score(position):
        lengthscale, alpha = np.exp(position)
        plain = KernelRidge(RBF(lengthscale), criterion, alphas=[alpha], fit_intercept=intercept)
        path = getattr(plain.fit(X, Y, sample_weight=W), f"{criterion}_path_").sum()
        return -path if criterion == "evidence" else np.log(path)

    # There is more than one optimum: this one is stationary, and none near it is better.
    at = np.log([ours.kernel_.lengthscale, ours.alpha_])
    found = optimize.minimize(
        score, at + 0.2, method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-12}
    )
    assert score(at) <= found.fun + 1e-6
    assert optimize.approx_fprime(at, score, 1e-6) == pytest.approx(0.0, abs=1e-3)


def test_the_evidence_is_that_of_gaussian_process_regression():
    kernel = RBF([Free(1.0).init, 1.0]).at({"lengthscale": Free([1.0, 1.0]), "variance": Free(1.0)})
    ours = KernelRidge(kernel, "evidence", optimize="evidence").fit(X, y)
    model = bk.GPRegression(kernel, noise=Free(0.1))
    fitted = bk.infer(model, X, y, method="mle").predict(NEW)
    mean, sd = ours.predict(NEW, return_std=True)
    np.testing.assert_allclose(mean, fitted.mean, rtol=1e-3)
    np.testing.assert_allclose(sd, fitted.sd, rtol=1e-3)


def test_a_given_alpha_is_held():
    ours = KernelRidge(RBF(Free(1.0)), 0.05, optimize="loo").fit(X, y)

    def score(lengthscale):
        fitted = KernelRidge(RBF(lengthscale), 0.05).fit(X, y)
        return np.mean((y - fitted.loo_predict()) ** 2)

    best = optimize.minimize_scalar(score, bounds=(0.2, 3.0), method="bounded").x
    assert ours.alpha_ == 0.05
    np.testing.assert_allclose(ours.kernel_.lengthscale, best, rtol=1e-3)
    multiquadric = KernelRidge(Multiquadric(Free(1.0)), "loo", optimize="loo").fit(X, y)
    assert (
        multiquadric.loo_path_.min() < KernelRidge(Multiquadric(), "loo").fit(X, y).loo_path_.min()
    )


# -- as scikit-learn has it ------------------------------------------------------------------------


def test_a_grid_search_picks_among_kernels():
    kernels = [RBF(0.01), RBF(1.0), Linear()]
    search = GridSearchCV(KernelRidge(alpha="loo"), {"kernel": kernels}, cv=KFold(5)).fit(X, y)
    assert search.best_params_["kernel"] is kernels[1]


def test_bagging_gives_bootstrap_intervals():
    bags = BaggingRegressor(KernelRidge(RBF(), 0.1), n_estimators=20, random_state=0).fit(X, y)
    every = np.array([bag.predict(NEW) for bag in bags.estimators_])
    np.testing.assert_allclose(every.mean(axis=0), bags.predict(NEW))
    assert np.all(every.std(axis=0) > 0.0)


def test_a_new_fit_forgets_the_path_of_the_one_before():
    ours = KernelRidge(RBF(), "loo").fit(X, y)
    ours.set_params(alpha=0.1).fit(X, y)
    assert not hasattr(ours, "loo_path_")
    assert not hasattr(ours, "alphas_")


def test_alpha_chosen_from_the_defaults_goes_with_the_scale_of_the_weights():
    light = KernelRidge(RBF(), "loo").fit(X, y)
    heavy = KernelRidge(RBF(), "loo").fit(X, y, sample_weight=np.full(N, 1e6))
    assert heavy.alpha_ == pytest.approx(1e6 * light.alpha_)
    np.testing.assert_allclose(heavy.predict(NEW), light.predict(NEW), rtol=1e-9)


def test_the_default_alphas_do_not_see_what_the_constant_takes_up():
    line = 3.0 + X @ [1.0, 2.0] + 3.0 * RNG.normal(size=N)
    near = KernelRidge(Linear(), "loo", fit_intercept=True).fit(X, line)
    far = KernelRidge(Linear(), "loo", fit_intercept=True).fit(X + 100.0, line)
    np.testing.assert_allclose(far.alphas_, near.alphas_, rtol=1e-6)
    np.testing.assert_allclose(far.predict(NEW + 100.0), near.predict(NEW), rtol=1e-5)


def test_an_alpha_at_the_end_of_the_path_is_said():
    with pytest.warns(UserWarning, match="at an end of alphas, which run from 10 to 100"):
        KernelRidge(RBF(), "loo", alphas=[10.0, 30.0, 100.0]).fit(X, y)


def test_a_kernel_that_overflows_is_refused():
    for estimator in (KernelRidge(Linear().exp()), KernelRidge(Linear().exp(), "loo")):
        with pytest.raises(ValueError, match="is NaN or infinite at some of these points"):
            estimator.fit(100.0 * X, y)


def test_what_is_set_after_a_fit_waits_for_the_next():
    ours = KernelRidge(RBF(), 0.1, fit_intercept=True).fit(X, y)
    _, sd = ours.predict(NEW, return_std=True)
    ours.set_params(fit_intercept=False)
    np.testing.assert_array_equal(ours.predict(NEW, return_std=True)[1], sd)
    mean = ours.predict(NEW)
    with pytest.raises(TypeError):
        ours.set_params(kernel="rbf").fit(X + 1.0, y)
    np.testing.assert_array_equal(ours.predict(NEW), mean)


def test_the_points_are_its_own():
    points = X.copy()
    ours = KernelRidge(RBF(), 0.1).fit(points, y)
    mean = ours.predict(NEW)
    points[:] = 0.0
    np.testing.assert_array_equal(ours.predict(NEW), mean)


def test_other_numbers_of_rows_are_seldom_compiled_for():
    ours = KernelRidge(RBF(), 0.1).fit(X, y)
    before = blocks_of._gram_times._cached._cache_size()
    for rows in range(64, 128):
        ours.predict(np.zeros((rows, 2)))
    assert blocks_of._gram_times._cached._cache_size() - before <= 5


def test_it_is_cloned_and_pickled():
    ours = KernelRidge(RBF(0.7) + Linear().named("line"), "gcv").fit(X, Y)
    again = pickle.loads(pickle.dumps(ours))
    np.testing.assert_array_equal(again.predict(NEW), ours.predict(NEW))
    np.testing.assert_array_equal(again.loo_predict(), ours.loo_predict())
    fresh = clone(ours)
    assert repr(fresh) == repr(ours)
    np.testing.assert_array_equal(fresh.fit(X, Y).predict(NEW), ours.predict(NEW))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_a_kernel_finds_its_columns_by_name(frame):
    table, new = (frame({"age": A[:, 0], "mass": A[:, 1]}) for A in (X, NEW))
    named = KernelRidge(RBF().on(["mass"]) + Linear().on(["age"]), 0.1).fit(table, y)
    plain = KernelRidge(RBF().on([1]) + Linear().on([0]), 0.1).fit(X, y)
    np.testing.assert_array_equal(named.predict(new), plain.predict(NEW))
    assert list(named.feature_names_in_) == ["age", "mass"]
    with pytest.raises(ValueError, match="feature names"):
        named.predict(frame({"age": NEW[:, 0], "size": NEW[:, 1]}))


def test_predictions_do_not_depend_on_blocks(monkeypatch):
    many = RNG.normal(size=(600, 2))
    ours = KernelRidge(RBF(), 0.1, fit_intercept=True).fit(X, Y)
    mean, sd = ours.predict(many, return_std=True)
    monkeypatch.setattr(blocks_of, "BLOCK", 1)
    again, sd_again = ours.predict(many, return_std=True)
    np.testing.assert_allclose(again, mean, rtol=1e-12)
    np.testing.assert_allclose(sd_again, sd, rtol=1e-12)


# -- bad input -------------------------------------------------------------------------------------

BAD = {
    "negative alpha": ({"alpha": -1.0}, "alpha must be a finite penalty of 0 or more"),
    "alpha NaN": ({"alpha": np.nan}, "alpha must be a finite penalty"),
    "alpha of a wrong length": ({"alpha": [1.0, 2.0]}, 'alpha="loo" and alphas='),
    "unknown criterion": ({"alpha": "lou"}, "Did you mean 'loo'"),
    "alphas without a choice": ({"alphas": [1.0]}, "leaves no choice"),
    "no alphas": ({"alpha": "loo", "alphas": []}, "alphas is empty"),
    "negative alphas": ({"alpha": "loo", "alphas": [-1.0]}, "alphas must be a finite penalty"),
    "unknown solver": ({"solver": "qr"}, "Choose from auto, cholesky, eigen"),
    "one alpha for a path": ({"alpha": "loo", "solver": "cholesky"}, "takes one alpha only"),
    "unknown optimum": ({"kernel": RBF(Free(1.0)), "optimize": "aic"}, "optimize='aic'"),
    "nothing to tune": ({"optimize": "loo"}, "marked with Free"),
    "two criteria": (
        {"kernel": RBF(Free(1.0)), "alpha": "gcv", "optimize": "loo"},
        "goes with one alpha",
    ),
    "a product of multiquadrics": ({"kernel": Multiquadric() * RBF()}, "not positive definite"),
    "multiquadric and others": ({"kernel": Multiquadric() + RBF()}, "InverseMultiquadric"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        KernelRidge(**arguments).fit(X, y)


@pytest.mark.parametrize("value", [Free(1.0), dist.LogNormal()], ids=["Free", "LogNormal"])
def test_a_kernel_without_numbers_is_refused(value):
    with pytest.raises(
        TypeError, match=r'lengthscale of .* kernel.at\(posterior.point\("mean"\)\)'
    ):
        KernelRidge(RBF(value)).fit(X, y)
    with pytest.raises(TypeError, match="kernel must be a bayeskern kernel"):
        KernelRidge("rbf").fit(X, y)


def test_priors_are_refused_where_free_values_are_tuned():
    with pytest.raises(TypeError, match="variance of"):
        KernelRidge(RBF(Free(1.0), dist.LogNormal()), optimize="loo").fit(X, y)


def test_points_that_coincide_cannot_be_interpolated():
    twice = np.vstack([X, X[3] + [0.0, 1.0]])
    with pytest.raises(ValueError, match=f"rows 3 and {N} of X coincide"):
        KernelRidge(RBF().on([0]), 0.0).fit(twice, np.append(y, 1.0))
    weights = np.append(np.ones(N), 0.0)
    KernelRidge(Matern12().on([0]), 0.0).fit(twice, np.append(y, 1.0), sample_weight=weights)
    # White noise tells the points apart.
    KernelRidge(RBF().on([0]) + White(), 0.0).fit(twice, np.append(y, 1.0))


def test_weights_must_weigh_something():
    with pytest.raises(ValueError, match="at least one non-zero"):
        KernelRidge().fit(X, y, sample_weight=np.zeros(N))
    with pytest.raises(ValueError, match="[Nn]egative"):
        KernelRidge().fit(X, y, sample_weight=-W)


def test_a_search_in_logarithms_needs_an_alpha_above_0():
    with pytest.raises(ValueError, match="alphas has no penalty above 0"):
        KernelRidge(RBF(Free(1.0)), "loo", alphas=[0.0], optimize="loo").fit(X, y)
