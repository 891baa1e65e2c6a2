"""The kernel perceptron against scikit-learn's perceptron, and the bound on its mistakes."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Perceptron
from sklearn.svm import SVC

from bayeskern.course.perceptron import KernelPerceptron
from bayeskern.kernels import RBF, Constant, Linear, Polynomial

RNG = np.random.default_rng(17)
X = RNG.normal(size=(100, 2))
SIGNS = np.where(np.sin(2 * X[:, 0]) + X[:, 1] > 0, 1, -1)
LABELS = np.array(["low", "middle", "top"])[np.digitize(X[:, 0] + np.sin(X[:, 1]), [-0.5, 0.5])]
NEW = RNG.normal(size=(50, 2))


def test_linear_perceptron_agrees_with_scikit_learn():
    # The same points in the same order: one pass of theirs for each of our epochs.
    theirs, order = Perceptron(fit_intercept=False, shuffle=False), np.random.default_rng(3)
    with pytest.warns(ConvergenceWarning):
        ours = KernelPerceptron(Linear(), epochs=4, seed=3).fit(X, SIGNS)
    for _ in range(4):
        at = order.permutation(100)
        theirs.partial_fit(X[at], SIGNS[at], classes=[-1, 1])
    np.testing.assert_allclose(X.T @ ours.dual_coef_, theirs.coef_[0], rtol=1e-12)
    np.testing.assert_allclose(ours.decision_function(NEW), NEW @ theirs.coef_[0], rtol=1e-10)
    assert np.array_equal(ours.predict(NEW), theirs.predict(NEW))


@pytest.mark.parametrize(
    "kernel", [RBF(0.5), Polynomial(4), RBF() * Linear() + Constant()], ids=repr
)
def test_mistakes_are_within_novikoffs_bound(kernel):
    K = np.asarray(kernel(X))
    # The largest margin that a function of norm 1 has: the machine with a hard margin and without
    # a constant, for which each point stands with its mirror image.
    mirrored = np.block([[K, -K], [-K, K]])
    machine = SVC(kernel="precomputed", C=1e8, tol=1e-8)
    machine.fit(mirrored, np.concatenate([SIGNS, -SIGNS]))
    b = np.zeros(200)
    b[machine.support_] = machine.dual_coef_[0]
    f, norm = (mirrored @ b)[:100], np.sqrt(b @ mirrored @ b)
    margin = np.min(SIGNS * f) / norm
    assert margin > 0.0
    bound = np.max(K.diagonal()) / margin**2
    for seed in range(5):
        ours = KernelPerceptron(kernel, epochs=10_000, seed=seed).fit(X, SIGNS)
        assert ours.converged_
        assert ours.mistakes_[-1] == 0
        assert ours.mistakes_.sum() <= bound
        assert ours.score(X, SIGNS) == 1.0
        # b counts mistakes.
        assert np.abs(ours.dual_coef_).sum() == ours.mistakes_.sum()
        assert np.all(ours.dual_coef_ * SIGNS >= 0)


def test_multiclass_perceptron_of_crammer_and_singer():
    ours = KernelPerceptron(Polynomial(2), epochs=3, seed=1)
    with pytest.warns(ConvergenceWarning):
        ours.fit(X, LABELS)
    # In explicit features, one vector of weights for each class.
    a, b = X.T
    phi = np.stack([np.ones(100), 2**0.5 * a, 2**0.5 * b, a**2, b**2, 2**0.5 * a * b], axis=1)
    codes, W, mistakes = np.digitize(X[:, 0] + np.sin(X[:, 1]), [-0.5, 0.5]), np.zeros((6, 3)), 0
    order = np.random.default_rng(1)
    for _ in range(3):
        for i in order.permutation(100):
            f, y = phi[i] @ W, codes[i]
            rival = max((c for c in range(3) if c != y), key=lambda c: f[c])
            if f[rival] >= f[y]:
                W[:, y] += phi[i]
                W[:, rival] -= phi[i]
                mistakes += 1
    np.testing.assert_allclose(phi.T @ ours.dual_coef_, W, atol=1e-9)
    assert ours.mistakes_.sum() == mistakes
    assert np.array_equal(
        ours.predict(X), np.array(["low", "middle", "top"])[np.argmax(phi @ W, 1)]
    )


def test_several_classes_are_separated():
    ours = KernelPerceptron(RBF(0.5), epochs=1000).fit(X, LABELS)
    assert ours.converged_
    assert ours.score(X, LABELS) == 1.0
    assert ours.decision_function(NEW).shape == (50, 3)
    # What one class gains another loses.
    np.testing.assert_array_equal(ours.dual_coef_.sum(axis=1), 0.0)


def test_inseparable_classes_warn():
    points, labels = np.zeros((2, 1)), np.array([0, 1])
    with pytest.warns(ConvergenceWarning, match="2 mistakes in epoch 7, the last"):
        ours = KernelPerceptron(epochs=7).fit(points, labels)
    assert not ours.converged_
    assert ours.mistakes_.tolist() == [2] * 7
    assert ours.n_iter_ == 7
