"""Sentences on a forecast, against the series they describe."""

import numpy as np
import pandas as pd
import pytest

import bayeskern as bk
from bayeskern.forecast.explain import explain
from bayeskern.forecast.show.printing import rounded

N = 72
T = np.arange(N)
MONTHS = pd.date_range("2015-01-01", periods=N, freq="MS")
ONE = {"trend": "drift", "model": bk.StructuralModel(log=False, method="map")}


def of(values, horizon, index=MONTHS, name="sales", **options):
    series = pd.Series(values, index[: len(values)], name=name)
    return bk.forecast(series, horizon, **(ONE | options))


@pytest.fixture(scope="module")
def f():
    """A line of 0.5 a month, with the highest value in March and the lowest in September."""
    rng = np.random.default_rng(0)
    season = 8.0 * np.cos(2.0 * np.pi * (T - 2) / 12.0)
    return of(100.0 + 0.5 * T + season + 0.2 * rng.standard_normal(N), 12)


def test_level_and_change(f):
    first, _, _ = explain(f).split(". ", 2)
    observed = f.series.values
    assert f"last value of sales is {observed[-1]:.2f} (December 2020)" in first
    assert f"from {f.median[0]:.2f} (January 2021) to {f.median[-1]:.2f} (Dec" in first
    change = 100.0 * (np.mean(f.median) / np.mean(observed[-12:]) - 1.0)
    assert f"on average {change:.1f} % above the last year" in first


def test_trend_and_season(f):
    text = explain(f)
    # Twelve steps of 0.5 in the future.
    assert "The trend rises by about 6" in text and "until December 2021" in text
    assert "within a year it swings from" in text
    assert "below (September)" in text and "above (March)" in text


def test_uncertainty_and_past_accuracy(f):
    text, (lower, upper) = explain(f), f.interval(0.8)
    assert f"December 2021 lies between {lower[-1]:.2f} and {upper[-1]:.2f}" in text
    past = f.past_scores
    assert f"such intervals held {100 * past.coverage(0.8):.0f} % of {past.count} past" in text
    below = 100.0 * (1.0 - past.error_ratio)
    assert f"the error was {below:.0f} % below the forecast that repeats the last season" in text


def test_weekdays_and_fall():
    days = pd.date_range("2024-01-01", periods=N, freq="D")  # a Monday
    weekly = 6.0 * np.cos(2.0 * np.pi * (T - 4) / 7.0)
    noise = 0.2 * np.random.default_rng(1).standard_normal(N)
    text = explain(of(200.0 - 1.0 * T + weekly + noise, 7, days))
    assert "The trend falls by about 7" in text
    assert "within a week" in text and "above (Friday)" in text


def test_hours_are_written_without_seconds():
    hours = pd.date_range("2024-01-01", periods=N, freq="h")
    text = explain(of(50.0 + np.random.default_rng(6).standard_normal(N), 3, hours, season=0))
    assert "(2024-01-03 23:00)" in text and "(2024-01-04 00:00)" in text


def test_numbers_without_season():
    y = np.random.default_rng(2).standard_normal(40)
    text = explain(bk.forecast(y, 5, season=0, **ONE))
    assert "there is no season" in text and "(39)" in text and "(44)" in text
    assert "The trend has no clear direction" in text


def test_growth_on_the_log_scale_is_a_percentage():
    values = np.exp(0.02 * T + 0.01 * np.random.default_rng(3).standard_normal(N))
    f = of(values, 12, season=0, model=bk.StructuralModel(log=True, method="map"))
    trend = f.component("trend", np.append(f.series.times[-1:], f.times[-1:]))["median"]
    assert f"The trend rises by about {100.0 * (trend[1] / trend[0] - 1.0):.0f}" in explain(f)
    assert trend[1] / trend[0] == pytest.approx(np.exp(0.24), rel=0.02)


def test_constant_series():
    text = explain(bk.forecast([2.5] * 8, 3))
    assert "All values are 2.5" in text and len(text.split(". ")) == 3


def test_short_series_cannot_be_checked():
    assert "too short" in explain(of([3.0, 5.0, 4.0, 6.0], 2, season=0))


def test_intermittent_series_have_no_trend():
    y = np.random.default_rng(4).poisson(0.5, 60).astype(float)
    f = bk.forecast(y, 4, season=0)
    text = explain(f)
    assert "Many values are 0" in text and f"goes from {f.median[0]:.0f} (60)" in text


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (1234.567, 1, "1,234.6"),
        (1234567.0, -4, "1,230,000"),
        (0.032, 0, "0.032"),
        (-0.4, 0, "-0.4"),
        (1e-9, 2, "0"),
        (0.0, 3, "0.000"),
        (np.nan, 2, "nan"),
    ],
)
def test_rounded_numbers(value, digits, text):
    assert rounded(value, digits) == text
