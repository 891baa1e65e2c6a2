"""New values of a series from files, frames and arrays."""

import numpy as np
import pandas as pd
import pytest

import bayeskern as bk
from bayeskern.series.new_values import NoNewValuesError, new_values
from bayeskern.series.read_options import ReadOptions

MONTHS = pd.date_range("2020-01-01", periods=24, freq="MS")
VALUES = 50.0 + np.arange(24.0)
SERIES = bk.read_series(pd.DataFrame({"month": MONTHS[:20], "sales": VALUES[:20]}))
TABLE = pd.DataFrame({"month": MONTHS, "sales": VALUES, "price": 1.0})
LATER = MONTHS[20:].to_numpy("M8[s]")


def csv(path, frame):
    frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("rows", [slice(None), slice(18, None), slice(20, None)])
def test_rows_after_the_end_are_new(rows, tmp_path):
    shuffled = TABLE[rows].sample(frac=1.0, random_state=0)
    for source in (shuffled, csv(tmp_path / "new.csv", shuffled), TABLE.set_index("month").sales):
        new = new_values(source, SERIES)
        np.testing.assert_array_equal(new.times, LATER)
        np.testing.assert_array_equal(new.values, VALUES[20:])


def test_arrays_are_the_next_values():
    assert new_values([1.0, 2.0], SERIES) == (None, [1.0, 2.0], ())


def test_revised_values_have_a_remark():
    revised = TABLE.assign(sales=TABLE.sales + (TABLE.month == MONTHS[4]))
    (remark,) = new_values(revised, SERIES).remarks
    assert remark.startswith("1 earlier value differ")


def test_missing_new_values_are_an_error(tmp_path):
    with pytest.raises(NoNewValuesError, match="no value of sales after 2021-08-01"):
        new_values(TABLE[:20], SERIES)
    with pytest.raises(ValueError, match="must name the column of values"):
        new_values(TABLE.rename(columns={"sales": "units"}), SERIES)


def test_local_times_have_the_zone_of_the_series():
    hours = pd.date_range("2024-03-30", periods=72, freq="h", tz="Europe/Berlin")
    zoned = pd.Series(np.arange(72.0), hours, name="load")
    series = bk.read_series(zoned[:60])
    local = pd.DataFrame({"time": zoned.index.tz_localize(None).astype(str), "load": zoned.values})
    new = new_values(local, series)
    np.testing.assert_array_equal(new.times, hours[60:].tz_convert("UTC").tz_localize(None))


def test_new_values_are_aggregated():
    days = pd.date_range("2024-01-01", periods=90)
    daily = pd.DataFrame({"day": days, "sales": np.ones(90)})
    weekly = bk.read_series(daily[:56], every="week", by="sum")
    new = new_values(daily, weekly, ReadOptions(every="week", by="sum"))
    np.testing.assert_array_equal(new.values, [7.0] * 4)
    np.testing.assert_array_equal(new.times, days[56:84:7].to_numpy("M8[s]"))


def test_update_takes_a_frame_with_earlier_rows():
    model = bk.StructuralModel(method="map", log=False)
    f = bk.forecast(SERIES, 3, trend="drift", season=0, model=model)
    g = f.update(TABLE)
    np.testing.assert_allclose(g.median, f.update(VALUES[20:]).median, rtol=1e-12)
    np.testing.assert_array_equal(g.series.values, VALUES)
