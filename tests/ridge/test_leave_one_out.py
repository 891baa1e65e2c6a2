"""Leave-one-out, the path of alpha and tuning against refits and searches."""

import numpy as np
import pytest
from scipy import optimize, stats
from sklearn.base import clone

import bayeskern as bk
from bayeskern.kernels import RBF, Free, Linear, Matern12, Multiquadric
from bayeskern.ridge.kernel_ridge import KernelRidge
from tests.marks import slow
from tests.ridge.kernel_ridge_data import NEW, N, W, X, Y, refits, y

# The grids are short, and an end of one may be its best alpha.
pytestmark = pytest.mark.filterwarnings("ignore:the chosen alpha")


# -- leave-one-out and the path --------------------------------------------------------------------


@pytest.mark.parametrize("weights", [slow(None), W], ids=["", "weights"])
@pytest.mark.parametrize("solver", ["cholesky", "eigen"])
@pytest.mark.parametrize("intercept", [slow(False), True])
@pytest.mark.parametrize("kernel", [RBF(), Linear() + Matern12()], ids=repr)
def test_leave_one_out_agrees_with_refits(kernel, intercept, solver, weights):
    ours = KernelRidge(kernel, 0.05, fit_intercept=intercept, solver=solver)
    ours.fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(ours.loo_predict(), refits(ours, X, Y, weights), atol=1e-8)
    single = clone(ours).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(single.loo_predict(), ours.loo_predict()[:, 0], atol=1e-12)


def test_leave_one_out_with_tiny_alpha():
    ours = KernelRidge(Matern12(), 1e-12).fit(X, y)
    np.testing.assert_allclose(ours.loo_predict(), refits(ours, X, y), atol=1e-9)


def test_leave_one_out_with_zero_weights():
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
def test_path_agrees_with_separate_fits(intercept, weights):
    alphas = [0.001, 0.03, 0.4, 7.0]
    ours = KernelRidge(RBF(), "loo", alphas=alphas, fit_intercept=intercept)
    ours.fit(X, Y, sample_weight=weights)
    w = np.ones(N) if weights is None else weights
    np.testing.assert_array_equal(ours.alphas_, alphas)
    for a, alpha in enumerate(alphas):
        single = KernelRidge(RBF(), alpha, fit_intercept=intercept).fit(X, Y, sample_weight=weights)
        loo = np.average((Y - single.loo_predict()) ** 2, axis=0, weights=w)
        np.testing.assert_allclose(ours.loo_path_[a], loo, rtol=1e-8)
        A = fitted_values(RBF(), alpha, w, intercept)
        np.testing.assert_allclose(single.effective_dof_, np.trace(A), rtol=1e-8)
        gcv = np.average((Y - A @ Y) ** 2, axis=0, weights=w) / (1.0 - np.trace(A) / N) ** 2
        np.testing.assert_allclose(ours.gcv_path_[a], gcv, rtol=1e-8)
        covariance = np.asarray(RBF()(X)) + np.diag(alpha / w)
        if not intercept:
            evidence = stats.multivariate_normal(np.zeros(N), covariance).logpdf(Y.T)
            np.testing.assert_allclose(ours.evidence_path_[a], evidence, rtol=1e-8)
    assert ours.alpha_ == alphas[np.argmin(ours.loo_path_.sum(axis=1))]


def test_evidence_with_intercept_is_that_of_contrasts():
    ours = KernelRidge(RBF(), "evidence", alphas=[0.1, 0.5], fit_intercept=True).fit(X, y)
    contrasts = np.linalg.qr(np.column_stack([np.ones(N), np.eye(N)[:, 1:]]))[0][:, 1:].T
    for alpha, evidence in zip(ours.alphas_, ours.evidence_path_, strict=True):
        covariance = contrasts @ (np.asarray(RBF()(X)) + alpha * np.eye(N)) @ contrasts.T
        expected = stats.multivariate_normal(np.zeros(N - 1), covariance).logpdf(contrasts @ y)
        assert evidence == pytest.approx(expected, rel=1e-9)


def test_alpha_per_target():
    ours = KernelRidge(RBF(), "loo", alpha_per_target=True).fit(X, Y)
    assert ours.alpha_.shape == (2,)
    for j in range(2):
        single = KernelRidge(RBF(), "loo").fit(X, Y[:, j])
        assert ours.alpha_[j] == single.alpha_
        np.testing.assert_allclose(ours.predict(NEW)[:, j], single.predict(NEW), rtol=1e-9)
        np.testing.assert_allclose(ours.loo_predict()[:, j], single.loo_predict(), rtol=1e-9)
        _, sd = ours.predict(NEW, return_std=True)
        np.testing.assert_allclose(sd[:, j], single.predict(NEW, return_std=True)[1], rtol=1e-9)
        np.testing.assert_allclose(ours.effective_dof_[j], single.effective_dof_)
    assert ours.loo_path_.shape == (50, 2)


@pytest.mark.parametrize("criterion", ["loo", "gcv", "evidence"])
def test_default_alphas_bracket_the_best(criterion):
    for scale in (1e-3, 1.0, 1e3):
        ours = KernelRidge(RBF(variance=scale), criterion).fit(X, np.sqrt(scale) * y)
        assert ours.alphas_[0] < ours.alpha_ < ours.alphas_[-1]


# -- tuning ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("criterion", ["loo", "gcv", "evidence"])
def test_tuned_hyperparameters_are_optimal(criterion, intercept):
    ours = KernelRidge(RBF(Free(1.0)), criterion, optimize=criterion, fit_intercept=intercept)
    ours.fit(X, Y, sample_weight=W)

    def score(position):
        lengthscale, alpha = np.exp(position)
        plain = KernelRidge(RBF(lengthscale), criterion, alphas=[alpha], fit_intercept=intercept)
        path = getattr(plain.fit(X, Y, sample_weight=W), f"{criterion}_path_").sum()
        return -path if criterion == "evidence" else np.log(path)

    # There is more than one optimum: this one is stationary, and none near it is better.
    at = np.log([ours.kernel_.lengthscale, ours.alpha_])
    best = optimize.minimize(
        score, at + 0.2, method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-12}
    )
    assert score(at) <= best.fun + 1e-6
    assert optimize.approx_fprime(at, score, 1e-6) == pytest.approx(0.0, abs=1e-3)


@pytest.mark.slow
def test_evidence_tuning_agrees_with_type_ii_likelihood():
    kernel = RBF([Free(1.0).init, 1.0]).at({"lengthscale": Free([1.0, 1.0]), "variance": Free(1.0)})
    ours = KernelRidge(kernel, "evidence", optimize="evidence").fit(X, y)
    model = bk.GPRegression(kernel, noise=Free(0.1))
    fitted = bk.infer(model, X, y, method="mle").predict(NEW)
    mean, sd = ours.predict(NEW, return_std=True)
    np.testing.assert_allclose(mean, fitted.mean, rtol=1e-3)
    np.testing.assert_allclose(sd, fitted.sd, rtol=1e-3)


@pytest.mark.slow
def test_tuning_keeps_a_given_alpha():
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
