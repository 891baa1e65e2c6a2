"""Files as people have them: what each is read as, or why it is refused."""

import datetime as dt
import gzip
import json

import numpy as np
import pandas as pd
import pytest

from bayeskern.series.reading import read_series

DAYS = np.array(["2019-01-13", "2019-01-14", "2019-01-15", "2019-01-16"], "M8[s]")
MONTHS = np.array(["2019-01", "2019-02", "2019-03", "2019-04"], "M8[s]")
QUARTERS = np.array(["2019-01", "2019-04", "2019-07", "2019-10"], "M8[s]")
HOURS = np.array(["2019-01-13T21", "2019-01-13T22", "2019-01-13T23", "2019-01-14T00"], "M8[s]")
WEEKS = np.array(["2018-12-31", "2019-01-07", "2019-01-14", "2019-01-21"], "M8[s]")
VALUES = np.array([14867.86, 999.5, -1022.0, 40.0])


def lines(times, values=("14867.86", "999.5", "-1022", "40"), delimiter=",", header="day,sales"):
    rows = [header.replace(",", delimiter)]
    rows += [f"{t}{delimiter}{v}" for t, v in zip(times, values, strict=True)]
    return "\n".join(rows) + "\n"


# Dates as written, and as read.
DATES = [
    ("2019-01-13 2019-01-14 2019-01-15 2019-01-16", DAYS),
    ("13.01.2019 14.01.2019 15.01.2019 16.01.2019", DAYS),
    ("01.01.2019 01.02.2019 01.03.2019 01.04.2019", MONTHS),
    ("13.1.19 14.1.19 15.1.19 16.1.19", DAYS),
    ("13.01.2019_21:00 13.01.2019_22:00 13.01.2019_23:00 14.01.2019_00:00", HOURS),
    ("13/01/2019 14/01/2019 15/01/2019 16/01/2019", DAYS),
    ("1/13/2019 1/14/2019 1/15/2019 1/16/2019", DAYS),
    ("1/13/19 1/14/19 1/15/19 1/16/19", DAYS),
    ("2019/1/13 2019/1/14 2019/1/15 2019/1/16", DAYS),
    ("13-01-2019 14-01-2019 15-01-2019 16-01-2019", DAYS),
    ("1/13/2019_9:00_PM 1/13/2019_10:00_PM 1/13/2019_11:00_PM 1/14/2019_12:00_AM", HOURS),
    ("2019-01-13_9:00_pm 2019-01-13_10:00_pm 2019-01-13_11:00_pm 2019-01-14_12:00_am", HOURS),
    ("Jan_2019 Feb_2019 Mar_2019 Apr_2019", MONTHS),
    ("January_2019 February_2019 March_2019 April_2019", MONTHS),
    ("Jan-19 Feb-19 Mar-19 Apr-19", MONTHS),
    ("Jan_'19 Feb_'19 Mar_'19 Apr_'19", MONTHS),
    ("2019-Jan 2019-Feb 2019-Mar 2019-Apr", MONTHS),
    ("13-Jan-2019 14-Jan-2019 15-Jan-2019 16-Jan-2019", DAYS),
    ("13-Jan-19 14-Jan-19 15-Jan-19 16-Jan-19", DAYS),
    ("13_January_2019 14_January_2019 15_January_2019 16_January_2019", DAYS),
    ("2019M01 2019M02 2019M03 2019M04", MONTHS),
    ("01/2019 02/2019 03/2019 04/2019", MONTHS),
    ("Q1_2019 Q2_2019 Q3_2019 Q4_2019", QUARTERS),
    ("2019-Q1 2019-Q2 2019-Q3 2019-Q4", QUARTERS),
    ("20190113 20190114 20190115 20190116", DAYS),
    ("201901132100 201901132200 201901132300 201901140000", HOURS),
    ("20190113210000 20190113220000 20190113230000 20190114000000", HOURS),
    ("1547337600 1547424000 1547510400 1547596800", DAYS),
    ("1547337600000 1547424000000 1547510400000 1547596800000", DAYS),
    ("2019-W01 2019-W02 2019-W03 2019-W04", WEEKS),
    ("2016 2017 2018 2019", np.array([2016, 2017, 2018, 2019])),
]


