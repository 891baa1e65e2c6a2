"""Times as text, dates and numbers: the truth is what the test wrote."""

import datetime as dt
import zoneinfo

import numpy as np
import pandas as pd
import pytest

from bayeskern.series.dates.times import parse_times


def dates(text: str) -> np.ndarray:
    return np.array(text.split(), "M8[s]")


PARSED = {
    "months": (["2020-01", "2020-02"], "2020-01-01 2020-02-01"),
    "days": (["2020-01-31", " 2020-02-01 "], "2020-01-31 2020-02-01"),
    "T": (["2020-01-31T05:00", "2020-01-31T06:00"], "2020-01-31T05:00 2020-01-31T06:00"),
    "space": (["2020-01-31 05:00:00", "2020-01-31"], "2020-01-31T05:00 2020-01-31"),
    "offsets": (
        ["2020-01-31T05:00+02:00", "2020-01-31T05:00Z"],
        "2020-01-31T03:00 2020-01-31T05:00",
    ),
    "month first": (["02/01/2020 05:00", "01/31/2020 05:00"], "2020-02-01T05:00 2020-01-31T05:00"),
    "digits of months": (["202001", "202002"], "2020-01-01 2020-02-01"),
    "date": ([dt.date(2020, 1, 31)], "2020-01-31"),
    "datetime": ([dt.datetime(2020, 1, 31, 5), dt.date(2020, 2, 1)], "2020-01-31T05:00 2020-02-01"),
    "aware": (
        [dt.datetime(2020, 1, 31, 5, tzinfo=dt.timezone(dt.timedelta(hours=2)))],
        "2020-01-31T03:00",
    ),
    "zone": (
        [dt.datetime(2020, 7, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))],
        "2020-06-30T22:00",
    ),
    "datetime64": (
        [np.datetime64("2020-01-31"), np.datetime64("2020-02-01T05")],
        "2020-01-31 2020-02-01T05:00",
    ),
    "pandas text": (pd.Series(["2020-01-31", "2020-02-01"]), "2020-01-31 2020-02-01"),
    "pandas zone": (
        pd.Series(pd.date_range("2020-07-01", periods=1, tz="Europe/Berlin")),
        "2020-06-30T22:00",
    ),
}


@pytest.mark.parametrize(("values", "expected"), PARSED.values(), ids=PARSED)
def test_parse(values, expected):
    np.testing.assert_array_equal(parse_times(values), dates(expected))
    assert parse_times(values).dtype == "M8[s]"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1949", "1950"], np.array([1949, 1950])),
        (["-1", "+2", "30"], np.array([-1, 2, 30])),
        (np.array([1, 2], np.int32), np.array([1, 2])),
        ([np.int64(1), 2], np.array([1, 2])),
        (["2.4", "3", "1e2"], np.array([2.4, 3.0, 100.0])),
        (["1", "2", "2.5"], np.array([1.0, 2.0, 2.5])),
        ([1, 2.5], np.array([1.0, 2.5])),
        (["202013", "202014"], np.array([202013, 202014])),
    ],
)
def test_parse_numbers(values, expected):
    parsed = parse_times(values)
    np.testing.assert_array_equal(parsed, expected)
    assert parsed.dtype == expected.dtype


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["2020-01-01", "soon"], "when, row 2: cannot read 'soon'; write dates"),
        (["2020-01-01", "2020-02-30"], "row 2: cannot read '2020-02-30'"),
        (["2020-W01", "2020-W60"], "row 2: cannot read '2020-W60'"),
        (["1949", "1950-01"], "row 2: cannot read '1950-01'"),
        (["20200131", "20200230"], "row 2: cannot read '20200230'"),
        (["20200131", "2020013"], "row 2"),
        (["2020Q1", "2020Q5"], "row 2: cannot read '2020Q5'"),
        (
            ["01/02/2020", "03/04/2020"],
            "row 1: '01/02/2020' may be .*-02-01 .*%d/%m/%Y.* or .*%m/%d",
        ),
        (["31/01/2020", "01/31/2020"], "row 2: cannot read '01/31/2020'"),
        (["2020-01-01T00:00", "2020-01-01T01:00Z"], "row 2: .*has an offset"),
        ([dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.datetime(2020, 1, 2)], "row 2: .*has no"),
        (["2020-01-01", None], "row 2: the time is missing"),
        (["2020-01-01", ""], "row 2: the time is missing"),
        (["2020-01-01", "NA"], "row 2: the time is missing"),
        ([dt.date(2020, 1, 1), pd.NaT], "row 2: the time is missing"),
        (np.array(["2020-01-01", "NaT"], "M8[D]"), "row 2: the time is missing"),
        ([1.0, 2.0, np.nan], "row 3: the time is missing"),
        (
            np.array(["2020-01-01", "-223571-11-01", "270970-09-09"], "M8[us]"),
            "row 2: -223571-11-01T00:00:00.000000 is not in the years 1 to 9999; check the time",
        ),
        (np.array(["9999-12-31", "10000-01-01"], "M8[D]"), "row 2: 10000-01-01 is not in the"),
        ([dt.date(2020, 1, 1), "2020-01-02"], "row 2: cannot read"),
        ([True, False], "got bool"),
        ([1, None, True], "row 2"),
        (np.zeros((2, 2)), r"shape \(2, 2\)"),
    ],
)
def test_unreadable_times(values, message):
    with pytest.raises(ValueError, match=f"^when.*{message.removeprefix('when')}"):
        parse_times(values, "when")
