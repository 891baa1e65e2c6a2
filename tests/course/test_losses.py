"""Losses against their definitions, and their minima against other solvers."""

import pickle

import numpy as np
import pytest
from scipy import special
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import hinge_loss, log_loss
from sklearn.svm import SVC, SVR

from bayeskern.course.interior_point import ShiftedGram
from bayeskern.course.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Squared,
)

REAL = [Squared(), Absolute(), Huber(0.4), EpsilonInsensitive(0.2)]
MARGIN = [Hinge(), Logistic()]
ALL = REAL + MARGIN


def name(loss):
    return type(loss).__name__


def problem(loss, n=40, seed=0, lengthscale=0.7):
    """A Gram matrix, y and weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.standard_t(3, size=n)
    K = np.exp(-np.sum((X[:, None] - X) ** 2, axis=2) / (2 * lengthscale**2))
    return K, np.where(y > 0, 1.0, -1.0) if loss in MARGIN else y, rng.uniform(0.5, 2.0, size=n)


def objective(loss, K, y, weights, b, c):
    return weights @ loss.value(y, K @ b + c) + 0.5 * b @ K @ b


# -- values, slopes and conjugates ----------------------------------------------------------------


def test_values_agree_with_scipy_and_scikit_learn():
    rng = np.random.default_rng(1)
    y, f = rng.normal(size=(2, 50))
    label = np.sign(y)
    np.testing.assert_allclose(Huber(0.4).value(y, f), special.huber(0.4, y - f), rtol=1e-14)
    np.testing.assert_allclose(Squared().value(y, f), special.huber(1e9, y - f), rtol=1e-14)
    expected = np.abs(y - f).clip(0.2) - 0.2
    np.testing.assert_allclose(EpsilonInsensitive(0.2).value(y, f), expected, rtol=1e-14)
    assert np.mean(Hinge().value(label, f)) == pytest.approx(hinge_loss(label, f), rel=1e-14)
    expected = log_loss(label, special.expit(f))
    assert np.mean(Logistic().value(label, f)) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("loss", ALL, ids=name)
def test_losses_are_convex(loss):
    # f is on a grid that has the kinks in it.
    f = np.linspace(-3.0, 3.0, 61)
    for y in (-1.0, 1.0):
        slopes, values = loss.derivative(y, f), loss.value(y, f)
        tangents = values[:, None] + slopes[:, None] * (f - f[:, None])
        assert np.all(values >= tangents - 1e-12)
        # And each slope is of a tangent: the loss falls below any line of another slope.
        assert np.all(np.diff(slopes) >= 0.0)


@pytest.mark.parametrize("loss", ALL, ids=name)
def test_conjugate_is_the_legendre_transform(loss):
    f = np.linspace(-4.0, 4.0, 80_001)
    for y in (-1.0, 1.0):
        slopes = loss.derivative(y, np.linspace(-1.5, 1.5, 31))
        expected = np.max(slopes[:, None] * f - loss.value(y, f), axis=1)
        conjugates = loss.conjugate(y, slopes)
        # The grid misses the highest point by at most half a step, where the line is flat.
        np.testing.assert_allclose(conjugates, expected, atol=1e-8)


def test_parameters_of_losses_are_checked():
    with pytest.raises(ValueError, match="delta must be a positive number, got 0"):
        Huber(0.0)
    with pytest.raises(ValueError, match="epsilon must be a nonnegative number"):
        EpsilonInsensitive(-0.1)
    assert pickle.loads(pickle.dumps(Huber(2.0))) == Huber(2.0) != Huber(1.0)


# -- minima ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("loss", ALL, ids=name)
def test_minima_are_exact_for_all_penalties(loss, C, intercept):
    K, y, weights = problem(loss)
    weights = C * weights
    minimum = loss.minimise(K, y, weights, intercept)
    b, c = minimum.coefficients, minimum.intercept
    assert minimum.value == pytest.approx(objective(loss, K, y, weights, b, c), rel=1e-12)
    assert abs(minimum.gap) <= 1e-9 * minimum.value
    if intercept:
        assert abs(b.sum()) <= 1e-9 * np.abs(b).sum()
    else:
        assert c == 0.0
    # The gap does not lie: other points near and far are no better.
    rng = np.random.default_rng(2)
    for size in (1e-3, 1e-1, 1.0):
        other = b * (1.0 + size * rng.normal(size=b.shape))
        at = c + intercept * size * rng.normal()
        assert objective(loss, K, y, weights, other, at) >= minimum.value * (1.0 - 1e-9)


@pytest.mark.parametrize("loss", ALL, ids=name)
def test_duality_gap_bounds_the_suboptimality(loss):
    K, y, weights = problem(loss)
    best = loss.minimise(K, y, weights)

    class Early(type(loss)):
        def _solve(self, K, y, weights, intercept):
            return 0.9 * best.coefficients, 0.0, 0

    early = Early(**vars(loss)).minimise(K, y, weights)
    missing = early.value - best.value
    assert missing > 1e-4 * best.value
    assert missing <= early.gap


@pytest.mark.parametrize("loss", [Squared(), Huber(0.4), Logistic()], ids=name)
def test_smooth_losses_agree_with_bfgs(loss):
    K, y, weights = problem(loss, n=25)
    L = np.linalg.cholesky(K + 1e-14 * np.eye(25))

    def of(v):
        f = L @ v[1:] + v[0]
        slopes = weights * loss.derivative(y, f)
        value = weights @ loss.value(y, f) + 0.5 * v[1:] @ v[1:]
        return value, np.concatenate([[slopes.sum()], L.T @ slopes + v[1:]])

    theirs = minimize(of, np.zeros(26), jac=True, method="BFGS", options={"gtol": 1e-9})
    ours = loss.minimise(K, y, weights, intercept=True)
    assert ours.value == pytest.approx(theirs.fun, rel=1e-12)
    f = K @ ours.coefficients + ours.intercept
    np.testing.assert_allclose(f, L @ theirs.x[1:] + theirs.x[0], atol=1e-7)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", [Absolute(), EpsilonInsensitive(0.2), Hinge()], ids=name)
def test_kinked_losses_agree_with_slsqp(loss, intercept):
    K, y, weights = problem(loss, n=8)
    # Over t, b and c: the loss is the least t above each of its two sides.
    sides = {
        "Absolute": lambda f: [f - y, y - f],
        "EpsilonInsensitive": lambda f: [f - y - 0.2, y - f - 0.2, 0 * f],
        "Hinge": lambda f: [1 - y * f, 0 * f],
    }[name(loss)]

    def above(v):
        f = K @ v[8:16] + intercept * v[16]
        return np.concatenate([v[:8] - side for side in sides(f)])

    theirs = minimize(
        lambda v: weights @ v[:8] + 0.5 * v[8:16] @ K @ v[8:16],
        np.concatenate([np.full(8, 3.0), np.zeros(9)]),
        constraints={"type": "ineq", "fun": above},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    ours = loss.minimise(K, y, weights, intercept)
    assert ours.value == pytest.approx(theirs.fun, rel=1e-9)
    np.testing.assert_allclose(ours.coefficients, theirs.x[8:16], atol=1e-5)


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_kinked_losses_with_intercept_agree_with_libsvm(C):
    K, y, weights = problem(Absolute(), n=120)
    label = np.sign(y)
    pairs = [
        (Absolute(), y, SVR(kernel="precomputed", C=C, epsilon=0.0, tol=1e-9)),
        (EpsilonInsensitive(0.2), y, SVR(kernel="precomputed", C=C, epsilon=0.2, tol=1e-9)),
        (Hinge(), label, SVC(kernel="precomputed", C=C, tol=1e-9)),
    ]
    for loss, target, theirs in pairs:
        theirs.fit(K, target, weights)
        ours = loss.minimise(K, target, C * weights, intercept=True)
        b = np.zeros(120)
        b[theirs.support_] = theirs.dual_coef_[0]
        # libsvm keeps the Gram matrix in single precision.
        np.testing.assert_allclose(K @ ours.coefficients, K @ b, atol=1e-5)
        np.testing.assert_allclose(ours.intercept, theirs.intercept_[0], atol=1e-5)
        at = objective(loss, K, target, C * weights, b, theirs.intercept_[0])
        assert ours.value <= at * (1 + 1e-14)
        assert ours.value == pytest.approx(at, rel=1e-5)


@pytest.mark.parametrize("loss", ALL, ids=name)
def test_weight_of_two_equals_a_repeated_point(loss):
    K, y, _ = problem(loss, n=20)
    twice = np.concatenate([np.arange(20), np.arange(7)])
    weights = np.where(np.arange(20) < 7, 2.0, 1.0)
    a = loss.minimise(K, y, weights, intercept=True)
    b = loss.minimise(K[np.ix_(twice, twice)], y[twice], np.ones(27), intercept=True)
    f = K @ a.coefficients + a.intercept
    np.testing.assert_allclose(K[:, twice] @ b.coefficients + b.intercept, f, atol=1e-9)


def test_multinomial_loss_agrees_with_scikit_learn():
    K, _, weights = problem(Logistic(), n=60, lengthscale=0.4)
    codes = np.digitize(problem(Squared(), n=60)[1], [-0.5, 0.5])
    L = np.linalg.cholesky(K)
    theirs = LogisticRegression(solver="newton-cholesky", tol=1e-10, C=2.0).fit(L, codes, weights)
    ours = Logistic().classify(K, codes, 3, 2.0 * weights, intercept=True)
    expected, probabilities = (
        theirs.predict_proba(L),
        special.softmax(K @ ours.coefficients + ours.intercept, 1),
    )
    np.testing.assert_allclose(probabilities, expected, atol=1e-8)
    assert abs(ours.gap) <= 1e-12 * ours.value
    value = 2.0 * weights @ -np.log(expected[np.arange(60), codes]) + 0.5 * np.sum(theirs.coef_**2)
    assert ours.value == pytest.approx(value, rel=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ALL, ids=name)
def test_extreme_problems_converge(loss):
    for seed in range(40):
        rng = np.random.default_rng(seed)
        n = rng.integers(2, 40)
        X = rng.normal(size=(n, 2))[rng.integers(0, n, size=n)]
        distances = np.linalg.norm(X[:, None] - X, axis=2)
        grams = [np.exp(-distances / 0.1), np.exp(-(distances**2) / 50.0), X @ X.T, np.ones((n, n))]
        y = rng.standard_t(2, size=n) * 10.0 ** rng.uniform(-3, 3)
        if loss in MARGIN:
            # One against all others, at times.
            y = np.where(np.arange(n) <= rng.integers(0, n - 1), 1.0, -1.0)
        weights = 10.0 ** rng.uniform(-3, 2) * rng.uniform(0.01, 1.0, size=n)
        for K in grams:
            for intercept in (False, True):
                minimum = loss.minimise(K, y, weights, intercept)
                assert abs(minimum.gap) <= 1e-6 * minimum.value + 1e-12 * minimum.at_zero


def test_zero_loss_gives_zero_function():
    K, y, weights = problem(Absolute())
    minimum = EpsilonInsensitive(100.0).minimise(K, y, weights, intercept=True)
    assert not minimum.coefficients.any()
    assert (minimum.intercept, minimum.value, minimum.gap) == (0.0, 0.0, 0.0)


# -- the linear algebra ---------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [False, True])
def test_shifted_gram_matrix_with_extreme_shifts(intercept):
    rng = np.random.default_rng(5)
    F = rng.normal(size=(12, 4))
    K, v, e = F @ F.T, rng.normal(size=12), np.array([1e-14, 1e-3, 1.0, 1e6] * 3)
    ones = intercept * np.ones((12, 1))
    bordered = np.block([[K + np.diag(1 / e), ones], [ones.T, np.eye(1) * (not intercept)]])
    expected = np.linalg.solve(bordered, np.append(v, 0.7 * intercept))
    b, c = ShiftedGram(K, e, intercept).solve(v, 0.7)
    np.testing.assert_allclose(b, expected[:12], rtol=1e-7)
    assert c == pytest.approx(expected[12], rel=1e-7, abs=1e-15)


def test_shifted_gram_matrix_indefinite_by_rounding():
    K = np.ones((3, 3)) - 1e-9 * np.diag([0.0, 1.0, 2.0])
    b, _ = ShiftedGram(K, np.full(3, 1e12), False).solve(np.ones(3))
    np.testing.assert_allclose(K @ b, 1.0, atol=1e-3)


@pytest.mark.parametrize("loss", [Huber(0.4), Logistic()], ids=name)
def test_unpenalised_gap_is_in_units_of_the_loss(loss):
    """Doubled weights double the loss and every bound on it."""
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(40, 2)), rng.normal(size=40)
    y = np.sign(y) if loss in MARGIN else y
    once, often = (
        loss.minimise(X @ X.T, y, np.full(40, weight), penalised=False) for weight in (1.0, 1024.0)
    )
    assert once.gap != 0.0
    assert often.gap == pytest.approx(1024.0 * once.gap, rel=1e-6)
    assert often.value == pytest.approx(1024.0 * once.value, rel=1e-9)