@pytest.mark.parametrize(("dates", "expected"), DATES)
def test_forms_of_dates(tmp_path, dates, expected):
    path = tmp_path / "sales.csv"
    path.write_text(lines(dates.replace("_", "\x01").split(" ")).replace("\x01", " "))
    series = read_series(path)
    np.testing.assert_array_equal(series.times, expected)
    np.testing.assert_array_equal(series.values, VALUES)
    epochs = [remark for remark in series.remarks if "since 1970" in remark]
    assert len(epochs) == dates.startswith("1547")


def test_an_american_date_with_commas_needs_quotes(tmp_path):
    path = tmp_path / "sales.csv"
    path.write_text(lines([f'"January {d}, 2019"' for d in (13, 14, 15, 16)]))
    np.testing.assert_array_equal(read_series(path).times, DAYS)


# How numbers are written, in the file's lines, and what else is said of them.
NUMBERS = {
    "plain": ("14867.86 999.5 -1022 40", ",", ""),
    "thousands": ('"14,867.86" 999.5 "-1,022" 40', ",", ""),
    "decimal commas": ("14867,86 999,5 -1022 40", ";", ""),
    "decimal commas in quotes": ('"14867,86" "999,5" -1022 40', ",", ""),
    "points and commas": ("14.867,86 999,5 -1.022 40", ";", ""),
    "spaces": ("14_867,86 999,5 -1_022 40,0", "\t", ""),
    "apostrophes": ("14'867.86 999.5 -1'022 40", ",", ""),
    "dollars": ('"$14,867.86" $999.50 "-$1,022" $40', ",", ""),
    "brackets": ('"14,867.86" 999.5 "(1,022)" 40', ",", ""),
    "euros": ("14.867,86_€ 999,50_€ -1.022_€ 40_€", ";", ""),
    "per cent": ("14867.86% 999.5% -1022% 40%", ",", "sales is in per cent"),
    "a minus of typesetters": ("14867.86 999.5 \u22121022 40", ",", ""),
    "exponents": ("1.486786e4 9.995e2 -1.022e3 4e1", ",", ""),
}


@pytest.mark.parametrize(("numbers", "delimiter", "remark"), NUMBERS.values(), ids=NUMBERS)
def test_forms_of_numbers(tmp_path, numbers, delimiter, remark):
    path = tmp_path / "sales.csv"
    values = [number.replace("_", " ") for number in numbers.split(" ")]
    path.write_text(lines(map(str, DAYS.astype("M8[D]")), values, delimiter), encoding="utf-8")
    series = read_series(path)
    np.testing.assert_allclose(series.values, VALUES, rtol=1e-15)
    assert remark in " ".join(series.remarks)


def test_commas_between_thousands_of_dollars(tmp_path):
    """Three digits after the comma are thousands where cents would be two; not so of euros."""
    path = tmp_path / "sales.csv"
    path.write_text(lines(map(str, DAYS.astype("M8[D]")), ['"$14,868"', "$9", '"$1,022"', "$40"]))
    np.testing.assert_array_equal(read_series(path).values, [14868, 9, 1022, 40])
    fuel = ["1,859 €", "1,799 €", "2 €", "1,919 €"]
    path.write_text(lines(map(str, DAYS.astype("M8[D]")), fuel, ";"), encoding="utf-8")
    with pytest.raises(ValueError, match="'1,859 €' may be 1.859 or 1859"):
        read_series(path)
    np.testing.assert_array_equal(read_series(path, decimal=",").values, [1.859, 1.799, 2, 1.919])


