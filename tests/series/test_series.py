"""A series and its past."""

import numpy as np

from bayeskern.series.reading import read_series


def test_until_keeps_earlier_values_only():
    values = np.array([1.0, 2.0, 3.0, np.nan, 5.0, 6.0])
    times = np.array(["2020-01-01", "2020-02-01", "2020-03-01", "2020-04-01", "2020-06-01",
                      "2020-07-01"], "M8[s]")  # fmt: skip
    series = read_series(values, times=times)
    past = series.until(5)
    np.testing.assert_array_equal(past.times, times[:5])
    np.testing.assert_array_equal(past.values, values[:5])
    past = series.until(4)  # the missing value at the end is left
    np.testing.assert_array_equal(past.times, times[:3])
    np.testing.assert_array_equal(past.values, values[:3])
    np.testing.assert_array_equal(
        series.until(4).calendar.future(2), np.array(["2020-04-01", "2020-05-01"], "M8[s]")
    )


def test_until_keeps_the_frequency():
    """Three values look as if they came every two days; the whole series does not."""
    days = np.array([0, 2, 4, 5, 6, 7, 8, 9, 10])
    series = read_series(np.arange(9.0), times=np.datetime64("2024-01-01") + days)
    assert series.until(3).calendar.future(1)[0] == np.datetime64("2024-01-06")
