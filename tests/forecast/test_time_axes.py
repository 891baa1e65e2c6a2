"""Forecasts on every kind of time axis, with gaps: against pandas' dates."""

import numpy as np
import pandas as pd
import pytest

import bayeskern as bk
from tests.forecast.examples import HORIZON, ONE_STRUCTURE, N, months, seasonal, sound
from tests.marks import slow

# -- gaps ------------------------------------------------------------------------------------------


def test_missing_values_match_missing_rows(raw):
    lost = [0, 7, 8, 30, 31, 32]
    values = raw.series.values.copy()
    values[lost] = np.nan
    as_nan = bk.forecast(pd.Series(values, months()), HORIZON)
    # The first row stays, so that time begins at the same month.
    dropped = bk.forecast(pd.Series(values, months()).drop(months()[lost[1:]]), HORIZON)
    np.testing.assert_allclose(as_nan.median, dropped.median, rtol=1e-9)
    np.testing.assert_allclose(as_nan.sd, dropped.sd, rtol=1e-9)
    assert as_nan.remarks == ("6 missing values left out of the fit",)
    assert dropped.remarks == ("1 missing value left out of the fit", "2 gaps in the time axis")
    # And different values in the rows that are left out would have made a difference.
    assert not np.allclose(as_nan.median, raw.median, rtol=1e-6)


def test_missing_rows_at_the_end_are_forecast(raw):
    values = np.append(raw.series.values, [np.nan] * 3)
    f = bk.forecast(pd.Series(values, months(N + 3)), HORIZON, **ONE_STRUCTURE)
    np.testing.assert_array_equal(f.times, raw.times)
    np.testing.assert_array_equal(f.median, raw.median)
    assert f.remarks == ("3 rows at the end have no value: forecast too",)


# -- time axes -------------------------------------------------------------------------------------

AXES = {
    "weekly": ("W-MON", 13, "weekly, on Mondays", {}),
    "hourly": ("h", 24, "hourly", {"season": 24}),
    "quarterly": ("QS", 4, "quarterly, at quarter start", {"season": 4}),
    "quarter ends": ("QE", 4, "quarterly, at quarter end", {"season": 4}),
    "yearly": ("YS", 11, "yearly", {}),
    "business days": ("B", 5, "business days", {"season": 5}),
    "daily": ("D", 7, "daily", {"season": 7}),
    "month ends": ("ME", 12, "monthly, at month end", {"season": 12}),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("freq", "period", "text", "steps"),
    [case if name == "weekly" else slow(*case) for name, case in AXES.items()],
    ids=AXES,
)
def test_time_axes(freq, period, text, steps):
    index = pd.date_range("2019-03-04", periods=N + HORIZON, freq=freq)
    f = bk.forecast(pd.Series(seasonal(2, period=period), index[:N]), HORIZON)
    assert f.series.calendar.description == text
    np.testing.assert_array_equal(f.times, index[N:])
    in_steps = {name: length / f.series.calendar.step for name, length in f.seasons.items()}
    assert in_steps == pytest.approx(steps)
    sound(f)
    assert f.to_frame().index.equals(pd.DatetimeIndex(index[N:], freq=None).as_unit("s"))


@pytest.mark.slow
def test_integer_years():
    series = bk.read_series(seasonal(period=11), times=np.arange(1950, 1950 + N))
    f = bk.forecast(series, HORIZON, trend="smooth")
    np.testing.assert_array_equal(f.times, np.arange(1950 + N, 1950 + N + HORIZON))
    assert f.seasons == {} and f.components == ("trend", "cycles")
    assert f.to_frame().index.dtype.kind == "i"
    assert f.to_csv().splitlines()[1].split(",")[0] == "2010"
    sound(f)


@pytest.mark.slow
def test_irregular_times():
    rng = np.random.default_rng(5)
    days = np.cumsum(rng.choice([2, 3, 3, 5, 8], N))
    dates = np.datetime64("2020-01-01") + days
    f = bk.forecast(bk.read_series(seasonal(3), times=dates), HORIZON, season=0)
    step = int(np.median(np.diff(days)))
    np.testing.assert_array_equal(f.times, dates[-1] + step * np.arange(1, HORIZON + 1))
    assert f.remarks == (f"irregular times: future points every {step} days (the median spacing)",)
    sound(f)
    numbers = np.cumsum(rng.uniform(0.1, 2.0, N))
    g = bk.forecast(bk.read_series(seasonal(3), times=numbers), HORIZON)
    gap = np.median(np.diff(numbers))
    np.testing.assert_allclose(g.times, numbers[-1] + gap * np.arange(1, HORIZON + 1))
    assert g.remarks == (f"irregular times: future points every {gap:.6g} (the median spacing)",)
    sound(g)


@pytest.mark.slow
def test_given_seasons():
    values = pd.Series(seasonal(period=12, noise=0.1), months())
    none, other, right = (
        bk.forecast(values, HORIZON, season=season, trend="drift") for season in (0, 6, 12)
    )
    assert none.seasons == {} and none.components == ("trend",)
    sound(none)
    assert other.seasons == pytest.approx({"season": 0.5})
    # What is there is explained best by the season that is there.
    log_densities = [f.posterior.optimum.log_density for f in (none, other, right)]
    assert log_densities[2] > max(log_densities[:2]) + 2


@pytest.mark.slow
def test_two_seasons():
    """Three years of days, of which stretches of four weeks a quarter were kept."""
    day = np.arange(1100)
    kept = (day % 91 < 21) | (day >= 1086)
    truth = 2 * np.sin(2 * np.pi * day / 7) + 3 * np.cos(2 * np.pi * day / 365.25)
    rng = np.random.default_rng(0)
    values = truth + 0.2 * rng.standard_normal(1100)
    dates = np.datetime64("2020-01-01") + day
    past = kept & (day < 1094)
    f = bk.forecast(bk.read_series(values[past], dates[past]), HORIZON, season=[7, 365.25])
    assert f.components[:3] == ("trend", "season_7", "season_365_25")
    np.testing.assert_array_equal(f.times, dates[1094:])
    sound(f)
    assert np.max(np.abs(f.median - truth[1094:])) < 0.5  # of a range of 10
    parts = f.decompose(dates)
    week, year = (parts[name]["median"] for name in ("season_7", "season_365_25"))
    # Each is its own sine but for a constant (the average over the days that were kept).
    assert np.std(week - 2 * np.sin(2 * np.pi * day / 7)) < 0.1
    assert np.std(year - 3 * np.cos(2 * np.pi * day / 365.25)) < 0.5
