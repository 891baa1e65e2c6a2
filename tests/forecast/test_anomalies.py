"""Values that stand out: where the test put them, and how often they do by chance."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import bayeskern as bk
from bayeskern.kernels import Matern32

DAYS = pd.date_range("2019-01-01", periods=140, freq="D")
WILD = {20: 4.0, 70: -4.0, 110: 4.5}


@pytest.fixture(scope="module")
def meter():
    """A weekly season with noise of sd 0.5, and three values eight sds off."""
    x = np.arange(len(DAYS))
    y = 20.0 + 3.0 * np.sin(2.0 * np.pi * x / 7.0) + 0.5 * np.random.default_rng(1).normal(size=140)
    y[[*WILD]] += [*WILD.values()]
    return pd.Series(y, DAYS, name="kWh")


@pytest.mark.parametrize("robust", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_wild_values_stand_out_and_no_others(meter, robust, tmp_path):
    found = bk.anomalies(meter, trend="drift", model=bk.StructuralModel(robust=robust))
    np.testing.assert_array_equal(np.flatnonzero(found.outside), [*WILD])
    table = found.to_frame()
    np.testing.assert_array_equal(table.index, DAYS[[*WILD]])
    # What the others say of them is what was there before.
    np.testing.assert_allclose(table["median"], table["value"] - [*WILD.values()], atol=1.2)
    said = str(found).splitlines()
    assert said[0] == "kWh: 3 of 140 values of kWh stand out" and max(map(len, said)) <= 100
    assert "0.14 would by chance" in said[1] and said[-1].strip().startswith("2019-04-21")
    paths = found.export(tmp_path)
    written = pd.read_csv(paths[0], index_col=0)
    assert list(written.index) == ["2019-01-21", "2019-03-12", "2019-04-21"]
    np.testing.assert_allclose(written, table, rtol=1e-9)
    assert paths[1].read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_intervals_are_those_of_each_value_left_out(meter):
    """With fixed hyperparameters, those of a fit without the value, by hand."""
    y, kernel = meter.to_numpy()[:30], Matern32(3.0, 0.7)
    found = bk.anomalies(y, 0.9, season=0, model=bk.StructuralModel(kernel=kernel, method="map"))
    scale = found.forecast.scale
    z, K = scale.forward(y), np.asarray(kernel(np.arange(30.0)))
    K = K + float(found.forecast.posterior.draws["noise"].ravel()[0]) * np.eye(30)
    for i in (0, 11, 29):
        others = np.arange(30) != i
        weights = np.linalg.solve(K[np.ix_(others, others)], K[others, i])
        mean, sd = weights @ z[others], np.sqrt(K[i, i] - weights @ K[others, i])
        expected = scale.back(mean + norm.ppf([0.05, 0.95]) * sd)
        np.testing.assert_allclose([end[i] for end in found.interval], expected, rtol=1e-6)


@pytest.mark.slow
def test_by_chance_as_many_are_outside_as_the_level_says():
    rng, outside, count = np.random.default_rng(0), 0, 0
    for _ in range(12):
        y = np.cumsum(0.3 * rng.normal(size=80)) + rng.normal(size=80)
        found = bk.anomalies(y, 0.9, trend="drift", season=0, model=bk.StructuralModel(log=False))
        outside, count = outside + int(found.outside.sum()), count + 80
    # Leave-one-out errors of neighbours go together: twice the error of independent ones.
    assert abs(outside / count - 0.1) < 2.0 * 2.0 * np.sqrt(0.1 * 0.9 / count)


def test_a_constant_series_has_none():
    found = bk.anomalies([2.0, 2.0, 2.0, 2.0])
    assert not found.outside.any() and len(found.to_frame()) == 0
    assert str(found).startswith("value: 0 of 4 values of value stand out")


def test_bad_levels():
    with pytest.raises(ValueError, match="level"):
        bk.anomalies([1.0, 2.0, 4.0], 95)
