"""Sixty small files as people have them: the series the test wrote into them, or the error.

Every row is a file. What is read must be the months and values below, and each guess a remark.
"""

import datetime as dt

import numpy as np
import pandas as pd
import pytest

from bayeskern.series.reading import read_series

VALUES = np.array([15.0, 20.0, 40.0, 30.0])
MONTHS = np.array(["2020-01", "2020-02", "2020-03", "2020-04"], "M8[s]")
DAYS = np.array(["2020-01-13", "2020-01-14", "2020-01-15", "2020-01-16"], "M8[s]")
BODY = "2020-01,15\n2020-02,20\n2020-03,40\n2020-04,30\n"
TABLE = "month,sales\n" + BODY


def rows(times, header="day,sales", delimiter=","):
    """Text of a table with these times and `VALUES`."""
    cells = [f"{time}{delimiter}{value:g}" for time, value in zip(times, VALUES, strict=True)]
    return "\n".join([header.replace(",", delimiter), *cells]) + "\n"


def read(text, remark="", times=MONTHS, **options):
    """File that is read: its text, expected times, expected remark ("" for none) and options."""
    return text, times, remark, options


def refused(text, message, **options):
    """File that is refused: its text, expected message and options."""
    return text, message, options


READ = {
    "a title": read("Sales of 2020\n" + TABLE, "the first row, 'Sales of 2020', is a title"),
    "a title between quotes": read('"Sales, net, 2020"\n' + TABLE, "'Sales, net, 2020'"),
    "a title with empty cells": read("Sales,\n" + TABLE, "'Sales', is a title"),
    "a title of another delimiter": read(
        "Sales, net\n" + TABLE.replace(",", ";"), "'Sales, net', is a title"
    ),
    "a title of tabs": read("Sales\n" + TABLE.replace(",", "\t"), "is a title"),
    "two titles": read("Sales\nin EUR\n" + TABLE, "the first 2 rows, from 'Sales', are titles"),
    "a title and an empty line": read("Sales\n\n" + TABLE, "is a title"),
    "a title and empty cells": read("Sales,\n,\n" + TABLE, "is a title"),
    "a title that is a year": read("2020\n" + TABLE, "'2020', is a title"),
    "an empty line": read("\n" + TABLE),
    "a row of empty cells": read(",\n" + TABLE),
    "rows of empty cells below": read(TABLE + ",\n,\n"),
    "a total": read(TABLE + "Total,105\n", "the last row, 'Total', is a total"),
    "a total in capitals": read(TABLE + "TOTAL,105\n", "'TOTAL', is a total"),
    "a grand total": read(TABLE + "Grand total:,105\n", "is a total"),
    "a sum": read(TABLE + "Sum,105\n", "'Sum', is a total"),
    "a German sum": read(TABLE + "Summe,105\n", "'Summe', is a total"),
    "a total and a mean": read(TABLE + "Total,105\nMean,26.25\n", "from 'Total', are totals"),
    "a total without a value": read(TABLE + "Total,\n", "left out"),
    "a note": read(TABLE + "Source: Statistics Office\n", "'Source: Statistics Office', is a note"),
    "two notes": read(TABLE + "* estimated\nSource: Office\n", "from '* estimated', are notes"),
    "a total and a note": read(TABLE + "Total,105\nSource: Office\n", "'Total', is a total"),
    "all at once": read("Sales\n\n" + TABLE + "Total,105\n\nSource: Office\n", "is a title"),
    "units below the names": read("month,sales\nyyyy-mm,EUR\n" + BODY, "joined as in 'month yyyy"),
    "units in brackets": read("month,sales\n,(EUR)\n" + BODY, "joined as in 'sales (EUR)'"),
    "groups above the names": read(
        ",Sales,\nmonth,north,south\n" + BODY.replace("\n", ",7\n"),
        "joined as in 'Sales north'",
        value="Sales north",
    ),
    "years above the names": read(
        ",2019,\nmonth,units,eur\n" + BODY.replace("\n", ",7\n"),
        "joined as in '2019 units'",
        value="2019 units",
    ),
    "types below the names": read("month,sales\ndate,float\n" + BODY, "joined as in 'month date'"),
    "lines to skip": read("Sales, net, EUR\nof all shops\n" + TABLE, skip_rows=2),
    "empty lines to skip": read("\n\n\n" + TABLE, skip_rows=3),
    "no lines to skip": read(TABLE, skip_rows=0),
    "a comment to skip": read("#\nmonths,of,sales\n" + TABLE, skip_rows=2),
    "MM.YYYY": read(rows(["01.2020", "02.2020", "03.2020", "04.2020"]), "read as months"),
    "M.YYYY": read(rows(["1.2020", "2.2020", "3.2020", "4.2020"]), "1.2020 is 2020-01"),
    "YYYY.MM": read(rows(["2020.01", "2020.02", "2020.03", "2020.04"]), "read as months"),
    "MM.YYYY by its format": read(
        rows(["01.2020", "02.2020", "03.2020", "04.2020"]), date_format="%m.%Y"
    ),
    "MM-YYYY": read(rows(["01-2020", "02-2020", "03-2020", "04-2020"])),
    "MM/YYYY": read(rows(["01/2020", "02/2020", "03/2020", "04/2020"])),
    "2020-1-13": read(rows([f"2020-1-{d}" for d in range(13, 17)]), times=DAYS),
    "weekdays": read(
        rows(
            [
                f'"{w} January 2020"'
                for w in ("Monday, 13", "Tuesday, 14", "Wednesday, 15", "Thursday, 16")
            ]
        ),
        times=DAYS,
    ),
    "short weekdays": read(
        rows(["Mon 13.1.2020", "Tue 14.1.2020", "Wed 15.1.2020", "Thu 16.1.2020"]), times=DAYS
    ),
    "weekdays behind": read(
        rows(["2020-01-13 (Mon)", "2020-01-14 (Tue)", "2020-01-15 (Wed)", "2020-01-16 (Thu)"]),
        times=DAYS,
    ),
    "weekdays that tell the order": read(
        rows(["Wed 01/01/2020", "Sat 02/01/2020", "Sun 03/01/2020", "Wed 04/01/2020"])
    ),
    "a column of zones": read(
        rows([f"{day},Asia/Tokyo" for day in DAYS.astype("M8[D]")], "day,tz,sales"),
        "local times of the zones in tz",
        DAYS - np.timedelta64(9, "h"),
    ),
    "a zone by option": read(
        rows(DAYS.astype("M8[D]")), times=DAYS - np.timedelta64(9, "h"), timezone="Asia/Tokyo"
    ),
    "a log of events": read(
        "time,what\n"
        + "".join(
            f"{t},x\n" for t, n in zip(DAYS, (15, 20, 40, 30), strict=True) for _ in range(n)
        ),
        "each day has the number of its rows",
        DAYS,
        every="day",
        by="count",
    ),
    "middles of years": read(
        rows(["2017.5", "2018.5", "2019.5", "2020.5"]),
        "2017.5 is the middle of 2017",
        [2017.5, 2018.5, 2019.5, 2020.5],
    ),
    "months as numbers on request": read(
        rows(["2020.01", "2020.02", "2020.03", "2020.04"]),
        times=[2020.01, 2020.02, 2020.03, 2020.04],
        date_format="number",
    ),
}


