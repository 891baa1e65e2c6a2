"""A forecast goes on from new values: the same hyperparameters, all values."""

import numpy as np
import pandas as pd
import pytest

import bayeskern as bk
from bayeskern.kernels import Matern32

MONTHS = pd.date_range("2010-01-01", periods=96, freq="MS")


@pytest.fixture(scope="module")
def sales():
    t = np.arange(96)
    noise = np.random.default_rng(0).normal(size=(2, 96))
    y = 60.0 + np.cumsum(0.4 * noise[0]) + 6.0 * np.sin(2.0 * np.pi * t / 12.0) + noise[1]
    return pd.Series(y, MONTHS, name="sales")


def test_it_is_the_process_given_all_values_at_the_same_hyperparameters(sales):
    """By hand, with the kernel at its mode."""
    kernel = Matern32(0.8, 1.3)
    f = bk.forecast(sales[:90], 5, kernel=kernel, method="map", season=0)
    g = f.update(sales[90:])
    z = f.scale.forward(sales.to_numpy())
    x = np.arange(101) / 12.0
    K, noise = np.asarray(kernel(x)), float(f.posterior.draws["noise"].ravel()[0])
    weights = np.linalg.solve(K[:96, :96] + noise * np.eye(96), K[:96, 96:])
    mean = f.scale.back(weights.T @ z)
    sd = f.scale.size * np.sqrt(np.diag(K[96:, 96:] - weights.T @ K[:96, 96:]) + noise)
    np.testing.assert_allclose(g.mean, mean, rtol=1e-8)
    np.testing.assert_allclose(g.sd, sd, rtol=1e-8)
    np.testing.assert_array_equal(g.times, pd.date_range("2018-01-01", periods=5, freq="MS"))


def test_one_by_one_is_as_all_at_once(sales):
    f = bk.forecast(sales[:90], 5, trend="level")
    at_once, one_by_one = f.update(sales[90:]), f
    for value in sales[90:]:
        one_by_one = one_by_one.update(value)
    np.testing.assert_allclose(one_by_one.median, at_once.median, rtol=1e-6)
    np.testing.assert_allclose(one_by_one.sd, at_once.sd, rtol=1e-6)
    # The old forecast stays as it was.
    assert len(f.series.values) == 90 and f.times[0] == np.datetime64("2017-07-01")


@pytest.mark.slow
def test_it_is_near_a_new_fit_and_says_how_far_it_can_be_trusted(sales):
    f, again = bk.forecast(sales[:90], 6), bk.forecast(sales, 6)
    g = f.update(sales[90:])
    assert np.abs(g.median - again.median).max() < 0.5 * again.sd.min()
    np.testing.assert_allclose(g.sd, again.sd, rtol=0.3)
    assert g.before is f and g.problem is None and g.trust.verdict in ("good", "caution")
    assert 0.99 < sum(part.weight for part in g.parts) < 1.01
    assert "2010-01-01 to 2017-12-01" in str(g)


def test_a_fit_that_failed_is_not_mended_by_new_values(sales, monkeypatch):
    f = bk.forecast(sales[:90], 5, trend="level")
    monkeypatch.setitem(f.__dict__, "problem", "it stopped on the way")
    g = f.update(sales[90:93]).update(sales[93:])
    assert g.before is f and g.problem == "it stopped on the way" and g.trust.verdict == "bad"


def test_new_values_without_a_density_are_an_error(sales):
    f = bk.forecast(sales[:90], 5, trend="level", log=False)
    with pytest.raises(FloatingPointError, match="no density under any draw"):
        f.update(1e200)


def test_what_the_hyperparameters_did_not_expect_leaves_few_draws(sales):
    f = bk.forecast(sales[:90], 5, trend="level")
    wild = f.update(sales[90:] + 40.0 * np.array([1, -1, 1, -1, 1, -1]))
    calm = f.update(sales[90:])
    assert wild._effective < 0.5 * calm._effective
    assert wild.trust.verdict != "good"


@pytest.mark.slow
def test_a_wild_value_moves_a_robust_forecast_little(sales):
    spoiled = sales[90:].to_numpy().copy()
    spoiled[2] += 30.0
    shifts = []
    for robust in (True, False):
        f = bk.forecast(sales[:90], 5, trend="level", robust=robust, log=False)
        shifts.append(np.abs(f.update(spoiled).median - f.update(sales[90:]).median).max())
    assert shifts[0] < 0.3 * shifts[1]


def test_missing_values_and_later_times(sales):
    f = bk.forecast(sales[:90], 3, trend="level", method="map")
    skipped = f.update(sales.iloc[[91]], times=MONTHS[[91]])
    missing = f.update([np.nan, sales.iloc[91]])
    np.testing.assert_allclose(skipped.median, missing.median, rtol=1e-10)
    assert "1 missing value among those that came later left out" in missing.remarks
    assert skipped.times[0] == missing.times[0] == np.datetime64("2017-09-01")
    # What is missing at the end is forecast.
    assert f.update([sales.iloc[90], np.nan]).times[0] == np.datetime64("2017-08-01")


def test_logarithms_end_where_a_value_is_not_above_zero():
    y = np.exp(np.cumsum(0.3 * np.random.default_rng(1).normal(size=40)))
    f = bk.forecast(y, 3, season=0, trend="level")
    assert {part.structure.log for part in f.parts} == {True, False} or f.parts[0].structure.log
    with pytest.raises(ValueError, match="a value of -1 has no logarithm"):
        bk.forecast(y, 3, season=0, trend="level", positive=True).update(-1.0)


@pytest.mark.parametrize(
    ("values", "times", "message"),
    [
        ([], None, "wanted new values of sales"),
        ([np.nan], None, "wanted new values of sales"),
        (np.ones((2, 2)), None, "wanted new values of sales"),
        ([1.0], ["2018-01-01", "2018-02-01"], "1 values at 2 times"),
        ([1.0], [5], "1 values at 1 times, int64"),
        ([1.0], ["2017-06-01"], "must come after 2017-06-01"),
        ([1.0, 2.0], ["2017-08-01", "2017-07-01"], "must come after 2017-06-01"),
        ([1.0], ["2017-07-15"], "the times were monthly, at month start, and are"),
        ([1.0], ["soon"], "cannot read 'soon'"),
    ],
)
def test_what_does_not_go_on(sales, values, times, message):
    f = bk.forecast(sales[:90], 3, trend="level", method="map")
    with pytest.raises(ValueError, match=message):
        f.update(values, times)


def test_a_constant_series_taught_nothing():
    with pytest.raises(ValueError, match="forecast the longer one"):
        bk.forecast([2.0, 2.0, 2.0], 2).update(3.0)
