"""Nearest neighbours in feature space against scikit-learn's in explicit features."""

import warnings
from collections import Counter

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor, NearestNeighbors

from bayeskern.course.neighbors import KernelKNNClassifier, KernelKNNRegressor
from bayeskern.kernels import RBF, Linear, Matern12, Polynomial

RNG = np.random.default_rng(13)
X = RNG.normal(size=(90, 2))
Y = np.stack([np.sin(2 * X[:, 0]), X[:, 1]], axis=1) + 0.1 * RNG.normal(size=(90, 2))
LABELS = np.array(["low", "middle", "top"])[np.digitize(Y[:, 0], [-0.4, 0.5])]
NEW = RNG.normal(size=(40, 2))
both_weights = pytest.mark.parametrize("weights", ["uniform", "distance"])


@pytest.mark.parametrize(
    ("metric", "p"),
    [
        ("kernel", 2),
        ("euclidean", 2),
        ("manhattan", 2),
        ("chebyshev", 2),
        ("minkowski", 1.5),
        ("minkowski", np.inf),
    ],
)
@both_weights
def test_metrics_agree_with_scikit_learn(metric, p, weights):
    # The distance in the feature space of the linear kernel is Euclidean.
    options = {"metric": "euclidean" if metric == "kernel" else metric, "p": p, "weights": weights}
    kernel = Linear() if metric == "kernel" else None
    theirs = KNeighborsRegressor(7, **options).fit(X, Y)
    ours = KernelKNNRegressor(kernel, 7, weights, metric=metric, p=p).fit(X, Y)
    for points in (NEW, X):
        np.testing.assert_allclose(ours.predict(points), theirs.predict(points), atol=1e-12)
    distances, indices = ours.kneighbors(NEW)
    expected, at = theirs.kneighbors(NEW)
    assert np.array_equal(indices, at)
    np.testing.assert_allclose(distances, expected, rtol=1e-10)
    theirs = KNeighborsClassifier(7, **options).fit(X, LABELS)
    ours = KernelKNNClassifier(kernel, 7, weights, 0, metric, p).fit(X, LABELS)
    for points in (NEW, X):
        expected = theirs.predict_proba(points)
        np.testing.assert_allclose(ours.predict_proba(points), expected, atol=1e-12)
        # Of classes that share the lead, theirs is the first.
        leads = np.sum(expected == expected.max(axis=1, keepdims=True), axis=1) == 1
        assert leads.sum() > 0.8 * len(points)
        assert np.array_equal(ours.predict(points)[leads], theirs.predict(points)[leads])


@pytest.mark.filterwarnings("ignore:2 of 40 points are equally far")
@pytest.mark.parametrize("lengthscale", [0.1, 1.0, 50.0])
def test_isotropic_kernels_order_by_euclidean_distance(lengthscale):
    expected = NearestNeighbors(n_neighbors=90).fit(X).kneighbors(NEW, return_distance=False)
    # At 10 lengthscales |phi(x) - phi(z)|^2 is 2 to all digits, and at 40 k itself is 0.
    k = 10 if lengthscale == 0.1 else 90
    for kernel in (RBF(lengthscale), Matern12(lengthscale)):
        distances, indices = KernelKNNRegressor(kernel, k).fit(X, Y).kneighbors(NEW)
        assert np.array_equal(indices, expected[:, :k])
        assert np.all(np.diff(distances, axis=1) >= 0.0)


def test_matrix_lengthscale_orders_by_mahalanobis_distance():
    # exp(-d^2 / 2) with d^2 = (x - z)' S^-1 (x - z) falls with d.
    covariance = np.array([[2.0, 0.9], [0.9, 0.5]])
    theirs = NearestNeighbors(
        metric="mahalanobis", metric_params={"VI": np.linalg.inv(covariance)}, algorithm="brute"
    )
    distances, indices = theirs.fit(X).kneighbors(NEW, 6)
    ours = KernelKNNRegressor(RBF(np.linalg.cholesky(covariance)), 6).fit(X, Y)
    found, order = ours.kneighbors(NEW)
    np.testing.assert_array_equal(order, indices)
    np.testing.assert_allclose(found, np.sqrt(2.0 - 2.0 * np.exp(-0.5 * distances**2)), rtol=1e-7)
    assert np.any(order != NearestNeighbors().fit(X).kneighbors(NEW, 6)[1])


