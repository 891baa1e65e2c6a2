"""Sums over months and years: of joint draws, and of what is known already."""

import numpy as np
import pandas as pd
import pytest

import bayeskern as bk

DAYS = pd.date_range("2024-01-01", "2024-02-19")
MAP = bk.StructuralModel(method="map")


@pytest.fixture(scope="module")
def walk():
    """A random walk, whose steps ahead go together."""
    y = 50.0 + np.cumsum(np.random.default_rng(0).normal(size=len(DAYS)))
    series = pd.Series(y, DAYS, name="sales")
    return series, bk.forecast(series, "until 2024-04-10", season=0, trend="drift", model=MAP)


def test_sums_of_joint_draws_and_known_values(walk):
    series, f = walk
    table = f.totals("month", 0.8)
    # April does not end within the horizon.
    assert [str(month) for month in table.index] == ["2024-02", "2024-03"]
    assert list(table.columns) == ["median", "mean", "sd", "lower_80", "upper_80"]
    paths, month = f.sample(20_000, seed=5), pd.DatetimeIndex(f.times).month
    for number, known in ((2, series["2024-02":].sum()), (3, 0.0)):
        sums, row = known + paths[:, month == number].sum(axis=1), table.iloc[number - 2]
        # The fourth moment of the errors is infinite: quantiles show their spread.
        lower, median, upper = np.quantile(sums, [0.1, 0.5, 0.9])
        assert row["median"] == pytest.approx(median, abs=2 * (upper - lower) / np.sqrt(4_000))
        assert row["upper_80"] == pytest.approx(upper, abs=0.04 * (upper - lower))
        assert row["lower_80"] == pytest.approx(lower, abs=0.04 * (upper - lower))
        np.testing.assert_allclose(row["mean"], known + f.mean[month == number].sum())
    # Days that were independent would have a sum that is far too certain.
    assert table["sd"].iloc[1] > 3.0 * np.sqrt((f.sd[month == 3] ** 2).sum())


@pytest.mark.slow
def test_incomplete_periods_are_left_out(walk):
    series, f = walk
    # From 1 January on the year is whole, from the sixth it is not.
    assert len(bk.forecast(series, 340, season=0, model=MAP).totals("year")) == 1
    with pytest.raises(ValueError, match="no complete year"):
        bk.forecast(series[5:], 340, season=0, model=MAP).totals("year")
    holes = series.copy()
    holes["2024-02-03"] = np.nan
    table = bk.forecast(holes, 45, season=0, model=MAP).totals("month")
    assert [str(month) for month in table.index] == ["2024-03"]
    with pytest.raises(ValueError, match="within the horizon of 3 steps"):
        bk.forecast(series, 3, season=0, model=MAP).totals("month")
    with pytest.raises(ValueError, match="every='fortnight' is not known"):
        f.totals("fortnight")


def test_months_of_a_year():
    months = pd.date_range("2020-01-31", "2023-06-30", freq="ME")
    f = bk.forecast(pd.Series(2.0, months), 10)
    table = f.totals("year", [0.5])
    assert [str(year) for year in table.index] == ["2023"]
    np.testing.assert_allclose(table.iloc[0], [24.0, 24.0, 0.0, 24.0, 24.0])


def test_numbers_have_no_totals():
    with pytest.raises(ValueError, match="totals needs regular dates"):
        bk.forecast([2.0, 2.0, 2.0], 3).totals("month")
