"""Lengthscales and squared distances against SciPy, in double and in single precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import solve_triangular
from scipy.spatial.distance import cdist

from bayeskern.kernels import metrics
from tests.marks import few

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("d", [1, 2, 8, 9, 30])
def test_squared_distance(d):
    X, Z = RNG.normal(size=(7, d)), RNG.normal(size=(5, d))
    between = metrics.squared_distance(jnp.asarray(X), jnp.asarray(Z))
    within = metrics.squared_distance(jnp.asarray(X))
    np.testing.assert_allclose(between, cdist(X, Z, "sqeuclidean"), rtol=1e-12)
    np.testing.assert_allclose(within, cdist(X, X, "sqeuclidean"), rtol=1e-12)
    np.testing.assert_array_equal(np.diag(within), 0.0)


@pytest.mark.parametrize("d", few([1, 2, 8, 9, 20], 8, 9))
def test_single_precision_far_from_the_origin(d):
    X = (1e3 + RNG.normal(size=(100, d))).astype(np.float32)
    Z = (1e3 + RNG.normal(size=(50, d))).astype(np.float32)
    exact = cdist(X.astype(float), Z.astype(float), "sqeuclidean")
    actual = metrics.squared_distance(jnp.asarray(X), jnp.asarray(Z))
    assert actual.dtype == jnp.float32
    assert np.abs(actual - exact).max() < 1e-4
    within = metrics.squared_distance(jnp.asarray(X))
    assert np.abs(within - cdist(X.astype(float), X.astype(float), "sqeuclidean")).max() < 1e-4
    # The shift is what matters: expanding without it loses every digit after the point.
    naive = (X * X).sum(1)[:, None] + (Z * Z).sum(1)[None, :] - 2 * X @ Z.T
    assert np.abs(naive - exact).max() > 0.05


@pytest.mark.parametrize("d", [3, 12])
def test_squared_distances_are_never_negative(d):
    X = RNG.normal(size=(20, d)) * 100
    Z = X * (1 + 1e-15)
    assert (np.asarray(metrics.squared_distance(jnp.asarray(X), jnp.asarray(Z))) >= 0.0).all()


@pytest.mark.parametrize("d", few([2, 12], 12))
def test_derivatives_of_the_squared_distance(d):
    X, dX, ddX = RNG.normal(size=(3, 5, d))
    Z, dZ, ddZ = RNG.normal(size=(3, 4, d))
    Z[1] = X[2]

    def pairs(a, b, c, e):
        return np.einsum("nmd,nmd->nm", a[:, None] - b[None], c[:, None] - e[None])

    def first(X, Z):
        return jax.jvp(metrics.squared_distance, (X, Z), (dX, dZ))[1]

    value, second = jax.jvp(first, (X, Z), (ddX, ddZ))
    np.testing.assert_allclose(value, 2 * pairs(X, Z, dX, dZ), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(second, 2 * pairs(ddX, ddZ, dX, dZ), rtol=1e-11, atol=1e-12)

    def first_within(X):
        return jax.jvp(metrics.squared_distance, (X,), (dX,))[1]

    value, second = jax.jvp(first_within, (X,), (ddX,))
    np.testing.assert_allclose(value, 2 * pairs(X, X, dX, dX), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(second, 2 * pairs(ddX, ddX, dX, dX), rtol=1e-11, atol=1e-12)


def test_scale():
    X, L = RNG.normal(size=(6, 3)), np.tril(RNG.normal(size=(3, 3))) + 3 * np.eye(3)
    np.testing.assert_allclose(metrics.scale(X, 2.0), X / 2, rtol=1e-15)
    np.testing.assert_allclose(metrics.scale(X, np.array([2.0])), X / 2, rtol=1e-15)
    np.testing.assert_allclose(metrics.scale(X, np.array([1.0, 2, 4])), X / [1, 2, 4], rtol=1e-15)
    expected = np.stack([solve_triangular(L, x, lower=True) for x in X])
    np.testing.assert_allclose(metrics.scale(X, L), expected, rtol=1e-12)


@pytest.mark.parametrize("shape", [(2,), (4,), (2, 2), (3, 1), (1, 3), (5, 3, 3)])
def test_scale_of_the_wrong_shape(shape):
    with pytest.raises(ValueError, match=r"lengthscale has shape"):
        metrics.scale(np.ones((6, 3)), np.ones(shape))


def test_center():
    X, Z = RNG.normal(size=(6, 2)) + 7, RNG.normal(size=(4, 2)) + 7
    left, right = metrics.center(X, Z)
    np.testing.assert_allclose(np.mean(right, axis=0), 0.0, atol=1e-14)
    np.testing.assert_allclose(cdist(left, right), cdist(X, Z), rtol=1e-13)
    alone, none = metrics.center(X)
    assert none is None
    np.testing.assert_allclose(np.mean(alone, axis=0), 0.0, atol=1e-14)
    # A constant under differentiation: the distances do not depend on it.
    np.testing.assert_array_equal(jax.jvp(lambda X: metrics.center(X)[0], (X,), (X,))[1], X)


def test_per_dimension():
    X = np.ones((5, 3))
    for fine in (2.0, np.ones(1), np.ones(3)):
        assert metrics.require_per_dimension("period", fine, X) is fine
    with pytest.raises(ValueError, match=r"period has shape \(2,\)"):
        metrics.require_per_dimension("period", np.ones(2), X)


def test_matern_of_city_block_distances_is_not_positive_definite():
    """Why there is no metric= argument: |x - z|_1 in a Matern kernel is not PSD in 2-D."""
    X = np.random.default_rng(0).normal(size=(200, 2))
    s = np.sqrt(3) * cdist(X, X, "cityblock")
    assert np.linalg.eigvalsh((1 + s) * np.exp(-s))[0] < -0.1
    s = np.sqrt(3) * np.sqrt(metrics.squared_distance(jnp.asarray(X)))
    assert np.linalg.eigvalsh((1 + s) * np.exp(-s))[0] > -1e-12
