"""The time axis and its frequency, against what pandas continues with."""

import datetime as dt
import re

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given

from bayeskern import datasets
from bayeskern.series.frequency import infer_calendar
from bayeskern.series.zones import to_wall


def dates(text: str) -> np.ndarray:
    return np.array(text.split(), "M8[s]")


# Times -> those that follow: description.
FREQUENCIES = """
2023-11-01 2023-12-01 2024-01-01 -> 2024-02-01 2024-03-01: monthly, at month start
2023-11-30 2023-12-31 2024-01-31 -> 2024-02-29 2024-03-31: monthly, at month end
2024-01-31 2024-02-29 -> 2024-03-31: monthly, at month end
1959-12-31 1960-01-31 -> 1960-02-29 1960-03-31: monthly, at month end
2024-01-31 2024-02-29 2024-03-29 -> 2024-04-30 2024-05-31 2024-06-28: monthly, at business month end
2024-01-15 2024-02-15 2024-03-15 -> 2024-04-15: monthly, on day 15
2023-11-30 2023-12-30 2024-01-30 -> 2024-02-29 2024-03-30: monthly, on day 30
2023-07-01 2023-10-01 2024-01-01 -> 2024-04-01 2024-07-01: quarterly, at quarter start
2023-09-30 2023-12-31 2024-03-31 -> 2024-06-30 2024-09-30 2024-12-31: quarterly, at quarter end
2023-08-31 2023-11-30 2024-02-29 -> 2024-05-31: quarterly, at month end
2023-01-01 2023-07-01 -> 2024-01-01: half-yearly, at month start
2023-12-31 2024-02-29 -> 2024-04-30 2024-06-30: every 2 months, at month end
2021-07-01 2022-07-01 2023-07-01 -> 2024-07-01 2025-07-01: yearly
2022-02-28 2023-02-28 2024-02-29 -> 2025-02-28 2026-02-28: yearly
2016-02-29 2020-02-29 -> 2024-02-29: every 4 years
2024-02-11 2024-02-18 2024-02-25 -> 2024-03-03 2024-03-10: weekly, on Sundays
2024-02-12 2024-02-19 2024-02-26 -> 2024-03-04: weekly, on Mondays
2024-01-03 2024-01-17 -> 2024-01-31: every 2 weeks, on Wednesdays
2024-02-26 2024-02-27 2024-02-28 -> 2024-02-29 2024-03-01: daily
2024-02-23 2024-02-24 2024-02-25 2024-02-26 -> 2024-02-27 2024-02-28: daily
2024-02-26T12:00 2024-02-27T12:00 2024-02-28T12:00 -> 2024-02-29T12:00 2024-03-01T12:00: daily
2024-01-01 2024-01-04 2024-01-07 -> 2024-01-10: every 3 days
2024-02-22 2024-02-23 2024-02-26 2024-02-27 2024-02-28 -> 2024-02-29 2024-03-01: business days
2024-03-10T05:00 2024-03-10T06:00 2024-03-10T07:00 -> 2024-03-10T08:00 2024-03-10T09:00: hourly
2024-01-01T00:00 2024-01-01T06:00 2024-01-01T12:00 -> 2024-01-01T18:00: every 6 hours
2024-01-01T23:15 2024-01-01T23:30 2024-01-01T23:45 -> 2024-01-02T00:00: every 15 minutes
2024-01-01T00:00 2024-01-01T01:30 -> 2024-01-01T03:00: every 90 minutes
"""


@pytest.mark.parametrize("line", FREQUENCIES.strip().splitlines())
def test_frequency_and_future(line):
    times, expected, description = re.split(" -> |: ", line)
    axis = infer_calendar(dates(times)[::-1])
    assert axis.description == description
    assert axis.remarks == () and axis.unit == "years" and axis.regular
    np.testing.assert_array_equal(axis.times, dates(times))
    future = axis.future(len(expected.split()))
    np.testing.assert_array_equal(future, dates(expected))
    assert future.dtype == axis.times.dtype == "M8[s]"
    assert len(axis.future(0)) == 0
    assert axis.positions(axis.times[:1]) == 0.0


@pytest.mark.parametrize(
    ("freq", "description"),
    [
        ("MS", "monthly, at month start"),
        ("BME", "monthly, at business month end"),
        ("QE", "quarterly, at quarter end"),
        ("W-SUN", "weekly, on Sundays"),
        ("B", "business days"),
        ("15min", "every 15 minutes"),
    ],
)
def test_gaps_keep_the_frequency(freq, description):
    full = pd.date_range("2019-12-30", periods=40, freq=freq)
    axis = infer_calendar(full[:34].delete([4, 5, 17, 30]).values)
    assert axis.description == description
    assert axis.remarks == ("3 gaps in the time axis",)
    np.testing.assert_array_equal(axis.future(6), full[34:].values)


