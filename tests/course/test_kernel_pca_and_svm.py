"""Principal components and support vector machines against scikit-learn's with the same Gram."""

import pickle
import re

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.decomposition import KernelPCA as TheirPCA
from sklearn.svm import SVC, SVR
from sklearn.utils.estimator_checks import parametrize_with_checks

from bayeskern.kernels import (
    RBF,
    Constant,
    Linear,
    Matern32,
    Multiquadric,
    Periodic,
    Polynomial,
    gram_matrix,
)
from bayeskern.ridge import KernelPCA, KernelSVC, KernelSVR
from tests.marks import few

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
def test_components_are_scikit_learns_of_the_same_gram_matrix(kernel, n_components):
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


def test_components_of_a_linear_kernel_are_those_of_pca():
    theirs, ours = PCA().fit(X), KernelPCA(Linear()).fit(X)
    a, b = theirs.transform(NEW), ours.transform(NEW)
    assert b.shape == (30, 3)
    # Of either sign.
    np.testing.assert_allclose(b * np.sign(np.sum(a * b, axis=0)), a, atol=1e-12)
    np.testing.assert_allclose(ours.eigenvalues_ / 69, theirs.explained_variance_, rtol=1e-12)


def test_components_keep_the_distances_between_centred_features():
    phi = KernelPCA(RBF(0.3)).fit_transform(X)
    K = np.asarray(RBF(0.3)(X))
    np.testing.assert_allclose(phi.mean(axis=0), 0.0, atol=1e-13)
    expected = 2.0 - 2.0 * K
    squared_distances = np.sum((phi[:, None] - phi) ** 2, axis=2)
    np.testing.assert_allclose(squared_distances, expected, atol=1e-12)


def test_a_constant_in_the_kernel_is_no_component():
    np.testing.assert_allclose(
        KernelPCA(RBF() + Constant(5.0), 5).fit(X).transform(NEW),
        KernelPCA(RBF(), 5).fit(X).transform(NEW),
        atol=1e-9,
    )


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_components_come_as_a_data_frame_if_asked_for(container):
    components = KernelPCA(RBF(), 2).set_output(transform=container).fit_transform(X)
    assert list(components.columns) == ["kernelpca0", "kernelpca1"]
    np.testing.assert_array_equal(components.to_numpy(), KernelPCA(RBF(), 2).fit_transform(X))


def test_more_components_than_points_are_refused():
    with pytest.raises(ValueError, match="n_components=71 is more than the 70 points have"):
        KernelPCA(RBF(), 71).fit(X)
    with pytest.raises(ValueError, match="n_components must be a whole number of at least 1"):
        KernelPCA(RBF(), 0).fit(X)


# -- support vector machines ----------------------------------------------------------------------


@every_kernel
def test_support_vector_regression_is_scikit_learns(kernel):
    theirs = SVR(kernel="precomputed", C=2.0, epsilon=0.2, tol=1e-6)
    theirs.fit(np.asarray(kernel(X)), Y, WEIGHTS)
    ours = KernelSVR(kernel, C=2.0, epsilon=0.2, tol=1e-6).fit(X, Y, WEIGHTS)
    assert np.array_equal(ours.support_, theirs.support_)
    assert np.array_equal(ours.X_fit_, X[theirs.support_])
    expected = theirs.predict(np.asarray(kernel(NEW, X)))
    np.testing.assert_allclose(ours.predict(NEW), expected, atol=1e-9)


@every_kernel
@pytest.mark.parametrize("target", [TWO, LABELS], ids=["two", "three"])
def test_the_support_vector_classifier_is_scikit_learns(kernel, target):
    theirs = SVC(kernel="precomputed", C=2.0, tol=1e-6)
    theirs.fit(np.asarray(kernel(X)), target, WEIGHTS)
    ours = KernelSVC(kernel, C=2.0, tol=1e-6).fit(X, target, WEIGHTS)
    assert np.array_equal(ours.support_, theirs.support_)
    between = np.asarray(kernel(NEW, X))
    np.testing.assert_allclose(
        ours.decision_function(NEW), theirs.decision_function(between), atol=1e-9
    )
    assert np.array_equal(ours.predict(NEW), theirs.predict(between))


