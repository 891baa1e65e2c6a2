"""Kernel machines against scikit-learn, in explicit features or with the same Gram matrix."""

import numpy as np
import pytest
from scipy.optimize import linprog, minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC

from bayeskern.course.kernel_machine import (
    KernelLogisticRegression,
    KernelMachineClassifier,
    KernelMachineRegressor,
)
from bayeskern.course.losses import EpsilonInsensitive, Hinge, Huber, Logistic
from bayeskern.kernels import (
    RBF,
    Linear,
    Matern12,
    Matern32,
    Periodic,
    Polynomial,
)

RNG = np.random.default_rng(7)
X = RNG.normal(size=(80, 2))
Y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * RNG.standard_t(3, size=80)
LABELS = np.array(["low", "middle", "top"])[np.digitize(Y, [-0.4, 0.5])]
TWO = np.where(Y > 0, "yes", "no")
WEIGHTS = RNG.uniform(0.2, 2.0, size=80)
NEW = RNG.normal(size=(30, 2))

KERNELS = {
    "RBF": RBF(0.8),
    "composite": (RBF() + 0.5 * Linear()) * Periodic(3.0) + Matern32([0.5, 2.0]).named("rough"),
}


# -- regression -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_squared_loss_is_kernel_ridge(kernel):
    for penalty in (0.01, 2.0):
        theirs = KernelRidge(alpha=penalty, kernel="precomputed").fit(kernel(X), Y, WEIGHTS)
        ours = KernelMachineRegressor(kernel, "squared", penalty).fit(X, Y, WEIGHTS)
        np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, rtol=1e-6, atol=1e-9)
        expected = theirs.predict(np.asarray(kernel(NEW, X)))
        np.testing.assert_allclose(ours.predict(NEW), expected, atol=1e-10)


def test_robust_losses_bound_the_influence_of_outliers():
    spoilt = Y.copy()
    spoilt[:4] = 1e6

    def moved(loss):
        machine = KernelMachineRegressor(RBF(), loss)
        return np.max(np.abs(machine.fit(X, spoilt).predict(NEW) - machine.fit(X, Y).predict(NEW)))

    assert moved("squared") > 1e4
    for loss in ("absolute", "huber", "epsilon_insensitive"):
        # An outlier pulls with a slope of delta or 1, however far away it is.
        assert moved(loss) < 4 * 2 * 1.345


def test_intercept_is_not_penalised():
    for loss in ("squared", "absolute", "huber", "epsilon_insensitive"):
        machine = KernelMachineRegressor(RBF(), loss, fit_intercept=True)
        f = machine.fit(X, Y).predict(NEW)
        np.testing.assert_allclose(machine.fit(X, Y + 100.0).predict(NEW), f + 100.0, atol=1e-6)
        # Within epsilon any constant is as good.
        epsilon = 0.1 if loss == "epsilon_insensitive" else 1e-9
        assert machine.fit(X, 0 * Y + 3.0).intercept_ == pytest.approx(3.0, abs=epsilon)
        assert machine.converged_


def test_reported_objective_is_in_units_of_the_loss():
    penalty = 0.3
    machine = KernelMachineRegressor(RBF(), "absolute", penalty).fit(X, Y, WEIGHTS)
    b, K = machine.dual_coef_, np.asarray(RBF()(X))
    expected = WEIGHTS @ np.abs(Y - machine.predict(X)) + 0.5 * penalty * b @ K @ b
    assert machine.objective_ == pytest.approx(expected, rel=1e-12)
    assert machine.converged_
    assert 0.0 <= machine.duality_gap_ <= 1e-9 * machine.objective_
    assert 5 < machine.n_iter_ < 40


def test_tiny_penalty_warns_of_rounding():
    # A penalty so small that what it weighs is lost beside the losses.
    with pytest.warns(ConvergenceWarning, match="above its minimum.*use a larger one"):
        machine = KernelMachineClassifier(Matern12(), "hinge", 1e-13).fit(X, TWO)
    assert not machine.converged_
    assert machine.duality_gap_ > 1e-6 * machine.objective_


