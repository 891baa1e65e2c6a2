"""Horizons as people say them: the truth is counted by hand, or by pandas."""

import numpy as np
import pandas as pd
import pytest

from bayeskern.series.frequency import infer_calendar
from bayeskern.series.horizon import steps_ahead

DAILY = infer_calendar(pd.date_range("2024-01-01", "2024-02-27"))
MONTHLY = infer_calendar(pd.date_range("2020-01-31", "2024-02-29", freq="ME"))
QUARTERLY = infer_calendar(pd.period_range("2020Q1", "2023Q4", freq="Q").to_timestamp())
HOURLY = infer_calendar(pd.date_range("2024-03-29", "2024-03-30 12:00", freq="h"), "Europe/Berlin")
BUSINESS = infer_calendar(pd.bdate_range("2024-01-01", "2024-02-02"))
NUMBERS = infer_calendar(np.arange(0.0, 10.0, 0.5))


@pytest.mark.parametrize(
    ("calendar", "horizon", "steps"),
    [
        (DAILY, 7, 7),
        (DAILY, np.int64(7), 7),
        (DAILY, "7", 7),
        (DAILY, "7 steps", 7),
        (DAILY, "90 days", 90),
        (DAILY, "2 Weeks", 14),
        (DAILY, "1 month", 29),  # to 2024-03-27
        (DAILY, "1 quarter", 90),  # to 2024-05-27
        (DAILY, "until 2024-02-29", 2),
        (DAILY, "until 2024-02", 2),
        (DAILY, "until 29.02.2024", 2),
        (DAILY, "until March 2024", 33),
        (DAILY, "until 2024", 2 + 306),
        (DAILY, "until 2024Q1", 33),
        (MONTHLY, "1 year", 12),
        (MONTHLY, "3 months", 3),
        (MONTHLY, "until 2024-12", 10),
        (MONTHLY, "until 2024-12-30", 9),
        (MONTHLY, "95 days", 3),
        (QUARTERLY, "1 year", 4),
        (QUARTERLY, "until 2024", 4),
        (QUARTERLY, "until Q2 2024", 2),
        (HOURLY, "1 day", 23),  # clocks leave an hour out
        (HOURLY, "36 hours", 35),
        (HOURLY, "until 2024-03-31", 10 + 23),  # it ends at 13:00 of the day before
        (HOURLY, "until 2024-03-30 15:00", 2),
        (BUSINESS, "1 week", 5),
        (NUMBERS, "until 12", 5),
        (NUMBERS, "3 steps", 3),
    ],
)
def test_steps(calendar, horizon, steps):
    assert steps_ahead(horizon, calendar, 10_000) == steps


def test_longer_horizons_are_cut_to_one_beyond_the_most():
    assert steps_ahead("until 2200", DAILY, 1_000) == 1_001
    assert steps_ahead("500 years", MONTHLY, 1_000) == 1_001


@pytest.mark.parametrize(
    ("calendar", "horizon", "message"),
    [
        (DAILY, 0, "horizon must be"),
        (DAILY, "0", "horizon must be"),
        (DAILY, 2.5, "horizon must be"),
        (DAILY, "2.5", "horizon must be a number of steps, a dur"),
        (DAILY, "a while", "horizon must be a number of steps, a dur"),
        (DAILY, "-3 days", "horizon must be a number of steps, a dur"),
        (DAILY, "5 hours", "contains no step: the series ends at 2024-02-27 and is daily"),
        (MONTHLY, "20 days", "contains no step: the series ends at 2024-02-29"),
        (QUARTERLY, "1 month", "contains no step"),
        (DAILY, "until 2023", "contains no step"),
        (DAILY, "until Christmas", "a date, .* got 'christmas'"),
        (DAILY, "until 2024-02-31", "a date, .* got '2024-02-31'"),
        (DAILY, "until 12", "a date, .* got '12'"),
        (NUMBERS, "3 days", "a number of steps, or an end"),
        (NUMBERS, "until 2024-01", "a number; got"),
    ],
)
def test_bad_horizons(calendar, horizon, message):
    with pytest.raises(ValueError, match=message):
        steps_ahead(horizon, calendar, 10_000)