def test_integers():
    axis = infer_calendar([1949, 1950, 1951, 1953])
    assert (axis.description, axis.unit, axis.step) == ("integers, step 1", "steps", 1.0)
    assert axis.remarks == ("1 gap in the time axis",)
    np.testing.assert_array_equal(axis.future(2), [1954, 1955])
    assert axis.future(2).dtype == np.int64 and axis.seasons() == {}
    axis = infer_calendar(np.array([4, 0, 2]))
    assert axis.description == "integers, step 2"
    np.testing.assert_array_equal(axis.positions([0, 2, 3, 8]), [0, 1, 1.5, 4])
    np.testing.assert_array_equal(axis.future(2), [6, 8])


def test_irregular_integers():
    axis = infer_calendar([1, 4, 9, 16, 25])
    assert axis.description == "irregular, about every 6" and not axis.regular
    assert axis.remarks == ("irregular times: future points every 6 (the median spacing)",)
    np.testing.assert_array_equal(axis.future(2), [31, 37])
    np.testing.assert_allclose(axis.positions([1, 25]), [0, 4])


def test_integers_that_look_like_dates_are_remarked_on():
    for times in ([202311, 202312, 202401], [20231231, 20240101, 20240102]):
        assert "look like dates" in infer_calendar(times).remarks[-1]
    assert infer_calendar([202311, 202312, 202313]).remarks == ()


def test_floats():
    axis = infer_calendar(np.arange(5) * 0.1)
    assert axis.description == "numbers, step 0.1" and axis.remarks == ()
    np.testing.assert_allclose(axis.future(2), [0.5, 0.6], rtol=1e-12)
    np.testing.assert_allclose(axis.positions(axis.times), np.arange(5), atol=1e-12)
    axis = infer_calendar([0.0, 0.25, 0.5, 1.0, 1.25])
    assert axis.remarks == ("1 gap in the time axis",)
    np.testing.assert_allclose(axis.future(1), [1.5])
    axis = infer_calendar([1.0, 2.0, 4.5, 5.0])
    assert axis.description == "irregular, about every 1" and axis.seasons() == {}
    np.testing.assert_allclose(axis.future(2), [6.0, 7.0])


def test_irregular_dates():
    axis = infer_calendar(dates("2024-01-01 2024-01-03 2024-01-12 2024-01-26"))
    assert axis.description == "irregular, about every 9 days" and not axis.regular
    assert axis.remarks == ("irregular times: future points every 9 days (the median spacing)",)
    np.testing.assert_array_equal(axis.future(2), dates("2024-02-04 2024-02-13"))
    np.testing.assert_allclose(axis.positions(axis.times), np.array([0, 2, 11, 25]) / 365.25)
    axis = infer_calendar(
        dates("2024-01-01T00:00 2024-01-04T12:00 2024-01-08T00:00 2024-01-08T01:00")
    )
    assert axis.description == "irregular, about every 3.5 days"
    np.testing.assert_array_equal(axis.future(1), dates("2024-01-11T13:00"))


def test_times_with_all_gaps_different_are_irregular():
    assert not infer_calendar(dates("2024-01-01 2024-01-02 2024-01-11 2024-01-26")).regular
    axis = infer_calendar(dates("2024-01-01 2024-01-02 2024-01-04"))
    assert axis.description == "daily" and axis.remarks == ("1 gap in the time axis",)


def test_calendar_dates_without_a_common_step_are_irregular():
    axis = infer_calendar(dates("2024-01-01 2024-03-01 2024-06-01 2024-08-01 2024-11-01"))
    assert not axis.regular and axis.kind == "day"


@pytest.mark.parametrize("freq", ["MS", "BME", "2MS"])
def test_months_are_twelfths_of_a_year(freq):
    times = pd.date_range("1958-03-01", periods=60, freq=freq)
    months = (times.year - times[0].year) * 12 + times.month - times[0].month
    axis = infer_calendar(times.values)
    np.testing.assert_array_equal(axis.positions(times.values), months.values / 12)
    between = axis.positions(pd.date_range(times[0], times[-1], freq="D").values)
    assert (np.diff(between) > 0).all() and between[0] == 0


def test_positions_of_other_dates_are_elapsed_years():
    times = pd.date_range("1969-12-29", periods=50, freq="W-MON")
    elapsed = (times - times[0]).days.values / 365.25
    np.testing.assert_allclose(infer_calendar(times.values).positions(times), elapsed, rtol=1e-15)
    hours = pd.date_range("2024-01-01", periods=50, freq="h")
    elapsed = np.arange(50) / 24 / 365.25
    axis = infer_calendar(hours.values)
    np.testing.assert_allclose(axis.positions(hours.values), elapsed, rtol=1e-14)
    np.testing.assert_allclose(axis.positions(["2023-12-31T23:00"]), [-1 / 24 / 365.25])


