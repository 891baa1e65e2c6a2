"""Hyperparameters of kernels as parameters of scikit-learn estimators."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process import kernels as sklearn_kernels
from sklearn.kernel_ridge import KernelRidge as SklearnKernelRidge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bayeskern as bk
from bayeskern.kernels import RBF, Linear, Matern32, NystromFeatures, Periodic

X = np.random.default_rng(0).normal(size=(60, 2))
y = np.sin(2.0 * X[:, 0]) + 0.1 * np.random.default_rng(1).normal(size=60)
SCALES = [0.3, 1.0, 3.0]


def test_grid_search_over_lengthscales_agrees_with_scikit_learn():
    ours = make_pipeline(StandardScaler(), bk.KernelRidge(RBF(), alpha=0.1))
    search = GridSearchCV(ours, {"kernelridge__kernel__lengthscale": SCALES}, cv=4).fit(X, y)
    theirs = make_pipeline(StandardScaler(), SklearnKernelRidge(alpha=0.1))
    grid = {"kernelridge__kernel": [sklearn_kernels.RBF(scale) for scale in SCALES]}
    expected = GridSearchCV(theirs, grid, cv=4).fit(X, y)
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"],
        expected.cv_results_["mean_test_score"],
        rtol=1e-8,
    )
    best = search.best_estimator_[-1].kernel_
    assert float(best.lengthscale) == search.best_params_["kernelridge__kernel__lengthscale"]


@pytest.mark.parametrize("kind", [bk.KernelRidge, bk.KernelSVC, bk.KernelPCA, NystromFeatures])
def test_parameter_names_are_hyperparameter_names(kind):
    kernel = 2.0 * Matern32() + (Periodic(3.0) * Linear()).named("season")
    names = {name for name in kind(kernel).get_params() if name.startswith("kernel__")}
    assert names == {f"kernel__{name}" for name in kernel.hyperparameters()}
    assert "kernel__season.periodic.period" in names
    assert not any("__" in name for name in kind(kernel).get_params(deep=False))


def test_set_params_copies_the_kernel():
    kernel = RBF(1.0) + Linear().named("line")
    one = bk.KernelRidge(kernel)
    other = clone(one).set_params(**{"kernel__line.variance": 4.0, "kernel__rbf.lengthscale": 2.0})
    assert float(one.kernel.hyperparameters()["line.variance"]) == 1.0
    assert float(other.kernel.hyperparameters()["line.variance"]) == 4.0
    assert float(other.get_params()["kernel__rbf.lengthscale"]) == 2.0
    # A kernel that is set beside its hyperparameters comes first.
    other.set_params(kernel=RBF(), kernel__lengthscale=5.0)
    assert float(other.kernel.lengthscale) == 5.0
    assert float(bk.KernelRidge().set_params(kernel__lengthscale=3.0).kernel.lengthscale) == 3.0


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"kernel__lengthscal": 1.0}, "Did you mean 'lengthscale'"),
        ({"kernel__lengthscale": -1.0}, "lengthscale"),
        ({"kernl": RBF()}, "Invalid parameter 'kernl'"),
        ({"kernel": "rbf", "kernel__gamma": 1.0}, "kernel='rbf' has no such parameters"),
    ],
)
def test_unknown_parameters_are_refused(params, message):
    with pytest.raises(ValueError, match=message):
        bk.KernelRidge(RBF()).set_params(**params)
