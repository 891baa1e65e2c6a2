"""Kernel ridge regression against scikit-learn, SciPy and Gaussian processes."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from numpyro import distributions as dist
from scipy.interpolate import RBFInterpolator
from scipy.linalg import LinAlgWarning
from sklearn.base import clone
from sklearn.gaussian_process import kernels as sk
from sklearn.kernel_ridge import KernelRidge as SklearnKernelRidge
from sklearn.linear_model import Ridge
from sklearn.preprocessing import PolynomialFeatures

import bayeskern as bk
from bayeskern.kernels import (
    RBF,
    Constant,
    Linear,
    Matern32,
    Multiquadric,
    Polynomial,
)
from bayeskern.ridge.kernel_ridge import KernelRidge
from tests.marks import few, slow
from tests.ridge.kernel_ridge_data import NEW, RNG, N, W, X, Y, refits, y

OTHERS = [
    (RBF([0.7, 2.0]), sk.RBF([0.7, 2.0])),
    (Matern32(0.6, 2.0), 2.0 * sk.Matern(0.6, nu=1.5)),
    (Linear() + Constant(0.25), sk.DotProduct(0.5)),
    (RBF() * Linear() + 2.0 * Matern32(), sk.RBF() * sk.DotProduct(0.0) + 2.0 * sk.Matern(nu=1.5)),
    (Polynomial(degree=3, offset=0.5), sk.Exponentiation(sk.DotProduct(np.sqrt(0.5)), 3)),
]


@pytest.mark.parametrize("weights", [slow(None), W], ids=["", "weights"])
@pytest.mark.parametrize("solver", few(["cholesky", "eigen"], "cholesky"))
@pytest.mark.parametrize(("ours", "theirs"), OTHERS, ids=[repr(k) for k, _ in OTHERS])
def test_kernel_ridge_agrees_with_scikit_learn(ours, theirs, solver, weights):
    peer = SklearnKernelRidge(kernel="precomputed", alpha=[0.3, 0.02])
    peer.fit(theirs(X), Y, sample_weight=weights)
    ours = KernelRidge(ours, [0.3, 0.02], solver="eigen").fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(ours.predict(NEW), peer.predict(theirs(NEW, X)), rtol=1e-9)
    single = clone(ours).set_params(alpha=0.3, solver=solver).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(single.predict(NEW), ours.predict(NEW)[:, 0], rtol=1e-9)
    np.testing.assert_allclose(single.dual_coef_, ours.dual_coef_[:, 0], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("weights", [None, W], ids=["", "weights"])
@pytest.mark.parametrize("intercept", [False, True])
def test_dual_and_primal_ridge_agree(intercept, weights):
    features = PolynomialFeatures(2).fit(X)
    # The weights of the features of (1 + x'z)^2, in the order of PolynomialFeatures.
    roots = np.sqrt([1.0, 2.0, 2.0, 1.0, 2.0, 1.0])
    primal = Ridge(0.2, fit_intercept=intercept, solver="svd")
    primal.fit(features.transform(X) * roots, Y, sample_weight=weights)
    dual = KernelRidge(Polynomial(degree=2), 0.2, fit_intercept=intercept)
    dual.fit(X, Y, sample_weight=weights)
    expected = primal.predict(features.transform(NEW) * roots)
    np.testing.assert_allclose(dual.predict(NEW), expected, rtol=1e-8)


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


@pytest.mark.slow
@settings(max_examples=15)
@given(NESTED)
def test_gaussian_process_mean_and_sd(kernel):
    ours = KernelRidge(kernel, 0.05).fit(X, y)
    mean, sd = ours.predict(NEW, return_std=True)
    process = bk.GaussianProcess(kernel, X, noise=0.05).condition(y).predict(NEW)
    np.testing.assert_allclose(mean, process.mean, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(sd, process.sd, rtol=1e-6)


def test_weights_divide_the_noise():
    ours = KernelRidge(RBF(), 0.1).fit(X, y, sample_weight=W)
    process = bk.GaussianProcess(RBF(), X, noise=0.1 / W).condition(y)
    np.testing.assert_allclose(ours.predict(NEW), process.predict(NEW, latent=True).mean, rtol=1e-9)
    sd = process.predict(NEW, latent=True).sd
    np.testing.assert_allclose(
        ours.predict(NEW, return_std=True)[1], np.sqrt(sd**2 + 0.1), rtol=1e-9
    )


def test_weights_are_repetitions():
    counts = RNG.integers(0, 3, size=N)
    weighted = KernelRidge(RBF(), 0.1, fit_intercept=True).fit(X, Y, sample_weight=counts)
    repeated = KernelRidge(RBF(), 0.1, fit_intercept=True)
    repeated.fit(np.repeat(X, counts, 0), np.repeat(Y, counts, 0))
    np.testing.assert_allclose(weighted.predict(NEW), repeated.predict(NEW), rtol=1e-10)
    assert weighted.dual_coef_.shape == Y.shape
    assert np.all(weighted.dual_coef_[counts == 0] == 0.0)


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_multiquadrics_agree_with_scipy(alpha):
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


def test_intercept_is_a_constant_kernel_of_large_variance():
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


def test_zero_alpha_interpolates():
    ours = KernelRidge(Matern32(), 0.0).fit(X, Y)
    np.testing.assert_allclose(ours.predict(X), Y, atol=1e-10)
    assert ours.effective_dof_ == N
    np.testing.assert_allclose(ours.loo_predict(), refits(ours, X, Y), rtol=1e-8)


def test_singular_system_has_the_minimum_norm_solution():
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


@pytest.mark.slow
def test_kernel_ridge_with_a_posterior_mean_kernel():
    kernel = RBF(dist.LogNormal()).named("bumps") + Linear(dist.HalfNormal()).on([1])
    model = bk.GPRegression(kernel, noise=bk.from_sd(dist.HalfNormal(0.5)))
    posterior = bk.infer(model, X, y, method="map")
    point = posterior.point("mean")
    ours = KernelRidge(kernel.at(point), float(point["noise"])).fit(X, y)
    np.testing.assert_allclose(ours.predict(NEW), posterior.predict(NEW).mean, rtol=1e-9)


def test_rows_of_very_different_scale_are_not_dropped():
    points = np.array([[0.0, 1e9], [1.0, 0.0], [2.0, 0.0], [3.0, 0.0]])
    targets, new, alpha = np.array([5e8, 0.3, 0.1, -0.2]), np.array([[1.5, 0.0]]), 1e-8
    kernel = RBF().on([0]) + Linear().on([1])
    fit = KernelRidge(kernel, alpha).fit(points, targets)
    A = np.asarray(kernel(points)) + alpha * np.eye(4)
    sd = np.sqrt(np.diag(A))
    dual = np.linalg.solve(A / sd / sd[:, None], targets / sd) / sd
    # Scaled to unit diagonal, the condition number is about 20.
    np.testing.assert_allclose(fit.predict(new), dual @ np.asarray(kernel(points, new)), rtol=1e-12)
