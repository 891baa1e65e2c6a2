"""Forecasts of months, quarters and years that add up."""

import numpy as np
import pandas as pd
import pytest

import bayeskern as bk
from bayeskern.forecast.reconcile.temporal import AGREEMENT, TEMPORAL_METHODS
from bayeskern.forecast.reconcile.weights import projection, spreads_of

QUICK = {"season": 0, "trend": "drift", "model": bk.StructuralModel(log=False, method="map")}


def monthly(count=121, seed=0):
    rng = np.random.default_rng(seed)
    values = 50.0 + np.cumsum(rng.normal(size=count)) + rng.normal(size=count)
    return pd.Series(values, pd.date_range("2010-01-01", periods=count, freq="MS"), name="y")


@pytest.fixture(scope="module")
def f():
    return bk.forecast(monthly(), 26, **QUICK)


@pytest.fixture(scope="module")
def reconciled(f):
    return bk.reconcile_temporal(f, ["quarter", "year"], **QUICK)


@pytest.mark.parametrize("method", TEMPORAL_METHODS)
def test_draws_add_up(f, method):
    r = bk.reconcile_temporal(f, ["quarter", "year"], method, draws=200, **QUICK)
    assert [*r] == ["year", "quarter", "month"]
    shapes = {name: series.draws.shape for name, series in r.items()}
    assert shapes == {"year": (200, 2), "quarter": (200, 8), "month": (200, 26)}
    months = r["month"].draws
    for name, size in (("quarter", 3), ("year", 12)):
        blocks = months[:, : size * (26 // size)].reshape(200, -1, size).sum(axis=2)
        np.testing.assert_allclose(r[name].draws, blocks, rtol=0.0, atol=1e-10)


def test_blocks_end_with_the_last_value(f, reconciled):
    """121 months: the first one is in no year, and the first new year begins in February."""
    year = reconciled["year"].base
    values = monthly().to_numpy()
    np.testing.assert_allclose(year.series.values, values[1:].reshape(10, 12).sum(axis=1))
    assert str(reconciled["year"].times[0])[:7] == "2020-02" == str(f.times[0])[:7]
    assert year.series.name == "y by year" and year.horizon == 2
    quarter = reconciled["quarter"].base
    assert len(quarter.series.values) == 40 and str(quarter.times[1])[:7] == "2020-05"


def test_bottom_up_keeps_the_months(f):
    r = bk.reconcile_temporal(f, "year", "bottom-up", **QUICK)
    np.testing.assert_allclose(r["month"].interval(0.8), f.interval(0.8), rtol=1e-3)
    np.testing.assert_allclose(r["year"].mean[0], f.mean[:12].sum(), rtol=1e-5)


def test_means_are_projected_within_levels(reconciled):
    """MinT with correlations of errors within each level, Nystrup et al. (2020)."""
    blocks = reconciled.blocks
    probabilities = (np.arange(2_000) + 0.5) / 2_000
    quantiles = np.hstack([s.base.quantile(probabilities) for s in reconciled.values()])
    spreads, means = spreads_of(quantiles)[1], quantiles.mean(axis=0)
    bottom = projection(blocks.sums, spreads[:, None] * blocks.within * spreads) @ means
    np.testing.assert_allclose(reconciled["month"].mean, bottom)
    np.testing.assert_allclose(reconciled["year"].mean, bottom[:24].reshape(2, 12).sum(axis=1))


def test_copula_of_blocks(reconciled):
    blocks = reconciled.blocks
    C = blocks.loadings @ blocks.loadings.T
    np.testing.assert_allclose(np.diag(C), 1.0)
    months, spreads = C[10:, 10:], blocks.spreads
    # The first year and the sum of its months.
    year = spreads[:12] / np.sqrt(spreads[:12] @ months[:12, :12] @ spreads[:12])
    np.testing.assert_allclose(C[0, 10:22] @ year, AGREEMENT)
    # The months keep the correlation of their own forecast, up to 2,000 draws. Of Student t
    # draws, correlations vary more than Kendall's tau, 2 / pi arcsin(correlation) if elliptical.
    paths = pd.DataFrame(reconciled["month"].base.sample(2_000, 1))
    correlation = np.sin(0.5 * np.pi * paths.corr("kendall"))
    np.testing.assert_allclose(correlation, months, atol=0.1)


def test_scores_and_output(reconciled):
    scores = reconciled.scores
    assert [*scores.index] == ["year", "quarter", "month", "all series"]
    assert [*scores["series"]] == [1, 4, 12, 17] and np.all(scores > 0.0)
    assert [*reconciled.to_frame()["level"].unique()] == ["year", "quarter", "month"]
    assert "all series" in repr(reconciled) and len(reconciled.plot().axes) == 3
    assert reconciled.levels["year"] == ["year"]


def test_past_year_is_forecast_from_its_origin(reconciled):
    """The CRPS of years before the reconciliation: the last five years, each from its start."""
    year = reconciled["year"].base
    past_scores = year.past_scores
    one_step = past_scores.rows == past_scores.known
    expected = past_scores.ours.crps[one_step]
    np.testing.assert_allclose(reconciled.scores["crps_base"]["year"], expected.mean(), rtol=0.02)


def test_numbers_of_steps_and_uneven_periods():
    f = bk.forecast(monthly(60).to_numpy(), 10, **QUICK)
    r = bk.reconcile_temporal(f, [5, 2], **QUICK)
    assert [*r] == ["5", "2", "step"] and r.scores is None
    np.testing.assert_allclose(r["5"].draws[:, 0], r["step"].draws[:, :5].sum(axis=1), atol=1e-10)
    assert r["2"].times[0] == f.times[0] and r["2"].times[1] == f.times[2]


@pytest.mark.parametrize(
    ("freq", "horizon", "periods", "names"),
    [
        ("D", 14, "week", ["week", "day"]),
        ("h", 48, ["day"], ["day", "hour"]),
        ("QS", 8, "year", ["year", "quarter"]),
        ("ME", 12, ["half-year"], ["half-year", "month"]),
        ("30min", 8, ["hour"], ["hour", "step"]),
    ],
)
def test_periods_of_other_frequencies(freq, horizon, periods, names):
    values = monthly(100).set_axis(pd.date_range("2020-01-01", periods=100, freq=freq))
    r = bk.reconcile_temporal(bk.forecast(values, horizon, **QUICK), periods, draws=200, **QUICK)
    assert [*r] == names
    np.testing.assert_allclose(r[names[0]].draws.sum(), r[names[1]].draws.sum())


def test_seasons_of_the_sums():
    """A season of twelve months is one of four quarters, and none of years."""
    values = monthly(60) + 5.0 * np.sin(2.0 * np.pi * np.arange(60) / 12)
    options = {"trend": "drift", "model": QUICK["model"]}
    f = bk.forecast(values, 12, season=12, **options)
    r = bk.reconcile_temporal(f, ["quarter", "year"], draws=100, **options)
    assert r["quarter"].base.season_in_steps == 4 and r["year"].base.seasons == {}


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("periods", "says"),
    [
        ("yaer", "Did you mean 'year'"),
        ("week", "periods='week'"),
        (30, "30 steps and the horizon 26 steps"),
        (1, "at least 2"),
        ([], "several different"),
        (["quarter", 3], "several different"),
    ],
)
def test_wrong_periods_are_refused(f, periods, says):
    with pytest.raises(ValueError, match=says):
        bk.reconcile_temporal(f, periods)


def test_wrong_series_are_refused(f):
    with pytest.raises(TypeError, match="got a int"):
        bk.reconcile_temporal(3, "year")
    with pytest.raises(ValueError, match="'top-down' is not known"):
        bk.reconcile_temporal(f, "year", "top-down")
    numbers = bk.forecast(monthly(60).to_numpy(), 10, **QUICK)
    with pytest.raises(ValueError, match="give numbers of steps"):
        bk.reconcile_temporal(numbers, "year")
    with pytest.raises(ValueError, match="2 blocks with all values"):
        bk.reconcile_temporal(bk.forecast(monthly(30), 12, **QUICK), "year")
    gap = monthly(60)
    gap.iloc[-3] = np.nan
    with pytest.raises(ValueError, match="missing value in the last block"):
        bk.reconcile_temporal(bk.forecast(gap, 12, **QUICK), "year")
    with pytest.raises(ValueError, match="twice the horizon"):
        bk.reconcile_temporal(f, "year", draws=52)