ISO_DAYS = [str(day) for day in DAYS.astype("M8[D]")]
PLAIN = lines(ISO_DAYS)
RECORDS = [{"day": day, "sales": float(value)} for day, value in zip(ISO_DAYS, VALUES, strict=True)]
# What the file is.
KINDS = {
    "pipes": lines(ISO_DAYS, delimiter="|").encode(),
    "utf-16": PLAIN.encode("utf-16"),
    "gzip": gzip.compress(PLAIN.encode()),
    "records": json.dumps(RECORDS).encode(),
    "lines of records": "\n".join(map(json.dumps, RECORDS)).encode(),
    "columns": json.dumps({"day": ISO_DAYS, "sales": list(VALUES)}).encode(),
    "an object around": json.dumps({"status": "ok", "data": RECORDS}).encode(),
    "two columns of time": lines(
        [f"{t[:4]},{int(t[5:7])},{t[8:]}" for t in ISO_DAYS], header="year,month,day,sales"
    ).encode(),
    "date and time": lines([f"{day},00:00" for day in ISO_DAYS], header="Date,Time,Sales").encode(),
}


@pytest.mark.parametrize("content", KINDS.values(), ids=KINDS)
def test_formats_of_files(tmp_path, content):
    # The name says nothing.
    path = tmp_path / "sales"
    path.write_bytes(content)
    series = read_series(path)
    np.testing.assert_array_equal(series.times, DAYS)
    np.testing.assert_array_equal(series.values, VALUES)
    assert (series.name, series.remarks) == ("sales", ())


@pytest.mark.parametrize(
    ("header", "times", "expected"),
    [
        ("Year,Month,sales", ["2019,1", "2019,2", "2019,3", "2019,4"], MONTHS),
        ("year,month,sales", ["2019,Jan", "2019,Feb", "2019,Mar", "2019,Apr"], MONTHS),
        (
            "year,month,day,sales",
            ["2019,Mar,1", "2019,April,1", "2019,May,1", "2019,June,1"],
            np.array(["2019-03", "2019-04", "2019-05", "2019-06"], "M8[s]"),
        ),
        ("year,quarter,sales", ["2019,1", "2019,2", "2019,3", "2019,4"], QUARTERS),
        ("year,quarter,sales", ["2019,Q1", "2019,Q2", "2019,Q3", "2019,Q4"], QUARTERS),
    ],
)
def test_parts_of_a_time_in_several_columns(tmp_path, header, times, expected):
    path = tmp_path / "sales.csv"
    path.write_text(lines(times, header=header))
    np.testing.assert_array_equal(read_series(path).times, expected)
    frame = pd.read_csv(path)
    np.testing.assert_array_equal(read_series(frame).times, expected)
    # Who names a column gets that one.
    year = pd.DataFrame({"year": [2016, 2017, 2018], "month": 1, "sales": [1.0, 2.0, 4.0]})
    np.testing.assert_array_equal(
        read_series(year, time="year", value="sales").times, [2016, 2017, 2018]
    )


def test_comments_are_left_out_with_a_remark(tmp_path):
    path = tmp_path / "sales.csv"
    path.write_text("# source: the till\n# euros\n" + PLAIN + "# end\n")
    series = read_series(path)
    np.testing.assert_array_equal(series.values, VALUES)
    assert series.remarks == ("3 comment lines left out",)


def test_latin_1_is_read_with_a_remark_or_by_its_name(tmp_path):
    path = tmp_path / "sales.csv"
    path.write_bytes(lines(ISO_DAYS, header="day,Verkäufe").encode("latin-1"))
    series = read_series(path)
    assert series.value_name == "Verkäufe"
    assert series.remarks == (
        "read as Windows-1252, because it is not UTF-8; use --encoding for another encoding",
    )
    assert read_series(path, encoding="latin-1").remarks == ()
    with pytest.raises(ValueError, match="is not text in utf-8"):
        read_series(path, encoding="utf-8")


def test_a_single_column_has_numbers_for_times(tmp_path):
    path = tmp_path / "sales.txt"
    path.write_text("sales\n3.5\n2.25\n\n4\n1\n")
    series = read_series(path)
    np.testing.assert_array_equal(series.times, [0, 1, 2, 3])
    np.testing.assert_array_equal(series.values, [3.5, 2.25, 4, 1])
    assert series.remarks == ("there is one column only: its times are the numbers 0 to 3",)
    path.write_text("3.5\n2.25\n4\n1\n")
    with pytest.raises(ValueError, match=r"has no header: its first line is 3\.5.*\"value\""):
        read_series(path)