@pytest.mark.parametrize(("text", "times", "remark", "options"), READ.values(), ids=READ)
def test_files_that_are_read(tmp_path, text, times, remark, options):
    path = tmp_path / "sales.csv"
    path.write_text(text)
    series = read_series(path, **options)
    np.testing.assert_array_equal(series.times, times)
    np.testing.assert_array_equal(series.values, VALUES)
    said = " | ".join(series.remarks)
    assert remark in said and bool(said) == bool(remark)


REFUSED = {
    "half a title": refused("Sales, net, EUR\n" + TABLE, "row 1: 2 cells, .* has 3.*--skip-rows"),
    "too many lines skipped": refused(
        TABLE, "has no header: its first line is 2020-01", skip_rows=1
    ),
    "all lines skipped": refused(TABLE, "has no rows", skip_rows=9),
    "lines to skip below zero": refused(
        TABLE, "skip_rows must be a whole number of at least 0", skip_rows=-1
    ),
    "lines of JSON to skip": refused(
        '[{"month": "2020-01", "y": 1}]', "is for text files and sheets", skip_rows=1
    ),
    "a total in the middle": refused(
        TABLE + "Total,105\n2020-05,3\n", "row 5: cannot read 'Total'"
    ),
    "a total in each year": refused(
        TABLE + "Total,105\n2021-01,3\nTotal,3\n", "cannot read 'Total'"
    ),
    "yearly Junes": refused(
        rows(["1990.06", "1991.06", "1992.06", "1993.06"]), "1990-06 .* number 1990.06"
    ),
    "tenths or months": refused(
        rows(["1990.1", "1990.2", "1990.3", "1990.4"]), "1990-01 .* number 1990.1"
    ),
    "a month 13": refused(
        rows(["01.1990", "02.1990", "13.1990", "04.1990"]), "row 3: cannot read '13.1990'"
    ),
    "months of two digits": refused(
        rows(["01.90", "02.90", "03.90", "04.90"]), "row 1: cannot read '01.90'"
    ),
    "a wrong weekday": refused(
        rows(["Mon 2020-01-13", "Tue 2020-01-14", "Sun 2020-01-15", "Thu 2020-01-16"]),
        "row 3: 'Sun 2020-01-15' is a Wednesday",
    ),
    "days or months": refused(
        rows(["01/01/2020", "02/02/2020", "03/04/2020", "05/05/2020"]),
        "row 3: .*2020-04-03 .* or 2020-03-04",
    ),
    "an unknown zone": refused(
        rows(DAYS.astype("M8[D]")), "Did you mean 'Europe/Berlin'", timezone="Europe/Berln"
    ),
    "a zone of numbers": refused(
        rows([1, 2, 3, 4]), "needs dates; day holds numbers", timezone="UTC"
    ),
    "a time that clocks skip": refused(
        rows(["2024-03-31 01:00", "2024-03-31 02:00", "2024-03-31 03:00", "2024-03-31 04:00"]),
        "row 2: 2024-03-31T02:00:00 does not exist",
        timezone="Europe/Berlin",
    ),
    "counts without a period": refused(TABLE, "must be given together", by="count"),
    "counts of numbers": refused(
        rows([1, 2, 3, 4]), "needs dates.*--time", every="day", by="count"
    ),
}