def test_points_that_weigh_nothing_are_no_support_vectors():
    weights = np.where(np.arange(70) % 3 == 0, 0.0, 1.0)
    kept = np.flatnonzero(weights)
    for make, target in ((KernelSVR, Y), (KernelSVC, LABELS)):
        ours, alone = make(RBF()).fit(X, target, weights), make(RBF()).fit(X[kept], target[kept])
        assert np.array_equal(ours.support_, kept[alone.support_])
        assert np.array_equal(ours.predict(NEW), alone.predict(NEW))


def test_where_all_errors_are_below_epsilon_f_is_constant():
    machine = KernelSVR(RBF(), epsilon=10.0).fit(X, Y)
    f = machine.predict(NEW)
    assert np.ptp(f) == 0.0
    assert np.max(np.abs(Y - f[0])) < 10.0


def test_bad_numbers_are_refused_by_name():
    for options in ({"C": 0.0}, {"C": "scale"}, {"tol": -1.0}):
        (name,) = options
        with pytest.raises(ValueError, match=f"{name} must be a positive number"):
            KernelSVR(**options).fit(X, Y)
        with pytest.raises(ValueError, match=f"{name} must be a positive number"):
            KernelSVC(**options).fit(X, TWO)
    with pytest.raises(ValueError, match="epsilon must be a nonnegative number, got -0.1"):
        KernelSVR(epsilon=-0.1).fit(X, Y)
    with pytest.raises(ValueError, match="only one class"):
        KernelSVC().fit(X, np.zeros(70, dtype=int))


# -- all ------------------------------------------------------------------------------------------

ALL = [KernelPCA(), KernelSVR(), KernelSVC()]
# Where libsvm stops by default, weights and repeated points differ by more than the checks allow.
EXACT = [KernelPCA(), KernelSVR(tol=1e-10), KernelSVC(tol=1e-10)]


@pytest.mark.slow
@parametrize_with_checks(EXACT)
def test_they_are_estimators_as_scikit_learn_wants_them(estimator, check):
    check(estimator)


def seen(machine, points):
    return machine.transform(points) if hasattr(machine, "transform") else machine.predict(points)


@pytest.mark.parametrize("machine", ALL, ids=repr)
def test_a_machine_can_be_copied_and_kept(machine):
    target = LABELS if isinstance(machine, KernelSVC) else Y
    fitted = clone(machine).set_params(kernel=RBF(0.5)).fit(X, target)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(seen(again, NEW), seen(fitted, NEW))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("machine", ALL, ids=repr)
def test_a_kernel_finds_its_columns_in_a_data_frame(frame, machine):
    table = frame({"age": X[:, 0], "height": X[:, 1], "mass": X[:, 2]})
    by_name = clone(machine).set_params(kernel=RBF().on(["mass"]) + Linear().on(["age"]))
    by_index = clone(machine).set_params(kernel=RBF().on([2]) + Linear().on([0]))
    assert np.array_equal(seen(by_name.fit(table, TWO), table), seen(by_index.fit(X, TWO), X))
    with pytest.raises(ValueError, match="Feature names"):
        seen(by_name, table[["age", "height"]])


@pytest.mark.parametrize("machine", ALL, ids=repr)
def test_results_do_not_depend_on_blocks(machine, monkeypatch):
    points = RNG.normal(size=(600, 3))
    fitted = clone(machine).set_params(kernel=RBF()).fit(X, TWO)
    whole = seen(fitted, points)
    monkeypatch.setattr(gram_matrix, "BLOCK_ENTRIES", 1)
    np.testing.assert_allclose(seen(fitted, points), whole, atol=1e-12)


@pytest.mark.parametrize("machine", ALL, ids=repr)
def test_the_kernel_must_be_a_positive_definite_kernel_of_numbers(machine):
    for kernel, error, message in [
        ("rbf", TypeError, "kernel must be a bayeskern kernel"),
        (RBF(dist.LogNormal()), TypeError, "lengthscale of RBF"),
        (RBF() + Multiquadric(), ValueError, "Multiquadric(lengthscale=1.0, variance=1.0) is not"),
    ]:
        with pytest.raises(error, match=re.escape(message)):
            clone(machine).set_params(kernel=kernel).fit(X, TWO)


def test_components_of_training_points_are_those_of_any_points():
    points = np.random.default_rng(3).normal(size=(60, 2))
    for kernel, count in ((RBF(3.0), None), (RBF(), None), (RBF(3.0), 30)):
        pca = KernelPCA(kernel, count)
        np.testing.assert_allclose(pca.fit_transform(points), pca.transform(points), atol=1e-7)