def test_parquet(tmp_path):
    path = tmp_path / "sales.csv"  # whose name is wrong
    frame = pd.DataFrame({"day": DAYS, "sales": VALUES})
    frame.to_parquet(path)
    np.testing.assert_array_equal(read_series(path).values, VALUES)
    frame[::-1].to_parquet(path)
    np.testing.assert_array_equal(read_series(path).values, VALUES)
    frame.set_index("day").to_parquet(path)
    np.testing.assert_array_equal(read_series(path).times, DAYS)


def workbook(path, **sheets):
    with pd.ExcelWriter(path) as writer:
        for name, frame in sheets.items():
            frame.to_excel(writer, sheet_name=name, index=False)
    return path


def test_excel(tmp_path):
    frame = pd.DataFrame({"day": DAYS, "sales": VALUES})
    path = workbook(tmp_path / "sales.xlsx", data=frame, empty=pd.DataFrame())
    series = read_series(path)
    np.testing.assert_array_equal(series.times, DAYS)
    np.testing.assert_array_equal(series.values, VALUES)
    gaps = workbook(tmp_path / "gaps.xlsx", data=frame.assign(sales=[1.0, None, 2.0, 3.0]))
    np.testing.assert_array_equal(read_series(gaps).values, [1.0, np.nan, 2.0, 3.0])
    text = workbook(tmp_path / "text.xlsx", data=frame.assign(day=["Q1 2019", "Q2 2019", *"ab"]))
    with pytest.raises(ValueError, match="day, row 3: cannot read 'a'"):
        read_series(text)


def test_one_of_several_sheets_must_be_named(tmp_path):
    frame = pd.DataFrame({"day": DAYS, "sales": VALUES})
    path = workbook(tmp_path / "sales.xlsx", north=frame, south=frame.assign(sales=-VALUES))
    with pytest.raises(ValueError, match=r"--sheet must be .*north, south"):
        read_series(path)
    np.testing.assert_array_equal(read_series(path, sheet="south").values, -VALUES)
    with pytest.raises(ValueError, match="got 'west'"):
        read_series(path, sheet="west")


@pytest.mark.parametrize(("startrow", "startcol"), [(7, 0), (0, 3)])
def test_two_tables_on_a_sheet_are_refused(tmp_path, startrow, startcol):
    frame = pd.DataFrame({"day": DAYS, "sales": VALUES})
    path = tmp_path / "sales.xlsx"
    with pd.ExcelWriter(path) as writer:
        frame.to_excel(writer, index=False)
        frame.to_excel(writer, index=False, startrow=startrow, startcol=startcol)
    with pytest.raises(ValueError, match="two tables.*(row 6|column 3) is empty"):
        read_series(path)


def test_columns_of_a_sheet_need_names(tmp_path):
    path = tmp_path / "sales.xlsx"
    cells = [["day", None], [dt.datetime(2019, 1, 1), 3.0], [dt.datetime(2019, 1, 2), 4.0]]
    pd.DataFrame(cells).to_excel(path, index=False, header=False)
    with pytest.raises(ValueError, match="does not name all columns.*--skip-rows"):
        read_series(path)


def test_a_workbook_without_a_header_is_refused(tmp_path):
    path = tmp_path / "sales.xlsx"
    pd.DataFrame({"day": DAYS, "sales": VALUES}).to_excel(path, index=False, header=False)
    with pytest.raises(ValueError, match="has no header: .* 2019-01-13, 14867.86"):
        read_series(path)


DAY_OR_MONTH = lines(["01/02/2019", "02/02/2019", "03/02/2019", "04/02/2019"])
COMMAS = lines(ISO_DAYS, ['"1,234"', "999", '"2,345"', "1"])
COMMAS_BETWEEN_SEMICOLONS = lines(ISO_DAYS, ["1,234", "999", "2,345", "1"], ";")
POINTS_BETWEEN_SEMICOLONS = lines(ISO_DAYS, ["1.234", "999", "2.345", "1"], ";")