@pytest.mark.parametrize(("text", "message", "options"), REFUSED.values(), ids=REFUSED)
def test_files_that_are_refused(tmp_path, text, message, options):
    path = tmp_path / "sales.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as error:
        read_series(path, **options)
    assert "\n" not in str(error.value)


def test_a_sheet_with_rows_around_its_table(tmp_path):
    path = tmp_path / "sales.xlsx"
    months = [month.astype(dt.datetime) for month in MONTHS]
    table = [["month", "sales"], *map(list, zip(months, VALUES, strict=True))]
    for above, below, remarks in (
        ([["Sales of 2020", None]], [], 1),
        ([["Sales of 2020", None], [None, None]], [], 1),
        ([[None, None]], [[None, None], ["Source: Office", None]], 1),
        ([], [["Total", 105.0]], 1),
        ([["Sales", None]], [["Total", 105.0], [None, None], ["Source: Office", None]], 3),
    ):
        pd.DataFrame(above + table + below).to_excel(path, index=False, header=False)
        series = read_series(path)
        np.testing.assert_array_equal(series.times, MONTHS)
        np.testing.assert_array_equal(series.values, VALUES)
        assert len(series.remarks) == remarks
    groups = [[None, "Sales", None], ["month", "north", "south"]]
    body = [[month, value, 1.0] for month, value in zip(months, VALUES, strict=True)]
    pd.DataFrame(groups + body).to_excel(path, index=False, header=False)
    np.testing.assert_array_equal(read_series(path, value="Sales north").values, VALUES)
    pd.DataFrame([["a", "b", "c"]] + [["x", *row] for row in table]).to_excel(
        path, index=False, header=False
    )
    series = read_series(path, skip_rows=1, time="month", value="sales")
    np.testing.assert_array_equal(series.values, VALUES)


def test_a_last_row_of_a_region_is_no_total(tmp_path):
    """A row with a date is data, whatever its name."""
    path = tmp_path / "sales.csv"
    path.write_text("region,month,sales\nNorth,2020-01,1\nNorth,2020-02,2\nTotal,2020-03,7\n")
    series = read_series(path, value="sales")
    np.testing.assert_array_equal(series.values, [1, 2, 7])
    assert series.remarks == ()
