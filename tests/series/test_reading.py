"""Reading a series: the truth is what the test wrote into the file, frame or array."""

import datetime as dt
import zoneinfo

import numpy as np
import pandas as pd
import polars as pl
import pytest

from bayeskern import datasets
from bayeskern.series.reading import read_series

MONTHS = np.array(["2020-01", "2020-02", "2020-03", "2020-04", "2020-05"], "M8[s]")
VALUES = np.array([1.5, 2.25, -3.0, 4e3, 5.0])


def written(tmp_path, text, name="sales.csv", encoding="utf-8"):
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    return path


def same(series, times, values):
    np.testing.assert_array_equal(series.times, times)
    np.testing.assert_array_equal(series.values, values)


# -- data sets -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", datasets.names())
def test_data_sets_by_name(name):
    data = datasets.load(name)
    if name == "motorcycle":  # several values at the same time
        with pytest.raises(ValueError, match=r"8\.8 occurs 2 times.*Aggregate"):
            read_series(name)
        return
    series = read_series(name)
    same(series, data.times, data.values)
    assert (series.name, series.time_name) == (name, data.time_name)
    assert series.value_name == data.value_name


def test_columns_of_a_data_set_are_checked():
    assert read_series("co2", time="month", value="co2").name == "co2"
    with pytest.raises(ValueError, match="value='co3' .* Did you mean 'co2'"):
        read_series("co2", value="co3")


# -- CSV -------------------------------------------------------------------------------------------

LINES = "2020-01-01,1.5 2020-02-01,2.25 2020-03-01,-3 2020-04-01,4e3 2020-05-01,5"
FILES = {
    "comma": "month,sales\n" + LINES.replace(" ", "\n") + "\n",
    "no newline at the end": "month,sales\n" + LINES.replace(" ", "\n"),
    "CRLF": "month,sales\r\n" + LINES.replace(" ", "\r\n") + "\r\n",
    "semicolon": "month;sales\n" + LINES.replace(",", ";").replace(" ", "\n"),
    "tab": "month\tsales\n" + LINES.replace(",", "\t").replace(" ", "\n"),
    "byte order mark": "\ufeffmonth,sales\n" + LINES.replace(" ", "\n"),
    "quoted": '"month","sales"\n' + LINES.replace(",", '","').replace(" ", '"\n"').join('""'),
    "empty lines": "\n\nmonth,sales\n\n" + LINES.replace(" ", "\n\n") + "\n\n",
    "empty cells": "month,sales\n,\n" + LINES.replace(" ", "\n") + "\n , \n",
    "decimal commas": "month;sales\n2020-01-01;1,5\n2020-02-01;2,25\n2020-03-01;-3\n"
    "2020-04-01;4,000e3\n2020-05-01;5,000",
    "values first": "sales,month\n1.5,2020-01\n2.25,2020-02\n-3,2020-03\n4e3,2020-04\n5,2020-05",
}
FILES["spaces"] = " month , sales \n" + "\n".join(
    " " + line.replace(",", " , ") for line in LINES.split()
)


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_csv(tmp_path, text):
    series = read_series(str(written(tmp_path, text)))
    same(series, MONTHS, VALUES)
    assert (series.name, series.time_name, series.value_name) == ("sales", "month", "sales")
    assert series.remarks == ()


@pytest.mark.parametrize("word", ["", "NA", "nan", "n/a", "NULL", " ", ".", "--", "\u2013", "#N/A"])
def test_csv_missing_values(tmp_path, word):
    text = FILES["comma"].replace("2.25", word)
    series = read_series(written(tmp_path, text))
    same(series, MONTHS, [1.5, np.nan, -3, 4e3, 5])
    np.testing.assert_array_equal(series.observed, [True, False, True, True, True])
    assert series.remarks == ("1 missing value left out of the fit",)


