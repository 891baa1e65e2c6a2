"""Nystrom features against the exact projection on their landmarks, and scikit-learn."""

import numpy as np
import pytest
from sklearn.gaussian_process import kernels as sk
from sklearn.kernel_approximation import Nystroem

from bayeskern.kernels import (
    RBF,
    Constant,
    Linear,
    Matern12,
    Matern32,
    Multiquadric,
    NystromFeatures,
    Periodic,
    Polynomial,
    White,
)
from tests.marks import few

RNG = np.random.default_rng(4)
X = 0.8 * RNG.normal(size=(7, 3))


def gram(features, points=X):
    phi = features.fit_transform(points)
    return phi @ phi.T


ANY = {
    "RBF": RBF(0.8),
    "Matern12": Matern12(),
    "Linear": Linear(2.0) + Constant(0.5),
    "Polynomial": Polynomial(degree=3),
    "composite": (RBF() + Linear()) * Periodic(3.0),
}


@pytest.mark.parametrize("selection", ["kmeans", "random"])
@pytest.mark.parametrize("name", few(ANY, *list(ANY)[:1]))
def test_nystrom_is_the_projection_on_its_landmarks(name, selection):
    points, kernel = RNG.normal(size=(60, 2)), ANY[name]
    features = NystromFeatures(kernel, 15, selection).fit(points)
    Z, phi = features.landmarks_, features.transform(points)
    between = np.asarray(kernel(points, Z))
    expected = between @ np.linalg.pinv(np.asarray(kernel(Z)), rcond=1e-13, hermitian=True)
    size = np.max(np.asarray(kernel.diag(points)))
    np.testing.assert_allclose(phi @ phi.T, expected @ between.T, atol=1e-9 * size)
    at_landmarks = features.transform(Z)
    np.testing.assert_allclose(at_landmarks @ at_landmarks.T, kernel(Z), atol=1e-12 * size)
    np.testing.assert_allclose(phi @ at_landmarks.T, between, atol=1e-9 * size)
    assert np.all(np.sum(phi**2, axis=1) <= np.asarray(kernel.diag(points)) + 1e-9 * size)


def test_kernel_of_finite_rank_is_exact():
    points = RNG.normal(size=(40, 3))
    features = NystromFeatures(Linear(), 20, "random").fit(points)
    phi = features.transform(points)
    assert phi.shape == (40, 3)
    np.testing.assert_allclose(phi @ phi.T, points @ points.T, atol=1e-12)


def test_nystrom_matches_scikit_learn_at_equal_landmarks():
    points = RNG.normal(size=(80, 3))
    theirs = Nystroem(sk.Matern(1.2, nu=1.5), n_components=20, random_state=0).fit(points)
    # With as many landmarks as points, all of them serve, whatever the order.
    ours = NystromFeatures(Matern32(1.2), 20, "random").fit(theirs.components_)
    assert len(ours.landmarks_) == 20
    a, b = ours.transform(points), theirs.transform(points)
    np.testing.assert_allclose(a @ a.T, b @ b.T, atol=1e-10)


def test_kmeans_landmarks_are_better_than_random_ones():
    points = np.concatenate([c + 0.1 * RNG.normal(size=(30, 2)) for c in RNG.normal(size=(8, 2))])
    exact = np.asarray(RBF(0.5)(points))

    def error(selection):
        grams = [gram(NystromFeatures(RBF(0.5), 8, selection, s), points) for s in range(5)]
        return np.mean([np.linalg.norm(K - exact) for K in grams])

    assert error("kmeans") < 0.6 * error("random")


def test_number_of_landmarks_is_at_most_that_of_distinct_points():
    points = np.repeat(RNG.normal(size=(4, 2)), 5, axis=0)
    features = NystromFeatures(RBF(), 50).fit(points)
    assert len(features.landmarks_) == 4
    np.testing.assert_allclose(gram(features, points), RBF()(points), atol=1e-12)
    # Landmarks that repeat are no trouble either: their gram matrix has no full rank.
    features = NystromFeatures(RBF(), 50, "random").fit(points)
    assert features.normalization_.shape == (20, 4)
    np.testing.assert_allclose(gram(features, points), RBF()(points), atol=1e-12)


def test_white_noise_has_no_features():
    features = NystromFeatures(RBF() + White(0.3), 7, "random").fit(X)
    np.testing.assert_allclose(gram(features), RBF()(X), atol=1e-12)


def test_features_are_computed_in_blocks(monkeypatch):
    from bayeskern.kernels import gram_matrix

    points = RNG.normal(size=(600, 2))
    features = NystromFeatures(RBF(), 10).fit(points)
    whole = features.transform(points)
    monkeypatch.setattr(gram_matrix, "BLOCK_ENTRIES", 1)
    np.testing.assert_allclose(features.transform(points), whole, atol=1e-12)


def test_indefinite_kernels_and_unknown_selections_are_refused():
    with pytest.raises(ValueError, match="Multiquadric.* is not positive definite"):
        NystromFeatures(RBF() + Multiquadric()).fit(X)
    with pytest.raises(ValueError, match="Did you mean 'kmeans'"):
        NystromFeatures(RBF(), selection="k-means").fit(X)