def test_weekends_take_no_time_on_business_days():
    days = pd.bdate_range("2024-02-22", periods=12)
    calendar = infer_calendar(days.to_numpy())
    # Five business days are a week.
    expected = np.arange(12) * 7.0 / 5.0 / 365.25
    np.testing.assert_allclose(calendar.positions(days), expected, rtol=1e-12)
    # Friday evening; and the weekend, which is the beginning of Monday.
    times = np.array(["2024-02-23T18", "2024-02-24T06", "2024-02-26"], "M8[h]")
    np.testing.assert_allclose(
        calendar.positions(times), np.array([1.75, 2.0, 2.0]) * calendar.step, rtol=1e-12
    )


def test_step_is_the_spacing_of_positions():
    for freq in ("MS", "QE", "YE", "W-SUN", "D", "3D", "h", "15min"):
        axis = infer_calendar(pd.date_range("2020-01-01", periods=9, freq=freq).values)
        np.testing.assert_allclose(np.diff(axis.positions(axis.times)), axis.step)


@pytest.mark.parametrize(
    ("freq", "periods", "expected"),
    [
        ("MS", 24, {"yearly"}),
        ("MS", 23, set()),
        ("YE", 40, set()),
        ("W-SUN", 104, {"yearly"}),
        ("D", 13, set()),
        ("D", 14, {"weekly"}),
        ("D", 730, {"weekly", "yearly"}),
        ("B", 10, {"weekly"}),
        ("3D", 40, {"weekly"}),
        ("4D", 40, set()),
        ("h", 47, set()),
        ("h", 48, {"daily"}),
        ("h", 24 * 14, {"daily", "weekly"}),
        ("h", 24 * 731, {"daily", "weekly", "yearly"}),
    ],
)
def test_seasons(freq, periods, expected):
    axis = infer_calendar(pd.date_range("2024-01-01", periods=periods, freq=freq).values)
    lengths = {"daily": 1 / 365.25, "weekly": 7 / 365.25, "yearly": 1.0}
    assert axis.seasons() == {name: lengths[name] for name in expected}


def test_seasons_of_irregular_dates():
    days = np.cumsum(np.random.default_rng(0).integers(1, 4, 400))
    axis = infer_calendar(np.datetime64("2020-01-01") + days)
    assert not axis.regular and set(axis.seasons()) == {"weekly", "yearly"}


def test_hours_count_elapsed_time():
    zoned = pd.date_range("2024-03-09 20:00", periods=30, freq="h", tz="America/New_York")
    utc = zoned.tz_convert(None).values
    axis = infer_calendar(utc[:20], tz="America/New_York")
    assert axis.description == "hourly"
    np.testing.assert_array_equal(axis.future(10), utc[20:])
    np.testing.assert_allclose(np.diff(axis.positions(utc)), axis.step, rtol=1e-9)


@pytest.mark.parametrize("freq", ["D", "MS", "B"])
@pytest.mark.parametrize("start", ["2024-03-11", "2024-10-01"])
def test_local_midnight_in_berlin(freq, start):
    zoned = pd.date_range(start, periods=40, freq=freq, tz="Europe/Berlin")
    utc = zoned.tz_convert(None).values
    axis = infer_calendar(utc[:10], tz="Europe/Berlin")
    plain = infer_calendar(zoned[:10].tz_localize(None).values)
    assert axis.description == plain.description and axis.remarks == plain.remarks
    np.testing.assert_array_equal(axis.future(30), utc[10:])
    wall = zoned.tz_localize(None).values
    np.testing.assert_array_equal(axis.positions(utc), plain.positions(wall))


def test_days_continue_over_a_skipped_midnight():
    days = pd.date_range("2017-10-10", periods=12, freq="D")  # clocks skipped 15 October, 0:00-1:00
    utc = days.tz_localize("America/Sao_Paulo", nonexistent="shift_forward").tz_convert(None).values
    for seen in (4, 8):
        axis = infer_calendar(utc[:seen], tz="America/Sao_Paulo")
        assert axis.description == "daily" and axis.remarks == ()
        np.testing.assert_array_equal(axis.future(12 - seen), utc[seen:])


def test_local_days_in_utc_are_remarked_on():
    zoned = pd.date_range("2024-03-25", periods=12, freq="D", tz="Europe/Berlin")
    axis = infer_calendar([t.isoformat() for t in zoned])
    assert not axis.regular and "give the time zone" in axis.remarks[-1]


