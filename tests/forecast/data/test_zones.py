"""Wall clocks and UTC, against pandas and against the known changes of clocks."""

import numpy as np
import pandas as pd

from bayeskern.forecast.data.frequency import infer_calendar
from bayeskern.forecast.data.zones import to_utc, to_wall, zone_of


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
