"""Neighbours in feature space against scikit-learn's in explicit features, and by hand."""

import pickle
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor, NearestNeighbors
from sklearn.utils.estimator_checks import parametrize_with_checks

from bayeskern.kernels import RBF, Linear, Matern12, Multiquadric, Polynomial, gram_matrix
from bayeskern.ridge.neighbors import KernelKNNClassifier, KernelKNNRegressor

RNG = np.random.default_rng(13)
X = RNG.normal(size=(90, 2))
Y = np.stack([np.sin(2 * X[:, 0]), X[:, 1]], axis=1) + 0.1 * RNG.normal(size=(90, 2))
LABELS = np.array(["low", "middle", "top"])[np.digitize(Y[:, 0], [-0.4, 0.5])]
NEW = RNG.normal(size=(40, 2))
both_weights = pytest.mark.parametrize("weights", ["uniform", "distance"])


@both_weights
def test_with_a_linear_kernel_they_are_scikit_learns(weights):
    theirs = KNeighborsRegressor(7, weights=weights).fit(X, Y)
    ours = KernelKNNRegressor(Linear(), 7, weights).fit(X, Y)
    for points in (NEW, X):
        np.testing.assert_allclose(ours.predict(points), theirs.predict(points), atol=1e-12)
    distances, indices = ours.kneighbors(NEW)
    expected, at = theirs.kneighbors(NEW)
    assert np.array_equal(indices, at)
    np.testing.assert_allclose(distances, expected, rtol=1e-10)
    theirs = KNeighborsClassifier(7, weights=weights).fit(X, LABELS)
    ours = KernelKNNClassifier(Linear(), 7, weights, pseudo_count=0).fit(X, LABELS)
    for points in (NEW, X):
        np.testing.assert_allclose(
            ours.predict_proba(points), theirs.predict_proba(points), atol=1e-12
        )
        assert np.array_equal(ours.predict(points), theirs.predict(points))


@pytest.mark.parametrize("lengthscale", [0.1, 1.0, 50.0])
def test_isotropic_kernels_order_neighbours_as_the_euclidean_distance_does(lengthscale):
    expected = NearestNeighbors(n_neighbors=90).fit(X).kneighbors(NEW, return_distance=False)
    # At 10 lengthscales |phi(x) - phi(z)|^2 is 2 to all digits, and at 40 k itself is 0.
    k = 10 if lengthscale == 0.1 else 90
    for kernel in (RBF(lengthscale), Matern12(lengthscale)):
        distances, indices = KernelKNNRegressor(kernel, k).fit(X, Y).kneighbors(NEW)
        assert np.array_equal(indices, expected[:, :k])
        assert np.all(np.diff(distances, axis=1) >= 0.0)


def test_distances_are_those_between_explicit_features():
    kernel = Polynomial(2, offset=1.0)
    a, b = X.T
    phi = np.stack([np.ones(90), 2**0.5 * a, 2**0.5 * b, a**2, b**2, 2**0.5 * a * b], axis=1)
    theirs = NearestNeighbors(n_neighbors=6).fit(phi)
    expected, at = theirs.kneighbors(phi)
    distances, indices = KernelKNNRegressor(kernel, 6).fit(X, Y).kneighbors(X)
    assert np.array_equal(indices, at)
    np.testing.assert_allclose(distances, expected, atol=1e-12)


def test_a_point_among_the_neighbours_is_all_that_counts_by_distance():
    for kernel in (RBF(0.7), Linear(), Matern12() + Linear()):
        fitted = KernelKNNRegressor(kernel, 5, "distance").fit(X, Y)
        np.testing.assert_allclose(fitted.predict(X), Y, rtol=1e-14)


def test_probabilities_are_those_of_counts_and_pseudo_counts():
    points = np.array([[0.0], [0.1], [0.2], [5.0], [5.1]])
    labels = np.array(["a", "a", "b", "b", "c"])
    fitted = KernelKNNClassifier(RBF(), 3, pseudo_count=0.5).fit(points, labels)
    # Two of a and one of b, of three; then one of each.
    expected = np.array([[2.5, 1.5, 0.5], [0.5, 2.5, 1.5]]) / 4.5
    np.testing.assert_allclose(fitted.predict_proba([[0.0], [5.0]]), expected, rtol=1e-14)
    assert fitted.predict([[0.0], [5.0]]).tolist() == ["a", "b"]
    none = clone(fitted).set_params(pseudo_count=0).fit(points, labels).predict_proba([[0.0]])
    np.testing.assert_allclose(none, [[2 / 3, 1 / 3, 0.0]], rtol=1e-14)
    # Of equal classes the first is taken.
    assert KernelKNNClassifier(RBF(), 4).fit(points, labels).predict([[0.1]]).tolist() == ["a"]


