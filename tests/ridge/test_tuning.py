"""Hyperparameters of kernel ridge in any units, against explicit refits on fine grids."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import bayeskern as bk
from bayeskern import Free
from bayeskern.kernels import RBF

RNG = np.random.default_rng(0)
X = RNG.uniform(0.0, 10.0, (40, 1))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=40)
NEW = np.linspace(0.0, 10.0, 9)[:, None]
# Four points on a line, a hundred lengthscales apart at the start.
LINE = np.array([[0.0], [100.0], [200.0], [300.0]]), np.arange(4.0)


def gram(X, Z, lengthscale):
    return np.exp(-0.5 * ((X - Z.T) / lengthscale) ** 2)


def refitted_loo(lengthscale, X, y, alpha):
    errors = []
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        K = gram(X[rest], X[rest], lengthscale) + alpha * np.eye(len(y) - 1)
        errors.append(
            y[i] - (gram(X[i : i + 1], X[rest], lengthscale) @ np.linalg.solve(K, y[rest]))
        )
    return np.mean(np.square(errors))


def negative_evidence(lengthscale, X, y, alpha):
    K = gram(X, X, lengthscale) + alpha * np.eye(len(y))
    return 0.5 * (y @ np.linalg.solve(K, y) + np.linalg.slogdet(K)[1])


@pytest.mark.parametrize(
    ("criterion", "score"), [("loo", refitted_loo), ("evidence", negative_evidence)]
)
def test_start_far_below_the_distances(criterion, score):
    grid = np.geomspace(1.0, 1e5, 4001)
    best = grid[np.argmin([score(lengthscale, *LINE, 1.0) for lengthscale in grid])]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = bk.KernelRidge(RBF(Free(1.0)), optimize=criterion).fit(*LINE)
    # The grid has steps of 0.3 %.
    np.testing.assert_allclose(ours.kernel_.lengthscale, best, rtol=3e-3)
    x, y = LINE
    f = gram(np.array([[150.0]]), x, best) @ np.linalg.solve(gram(x, x, best) + np.eye(4), y)
    np.testing.assert_allclose(ours.predict([[150.0]]), f, rtol=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["loo", "gcv", "evidence"])
@pytest.mark.parametrize(("a", "b"), [(1e-9, 1e-9), (1e9, 1e9), (1e6, 1e-3), (1e-6, 1e6)])
def test_predictions_do_not_depend_on_the_units(criterion, a, b):
    kernel = RBF(Free(1.0), variance=Free(1.0) if criterion == "evidence" else 1.0)
    estimator = bk.KernelRidge(kernel, criterion, optimize=criterion)
    expected = estimator.fit(X, Y).predict(NEW)
    assert np.sqrt(np.mean((expected - np.sin(NEW[:, 0])) ** 2)) < 0.2
    ours = estimator.fit(a * X, b * Y)
    np.testing.assert_allclose(ours.predict(a * NEW) / b, expected, atol=1e-5)
    np.testing.assert_array_less(ours.alphas_[0], ours.alpha_)
    np.testing.assert_array_less(ours.alpha_, ours.alphas_[-1])


@pytest.mark.parametrize("size", [1e-4, 1.0, 1e5])
def test_default_alphas_of_the_evidence_cover_the_size_of_y(size):
    """White noise of any size: without a function, the best alpha is the mean square of y."""
    y = size * np.random.default_rng(3).normal(size=200)
    x = 100.0 * np.arange(200.0)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = bk.KernelRidge(RBF(1.0, variance=1e-6 * size**2), "evidence").fit(x, y)
        fixed = bk.KernelRidge(RBF(1e4), "evidence").fit(x, y) if size > 1.0 else ours
    # Steps of the grid are a factor of 1.7.
    for fitted in (ours, fixed):
        np.testing.assert_allclose(np.log(fitted.alpha_ / np.mean(y**2)), 0.0, atol=0.7)


def test_plateau_warns_and_names_the_hyperparameter():
    """Alternating signs: the leave-one-out error of every short lengthscale is the mean of y^2."""
    x, y = 120.0 * np.arange(6)[:, None], np.array([1.0, -1.0, 1.2, -0.8, 1.1, -1.3])
    errors = [refitted_loo(lengthscale, x, y, 1.0) for lengthscale in np.geomspace(1.0, 1e5, 400)]
    assert np.min(errors) > np.mean(y**2) - 1e-9
    with pytest.warns(ConvergenceWarning, match="do not determine lengthscale"):
        bk.KernelRidge(RBF(Free(1.0)), optimize="loo").fit(x, y)


@pytest.mark.parametrize(("lengthscale", "criterion"), [(1.0, None), (Free(1.0), "loo")])
def test_best_alpha_at_an_end_of_the_grid_warns(lengthscale, criterion):
    with pytest.warns(UserWarning, match="at an end of alphas"):
        bk.KernelRidge(RBF(lengthscale), "loo", alphas=[10.0, 100.0], optimize=criterion).fit(X, Y)


def test_restarts_are_whole_numbers():
    with pytest.raises(ValueError, match="restarts must be a whole number of at least 0"):
        bk.KernelRidge(RBF(Free(1.0)), optimize="loo", restarts=-1).fit(X, Y)