def test_distances_agree_with_explicit_features():
    kernel = Polynomial(2, offset=1.0)
    a, b = X.T
    phi = np.stack([np.ones(90), 2**0.5 * a, 2**0.5 * b, a**2, b**2, 2**0.5 * a * b], axis=1)
    theirs = NearestNeighbors(n_neighbors=6).fit(phi)
    expected, at = theirs.kneighbors(phi)
    distances, indices = KernelKNNRegressor(kernel, 6).fit(X, Y).kneighbors(X)
    assert np.array_equal(indices, at)
    np.testing.assert_allclose(distances, expected, atol=1e-12)


def test_distance_weights_at_training_points_interpolate():
    for kernel in (RBF(0.7), Linear(), Matern12() + Linear()):
        fitted = KernelKNNRegressor(kernel, 5, "distance").fit(X, Y)
        np.testing.assert_allclose(fitted.predict(X), Y, rtol=1e-14)


def test_probabilities_are_smoothed_by_pseudo_counts():
    points = np.array([[0.0], [0.1], [0.2], [5.0], [5.1]])
    labels = np.array(["a", "a", "b", "b", "c"])
    fitted = KernelKNNClassifier(RBF(), 3, pseudo_count=0.5).fit(points, labels)
    # Two of a and one of b, of three; then one of each.
    expected = np.array([[2.5, 1.5, 0.5], [0.5, 2.5, 1.5]]) / 4.5
    np.testing.assert_allclose(fitted.predict_proba([[0.0], [5.0]]), expected, rtol=1e-14)
    assert fitted.predict([[0.0], [5.0]]).tolist() == ["a", "b"]
    none = clone(fitted).set_params(pseudo_count=0).fit(points, labels).predict_proba([[0.0]])
    np.testing.assert_allclose(none, [[2 / 3, 1 / 3, 0.0]], rtol=1e-14)


LINE = np.array([[1.0], [2.0], [3.0], [4.0], [5.0], [6.0]])


@pytest.mark.parametrize(
    ("labels", "n_neighbors", "leader"),
    [
        ("abbaaa", 4, "b"),  # two of each, and b leads among three
        ("abbaaa", 2, "a"),  # one of each, and a is the nearest
        ("cabbac", 6, "b"),  # two of each, then of a and b, then b leads among four
        ("bcaabc", 6, "a"),
        ("bacaaa", 3, "b"),
        ("abbaaa", 6, "a"),  # no tie
    ],
)
def test_ties_go_to_the_class_leading_among_fewer_neighbours(labels, n_neighbors, leader):
    model = KernelKNNClassifier(n_neighbors=n_neighbors).fit(LINE, list(labels))
    assert model.predict([[0.0]]).tolist() == [leader]
    counts = Counter(labels[:n_neighbors])
    expected = [(counts[c] + 1) / (n_neighbors + len(set(labels))) for c in model.classes_]
    p = model.predict_proba([[0.0]])
    np.testing.assert_allclose(p, [expected], rtol=1e-14)
    assert model.classes_[np.argmax(p)] == leader


def test_ties_among_random_labels():
    labels = RNG.choice(list("abcd"), size=90)
    model = KernelKNNClassifier(n_neighbors=8, metric="chebyshev").fit(X, labels)
    neighbors = NearestNeighbors(n_neighbors=8, metric="chebyshev").fit(X)

    def leader(nearest):
        (first, most), *others = Counter(nearest).most_common()
        tied = any(count == most for _, count in others)
        return leader(nearest[:-1]) if tied else first

    nearest = labels[neighbors.kneighbors(NEW, return_distance=False)]
    expected = [leader(list(row)) for row in nearest]
    assert model.predict(NEW).tolist() == expected
    assert (
        expected != KNeighborsClassifier(8, metric="chebyshev").fit(X, labels).predict(NEW).tolist()
    )