# -- classification -------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [TWO, LABELS], ids=["two", "three"])
def test_logistic_regression_agrees_with_scikit_learn_on_features(target):
    for kernel in (Linear(), Polynomial(3)):
        phi, new = (np.asarray(kernel.feature_map(points)) for points in (X, NEW))
        np.testing.assert_allclose(phi @ new.T, kernel(X, NEW), atol=1e-12)
        for penalty in (0.1, 5.0):
            theirs = LogisticRegression(
                C=1 / penalty, fit_intercept=False, solver="newton-cg", tol=1e-12, max_iter=1000
            ).fit(phi, target, WEIGHTS)
            ours = KernelLogisticRegression(kernel, penalty).fit(X, target, WEIGHTS)
            expected = theirs.predict_proba(new)
            np.testing.assert_allclose(ours.predict_proba(NEW), expected, atol=1e-6)
            assert np.array_equal(ours.predict(NEW), theirs.predict(new))


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_hinge_loss_is_the_support_vector_machine(kernel):
    K, between = np.asarray(kernel(X)), np.asarray(kernel(NEW, X))
    theirs = SVC(kernel="precomputed", C=2.0, tol=1e-5)
    ours = KernelMachineClassifier(kernel, "hinge", 0.5, fit_intercept=True)
    expected = theirs.fit(K, TWO).decision_function(between)
    np.testing.assert_allclose(ours.fit(X, TWO).decision_function(NEW), expected, atol=1e-4)
    expected = OneVsRestClassifier(theirs).fit(K, LABELS).decision_function(between)
    np.testing.assert_allclose(ours.fit(X, LABELS).decision_function(NEW), expected, atol=1e-4)
    assert np.array_equal(ours.predict(NEW), ours.classes_[np.argmax(expected, axis=1)])


def test_only_the_logistic_loss_has_probabilities():
    for loss in ("hinge", Hinge(), "unknown"):
        assert not hasattr(KernelMachineClassifier(loss=loss), "predict_proba")
    a = KernelMachineClassifier(RBF(), Logistic()).fit(X, LABELS).predict_proba(NEW)
    b = KernelLogisticRegression(RBF()).fit(X, LABELS).predict_proba(NEW)
    assert np.array_equal(a, b)
    np.testing.assert_allclose(a.sum(axis=1), 1.0, rtol=1e-14)


def test_classes_of_zero_weight_are_ignored():
    weights = np.where(LABELS == "middle", 0.0, 1.0)
    machine = KernelMachineClassifier(RBF()).fit(X, LABELS, weights)
    assert machine.classes_.tolist() == ["low", "top"]
    kept = weights > 0
    again = KernelMachineClassifier(RBF()).fit(X[kept], LABELS[kept])
    assert np.array_equal(machine.decision_function(NEW), again.decision_function(NEW))
    with pytest.raises(ValueError, match="only one class, top, among the points"):
        machine.fit(X, LABELS, np.where(LABELS == "top", 1.0, 0.0))


def test_probabilities_need_a_fit_with_logistic_loss():
    labels = (X[:, 0] > 0).astype(int)
    model = KernelMachineClassifier(RBF(), loss="hinge").fit(X, labels)
    with pytest.raises(ValueError, match="fitted with Hinge"):
        model.set_params(loss="logistic").predict_proba(X)


# -- without a penalty ----------------------------------------------------------------------------

intercepts = pytest.mark.parametrize("intercept", [False, True], ids=["", "intercept"])


def linear_fit(machine):
    """The weights and the constant of a machine with the linear kernel."""
    return np.append(machine.X_fit_.T @ machine.dual_coef_, machine.intercept_)


def columns(intercept):
    """The columns of a linear function with or without a constant; the constant is last."""
    return np.column_stack([X, np.ones(80)]) if intercept else X


