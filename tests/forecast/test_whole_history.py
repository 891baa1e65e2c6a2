"""Forecasts of long series from all of their values."""

import numpy as np
import pandas as pd
import pytest

import bayeskern as bk
from bayeskern.forecast.model.configuration import Request, configure

N = 1_600
HOURS = pd.date_range("2024-01-01", periods=N + 48, freq="h")
RNG = np.random.default_rng(8)
DAY = 10.0 * np.sin(2.0 * np.pi * HOURS.hour / 24.0)
WEEKEND = -6.0 * (HOURS.dayofweek >= 5)
TRUTH = 100.0 + DAY + WEEKEND
VALUES = pd.Series(TRUTH + RNG.standard_normal(N + 48), HOURS)


@pytest.fixture(scope="module")
def whole():
    return bk.forecast(VALUES[:N], 48)


@pytest.mark.slow
def test_all_values_are_fitted_with_both_seasons(whole):
    assert len(whole.leading.y) == N
    assert not any("only the last" in remark for remark in whole.remarks)
    assert "basis functions" in whole.structure
    assert {"season_daily", "season_weekly"} <= set(whole.components)
    # The error of the median is that of the noise, from which nobody can foretell more.
    assert np.mean(np.abs(whole.median - TRUTH[N:])) < 0.6
    assert whole.trust.verdict == "good"


@pytest.mark.slow
def test_intervals_match_paths(whole):
    lower, upper = whole.interval(0.8)
    paths = whole.sample(4_000, seed=3)
    inside = np.mean((paths >= lower) & (paths <= upper), axis=0)
    np.testing.assert_allclose(inside, 0.8, atol=0.03)
    assert np.isfinite(whole.to_frame().to_numpy()).all()
    future = VALUES[N:].to_numpy()
    assert 0.6 < np.mean((future >= lower) & (future <= upper)) <= 1.0


@pytest.mark.slow
def test_components_add_up_to_the_forecast(whole):
    parts = whole.decompose()
    total = sum(part["median"] for part in parts.values())
    np.testing.assert_allclose(total, whole.median, atol=0.05 * np.std(VALUES))


@pytest.mark.slow
def test_updates(whole):
    later = whole.update(VALUES[N : N + 24].to_numpy())
    assert len(later.leading.y) == N + 24
    assert np.mean(np.abs(later.median[:24] - TRUTH[N + 24 :])) < 0.8


@pytest.mark.slow
def test_last_values_only():
    f = bk.forecast(VALUES[:N], 4, trend="reverting", model=bk.StructuralModel(last=300))
    assert len(f.leading.y) == 300 and f.leading.structure.trend == "reverting"
    assert any("only the last 300" in remark for remark in f.remarks)


@pytest.mark.parametrize(
    ("freq", "count", "fitted", "is_whole"),
    [
        # 600 weeks hold more than five years.
        ("W", 700, 600, False),
        # 840 hours hold five weeks; 1,000 days do not hold five years.
        ("h", 900, 900, False),
        ("h", 1_100, 1_100, True),
        ("D", 740, 740, True),
        ("D", 590, 590, False),
    ],
)
def test_number_of_fitted_values_by_season(freq, count, fitted, is_whole):
    values = pd.Series(RNG.standard_normal(count), pd.date_range("2010-01-01", None, count, freq))
    series, choices = configure(bk.read_series(values), 4, Request())
    assert int(series.observed.sum()) == fitted and choices.whole_history == is_whole