def test_weights_by_distance_share_out_the_counts():
    points, labels = np.array([[0.0], [3.0]]), np.array([0, 1])
    fitted = KernelKNNClassifier(Linear(), 2, "distance", pseudo_count=1.0).fit(points, labels)
    # Distances 1 and 2: shares 2/3 and 1/3 of two neighbours.
    np.testing.assert_allclose(fitted.predict_proba([[1.0]]), [[7 / 12, 5 / 12]], rtol=1e-14)


def test_pseudo_counts_improve_the_log_score_where_classes_overlap():
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=2000)
    points = rng.normal(size=(2000, 1)) + labels[:, None]

    def score(pseudo_count):
        fitted = KernelKNNClassifier(RBF(), 5, pseudo_count=pseudo_count)
        p = fitted.fit(points[:1000], labels[:1000]).predict_proba(points[1000:])
        return np.mean(np.log(np.maximum(p[np.arange(1000), labels[1000:]], 1e-300)))

    assert score(1.0) > score(0.01) + 0.1


ALL = [KernelKNNRegressor(), KernelKNNClassifier(), KernelKNNRegressor(weights="distance")]


@parametrize_with_checks(ALL[:2])
def test_they_are_estimators_as_scikit_learn_wants_them(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(ALL[2:])
def test_with_other_options_they_are_estimators_too(estimator, check):
    check(estimator)


@pytest.mark.parametrize("make", [KernelKNNRegressor, KernelKNNClassifier])
def test_bad_arguments_are_refused_by_name(make):
    for options, message in [
        ({"n_neighbors": 91}, "n_neighbors=91 is more than there are points: n_samples = 90"),
        ({"n_neighbors": 0}, "n_neighbors must be a whole number of at least 1, got 0"),
        ({"weights": "distances"}, "Did you mean 'distance'?"),
        ({"kernel": Multiquadric()}, "is not positive definite"),
    ]:
        with pytest.raises(ValueError, match=re.escape(message)):
            make(**options).fit(X, LABELS if make is KernelKNNClassifier else Y)
    with pytest.raises(ValueError, match="pseudo_count must be a nonnegative number, got -1"):
        KernelKNNClassifier(pseudo_count=-1).fit(X, LABELS)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_a_kernel_finds_its_columns_in_a_data_frame(frame):
    table = frame({"age": X[:, 0], "mass": X[:, 1]})
    by_name = KernelKNNClassifier(RBF().on(["mass"])).fit(table, LABELS)
    by_index = KernelKNNClassifier(RBF().on([1])).fit(X, LABELS)
    assert np.array_equal(by_name.predict_proba(table), by_index.predict_proba(X))
    again = pickle.loads(pickle.dumps(by_name))
    assert np.array_equal(again.predict(table), by_index.predict(X))


def test_predictions_do_not_depend_on_blocks(monkeypatch):
    points = RNG.normal(size=(600, 2))
    fitted = KernelKNNRegressor(RBF(), weights="distance").fit(X, Y)
    whole = fitted.predict(points)
    monkeypatch.setattr(gram_matrix, "BLOCK", 1)
    np.testing.assert_allclose(fitted.predict(points), whole, atol=1e-10)


def test_neighbours_that_rounding_cannot_tell_apart_are_said():
    points, labels = [[0.0], [100.0], [200.0]], list("abc")
    model = KernelKNNClassifier(n_neighbors=1).fit(points, labels)
    with pytest.warns(UserWarning, match="1 of 2 points are as far from every training point"):
        model.predict([[149.0], [200.5]])
    wide = KernelKNNClassifier(RBF(100.0), n_neighbors=1).fit(points, labels)
    assert list(wide.predict([[149.0], [1000.0]])) == ["b", "c"]


def test_what_is_set_after_a_fit_waits_for_the_next():
    model = KernelKNNClassifier(n_neighbors=2).fit([[0.0], [1.0], [2.0]], [0, 1, 1])
    before = model.predict_proba([[0.4]])
    model.set_params(n_neighbors=60, pseudo_count=-3.0)
    np.testing.assert_array_equal(model.predict_proba([[0.4]]), before)