def test_delimiters_inside_quotes_are_ignored(tmp_path):
    text = 'date;"Sales (EUR, net, without tax)"\n2020-01-01;1\n2020-02-01;2\n2020-03-01;4\n'
    series = read_series(written(tmp_path, text))
    assert series.value_name == "Sales (EUR, net, without tax)"
    np.testing.assert_array_equal(series.values, [1, 2, 4])


@pytest.mark.parametrize(
    "lines",
    [
        LINES.split(),
        LINES.replace(",", ";").replace(".", ",").split(),
        ["2015Q1\t3", "2015Q2\t5", "2015Q3\t4"],
        ["1871,1120", "1872,1160", "1873,963", "1874,1210"],
        ["2020-01-01,NA", *LINES.split()[1:]],
    ],
    ids=["dates", "decimal commas", "tabs", "years", "missing"],
)
def test_a_file_without_a_header_is_refused(tmp_path, lines):
    """Otherwise its first value would be lost."""
    with pytest.raises(ValueError, match="has no header.* such as .time.value"):
        read_series(written(tmp_path, "\n".join(lines)))


@pytest.mark.parametrize(
    ("text", "time", "value"),
    [
        ("week,2019,2020\n1,1,9\n2,2,9\n3,4,9\n", "week", "2019"),
        (",2019\n2020-01,1\n2020-02,2\n2020-03,4\n", "time", "2019"),
        ("0,1\n2020-01,1\n2020-02,2\n2020-03,4\n", "0", "1"),
        ("2019,sales\n1,1\n2,2\n3,4\n", "2019", "sales"),
    ],
)
def test_names_of_columns_may_be_numbers(tmp_path, text, time, value):
    series = read_series(written(tmp_path, text), value=value)
    assert (series.time_name, series.value_name) == (time, value)
    np.testing.assert_array_equal(series.values, [1, 2, 4])


def test_row_numbers_without_a_name_are_ignored(tmp_path):
    frame = pd.DataFrame({"date": ["2020-01-01", "2020-02-01", "2020-03-01"], "sales": [1, 2, 4]})
    path = tmp_path / "pandas.csv"
    frame.to_csv(path)
    np.testing.assert_array_equal(read_series(path).times, MONTHS[:3])
    frame.rename(columns={"date": "when"}).to_csv(path)
    np.testing.assert_array_equal(read_series(path, time="when").values, [1, 2, 4])
    frame.set_index("date")["sales"].rename_axis(None).to_csv(path)
    series = read_series(path)
    np.testing.assert_array_equal(series.times, MONTHS[:3])
    assert series.time_name == "time"


def test_columns_are_guessed_or_named(tmp_path):
    text = "store,day,units,price\n7,2020-01-01,1,10\n8,2020-01-02,3,20\n9,2020-01-03,2,30\n"
    path = written(tmp_path, text)
    np.testing.assert_array_equal(read_series(path, value="units").values, [1, 3, 2])
    assert read_series(path, value="price").time_name == "day"
    series = read_series(path, time="store", value="price")
    same(series, [7, 8, 9], [10, 20, 30])
    with pytest.raises(ValueError, match="must name .* store, units, price"):
        read_series(path)
    with pytest.raises(ValueError, match="value='pric' .* Did you mean 'price'"):
        read_series(path, value="pric")
    with pytest.raises(ValueError, match="time='dayy' .* Did you mean 'day'"):
        read_series(path, time="dayy", value="units")


