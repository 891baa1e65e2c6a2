"""Weights of reconciliations: by hand, by formula, and as in hierarchicalforecast."""

import numpy as np
import pytest

from bayeskern.forecast.reconcile.hierarchy import Hierarchy
from bayeskern.forecast.reconcile.weights import (
    MIN_ERRORS,
    Projector,
    bottom_weights,
    projection,
    shrunk_correlation,
)

TREE = Hierarchy.read({"a": "N", "b": "N", "c": "S", "d": "S", "e": "S", "N": "all", "S": "all"})
# From bottom series to all series.
SUMMING = np.vstack([TREE.sums, np.eye(5)])


def errors_of(count=30, seed=0):
    """Correlated errors of all series of TREE, (count, n)."""
    rng = np.random.default_rng(seed)
    bottom = rng.normal(size=(count, 5)) * [1, 2, 3, 1, 2] + rng.normal(size=(count, 1))
    return bottom @ SUMMING.T + rng.normal(size=(count, 8))


def test_ols_by_hand():
    """10 against 4 + 5: each of the three moves by a third of the difference."""
    bottom = projection(np.ones((1, 2)), np.eye(3)) @ [10.0, 4.0, 5.0]
    np.testing.assert_allclose(bottom, [4.0 + 1 / 3, 5.0 + 1 / 3])


def test_unequal_variances_by_hand():
    """The difference is shared in proportion to the variances 1, 2 and 5."""
    bottom = projection(np.ones((1, 2)), np.diag([1.0, 2.0, 5.0])) @ [10.0, 4.0, 5.0]
    np.testing.assert_allclose(bottom, [4.0 + 2 / 8, 5.0 + 5 / 8])


def test_projection_is_generalised_least_squares():
    """Hyndman et al. (2011): S (S' W^-1 S)^-1 S' W^-1."""
    W, S = np.cov(errors_of().T), SUMMING
    inverse = np.linalg.inv(W)
    expected = np.linalg.solve(S.T @ inverse @ S, S.T @ inverse)
    G = projection(TREE.sums, W)
    np.testing.assert_allclose(G, expected, atol=1e-10)
    np.testing.assert_allclose(G @ S, np.eye(5), atol=1e-10)


def test_series_without_variance_keep_their_forecasts():
    G = projection(TREE.sums, np.diag([4.0, 1.0, 2.0, 1.0, 0.0, 1.0, 1.0, 1.0]))
    np.testing.assert_allclose(G[1], np.eye(8)[4], atol=1e-12)
    constant = projection(np.ones((1, 2)), np.zeros((3, 3))) @ [9.0, 4.0, 5.0]
    np.testing.assert_allclose(constant, [4.0, 5.0])


def test_shrinkage_by_the_formulas_of_the_paper():
    """Schaefer and Strimmer (2005), section 2.2 and table 1, in loops."""
    errors = errors_of(20)
    n, p = errors.shape
    x = (errors - errors.mean(axis=0)) / errors.std(axis=0, ddof=1)
    correlation, variance = np.eye(p), np.zeros((p, p))
    for i in range(p):
        for j in range(p):
            w = x[:, i] * x[:, j]
            correlation[i, j] = n / (n - 1) * w.mean()
            variance[i, j] = n / (n - 1) ** 3 * np.sum((w - w.mean()) ** 2)
    off = ~np.eye(p, dtype=bool)
    intensity = min(1.0, variance[off].sum() / np.square(correlation[off]).sum())
    assert 0.0 < intensity < 1.0
    expected = np.where(off, (1.0 - intensity) * correlation, 1.0)
    np.testing.assert_allclose(shrunk_correlation(errors), expected, atol=1e-12)


def test_few_errors_or_constant_series_are_uncorrelated():
    np.testing.assert_array_equal(shrunk_correlation(errors_of(MIN_ERRORS - 1)), np.eye(8))
    errors = errors_of()
    errors[:, 3] = 0.0
    found = shrunk_correlation(errors)
    np.testing.assert_array_equal(found[3], np.eye(8)[3])
    assert np.all(np.isfinite(found)) and found[0, 1] > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ols", "wls", "mint"])
def test_means_equal_those_of_hierarchicalforecast(method):
    methods = pytest.importorskip("hierarchicalforecast.methods")
    errors, means = errors_of(60), np.random.default_rng(1).normal(10.0, 2.0, (8, 3))
    theirs = methods.MinTrace(
        {"ols": "ols", "wls": "wls_var", "mint": "mint_shrink"}[method], mint_shr_ridge=0.0
    ).fit_predict(
        S=SUMMING,
        y_hat=means,
        y_insample=errors.T,
        y_hat_insample=np.zeros((8, 60)),
    )["mean"]
    # Their variances are mean squares, and centred with the covariance.
    squares = np.mean(np.square(errors), axis=0) if method == "wls" else errors.var(axis=0, ddof=1)
    correlation = shrunk_correlation(errors)
    weights = bottom_weights(method, TREE, means[:, 0], np.sqrt(squares), correlation)
    np.testing.assert_allclose(SUMMING @ weights @ means, theirs, rtol=1e-6)


def test_bottom_up_and_top_down_by_hand():
    medians = np.array([100.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 10.0])
    arguments = TREE, medians, np.ones(8), np.eye(8)
    up, down = (bottom_weights(m, *arguments) @ medians for m in ("bottom-up", "top-down"))
    np.testing.assert_allclose(up, medians[3:])
    np.testing.assert_allclose(down, [5.0, 10.0, 15.0, 20.0, 50.0])


@pytest.mark.parametrize(
    ("tree", "sign"), [(TREE, -1.0), (Hierarchy.read({"a": "x", "b": "y"}), 1)]
)
def test_top_down_needs_a_positive_total(tree, sign):
    n = len(tree.names)
    with pytest.raises(ValueError, match="top-down"):
        bottom_weights("top-down", tree, np.full(n, sign), np.ones(n), np.eye(n))


def test_coherent_draws():
    draws = errors_of(500) * 1e3
    for method in ("mint", "wls", "ols", "bottom-up"):
        coherent = Projector(TREE, method, False).coherent(draws, np.eye(8))
        np.testing.assert_allclose(coherent, coherent[:, 3:] @ SUMMING.T, atol=1e-10)
        assert np.min(coherent) < 0.0
        nonnegative = Projector(TREE, method, True).coherent(draws, np.eye(8))
        np.testing.assert_array_equal(nonnegative[:, 3:], np.maximum(coherent[:, 3:], 0.0))
        np.testing.assert_allclose(nonnegative, nonnegative[:, 3:] @ SUMMING.T, atol=1e-10)