def test_fractions_of_a_second_are_kept():
    times = np.array(["2024-01-01T00:00:00.000", "2024-01-01T00:00:00.250"], "M8[ns]")
    axis = infer_calendar(times)
    assert axis.description == "every 250 milliseconds" and axis.times.dtype == "M8[ms]"
    assert axis.future(2)[1] == np.datetime64("2024-01-01T00:00:00.750")
    wall = to_wall(times, "Europe/Berlin")
    assert wall[1] == np.datetime64("2024-01-01T01:00:00.250")


OFFSETS = ["MS", "ME", "BME", "QS", "QE-JAN", "QE", "BQE", "YS-APR", "YE", "W-SUN", "W-WED"]
OFFSETS += ["D", "B", "h", "min", "s", "ms"]


@given(
    st.sampled_from(OFFSETS),
    st.integers(1, 6),
    st.datetimes(dt.datetime(1930, 1, 1), dt.datetime(2060, 1, 1)),
    st.integers(3, 40),
    st.integers(1, 12),
)
def test_future_times_match_pandas(freq, multiple, start, length, horizon):
    if freq in ("h", "min", "s", "ms"):
        start = start.replace(microsecond=0)
    else:
        start = start.replace(minute=0, second=0, microsecond=0)
    if freq == "B":  # shorter than this, no weekend is seen
        multiple, length = 1, length + 5
    full = pd.date_range(start, periods=length + horizon, freq=f"{multiple}{freq}")
    seen = full[:length]
    if freq in ("BME", "BQE"):  # these may be plain month ends as well
        assume(not seen.is_month_end.all())
    axis = infer_calendar(seen.values)
    assert axis.regular and axis.remarks == ()
    np.testing.assert_array_equal(axis.future(horizon), full[length:].values)
    ahead = axis.positions(axis.future(horizon))
    assert (np.diff(ahead) > 0).all() and ahead[0] > axis.positions(axis.times)[-1]


@given(
    st.integers(1, 25),
    st.integers(1, 24),
    st.dates(dt.date(1930, 1, 1), dt.date(2060, 1, 1)),
    st.integers(3, 30),
)
def test_a_fixed_day_of_the_month_continues(day, months, start, length):
    offset = pd.DateOffset(months=months)
    full = pd.date_range(start.replace(day=day), periods=length + 5, freq=offset)
    axis = infer_calendar(full[:length].values)
    np.testing.assert_array_equal(axis.future(5), full[length:].values)
    np.testing.assert_array_equal(axis.positions(full.values), np.arange(length + 5) * months / 12)


@given(
    st.sets(st.integers(-400, 400), min_size=2, max_size=12),
    st.sampled_from(["M8[M]", "M8[D]", "M8[h]", "M8[ms]", "int64", "float64"]),
    st.sampled_from([None, "Europe/Berlin", "America/Sao_Paulo"]),
)
def test_future_follows_any_times(ticks, dtype, tz):
    times = np.array(sorted(ticks)).astype(dtype)
    axis = infer_calendar(times, tz if times.dtype.kind == "M" else None)
    future = axis.future(5)
    assert future.dtype == axis.times.dtype and future[0] > axis.times[-1]
    positions = axis.positions(np.append(axis.times, future))
    assert positions[0] == 0 and (np.diff(positions) > 0).all()
    assert axis.description and axis.regular == (not any("irregular" in r for r in axis.remarks))


def test_frequencies_of_the_data_sets():
    assert infer_calendar(datasets.load("airline").times).description == "monthly, at month start"
    assert infer_calendar(datasets.load("nile").times).description == "integers, step 1"
    co2 = datasets.load("co2")
    axis = infer_calendar(co2.times[~np.isnan(co2.values)])
    assert axis.description == "monthly, at month start"
    assert axis.remarks == ("3 gaps in the time axis",)
    assert axis.future(1)[0] == np.datetime64("2002-01-01")


def test_duplicates():
    with pytest.raises(ValueError, match="2020-01-02 occurs 3 times.*their zone"):
        infer_calendar(dates("2020-01-01 2020-01-02 2020-01-02 2020-01-02"))
    with pytest.raises(ValueError, match="^when must .* 2.4 occurs 2 times") as error:
        infer_calendar([2.4, 2.4, 3.0, 3.0], name="when")
    assert "zone" not in str(error.value)


@pytest.mark.parametrize("times", [[], ["2020-01-01"]])
def test_fewer_than_two_times_are_refused(times):
    with pytest.raises(ValueError, match="time must"):
        infer_calendar(times)


def test_positions_are_of_the_kind_of_the_axis():
    with pytest.raises(ValueError, match="times must be numbers"):
        infer_calendar([1, 2]).positions(dates("2020-01-01"))
    with pytest.raises(ValueError, match="times must be dates"):
        infer_calendar(dates("2020-01-01 2020-01-02")).positions([3])
