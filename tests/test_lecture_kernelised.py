"""Claims of notebook 09 (sparse and kernelised methods) against theory."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import bayeskern as bk
from bayeskern.course import least_squares
from bayeskern.kernels import RBF, Matern32, NystromFeatures

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0, 4, 150))[:, None]
F = np.sin(X[:, 0] ** 2)
Y = F + 0.3 * RNG.normal(size=150)
NEW = np.linspace(0, 4, 400)[:, None]


def slope(a, b):
    return np.polyfit(np.log(a), np.log(b), 1)[0]


# -- landmarks -------------------------------------------------------------------------------------


def test_nystrom_error_is_at_least_the_eigenvalue_tail():
    points = RNG.normal(size=(300, 2))
    kernel = RBF(1.0)
    eigenvalues = np.linalg.eigvalsh(np.exp(-0.5 * squared_distances(points)))[::-1]
    for m in (10, 40):
        floor = eigenvalues[m:].sum()
        for how in ("random", "greedy", "kmeans"):
            phi = NystromFeatures(kernel, m, how).fit_transform(points)
            assert floor < 300 - np.sum(phi**2) < 300


def squared_distances(points):
    return np.sum((points[:, None] - points[None]) ** 2, axis=2)


def test_few_centres_are_as_accurate_as_all_points():
    errors = {
        name: np.sqrt(np.mean((model.fit(X, Y).predict(NEW) - np.sin(NEW[:, 0] ** 2)) ** 2))
        for name, model in {
            "all": bk.KernelRidge(RBF(0.3), alpha=0.09),
            "30 centres": bk.NystromRidge(RBF(0.3), 30, "kmeans", alpha=0.09),
        }.items()
    }
    assert errors["30 centres"] < 1.02 * errors["all"]


# -- early stopping and rates ----------------------------------------------------------------------


@pytest.mark.parametrize("epochs", [3, 45, 949])
def test_early_stopping_shrinks_like_ridge(epochs):
    kernel = Matern32(0.5)
    s = np.sqrt(3.0) * np.abs(X - X.T) / 0.5
    values, U = np.linalg.eigh((1.0 + s) * np.exp(-s))
    lms = bk.KernelLMS(kernel, alpha=0.0, epochs=epochs, tol=None).fit(X, Y)
    penalty = 1.0 / (lms.step_ * epochs)
    ridge = bk.KernelRidge(kernel, alpha=penalty).fit(X, Y)
    kept, kept_by_ridge = ((U.T @ fit.predict(X)) / (U.T @ Y) for fit in (lms, ridge))
    assert_allclose(kept, 1.0 - (1.0 - lms.step_ * values) ** epochs, atol=1e-8)
    assert_allclose(kept_by_ridge, values / (values + penalty), atol=1e-8)
    # 1 - (1 - u / t)^t >= 1 - exp(-u) >= u / (1 + u), and to first order both are u.
    assert np.all(kept >= kept_by_ridge - 1e-8)
    small = values < 0.1 * penalty
    assert small.sum() > 50
    assert np.all(kept[small] <= 1.1 * kept_by_ridge[small] + 1e-8)


def test_early_stopping_is_as_accurate_as_ridge():
    def error(model):
        return np.mean((model.fit(X, Y).predict(NEW) - np.sin(NEW[:, 0] ** 2)) ** 2)

    epochs = np.geomspace(1, 20_000, 12).astype(int)
    lms = [error(bk.KernelLMS(Matern32(0.5), alpha=0.0, epochs=t, tol=None)) for t in epochs]
    ridge = [error(bk.KernelRidge(Matern32(0.5), alpha=a)) for a in np.geomspace(1e-3, 30, 12)]
    assert min(lms) < 1.2 * min(ridge)
    assert lms[-1] > 2.0 * min(lms) and lms[0] > 2.0 * min(lms)


def test_penalised_descent_converges_linearly():
    alpha = 0.5
    lms = bk.KernelLMS(RBF(0.3), alpha=alpha, epochs=1000, tol=None).fit(X, Y)
    smallest = np.linalg.eigvalsh(np.exp(-0.5 * ((X - X.T) / 0.3) ** 2))[0] + alpha
    factors = lms.residual_norms_[1:] / lms.residual_norms_[:-1]
    # The norm of a sum of powers is log-convex, so that its factors rise to the largest.
    rate = 1.0 - lms.step_ * smallest
    assert np.all(np.diff(factors) > 0.0)
    assert rate - 1e-5 < factors[-1] < rate


def test_unpenalised_descent_is_sublinear():
    # Eigenvalues j^-4 leave sum_j j^-8 (1 - eta j^-4)^2t, which falls like t^(-7/4).
    kernel, b = Matern32(1.0), np.random.default_rng(3).normal(size=150)
    K = np.asarray(kernel(X))
    eigenvalues = np.linalg.eigvalsh(K)[::-1]
    order = np.arange(5, 60)
    assert slope(order, eigenvalues[order - 1]) == pytest.approx(-4.0, abs=0.3)
    lms = bk.KernelLMS(kernel, alpha=0.0, epochs=20_000, tol=None).fit(X, K @ b)
    t = np.arange(20_001)
    assert slope(t[100:], lms.residual_norms_[100:]) == pytest.approx(-7 / 8, abs=0.05)
    assert np.all(lms.residual_norms_ <= np.linalg.norm(b) / (lms.step_ * (t + 1)))


def test_one_pass_of_sgd_has_the_rate_of_least_squares():
    d, rows = 5, np.array([300, 1000, 3000])
    errors = {"sgd": [], "qr": []}
    for n in rows:
        for solver, out in errors.items():
            once = {"epochs": 1, "batch": 1} if solver == "sgd" else {}
            squares = []
            for seed in range(30):
                rng = np.random.default_rng(seed)
                Z = rng.normal(size=(n, d))
                y = Z @ np.ones(d) + rng.normal(size=n)
                squares.append(
                    np.sum((least_squares(Z, y, solver, **once).coefficients - 1.0) ** 2)
                )
            out.append(np.mean(squares))
    # Each mean of 30 chi-squares of 5 degrees of freedom is known to 12 %.
    assert_allclose(np.array(errors["qr"]) * rows / d, 1.0, atol=0.4)
    assert slope(rows, errors["sgd"]) == pytest.approx(-1.0, abs=0.2)
    assert np.all(np.array(errors["sgd"]) * rows / d < 4.0)
