"""Sufficient statistics, against the rows."""

import numpy as np
import pytest

from bayeskern.linear import statistics
from bayeskern.linear.statistics import SufficientStatistics


def rows(n, p, offset=0.0, scale=1.0):
    rng = np.random.default_rng(n + p)
    return scale * rng.normal(size=(n, p)) + offset, rng.normal(size=n) + 3.0


def scatter(X, y):
    Z = np.column_stack([X, y])
    Z = Z - Z.mean(axis=0)
    return Z.T @ Z


@pytest.mark.parametrize(("n", "p"), [(1, 3), (4, 3), (50, 3), (9000, 4)])
def test_statistics_are_mean_and_scatter(n, p):
    X, y = rows(n, p)
    found = SufficientStatistics.of(X, y)
    assert found.n == n and found.R.shape == (min(n, p + 1), p + 1)
    np.testing.assert_allclose(found.mean, np.column_stack([X, y]).mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.R.T @ found.R, scatter(X, y), rtol=1e-11, atol=1e-11 * n)
    np.testing.assert_allclose(found.sds, np.column_stack([X, y]).std(axis=0), rtol=1e-10)


def test_offset_columns_keep_precision():
    X, y = rows(5000, 2)
    years = X + np.array([2000.0, 1e7])
    # Around the mean nothing is left of the offset but the rounding of the inputs themselves.
    exact = scatter(years.astype(np.longdouble), y.astype(np.longdouble)).astype(float)
    found = SufficientStatistics.of(years, y)
    np.testing.assert_allclose(found.R.T @ found.R, exact, rtol=1e-12, atol=1e-8)


def test_collinear_columns_keep_half_the_digits():
    X, y = rows(2000, 3)
    X[:, 2] = X[:, 1] + 1e-9 * X[:, 2]
    R = SufficientStatistics.of(X, y).R
    # The smallest singular value would drown in the rounding of the cross product, at 1e-8.
    Z = np.column_stack([X, y])
    expected = np.linalg.svd(Z - Z.mean(axis=0), compute_uv=False)
    np.testing.assert_allclose(np.linalg.svd(R, compute_uv=False), expected, rtol=1e-5)


def test_merging_equals_all_rows():
    X, y = rows(300, 4, offset=100.0)
    whole, parts = SufficientStatistics.of(X, y), SufficientStatistics.of(X[:0], y[:0])
    for part in np.split(np.arange(300), [1, 3, 40, 41, 200]):
        parts = parts.merge(SufficientStatistics.of(X[part], y[part]))
    assert parts.n == whole.n == 300
    np.testing.assert_allclose(parts.mean, whole.mean, rtol=1e-13)
    np.testing.assert_allclose(parts.R.T @ parts.R, whole.R.T @ whole.R, rtol=1e-11, atol=1e-9)


@pytest.mark.parametrize("n", [3, 40])
def test_cross_products_around_a_center(n):
    X, y = rows(n, 3)
    found, center = SufficientStatistics.of(X, y), np.array([1.0, -2.0, 0.5])
    Z = np.column_stack([np.ones(n), X - center, y])
    np.testing.assert_allclose(np.square(found.around(center)).sum(), np.square(Z).sum())
    M = found.around(center)
    np.testing.assert_allclose(M.T @ M, Z.T @ Z, atol=1e-10)
    M, Z = found.about_zero(), np.column_stack([X, y])
    np.testing.assert_allclose(M.T @ M, Z.T @ Z, atol=1e-10)


def test_log_likelihood_against_scipy():
    from scipy.stats import norm

    X, y = rows(60, 3)
    w, b, noise = np.array([0.3, -1.0, 2.0]), 0.7, 0.4
    expected = norm(b + X @ w, np.sqrt(noise)).logpdf(y).sum()
    np.testing.assert_allclose(
        SufficientStatistics.of(X, y).log_likelihood(w, b, noise), expected, rtol=1e-12
    )


@pytest.mark.parametrize("n", [3, 100])
def test_features_alone_have_a_last_column_of_zeros(n):
    X, _ = rows(n, 3)
    found = SufficientStatistics.of_features(X)
    assert np.all(found.R[:, -1] == 0.0) and found.mean[-1] == 0.0
    np.testing.assert_allclose(found.R.T @ found.R, scatter(X, np.zeros(n)), atol=1e-10)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("n", [3, 9000])
def test_non_finite_values_are_detected(value, n):
    X, y = rows(n, 3)
    X[n - 1, 1] = value
    assert not SufficientStatistics.of(X, y).is_finite


def test_memory_does_not_grow_with_rows():
    import tracemalloc

    X, y = rows(200_000, 10)
    tracemalloc.start()
    SufficientStatistics.of(X, y)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # A few chunks; the rows themselves are 16 MB.
    assert most < 8 * statistics.CHUNK_ROWS * 11 * 8
