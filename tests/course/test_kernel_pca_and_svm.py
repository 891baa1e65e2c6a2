"""Kernel PCA and support vector machines against scikit-learn's with the same Gram matrix."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.decomposition import KernelPCA as TheirPCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.svm import SVC, SVR

import bayeskern as bk
from bayeskern.course import KernelPCA, KernelSVC, KernelSVR
from bayeskern.kernels import (
    RBF,
    Constant,
    Linear,
    Matern32,
    Periodic,
    Polynomial,
)
from bayeskern.ridge import KernelRidge
from tests.marks import few

COURSE = Path(__file__).parents[2] / "docs" / "course.md"
RNG = np.random.default_rng(11)
X = RNG.normal(size=(70, 3))
Y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * RNG.normal(size=70)
LABELS = np.array(["low", "middle", "top"])[np.digitize(Y, [-0.4, 0.5])]
TWO = np.where(Y > 0, 1, -1)
WEIGHTS = RNG.uniform(0.0, 2.0, size=70)
NEW = RNG.normal(size=(30, 3))

KERNELS = {
    "RBF": RBF(0.8),
    "Polynomial": Polynomial(3),
    "composite": (RBF() + 0.5 * Linear()) * Periodic(3.0) + Matern32([0.5, 2.0, 1.0]).named("b"),
}
every_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


# -- principal components -------------------------------------------------------------------------


@every_kernel
@pytest.mark.parametrize("n_components", few([None, 4], 4))
def test_components_agree_with_scikit_learn(kernel, n_components):
    theirs = TheirPCA(n_components, kernel="precomputed").fit(np.asarray(kernel(X)))
    ours = KernelPCA(kernel, n_components).fit(X)
    # Eigenvalues at the level of rounding are not compared.
    kept = theirs.eigenvalues_ > 1e-9 * theirs.eigenvalues_[0]
    m = np.sum(kept)
    np.testing.assert_allclose(ours.eigenvalues_[:m], theirs.eigenvalues_[kept], rtol=1e-6)
    size = np.sqrt(theirs.eigenvalues_[0])
    expected = theirs.transform(np.asarray(kernel(NEW, X)))[:, :m]
    np.testing.assert_allclose(ours.transform(NEW)[:, :m], expected, atol=1e-6 * size)
    np.testing.assert_allclose(
        ours.fit_transform(X)[:, :m], ours.transform(X)[:, :m], atol=1e-9 * size
    )


def test_linear_kernel_gives_pca():
    theirs, ours = PCA().fit(X), KernelPCA(Linear()).fit(X)
    a, b = theirs.transform(NEW), ours.transform(NEW)
    assert b.shape == (30, 3)
    # Of either sign.
    np.testing.assert_allclose(b * np.sign(np.sum(a * b, axis=0)), a, atol=1e-12)
    np.testing.assert_allclose(ours.eigenvalues_ / 69, theirs.explained_variance_, rtol=1e-12)


def test_components_preserve_feature_space_distances():
    phi = KernelPCA(RBF(0.3)).fit_transform(X)
    K = np.asarray(RBF(0.3)(X))
    np.testing.assert_allclose(phi.mean(axis=0), 0.0, atol=1e-13)
    expected = 2.0 - 2.0 * K
    squared_distances = np.sum((phi[:, None] - phi) ** 2, axis=2)
    np.testing.assert_allclose(squared_distances, expected, atol=1e-12)


def test_pre_images_by_ridge_regression_agree_with_scikit_learn():
    theirs = TheirPCA(4, kernel="rbf", gamma=0.5, fit_inverse_transform=True, alpha=0.1).fit(X)
    expected = theirs.inverse_transform(theirs.transform(NEW))
    ours = KernelPCA(RBF(), 4, KernelRidge(RBF(), alpha=0.1)).fit(X)
    np.testing.assert_allclose(ours.inverse_transform(ours.transform(NEW)), expected, atol=1e-8)


def test_pre_images_have_the_mean_of_the_points():
    """Residuals of the recipe in docs/course.md add up to 0, by the equation of its intercept."""
    recipe = re.search(r"`(bk\.KernelPCA\(n_components=2, inverse=.*\))\.fit", COURSE.read_text())
    points, means = X + 100.0, {}
    for intercept in (True, False):
        pca = eval(recipe[1], {"bk": bk}).set_params(inverse__fit_intercept=intercept).fit(points)
        errors = pca.inverse_transform(pca.transform(points)) - points
        means[intercept] = np.abs(errors.mean(axis=0) / points.std(axis=0)).max()
    assert "fit_intercept=True" in recipe[1]
    # The system of the regression has a condition number of at most 70 / 0.01.
    assert means[True] < 7000 * 100 * np.finfo(float).eps < 0.01 < means[False]


def test_all_components_of_the_linear_kernel_give_the_points_back():
    pca = KernelPCA(Linear(), inverse=LinearRegression()).fit(X)
    np.testing.assert_allclose(pca.inverse_transform(pca.transform(NEW)), NEW, atol=1e-12)


def test_pre_images_need_a_regression():
    pca = KernelPCA(RBF(), 2).fit(X)
    with pytest.raises(ValueError, match="inverse was None in fit"):
        pca.inverse_transform(pca.transform(NEW))
    with pytest.raises(NotFittedError):
        KernelPCA(inverse=KernelRidge()).inverse_transform(np.zeros((1, 2)))
    for wrong in ("ridge", KernelSVC()):
        with pytest.raises(TypeError, match="inverse must be a scikit-learn regressor"):
            KernelPCA(inverse=wrong).fit(X)


def test_constant_kernel_adds_no_component():
    np.testing.assert_allclose(
        KernelPCA(RBF() + Constant(5.0), 5).fit(X).transform(NEW),
        KernelPCA(RBF(), 5).fit(X).transform(NEW),
        atol=1e-9,
    )


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_components_as_a_data_frame(container):
    components = KernelPCA(RBF(), 2).set_output(transform=container).fit_transform(X)
    assert list(components.columns) == ["kernelpca0", "kernelpca1"]
    np.testing.assert_array_equal(components.to_numpy(), KernelPCA(RBF(), 2).fit_transform(X))


# -- support vector machines ----------------------------------------------------------------------


@every_kernel
def test_support_vector_regression_agrees_with_scikit_learn(kernel):
    theirs = SVR(kernel="precomputed", C=2.0, epsilon=0.2, tol=1e-6)
    theirs.fit(np.asarray(kernel(X)), Y, WEIGHTS)
    ours = KernelSVR(kernel, C=2.0, epsilon=0.2, tol=1e-6).fit(X, Y, WEIGHTS)
    assert np.array_equal(ours.support_, theirs.support_)
    assert np.array_equal(ours.X_fit_, X[theirs.support_])
    expected = theirs.predict(np.asarray(kernel(NEW, X)))
    np.testing.assert_allclose(ours.predict(NEW), expected, atol=1e-9)


@every_kernel
@pytest.mark.parametrize("target", [TWO, LABELS], ids=["two", "three"])
def test_support_vector_classifier_agrees_with_scikit_learn(kernel, target):
    theirs = SVC(kernel="precomputed", C=2.0, tol=1e-6)
    theirs.fit(np.asarray(kernel(X)), target, WEIGHTS)
    ours = KernelSVC(kernel, C=2.0, tol=1e-6).fit(X, target, WEIGHTS)
    assert np.array_equal(ours.support_, theirs.support_)
    between = np.asarray(kernel(NEW, X))
    np.testing.assert_allclose(
        ours.decision_function(NEW), theirs.decision_function(between), atol=1e-9
    )
    assert np.array_equal(ours.predict(NEW), theirs.predict(between))


def test_points_of_zero_weight_are_not_support_vectors():
    weights = np.where(np.arange(70) % 3 == 0, 0.0, 1.0)
    kept = np.flatnonzero(weights)
    for make, target in ((KernelSVR, Y), (KernelSVC, LABELS)):
        ours, alone = make(RBF()).fit(X, target, weights), make(RBF()).fit(X[kept], target[kept])
        assert np.array_equal(ours.support_, kept[alone.support_])
        assert np.array_equal(ours.predict(NEW), alone.predict(NEW))


def test_wide_epsilon_gives_a_constant():
    machine = KernelSVR(RBF(), epsilon=10.0).fit(X, Y)
    f = machine.predict(NEW)
    assert np.ptp(f) == 0.0
    assert np.max(np.abs(Y - f[0])) < 10.0


# -- all machines ---------------------------------------------------------------------------------


# Where libsvm stops by default, weights and repeated points differ by more than the checks allow.
def test_transform_agrees_with_fit_transform():
    points = np.random.default_rng(3).normal(size=(60, 2))
    for kernel, count in ((RBF(3.0), None), (RBF(), None), (RBF(3.0), 30)):
        pca = KernelPCA(kernel, count)
        np.testing.assert_allclose(pca.fit_transform(points), pca.transform(points), atol=1e-7)