@intercepts
def test_unpenalised_squared_loss_is_the_minimum_norm_solution(intercept):
    # More features than points, and fewer.
    for kernel, atol in ((Polynomial(3), 1e-8), (Matern12(), 1e-9)):
        K = np.asarray(kernel(X))
        machine = KernelMachineRegressor(kernel, penalty=0.0, fit_intercept=intercept)
        ours = machine.fit(X, Y, WEIGHTS)
        root = np.sqrt(WEIGHTS)
        D = np.column_stack([root[:, None] * K, root]) if intercept else root[:, None] * K
        truth = D @ np.linalg.lstsq(D, root * Y, rcond=1e-13)[0] / root
        np.testing.assert_allclose(ours.predict(X), truth, atol=atol)
        expected = np.linalg.lstsq(K, truth - ours.intercept_, rcond=1e-13)[0]
        new = np.asarray(kernel(NEW, X))
        np.testing.assert_allclose(ours.predict(NEW), new @ expected + ours.intercept_, atol=1e-7)
        assert ours.converged_


@intercepts
@pytest.mark.parametrize("loss", ["absolute", "epsilon_insensitive"])
def test_unpenalised_kinked_losses_agree_with_linear_programming(loss, intercept):
    epsilon = 0.1 if loss == "epsilon_insensitive" else 0.0
    D, one, p = columns(intercept), np.eye(80), 2 + intercept
    sides = np.block([[-D, -one], [D, -one]])
    bounds = [(None, None)] * p + [(0, None)] * 80
    least = linprog(
        np.append(np.zeros(p), WEIGHTS), sides, np.append(epsilon - Y, epsilon + Y), bounds=bounds
    )
    machine = KernelMachineRegressor(Linear(), loss, 0.0, fit_intercept=intercept)
    ours = machine.fit(X, Y, WEIGHTS)
    assert ours.objective_ == pytest.approx(least.fun, rel=1e-10)
    np.testing.assert_allclose(linear_fit(ours)[:p], least.x[:p], atol=1e-7)
    assert ours.converged_


@intercepts
def test_unpenalised_huber_loss_agrees_with_newton(intercept):
    D, loss = columns(intercept), Huber(0.3)
    theirs = minimize(
        lambda q: WEIGHTS @ loss.value(Y, D @ q),
        np.zeros(D.shape[1]),
        jac=lambda q: D.T @ (WEIGHTS * loss.derivative(Y, D @ q)),
        method="BFGS",
        options={"gtol": 1e-11},
    )
    ours = KernelMachineRegressor(Linear(), loss, 0.0, fit_intercept=intercept)
    ours.fit(X, Y, WEIGHTS)
    np.testing.assert_allclose(linear_fit(ours)[: D.shape[1]], theirs.x, atol=1e-6)
    assert ours.objective_ <= theirs.fun * (1.0 + 1e-12)


def test_unpenalised_machines_interpolate_under_a_non_singular_matrix():
    for loss in ("squared", "absolute", "huber"):
        ours = KernelMachineRegressor(Matern12(), loss, 0.0).fit(X, Y)
        np.testing.assert_allclose(ours.predict(X), Y, atol=1e-10)
        expected = np.linalg.solve(np.asarray(Matern12()(X)), Y)
        np.testing.assert_allclose(ours.dual_coef_, expected, atol=1e-8)


def test_unpenalised_tube_has_the_least_norm():
    # min b'Kb / 2 with |y - K b| <= epsilon, by its optimality conditions.
    loss, K = EpsilonInsensitive(0.3), np.asarray(Matern12()(X))
    ours = KernelMachineRegressor(Matern12(), loss, 0.0).fit(X, Y)
    residual, b = Y - ours.predict(X), ours.dual_coef_
    assert np.max(np.abs(residual)) <= 0.3 + 1e-7
    inside = np.abs(residual) < 0.3 - 1e-5
    np.testing.assert_allclose(b[inside], 0.0, atol=1e-5)
    assert np.all(b[~inside] * residual[~inside] > -1e-7)
    assert inside.any()
    assert b @ K @ b < Y @ np.linalg.solve(K, Y)