@pytest.mark.parametrize(
    ("text", "message", "options", "values"),
    [
        (
            DAY_OR_MONTH,
            "2019-02-01 .*%d/%m.* or 2019-01-02",
            {"date_format": "%d/%m/%Y"},
            VALUES,
        ),
        (COMMAS, r"'1,234' may be 1\.234 or 1234.*--dec", {"decimal": "."}, [1234, 999, 2345, 1]),
        (COMMAS_BETWEEN_SEMICOLONS, "'1,234' may be", {"decimal": ","}, [1.234, 999, 2.345, 1]),
        (POINTS_BETWEEN_SEMICOLONS, r"'1\.234' may be", {"decimal": ","}, [1234, 999, 2345, 1]),
    ],
)
def test_ambiguous_cells_need_an_option(tmp_path, text, message, options, values):
    path = tmp_path / "sales.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_series(path)
    np.testing.assert_array_equal(read_series(path, **options).values, values)


def test_hours_by_digits_may_be_seconds(tmp_path):
    path = tmp_path / "sales.csv"
    path.write_text(lines(["2019011321", "2019011322", "2019011323", "2019011400"]))
    with pytest.raises(ValueError, match="may be 2033-12-24T.* or an hour"):
        read_series(path)
    np.testing.assert_array_equal(read_series(path, date_format="%Y%m%d%H").times, HOURS)
    frame = pd.DataFrame({"day": [20190113, 20190114, 20190115, 20190116], "sales": VALUES})
    np.testing.assert_array_equal(read_series(frame, date_format="%Y%m%d").times, DAYS)


def test_points_are_decimal_marks_between_commas(tmp_path):
    path = tmp_path / "sales.csv"
    path.write_text(lines(ISO_DAYS, ["1.234", "0.999", "2.345", "1"]))
    np.testing.assert_array_equal(read_series(path).values, [1.234, 0.999, 2.345, 1])


REFUSED = {
    "a PDF": (b"%PDF-1.7 ...", "looks like a PDF: save its table"),
    "Excel 97": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", r"looks like .*\.xls.*: save its table"),
    "a web page": (b"<!DOCTYPE html><html></html>", "looks like a web page"),
    "a picture": (b"\x89PNG\r\n\x1a\n", "looks like a picture"),
    "a zip file": (b"PK\x03\x04nothing", "is an Excel workbook, or another zip file, that cannot"),
    "a broken gzip": (b"\x1f\x8bnothing", "is a gzip file that cannot be unpacked"),
    "broken Parquet": (b"PAR1nothing", "is Parquet that cannot be read"),
    "broken JSON": (b'{"day": [1, 2', "is JSON that cannot be read"),
    "JSON in Latin-1": ('{"größe": [1, 2]}'.encode("latin-1"), "is JSON that is not in UTF-8"),
    "JSON of something else": (b'{"a": {"b": 1}}', "holds no table: write a list of records"),
    "bytes": (bytes(range(256)), "is not a table: neither text nor"),
}


@pytest.mark.parametrize(("content", "message"), REFUSED.values(), ids=REFUSED)
def test_unreadable_files_are_refused(tmp_path, content, message):
    path = tmp_path / "sales.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        read_series(path)
    assert "\n" not in str(error.value)


def test_options_of_other_sources_are_refused(tmp_path):
    path = tmp_path / "sales.csv"
    path.write_text(PLAIN)
    for options, message in (
        ({"sheet": "a"}, "is for Excel workbooks"),
        ({"encoding": "utf-9"}, "got 'utf-9'"),
        ({"decimal": ";"}, "decimal must be .* got ';'"),
        ({"date_format": "%Q"}, "date_format must be .* got '%Q'"),
        ({"date_format": "%d.%m.%Y"}, "cannot read '2019-01-13'; write %d.%m.%Y"),
    ):
        with pytest.raises(ValueError, match=message):
            read_series(path, **options)
    for source in ([1.0, 2.0, 3.0], "nile"):
        with pytest.raises(ValueError, match="sheet= cannot be used"):
            read_series(source, sheet="a")
    with pytest.raises(ValueError, match="every=, by= cannot be used"):
        read_series(read_series(path), every="month", by="sum")
