"""Times and numbers at the ends of their ranges: a grid that is too long is refused."""

import numpy as np
import pandas as pd
import pytest

import bayeskern as bk

VALUES = np.arange(41.0)
MINUTES = pd.date_range("2020-01-01", periods=40, freq="min")


def frame(times, values=VALUES):
    return pd.DataFrame({"t": times, "v": values})


def test_a_far_date_does_not_fill_the_memory():
    """100 years of minutes took 23 seconds and several gigabytes."""
    far = frame(MINUTES.append(pd.DatetimeIndex(["2120-01-01"])))
    with pytest.raises(ValueError, match="every='minute' has 52,.* steps for 41 values"):
        bk.read_series(far, every="minute", by="sum")
    series = bk.read_series(far)
    assert len(series.values) == 41
    with pytest.raises(ValueError, match="t, every minute, has 52,.* by mistake"):
        series.on_grid()


def test_days_of_a_far_year_are_aggregated():
    """Dates after 2262 do not fit into nanoseconds."""
    times = pd.date_range("2500-01-01", periods=100, freq="D", unit="s")
    series = bk.read_series(frame(times, np.ones(100)), every="month", by="sum")
    np.testing.assert_array_equal(series.values, [31, 28, 31])
    assert series.times[0] == np.datetime64("2500-01-01")


def test_integers_beyond_64_bits():
    times = [10**30 * i for i in range(1, 6)]
    series = bk.read_series(
        pd.DataFrame({"t": times, "v": [1.0, 2.0, 3.0, 2.0, 1.0]}, dtype=object)
    )
    np.testing.assert_allclose(series.times, np.array(times, float), rtol=1e-15)
    with pytest.raises(ValueError, match="t has a time beyond 1e308"):
        bk.read_series(pd.DataFrame({"t": [1, 2, 10**400], "v": [1, 2, 3]}, dtype=object))
    values = [10**30, 2 * 10**30, 3]
    series = bk.read_series(pd.DataFrame({"t": [0, 1, 2], "v": values}, dtype=object))
    np.testing.assert_allclose(series.values, np.array(values, float), rtol=1e-15)
    with pytest.raises(ValueError, match="v"):
        bk.read_series(pd.DataFrame({"t": [0, 1, 2], "v": [1, 2, 10**400]}, dtype=object))
    # Unsigned integers above 2^63 are no nanoseconds since 1970.
    unsigned = np.array([2**63 + 2**20 * i for i in range(5)], "u8")
    np.testing.assert_array_equal(bk.read_series(frame(unsigned, np.ones(5))).times, unsigned)
