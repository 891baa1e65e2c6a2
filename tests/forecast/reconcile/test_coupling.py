"""Joint draws: marginal distributions are kept, and correlations are those of the errors."""

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import toeplitz

import bayeskern as bk
from bayeskern.forecast.reconcile.coupling import (
    Coupling,
    in_rank_order,
    past_errors,
    root_of_paths,
)

QUICK = {"season": 0, "trend": "drift", "model": bk.StructuralModel(log=False, method="map")}


def test_rank_order_keeps_values_and_takes_ranks():
    rng = np.random.default_rng(0)
    values, order = rng.normal(size=(2, 50, 3))
    found = in_rank_order(values, order)
    np.testing.assert_array_equal(np.sort(found, axis=0), np.sort(values, axis=0))
    np.testing.assert_array_equal(np.argsort(found, axis=0), np.argsort(order, axis=0))


def test_root_of_autoregressive_paths():
    """Any monotone function of the errors has the same copula."""
    rng, C = np.random.default_rng(0), toeplitz(0.8 ** np.arange(4))
    paths = np.exp(rng.multivariate_normal(np.zeros(4), C, 40_000))
    np.testing.assert_allclose(root_of_paths(paths), np.linalg.cholesky(C), atol=0.02)


def test_constant_steps_are_uncorrelated():
    paths = np.random.default_rng(0).normal(size=(500, 3)).cumsum(axis=1)
    paths[:, 1] = 7.0
    root = root_of_paths(paths)
    np.testing.assert_allclose((root @ root.T)[1], [0.0, 1.0, 0.0], atol=1e-7)
    np.testing.assert_allclose(root_of_paths(np.ones((500, 3))), np.eye(3), atol=1e-12)


def test_correlations_of_normal_paths():
    """Exact at each step; between steps, exact for series with equal roots."""
    walk = np.tril(np.ones((4, 4))) / np.sqrt(np.arange(1, 5))[:, None]
    by_step = np.array([[[1.0, r], [r, 1.0]] for r in (0.2, 0.4, 0.6, 0.8)])
    coupling = Coupling(by_step[0], by_step, np.stack([walk, walk]))
    paths = coupling.normal_paths(40_000, np.random.default_rng(0))
    for step in range(4):
        np.testing.assert_allclose(np.corrcoef(paths[:, step].T), by_step[step], atol=0.02)
    equal = Coupling(by_step[0], np.repeat(by_step[1:2], 4, axis=0), np.stack([walk, walk]))
    paths = equal.normal_paths(40_000, np.random.default_rng(0))
    np.testing.assert_allclose(np.corrcoef(paths[:, :, 0].T), walk @ walk.T, atol=0.02)


def test_correlations_by_step_of_independent_errors():
    """Each step updates the last one: T / s errors against 20."""
    errors = np.random.default_rng(0).normal(size=(60, 2, 2))
    errors[:, :, 1] += errors[:, :, 0]
    coupling = Coupling.from_errors(errors, np.tile(np.eye(2), (2, 1, 1)))
    r = np.corrcoef(errors[:, 1].T)[0, 1]
    expected = 30 / 50 * r + 20 / 50 * coupling.one_step[0, 1]
    np.testing.assert_allclose(coupling.by_step[1, 0, 1], expected)
    np.testing.assert_array_equal(coupling.by_step[0], coupling.one_step)


def test_later_steps_of_series_with_a_common_trend_are_more_correlated():
    """A common random walk and noise of each series: the walk dominates the later errors."""
    rng, count = np.random.default_rng(0), 200
    times = pd.date_range("2000-01-01", periods=count, freq="MS")
    common = np.cumsum(rng.normal(0.0, 1.0, count))
    series = common + rng.normal(0.0, 4.0, (2, count))
    forecasts = [bk.forecast(pd.Series(y, times), 12, **QUICK) for y in series]
    coupling = Coupling.from_errors(past_errors(forecasts), np.tile(np.eye(12), (2, 1, 1)))
    correlations = coupling.by_step[:, 0, 1]
    assert correlations[11] > correlations[0] + 0.15


def test_one_step_errors_have_the_correlation_of_the_shocks():
    rng, R = np.random.default_rng(1), np.array([[1.0, 0.8], [0.8, 1.0]])
    walks = np.cumsum(rng.multivariate_normal(np.zeros(2), R, 160), axis=0)
    times = pd.date_range("2000-01-01", periods=160, freq="MS")
    walks[100, 1] = np.nan
    forecasts = [bk.forecast(pd.Series(w, times), 2, **QUICK) for w in walks.T]
    errors = past_errors(forecasts)
    assert errors.shape == (200, 2, 2)
    known = errors[np.all(np.isfinite(errors[:, 0]), axis=1), 0]
    # Not the first five values, and neither the missing value nor the value after it.
    assert len(known) == 160 - 5 - 2
    # The latest origin comes first, and knows all values but the last.
    assert np.isfinite(errors[0, 0]).all() and np.isnan(errors[0, 1]).all()
    # Standard error (1 - r^2) / sqrt(T) = 0.03.
    assert np.corrcoef(known.T)[0, 1] == pytest.approx(0.8, abs=0.09)


def test_errors_of_a_constant_series_are_zero():
    times = pd.date_range("2000-01-01", periods=40, freq="MS")
    walk = np.random.default_rng(0).normal(size=40).cumsum()
    forecasts = [bk.forecast(pd.Series(y, times), 2, **QUICK) for y in (walk, np.ones(40))]
    errors = past_errors(forecasts)
    assert np.isfinite(errors[:, 0, 0]).sum() == 35
    assert not errors[:, :, 1].any() and errors[0, 0, 0] != 0.0


def test_errors_of_counts():
    times = pd.date_range("2000-01-01", periods=40, freq="MS")
    counts = np.random.default_rng(0).poisson(4.0, 40)
    f = bk.forecast(pd.Series(counts, times), 2, season=0, trend="drift", likelihood="poisson")
    errors = past_errors([f])[:35, 0, 0]
    assert np.all(np.abs(errors) < 5.0)
    assert abs(errors.mean()) < 0.5 and 0.6 < errors.std() < 1.4
