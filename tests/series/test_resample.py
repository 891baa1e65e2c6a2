"""Values of longer periods, against sums and means by hand."""

import numpy as np
import pandas as pd
import pytest

from bayeskern.series.read_options import ReadOptions
from bayeskern.series.reading import read_series
from bayeskern.series.reading_many import read_many

DAYS = pd.date_range("2024-01-01", "2024-04-30")
Y = np.arange(1.0, len(DAYS) + 1.0)
SERIES = pd.Series(Y, DAYS, name="sales")


def test_months():
    series = read_series(SERIES, every="month", by="sum")
    by_hand = [sum(Y[DAYS.month == month]) for month in (1, 2, 3, 4)]
    np.testing.assert_array_equal(series.values, by_hand)
    np.testing.assert_array_equal(series.times, np.arange("2024-01", "2024-05", dtype="M8[M]"))
    assert series.calendar.description == "monthly, at month start"
    assert series.remarks == ("each month has the sum of its values",)
    last = read_series(SERIES, every="month", by="last")
    np.testing.assert_array_equal(last.values, [31, 60, 91, 121])
    mean = read_series(SERIES, every="month", by="mean")
    np.testing.assert_array_equal(mean.values, np.divide(by_hand, [31, 29, 31, 30]))


def test_weeks_begin_on_mondays_and_incomplete_ones_are_dropped():
    # From Wednesday 3 January to Tuesday 30 April: 16 whole weeks.
    series = read_series(SERIES["2024-01-03":], every="week", by="sum")
    assert series.times[0] == np.datetime64("2024-01-08") and len(series.times) == 16
    np.testing.assert_array_equal(series.values[0], sum(Y[7:14]))
    assert "2 incomplete weeks at the ends left out" in series.remarks


def test_rows_at_the_same_time_are_added_up():
    times = ["01 00", "01 10", "01 10", "02 00", "02 00", "03 12", "03 23", "04 00"]
    times = [f"2024-01-{time}:00" for time in times]
    values = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    series = read_series(values, times=times, every="day", by="sum")
    np.testing.assert_array_equal(series.values, [3.0, 7.0, 11.0])
    with pytest.raises(ValueError, match="Aggregate to one value per time"):
        read_series(values, times=times)


def test_a_period_with_a_missing_value_is_missing():
    values = SERIES.copy()
    values["2024-02-10"] = np.nan
    series = read_series(values, every="month", by="sum")
    np.testing.assert_array_equal(np.isnan(series.values), [False, True, False, False])
    assert "1 missing value left out of the fit" in series.remarks
    gone = read_series(SERIES.drop(DAYS[DAYS.month == 2]), every="month", by="mean")
    np.testing.assert_array_equal(np.isnan(gone.values), [False, True, False, False])


def test_days_are_those_of_the_zone():
    hours = pd.date_range(
        "2024-03-29", "2024-04-02", freq="h", tz="Europe/Berlin", inclusive="left"
    )
    series = read_series(pd.Series(1.0, hours), every="day", by="sum")
    # On 31 March clocks go forward.
    np.testing.assert_array_equal(series.values, [24, 24, 23, 24])
    assert series.calendar.tz == "Europe/Berlin" and series.calendar.description == "daily"


def test_events_are_counted(tmp_path):
    """The events of each day, counted by hand; days without events have 0."""
    rng = np.random.default_rng(0)
    counts = rng.poisson(30.0, size=12) * np.array([1, 1, 1, 0, 1, 1, 1, 1, 0, 1, 1, 1])
    starts = pd.date_range("2024-03-25", periods=12)
    seconds = [np.linspace(30.0, 86370.0, n) for n in counts]
    times = pd.DatetimeIndex(
        np.concatenate([start + pd.to_timedelta(s, unit="s") for start, s in zip(starts, seconds,
                                                                                strict=True)])
    ).floor("s")  # fmt: skip
    log = pd.DataFrame(
        {"id": range(len(times)), "time": times, "kind": rng.choice([*"ab"], len(times))}
    )
    path = tmp_path / "log.csv"
    log.to_csv(path, index=False)
    single, bare = tmp_path / "single.csv", tmp_path / "bare.csv"
    log[["time"]].to_csv(single, index=False)
    log[["time"]].to_csv(bare, index=False, header=False)
    for source in (log, path, single, times, pd.Series(times), [str(time) for time in times]):
        series = read_series(source, every="day", by="count")
        np.testing.assert_array_equal(series.times, starts)
        np.testing.assert_array_equal(series.values, counts)
        assert series.value_name == "count" and series.calendar.description == "daily"
        assert series.remarks == ("each day has the number of its rows",)
    with pytest.raises(ValueError, match="has no header"):
        read_series(bare, every="day", by="count")
    # Cells that are not empty, of text too.
    of_a = log.assign(kind=log.kind.where(log.kind == "a"))
    expected = log.kind.eq("a").groupby(log.time.dt.date).sum().reindex(starts.date, fill_value=0)
    series = read_series(of_a, value="kind", every="day", by="count")
    np.testing.assert_array_equal(series.on_grid(), expected)


def test_events_of_many_series():
    times = pd.date_range("2024-01-01", "2024-01-09", freq="4h", inclusive="left")
    log = pd.DataFrame({"time": [*times, *times[::2]], "store": ["a"] * 48 + ["b"] * 24})
    options = ReadOptions(every="day", by="count")
    readers = read_many(log, "store", options)
    counts = [reader().values for reader in readers.functions]
    np.testing.assert_array_equal(counts, [[6.0] * 8, [3.0] * 8])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every": "month"}, "must be given together"),
        ({"by": "sum"}, "must be given together"),
        ({"every": "fortnight", "by": "sum"}, "every='fortnight' is not known"),
        ({"every": "month", "by": "median"}, "by='median' is not known. Did you mean 'mean'"),
        ({"every": "year", "by": "sum"}, "the series covers no complete year"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        read_series(SERIES, **options)


def test_numbers_cannot_be_aggregated():
    with pytest.raises(ValueError, match="the times are numbers"):
        read_series([1.0, 2.0, 3.0], every="month", by="sum")
