"""Gaussian bumps against their formula, and their centers against k-means."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans

from bayeskern.kernels import (
    RadialBasis,
)

RNG = np.random.default_rng(4)
X = 0.8 * RNG.normal(size=(7, 3))


def test_radial_basis_formula():
    centers = RNG.normal(size=(5, 3))
    phi = RadialBasis(centers, 0.7).fit_transform(X)
    expected = np.exp(-cdist(X, centers, "sqeuclidean") / (2 * 0.7**2))
    np.testing.assert_allclose(phi, expected, rtol=1e-12)


def test_centers_are_computed_by_kmeans():
    points = RNG.normal(size=(100, 2))
    found = RadialBasis(6, seed=5).fit(points).centers_
    assert found.shape == (6, 2)
    # Lloyd's fixed point: each centre is the mean of the points nearest to it.
    nearest = np.argmin(cdist(points, found), axis=1)
    for j in range(6):
        np.testing.assert_allclose(found[j], points[nearest == j].mean(axis=0), atol=1e-6)
    best = KMeans(6, n_init=20, random_state=0).fit(points).inertia_
    assert np.sum(cdist(points, found).min(axis=1) ** 2) < 1.3 * best


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="centers have 2 columns but X has 3"):
        RadialBasis(np.zeros((4, 2))).fit(X)
    with pytest.raises(ValueError, match="centers must be a whole number"):
        RadialBasis(0).fit(X)
    with pytest.raises(ValueError, match="RBF.lengthscale must be positive"):
        RadialBasis(2, lengthscale=-1.0).fit(X)