def test_the_value_column_is_not_the_time_column(tmp_path):
    path = written(tmp_path, "sales,when\n4,2020-01-01\n3,2020-02-01\n5,2020-03-01\n")
    series = read_series(path, value="sales")
    same(series, MONTHS[:3], [4, 3, 5])
    frame = pd.DataFrame({"t": [5.0, 6.0, 8.0], "k": [1, 2, 3]})
    assert read_series(frame, value="t").time_name == "k"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("2020-01-01,3", "at least 3 values; got 1 value"),
        ("2020-01-01,3 2020-02-01, 2020-03-01,4", "got 2 values"),
        ("2020-01-01, 2020-02-01,NA", "got 0 values in 2 rows"),
        ("2020-01-01,3 2020-02-01,many 2020-03-01,4", "sales, row 2: 'many' is not a number"),
        ('2020-01-01,3 2020-02-01,"4 2020-03-01,4', "not a CSV file: .* quotation mark left open"),
        ("2020-01-01,3 2020-02-01,2 2020-03-01,inf", "sales, row 3: the value is infinite"),
        ("2020-01-01,3 2020-02-01,4,9", "row 2: 3 cells, but the header"),
        ("2020-01-01,3 ,4 2020-03-01,4", "month, row 2: the time is missing"),
        ("2020-01-01,3 2020-02-01,4 2020-02-01,4", "2020-02-01 occurs 2 times"),
        ("2020-01-01,$1 2020-02-01,£2 2020-03-01,$3", r"sales has values in \$ and £"),
        ("2020-01-01,1% 2020-02-01,2 2020-03-01,3%", "sales: row 1 is '1%' and row 2 '2'"),
        ("2020-01-01,(1 2020-02-01,2 2020-03-01,3", r"sales, row 1: '\(1' is not a number"),
        ('2020-01-01,"3,5" 2020-02-01,4.5 2020-03-01,4', "row 1: '3,5' is not .* in notation"),
        ("30.01.2019,1 31.01.2019,2 32.01.2019,3", r"month, row 3: cannot read '32\.01\.2019'"),
        ("2019-01-13T13:00PM,1 2019-01-14T01:00PM,2", "row 1: cannot read '2019-01-13T13:00PM'"),
    ],
)
def test_bad_rows(tmp_path, rows, message):
    path = written(tmp_path, "month,sales\n" + rows.replace(" ", "\n"))
    with pytest.raises(ValueError, match=message) as info:
        read_series(path)
    assert "\n" not in str(info.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no rows"),
        ("month,sales\n", "has a header but no rows"),
        ("sales,sales\n1,2\n2,3\n", "two columns of the same name"),
        ("year,month,sales\n2019,1,3\n,2,4\n2019,3,1\n", "month, row 2: the time is missing"),
    ],
)
def test_bad_headers(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_series(written(tmp_path, text))


def test_a_path_that_does_not_exist():
    with pytest.raises(ValueError, match="'sunspot' is neither a file"):
        read_series("sunspot")
    with pytest.raises(ValueError, match=r"airline, co2, motorcycle, nile, sunspots"):
        read_series("no/such/file.csv")


# -- pandas and polars -----------------------------------------------------------------------------


def test_pandas_series_with_dates():
    series = read_series(pd.Series(VALUES, MONTHS, name="sales").rename_axis("month"))
    same(series, MONTHS, VALUES)
    assert (series.time_name, series.value_name) == ("month", "sales")
    nameless = read_series(pd.Series(VALUES, MONTHS))
    assert (nameless.time_name, nameless.value_name) == ("time", "value")


def test_pandas_series_with_a_zone():
    index = pd.date_range("2024-03-29", periods=5, freq="D", tz="Europe/Berlin")
    series = read_series(pd.Series(VALUES, index))
    np.testing.assert_array_equal(series.times, index.tz_convert("UTC").tz_localize(None))
    assert series.calendar.tz == "Europe/Berlin"
    assert series.calendar.description == "daily"  # although one of them has 23 hours
    assert np.unique(np.diff(series.times)).size == 2


def test_pandas_series_with_periods():
    index = pd.period_range("2019Q3", periods=5, freq="Q")
    series = read_series(pd.Series(VALUES, index))
    np.testing.assert_array_equal(series.times, index.to_timestamp())
    assert series.calendar.description == "quarterly, at quarter start"


def test_pandas_series_with_row_numbers():
    series = read_series(pd.Series(VALUES))
    same(series, np.arange(5), VALUES)
    years = read_series(pd.Series(VALUES, range(1871, 1876)))
    same(years, np.arange(1871, 1876), VALUES)
    dropped = read_series(pd.Series([1.0, np.nan, 3, 4, 5]).dropna())
    same(dropped, [0, 2, 3, 4], [1, 3, 4, 5])


def test_missing_values_of_pandas():
    series = read_series(pd.Series([1, None, 3, 4], dtype="Int64"))
    np.testing.assert_array_equal(series.values, [1, np.nan, 3, 4])
    frame = pd.DataFrame({"date": MONTHS[:4], "n": pd.array([1, 2, None, 4], "Float64")})
    np.testing.assert_array_equal(read_series(frame).values, [1, 2, np.nan, 4])


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames(make):
    months = MONTHS.astype("M8[us]")  # polars knows no seconds
    frame = make({"sales": VALUES, "date": months, "other": VALUES[::-1]})
    series = read_series(frame, value="sales")
    same(series, MONTHS, VALUES)
    assert (series.name, series.time_name) == ("sales", "date")
    with pytest.raises(ValueError, match="there are sales, other"):
        read_series(frame)
    with pytest.raises(ValueError, match="value='sale' .* Did you mean 'sales'"):
        read_series(frame, value="sale")
    texts = make({"when": [str(t)[:10] for t in MONTHS], "sales": VALUES})
    same(read_series(texts), MONTHS, VALUES)
    text = make({"date": months[:3], "sales": ["1", "2", "many"]})
    with pytest.raises(ValueError, match="sales, row 3: 'many' is not a number"):
        read_series(text)


def test_pandas_frames_by_their_index():
    frame = pd.DataFrame({"sales": VALUES, "price": VALUES}, index=pd.Index(MONTHS, name="month"))
    same(read_series(frame, value="price"), MONTHS, VALUES)
    assert read_series(frame, time="month", value="price").time_name == "month"
    quarters = pd.DataFrame({"y": VALUES}, index=pd.period_range("2020Q1", periods=5, freq="Q"))
    np.testing.assert_array_equal(read_series(quarters).times, quarters.index.to_timestamp())


def test_leftover_row_numbers_of_pandas_are_not_times():
    """Sorting and choosing rows leave an index of old row numbers: the dates are the times."""
    order = [3, 0, 4, 2, 1]
    frame = pd.DataFrame({"date": MONTHS[order], "sales": VALUES[order], "store": "a"})
    arranged = frame.sort_values("sales")
    assert list(arranged.index) != list(range(5))
    same(read_series(arranged, value="sales"), MONTHS, VALUES)
    chosen = frame.rename(columns={"date": "when"}).loc[frame.sales > 0].drop(columns="store")
    same(read_series(chosen), MONTHS[VALUES > 0], VALUES[VALUES > 0])


def test_a_pandas_frame_with_periods_in_a_column():
    months = pd.period_range("2020-01", periods=5, freq="M")
    same(read_series(pd.DataFrame({"month": months, "y": VALUES})), MONTHS, VALUES)


def test_column_names_that_are_numbers():
    frame = pd.DataFrame({0: MONTHS, 1: VALUES})
    same(read_series(frame), MONTHS, VALUES)
    same(read_series(frame, time="0", value="1"), MONTHS, VALUES)


def test_polars_series():
    series = read_series(pl.Series("sales", VALUES))
    same(series, np.arange(5), VALUES)
    assert series.value_name == "sales"
    dates = pl.Series([dt.date(2020, m, 1) for m in range(1, 6)])
    same(read_series(pl.Series(VALUES), times=dates), MONTHS, VALUES)
    missing = read_series(pl.Series([1, None, 3, 4]))
    np.testing.assert_array_equal(missing.values, [1, np.nan, 3, 4])


def test_polars_dates_with_a_zone():
    frame = pl.DataFrame(
        {
            "date": [
                dt.datetime(2024, 3, d, tzinfo=zoneinfo.ZoneInfo("Asia/Tokyo")) for d in (1, 2, 3)
            ],
            "y": VALUES[:3],
        }
    )
    series = read_series(frame)
    assert series.calendar.tz == "Asia/Tokyo"
    assert series.times[0] == np.datetime64("2024-02-29T15:00")


# -- arrays and lists ------------------------------------------------------------------------------


def test_arrays_and_lists():
    for source in (VALUES, list(VALUES), tuple(VALUES), VALUES.astype("f4")):
        same(read_series(source), np.arange(5), VALUES)
    same(read_series(VALUES, times=MONTHS), MONTHS, VALUES)
    same(read_series(VALUES, times=pd.DatetimeIndex(MONTHS)), MONTHS, VALUES)
    same(read_series(VALUES, times=pd.PeriodIndex(MONTHS, freq="M")), MONTHS, VALUES)
    same(read_series(VALUES, times=[str(t)[:7] for t in MONTHS]), MONTHS, VALUES)
    same(read_series([1, None, 3, 4]), np.arange(4), [1, np.nan, 3, 4])
    same(read_series(VALUES, times=[1.5, 2.5, 4.0, 4.5, 9.0]), [1.5, 2.5, 4.0, 4.5, 9.0], VALUES)


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (np.ones((2, 3)), {}, r"one-dimensional, got shape \(2, 3\)"),
        (7.0, {}, r"one-dimensional, got shape \(\)"),
        (VALUES, {"times": MONTHS[:4]}, "times has 4 entries"),
        (["1", "b", "3"], {}, "value, row 2: 'b' is not a number"),
        ([1.0, 2.0, -np.inf, 3.0], {}, "value, row 3: the value is infinite"),
        (MONTHS.astype("M8[ns]"), {}, "value, row 1: '2020-01-01.*' is not a number"),
        ([1j, 2.0, 3.0], {}, "value, row 1: '1j' is not a number"),
        ([], {}, "got 0 values in 0 rows"),
        ([np.nan] * 3, {}, "got 0 values in 3 rows"),
        ([1.0, 2.0], {}, "got 2 values"),
        (VALUES, {"value": "sales"}, "value= cannot be used"),
        ("nile", {"times": MONTHS}, "times= cannot be used"),
    ],
)
def test_bad_arrays(source, options, message):
    with pytest.raises(ValueError, match=message):
        read_series(source, **options)


