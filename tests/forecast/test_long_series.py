"""Forecasts of long series, by a filter."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import bayeskern as bk
from bayeskern.engine.steady.log_marginal import SteadyLogMarginal
from bayeskern.forecast.model.configuration import Request, configure
from tests.marks import few

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
def test_five_weeks_are_fitted_with_both_seasons(whole):
    # Five weeks.
    assert len(whole.leading.y) == 840
    assert any("only the last 840" in remark for remark in whole.remarks)
    assert isinstance(whole.leading.density, SteadyLogMarginal)
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
    assert len(later.leading.y) == 840 + 24
    assert np.mean(np.abs(later.median[:24] - TRUTH[N + 24 :])) < 0.8


@pytest.mark.slow
def test_last_values_only():
    f = bk.forecast(VALUES[:N], 4, trend="reverting", model=bk.StructuralModel(last=300))
    assert len(f.leading.y) == 300 and f.leading.structure.trend == "reverting"
    assert any("only the last 300" in remark for remark in f.remarks)


@pytest.mark.parametrize(
    ("season", "gaps", "model", "fitted", "on_grid"),
    [
        (7, {}, {}, 600, True),
        # Five periods of 300 days.
        (300, {}, {}, 1_500, True),
        (300, {50: 300}, {}, 1_500, True),
        (300, {50: 200, 900: 101}, {}, 900, True),
        # Too few values after the gap: a dense fit.
        (300, {50: 301}, {}, 1_000, False),
        (300, {}, {"robust": True}, 1_000, False),
        (7, {}, {"robust": True}, 600, False),
        (300, {}, {"last": 300}, 300, True),
        (7, {50: 301}, {"last": 1_200}, 1_200, False),
        (7, {}, {"last": 1_200}, 1_200, True),
    ],
)
def test_number_of_fitted_values(season, gaps, model, fitted, on_grid):
    """At most 300 missing values lie between the values of a filter.

    gaps: Number of values after a gap -> its length.
    """
    steps = np.ones(2_000, int)
    for values_after, length in gaps.items():
        steps[-values_after] += length
    days = np.datetime64("2010-01-01") + np.cumsum(steps)
    values = pd.Series(RNG.standard_normal(2_000), days)
    request = Request(bk.StructuralModel(**model), season)
    series, choices = configure(bk.read_series(values), 4, request)
    assert int(series.observed.sum()) == fitted and choices.on_grid == on_grid


@pytest.mark.slow
@pytest.mark.parametrize("count", [250, 600])
def test_one_more_value_changes_little(count):
    """Neither the filter nor the limit on fitted values is a cliff."""
    rng, n = np.random.default_rng(4), 700
    months = pd.date_range("1960-01-31", periods=n, freq="ME")
    season = 3.0 * np.sin(2.0 * np.pi * np.arange(n) / 12.0)
    values = pd.Series(
        50.0 + season + np.cumsum(rng.normal(0.0, 0.3, n)) + rng.normal(size=n), months
    )
    before, at, after = (bk.forecast(values[-k:], 12) for k in (count - 1, count, count + 1))
    usual = np.max(np.abs(at.median - before.median) / at.sd)
    change = np.max(np.abs(after.median - at.median) / at.sd)
    assert change < 2.0 * usual + 0.05
    np.testing.assert_allclose(after.sd, at.sd, rtol=0.05)


@pytest.mark.parametrize("seed", few(range(5), 1))
def test_noise_is_noise(seed):
    """White noise around the pattern of a day is no trend, and has intervals of its width."""
    t, sd = np.arange(600), 5.0
    y = 100.0 + 10.0 * np.sin(2.0 * np.pi * t / 24.0)
    y += sd * np.random.default_rng(seed).standard_normal(len(t))
    f = bk.forecast(pd.Series(y, pd.date_range("2024-01-01", periods=len(t), freq="h")), 48)
    for part in f.parts:
        variance = part.fitted.density.values(part.fitted.mode)["noise"]
        # On the logarithm, the noise is divided by the level.
        size = part.fitted.scale.size * (100.0 if part.structure.log else 1.0)
        assert np.sqrt(variance) * size == pytest.approx(sd, rel=0.1)
    lower, upper = f.interval(0.95)
    ideal = 2.0 * norm.ppf(0.975) * sd
    assert np.mean(upper - lower) == pytest.approx(ideal, rel=0.1)
    assert "has no clear direction" in f.explain()
