"""Wall clocks and UTC, against pandas and against the known changes of clocks."""

import numpy as np
import pandas as pd
import pytest

from bayeskern.series.frequency import infer_calendar
from bayeskern.series.read_options import ReadOptions
from bayeskern.series.reading import read_series
from bayeskern.series.reading_many import read_many
from bayeskern.series.zones import to_utc, to_wall, zone_of


def dates(text: str) -> np.ndarray:
    return np.array(text.split(), "M8[s]")


def test_wall_clock_against_pandas():
    utc = pd.date_range("2024-01-01", "2025-01-01", freq="37min")
    for tz in ("America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu"):
        wall = utc.tz_localize("UTC").tz_convert(tz).tz_localize(None)
        np.testing.assert_array_equal(to_wall(utc.values, tz), wall.values)
        first = wall.tz_localize(tz, ambiguous=np.ones(len(wall), bool)).tz_convert(None)
        np.testing.assert_array_equal(to_utc(wall.values, tz), first.values)


def test_skipped_and_repeated_wall_times():
    wall = dates("2024-03-10T02:30 2024-11-03T01:30")
    utc = to_utc(wall, "America/New_York")
    np.testing.assert_array_equal(utc, dates("2024-03-10T07:30 2024-11-03T05:30"))
    expected = dates("2024-03-10T03:30 2024-11-03T01:30")
    np.testing.assert_array_equal(to_wall(utc, "America/New_York"), expected)


def test_the_zone_of_datetimes_is_kept():
    zoned = pd.date_range("2024-03-28", periods=6, freq="D", tz="Europe/Berlin")
    assert zone_of(zoned) == zone_of([t.to_pydatetime() for t in zoned]) == "Europe/Berlin"
    assert zone_of(["2020-01-01"]) is None and zone_of(dates("2020-01-01")) is None
    axis = infer_calendar(zoned[:3])
    assert axis.tz == "Europe/Berlin" and axis.description == "daily"
    np.testing.assert_array_equal(axis.future(3), zoned[3:].tz_convert(None).values)


# Local hours of Berlin around the end of summer time: 2:00 to 2:59 occurs twice.
HOURS = pd.date_range("2024-10-26", periods=72, freq="h", tz="Europe/Berlin")
LOCAL = HOURS.tz_localize(None).strftime("%Y-%m-%d %H:%M")
VALUES = np.arange(72.0)
BERLIN = {"timezone": "Europe/Berlin"}


@pytest.mark.parametrize("order", [1, -1], ids=["ascending", "descending"])
@pytest.mark.parametrize("zones", ["an option", "a column", "a named column"])
def test_local_times_of_a_file(tmp_path, order, zones):
    """pandas knows the UTC of each hour; the file has the local time only."""
    frame = pd.DataFrame({"time": LOCAL, "y": VALUES})[::order]
    options = BERLIN
    if zones != "an option":
        name = "tz" if zones == "a column" else "where"
        frame[name] = "Europe/Berlin"
        options = {} if zones == "a column" else {"timezone": "where", "value": "y"}
    path = tmp_path / "meter.csv"
    frame.to_csv(path, index=False)
    series = read_series(path, **options)
    np.testing.assert_array_equal(series.times, HOURS.tz_convert(None))
    np.testing.assert_array_equal(series.values, VALUES)
    assert series.calendar.tz == "Europe/Berlin" and series.calendar.description == "hourly"
    said = "the times are local times of the zones in " in " ".join(series.remarks)
    assert said == (zones != "an option")


def test_offsets_are_shown_in_the_zone():
    texts = [time.isoformat() for time in HOURS]
    series = read_series(VALUES, times=texts, **BERLIN)
    np.testing.assert_array_equal(series.times, HOURS.tz_convert(None))
    assert series.calendar.tz == "Europe/Berlin" and series.remarks == ()
    longer = pd.date_range(HOURS[0], periods=97, freq="h").map(lambda time: time.isoformat())
    days = read_series(longer.to_list(), every="day", by="count", **BERLIN)
    np.testing.assert_array_equal(days.values, [24, 25, 24, 24])
    seconds = [int(time.timestamp()) for time in HOURS]
    series = read_series(VALUES, times=seconds, **BERLIN)
    np.testing.assert_array_equal(series.times, HOURS.tz_convert(None))


def test_each_of_many_series_has_its_zone():
    tokyo = HOURS.tz_convert("Asia/Tokyo").tz_localize(None).strftime("%Y-%m-%d %H:%M")
    frame = pd.DataFrame(
        {
            "store": ["a"] * 72 + ["b"] * 72,
            "time": [*LOCAL, *tokyo],
            "tz": ["Europe/Berlin"] * 72 + ["Asia/Tokyo"] * 72,
            "y": [*VALUES, *VALUES],
        }
    )
    for reader, tz in zip(
        read_many(frame, "store", ReadOptions()).functions, ("Europe/Berlin", "Asia/Tokyo"),
        strict=True,
    ):  # fmt: skip
        series = reader()
        np.testing.assert_array_equal(series.times, HOURS.tz_convert(None))
        assert series.calendar.tz == tz
    # Times of several zones in one series are those of UTC.
    mixed = frame.iloc[[*range(36), *range(72 + 36, 144)]].drop(columns="store")
    series = read_series(mixed)
    np.testing.assert_array_equal(series.times, HOURS.tz_convert(None))
    assert series.calendar.tz is None and "2 time zones" in " ".join(series.remarks)
    both = pd.concat([frame[:72], frame[:72].assign(store="c")]).drop(columns="tz")
    for options in (ReadOptions(timezone="Europe/Berlin"),):
        for reader in read_many(both, "store", options).functions:
            np.testing.assert_array_equal(reader().times, HOURS.tz_convert(None))


def test_a_regressor_frame_has_the_zone_of_the_series():
    prices = pd.DataFrame({"time": LOCAL, "price": VALUES})
    series = read_series(pd.DataFrame({"time": LOCAL, "y": VALUES}), regressors=prices, **BERLIN)
    np.testing.assert_array_equal(series.regressors.times, series.times)


def test_a_regressor_frame_has_the_zone_of_a_column_of_the_series():
    prices = pd.DataFrame({"time": LOCAL, "price": VALUES})
    frame = pd.DataFrame({"time": LOCAL, "y": VALUES, "where": "Europe/Berlin"})
    series = read_series(frame, value="y", timezone="where", regressors=prices)
    np.testing.assert_array_equal(series.regressors.times, HOURS.tz_convert(None))


def test_bad_zones():
    hours = ["2024-03-31 01:00", "2024-03-31 02:30", "2024-03-31 04:00"]
    for times, zone, message in (
        (
            LOCAL[:3],
            "Europe/Berln",
            "must be a time zone.*got 'Europe/Berln'. Did you mean 'Europe/Ber",
        ),
        (LOCAL[:3], "../etc/passwd", "must be a time zone"),
        (hours, "Europe/Berlin", "row 2: 2024-03-31T02:30:00 does not exist in Europe/Berlin"),
        ([1, 2, 4], "Europe/Berlin", "needs dates"),
    ):
        with pytest.raises(ValueError, match=message):
            read_series([1.0, 2.0, 3.0], times=times, timezone=zone)
    # Days begin at 1:00 where clocks skip midnight.
    days = ["2018-11-03", "2018-11-04", "2018-11-05"]
    assert read_series([1.0, 2.0, 3.0], times=days, timezone="America/Sao_Paulo")