def test_ties_of_weighted_neighbours():
    # Weights of 1 of b and of 1/2 + 1/2 of a; without the last, b leads.
    model = KernelKNNClassifier(n_neighbors=3, weights="distance", metric="manhattan")
    assert model.fit([[1.0], [2.0], [-2.0]], list("baa")).predict([[0.0]]).tolist() == ["b"]


def test_equal_distances_keep_the_order_of_points():
    grid = np.stack(np.meshgrid([-1.0, 0.0, 1.0], [-1.0, 0.0, 1.0]), axis=-1).reshape(9, 2)
    model = KernelKNNRegressor(n_neighbors=4, metric="chebyshev").fit(grid, np.arange(9.0))
    distances, indices = model.kneighbors([[0.0, 0.0]])
    assert indices.tolist() == [[4, 0, 1, 2]] and distances.tolist() == [[0.0, 1.0, 1.0, 1.0]]
    city = KernelKNNRegressor(n_neighbors=7, metric="manhattan").fit(grid, np.arange(9.0))
    assert city.kneighbors([[0.0, 0.0]])[1].tolist() == [[4, 1, 3, 5, 7, 0, 2]]


def test_distance_weights_scale_the_counts():
    points, labels = np.array([[0.0], [3.0]]), np.array([0, 1])
    fitted = KernelKNNClassifier(Linear(), 2, "distance", pseudo_count=1.0).fit(points, labels)
    # Distances 1 and 2: shares 2/3 and 1/3 of two neighbours.
    np.testing.assert_allclose(fitted.predict_proba([[1.0]]), [[7 / 12, 5 / 12]], rtol=1e-14)


def test_indistinguishable_neighbours_warn():
    points, labels = [[0.0], [100.0], [200.0]], list("abc")
    model = KernelKNNClassifier(n_neighbors=1).fit(points, labels)
    with pytest.warns(UserWarning, match="1 of 2 points are equally far"):
        model.predict([[149.0], [200.5]])
    wide = KernelKNNClassifier(RBF(100.0), n_neighbors=1).fit(points, labels)
    with pytest.warns(UserWarning, match="1 of 2 points are equally far"):
        assert list(wide.predict([[149.0], [1000.0]])) == ["b", "c"]


@pytest.mark.parametrize("size", [6e153, 1e154, 1e200, 1e308])
@pytest.mark.parametrize(
    "options",
    [
        {"metric": "euclidean"},
        {"metric": "minkowski", "p": 3},
        {"kernel": Linear()},
        {"kernel": Matern12() + Polynomial(2)},
    ],
)
def test_numbers_too_large_for_distances_are_refused(options, size):
    points = size * np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 1.0]])
    for model in (KernelKNNRegressor, KernelKNNClassifier):
        fitted = model(n_neighbors=2, **options).fit(points, [0, 1, 1])
        with warnings.catch_warnings(), pytest.raises(ValueError, match="Scale the "):
            warnings.simplefilter("error")
            fitted.predict(-points)


def test_large_powers_are_refused_with_the_size_of_the_numbers():
    model = KernelKNNRegressor(n_neighbors=1, metric="minkowski", p=200).fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(ValueError, match=r"up to 300 in size, .*'minkowski' and p=200\. "):
        model.predict([[300.0]])
    # Sums of absolute differences, and the largest of them, are finite.
    for metric in ("manhattan", "chebyshev"):
        model = KernelKNNRegressor(n_neighbors=1, metric=metric).fit([[0.0], [1e200]], [0, 1])
        assert model.predict([[9e199]]) == 1.0


def test_set_params_after_fit_needs_a_refit():
    model = KernelKNNClassifier(n_neighbors=2).fit([[0.0], [1.0], [2.0]], [0, 1, 1])
    before = model.predict_proba([[0.4]])
    model.set_params(n_neighbors=60, pseudo_count=-3.0, metric="manhattan")
    np.testing.assert_array_equal(model.predict_proba([[0.4]]), before)
