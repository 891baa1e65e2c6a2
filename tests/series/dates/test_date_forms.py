"""Weekdays beside dates, and the order of day and month, against the calendar of Python."""

import calendar
import datetime as dt

import numpy as np
import pytest

from bayeskern.series.dates.times import parse_times

DATES = [dt.date(2013, 1, 1) + dt.timedelta(days=n) for n in (0, 1, 31, 33, 60)]


@pytest.mark.parametrize(
    "form",
    [
        "%A, %d %B %Y", "%a %d %b %Y", "%a, %b %d, %Y", "%A %Y-%m-%d", "%Y-%m-%d (%a)",
        "%d.%m.%Y, %A", "%a. %d/%m/%Y", "%a %m/%d/%Y",
    ],
)  # fmt: skip
def test_weekdays_beside_dates(form):
    """The weekdays of "Wed 02/01/2013" say which number is the day."""
    texts = [date.strftime(form) for date in DATES]
    np.testing.assert_array_equal(parse_times(texts), np.array(DATES, "M8[D]"))


def test_wrong_weekdays_are_refused():
    for day in range(1, 8):
        name = calendar.day_name[day - 1]  # 1 January 2013 was a Tuesday
        texts = ["Monday, 31 December 2012", f"{name}, 01 January 2013"]
        if name == "Tuesday":
            assert len(parse_times(texts)) == 2
            continue
        with pytest.raises(ValueError, match=f"row 2: '{name}, 01.*' is a Tuesday; correct"):
            parse_times(texts, "day")


def test_the_message_shows_a_date_with_two_readings():
    texts = ["01/01/2021", "02/02/2021", "01/03/2021"]
    with pytest.raises(ValueError, match="row 3: '01/03/2021' may be 2021-03-01 .* or 2021-01-03"):
        parse_times(texts)
    # Without such a date there is one reading only.
    same = np.array(["2021-01-01", "2021-02-02"], "M8[D]")
    np.testing.assert_array_equal(parse_times(texts[:2]), same)


def test_months_and_days_of_one_digit():
    expected = np.array(["2020-10-31", "2020-01-05"], "M8[D]")
    np.testing.assert_array_equal(parse_times(["2020-10-31", "2020-1-5"]), expected)
    with pytest.raises(ValueError, match="row 1: cannot read '2020-1'"):
        parse_times(["2020-1", "2020-2"])