# -- order and ends --------------------------------------------------------------------------------


def test_unsorted_times_are_sorted_with_a_remark():
    order = [2, 0, 1, 4, 3]
    series = read_series(VALUES[order], times=MONTHS[order])
    same(series, MONTHS, VALUES)
    assert series.remarks == ("the times were not in order and have been sorted",)


def test_missing_rows_at_the_end_are_dropped_with_a_remark():
    values = np.append(VALUES, [np.nan, np.nan])
    times = np.arange("2020-01", "2020-08", dtype="M8[M]")
    series = read_series(values, times=times)
    same(series, MONTHS, VALUES)
    assert series.remarks == ("2 rows at the end have no value: forecast too",)
    assert series.calendar.future(1)[0] == np.datetime64("2020-06-01")
    one = read_series(values[:-1], times=times[:-1])
    assert one.remarks == ("1 row at the end has no value: forecast too",)


def test_offsets_without_a_zone_are_shown_in_utc(tmp_path):
    day = "2024-01-{:02}T00:00:00{}"
    for offset, hours in (("+01:00", 1), ("-05:00", -5), ("Z", 0), ("+00:00", 0), ("", 0)):
        times = [day.format(d, offset) for d in (2, 3, 4)]
        rows = "".join(f"{time},{i}\n" for i, time in enumerate(times))
        series = read_series(written(tmp_path, "time,y\n" + rows))
        expected = np.array(["2024-01-02", "2024-01-03", "2024-01-04"], "M8[s]")
        np.testing.assert_array_equal(series.times, expected - np.timedelta64(hours, "h"))
        assert ["UTC" in remark for remark in series.remarks] == [True] * (hours != 0)
    zone = dt.timezone(dt.timedelta(hours=2))
    times = [dt.datetime(2024, 1, d, tzinfo=zone) for d in (2, 3, 4)]
    assert "UTC" in read_series([1.0, 2.0, 4.0], times=times).remarks[0]
