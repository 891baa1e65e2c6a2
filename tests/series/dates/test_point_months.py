"""Months with a point: the truth is the list of months from which the test wrote the text."""

import numpy as np
import pytest

from bayeskern.series.dates.times import read_written_times
from bayeskern.series.reading import read_series

MONTHS = np.arange("1993-01", "1995-07", dtype="M8[M]")
QUARTERS, DECEMBERS = MONTHS[2::3], np.arange("1990-12", "2002-12", 12, dtype="M8[M]")


def written(months, form):
    """Months in a form of Python, such as "{m:02}.{y}"."""
    parts = [(month.astype(object).year, month.astype(object).month) for month in months]
    return [form.format(y=y, m=m) for y, m in parts]


FORMS = {
    "MM.YYYY": ("{m:02}.{y}", MONTHS),
    "M.YYYY": ("{m}.{y}", MONTHS),
    "M.YYYY of one year": ("{m}.{y}", MONTHS[:12]),
    "MM.YYYY of Decembers": ("{m}.{y}", DECEMBERS),
    "YYYY.MM": ("{y}.{m:02}", MONTHS),
    "YYYY.M": ("{y}.{m}", MONTHS),
    "YYYY.MM of quarters": ("{y}.{m:02}", QUARTERS),
    "MM-YYYY": ("{m:02}-{y}", MONTHS),
}


@pytest.mark.parametrize(("form", "months"), FORMS.values(), ids=FORMS)
def test_months_as_text(form, months):
    texts = written(months, form)
    times, remarks = read_written_times(texts, "month")
    np.testing.assert_array_equal(times, months)
    assert ("-" in form) or remarks[0].startswith("month is read as months (")
    # A gap, and rows in another order, change nothing.
    keep = np.r_[0:4, len(texts) - 1 : 5 : -1]
    times, _ = read_written_times([texts[i] for i in keep], "month")
    np.testing.assert_array_equal(times, months[keep])


@pytest.mark.parametrize("form", ["{m}.{y}", "{y}.{m:02}"])
def test_months_that_a_program_took_for_numbers(form):
    """The zeros of 12.2000 and 1993.10 are lost."""
    months = np.arange("1993-01", "2012-01", dtype="M8[M]")
    numbers = np.array([float(text) for text in written(months, form)])
    times, remarks = read_written_times(numbers, "month")
    np.testing.assert_array_equal(times, months)
    assert "is read as months" in remarks[0]
    np.testing.assert_array_equal(read_written_times([f"{n:.10g}" for n in numbers[:83]], "m")[0],
                                  months[:83])  # fmt: skip
    kept, remarks = read_written_times(numbers, "month", "number")
    np.testing.assert_array_equal(kept, numbers)
    assert remarks == ()


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("1990.06 1991.06 1992.06", "row 1: '1990.06' may be the month 1990-06 .* number 1990.06"),
        ("1993.1 1993.2 1993.3 1993.4", "'1993.1' may be the month 1993-01 .* number 1993.1"),
        ("1993.1 1993.11 1993.12", "the month 1993-01 or the month 1993-10 .* the number"),
        ("1993.01 1993.02 1993.04 1993.09 2007.11 2193.07", "number 1993.01"),
        ("1.1993 1.2050 1.2107 5.1711", "%m.%Y .* or the number 1.1993 .*number"),
        ("1993.01 1993.02 1993.03 1993.13", r"row 4: cannot read '1993\.13'"),
        ("01.1993 02.1993 13.1993", r"row 3: cannot read '13\.1993'"),
        ("01.93 02.93 03.93", r"cannot read '01\.93'"),
    ],
)
def test_ambiguous_months_are_refused(texts, message):
    with pytest.raises(ValueError, match=message):
        read_written_times(texts.split(), "month", None)


@pytest.mark.parametrize(
    "texts",
    [
        "1993.25 1993.5 1993.75 1994",
        "1993.00 1993.08 1993.17 1993.25 1993.33",
        "1993.0417 1993.125 1993.2083",
        "1993.8 1993.9 1994.0 1994.1",
        "10.2000 11.2000 12.2000 13.2000",
        "0.5 1.0 1.5",
        "2.5 3 1e2",
    ],
)
def test_decimals_stay_numbers(texts):
    numbers = np.array([float(text) for text in texts.split()])
    for values in (texts.split(), numbers):
        times, remarks = read_written_times(values, "x")
        np.testing.assert_array_equal(times, numbers)
        assert remarks == ()


def test_middles_of_years_are_numbers_with_a_remark():
    times, remarks = read_written_times(["1700.5", "1701.5", "1702.5"], "year")
    np.testing.assert_array_equal(times, [1700.5, 1701.5, 1702.5])
    assert "1700.5 is the middle of 1700" in remarks[0] and "%Y.%m" in remarks[0]
    times, _ = read_written_times(["1700.5", "1701.5"], "year", "%Y.%m")
    np.testing.assert_array_equal(times, np.array(["1700-05", "1701-05"], "M8[M]"))


def test_a_series_of_such_months_is_monthly():
    series = read_series(np.arange(30.0), times=written(MONTHS, "{m:02}.{y}"))
    assert series.calendar.description == "monthly, at month start"
    assert series.remarks == (
        "time is read as months (10.1993 is 1993-10); for numbers, --date-format number",
    )