def test_unpenalised_hinge_loss_has_the_largest_margin():
    K = np.asarray(Matern12()(X))
    theirs = SVC(kernel="precomputed", C=1e8, tol=1e-8).fit(K, TWO)
    ours = KernelMachineClassifier(Matern12(), "hinge", 0.0, fit_intercept=True).fit(X, TWO)
    signs = np.where(ours.classes_[1] == TWO, 1.0, -1.0)
    assert np.min(signs * ours.decision_function(X)) == pytest.approx(1.0, abs=1e-6)
    expected = theirs.decision_function(np.asarray(Matern12()(NEW, X)))
    np.testing.assert_allclose(ours.decision_function(NEW), expected, atol=1e-4)


@intercepts
def test_unpenalised_hinge_loss_of_mixed_classes_agrees_with_linear_programming(intercept):
    D, one = columns(intercept), np.eye(80)
    ours = KernelMachineClassifier(Linear(), "hinge", 0.0, fit_intercept=intercept)
    ours.fit(X, TWO, WEIGHTS)
    signs = np.where(ours.classes_[1] == TWO, 1.0, -1.0)
    p = D.shape[1]
    bounds = [(None, None)] * p + [(0, None)] * 80
    sides = np.hstack([-signs[:, None] * D, -one])
    least = linprog(np.append(np.zeros(p), WEIGHTS), sides, -np.ones(80), bounds=bounds)
    assert ours.objective_ == pytest.approx(least.fun, rel=1e-9)
    assert least.fun > 1.0


@intercepts
@pytest.mark.parametrize("target", [TWO, LABELS], ids=["two", "three"])
def test_unpenalised_logistic_regression_is_maximum_likelihood(target, intercept):
    theirs = LogisticRegression(
        C=np.inf, fit_intercept=intercept, solver="lbfgs", tol=1e-10, max_iter=5000
    ).fit(X, target, WEIGHTS)
    ours = KernelLogisticRegression(Linear(), 0.0, fit_intercept=intercept)
    ours.fit(X, target, WEIGHTS)
    assert ours.converged_
    probabilities = ours.predict_proba(X)
    np.testing.assert_allclose(probabilities, theirs.predict_proba(X), atol=1e-5)
    # The score is 0: X'W(y - p) = 0.
    observed = (target[:, None] == ours.classes_).astype(float)
    score = columns(intercept).T @ (WEIGHTS[:, None] * (observed - probabilities))
    np.testing.assert_allclose(score, 0.0, atol=1e-8)


def test_separable_classes_have_no_maximum_likelihood():
    # A full matrix, and a line between the classes; with three classes, one of them at a side.
    sides = np.where(X[:, 0] > 0.1, "right", "left")
    three = np.where(X[:, 0] > 1.0, "far", TWO)
    for kernel, target in ((RBF(0.1), TWO), (Linear(), sides), (Linear(), three)):
        machine = KernelLogisticRegression(kernel, 0.0, fit_intercept=True)
        with pytest.raises(ValueError, match="no minimum without a penalty.*hinge"):
            machine.fit(X, target)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_no_penalty_is_the_limit_of_small_penalties():
    for loss in ("squared", "absolute", "huber", "epsilon_insensitive"):
        limit = KernelMachineRegressor(Matern12(), loss, 0.0, fit_intercept=True).fit(X, Y)
        f = limit.predict(NEW)
        near, nearer = (
            np.max(np.abs(limit.set_params(penalty=penalty).fit(X, Y).predict(NEW) - f))
            for penalty in (1e-3, 1e-5)
        )
        # Losses of lines and kinks are at the limit below a threshold.
        assert nearer < max(0.1 * near, 1e-7)
