"""Each option of reading: what it changes, its help, and its flag on the command line."""

import contextlib
import re
from dataclasses import fields

import pandas as pd
import pytest

import bayeskern as bk
from bayeskern.cli import app
from bayeskern.cli.options import Reading
from bayeskern.series.read_options import ReadOptions

NAMES = [field.name for field in fields(ReadOptions)]


def rows(header, pattern, count=3):
    return "\n".join([header, *(pattern.format(i=i) for i in range(1, count + 1))])


# Option -> arguments with it, the file, and the last time and value that are read.
CASES = {
    "time": (
        {"time": "b", "value": "x"},
        rows("date,b,x", "2020-01-0{i},2021-01-0{i},{i}"),
        ("2021-01-03", 3.0),
    ),
    "value": ({"value": "x"}, rows("date,w,x", "2020-01-0{i},9,{i}"), ("2020-01-03", 3.0)),
    "regressors": (
        {"regressors": ["w"]},
        rows("date,w,x", "2020-01-0{i},9,{i}"),
        ("2020-01-03", 3.0),
    ),
    "every": (
        {"every": "month", "by": "sum"},
        rows("date,x", "2020-0{i}-01,5") + "\n2020-03-31,7",
        ("2020-03-01", 12.0),
    ),
    "by": (
        {"every": "day", "by": "count"},
        rows("date", "2020-01-0{i}") + "\n2020-01-03",
        ("2020-01-03", 2.0),
    ),
    "date_format": (
        {"date_format": "%d/%m/%Y"},
        rows("date,x", "0{i}/02/2020,{i}"),
        ("2020-02-03", 3.0),
    ),
    "decimal": ({"decimal": ","}, rows("date;x", "2020-01-0{i};1,{i}00"), ("2020-01-03", 1.3)),
    "sheet": ({"sheet": "b"}, "", ("2020-01-03", 9.0)),
    "encoding": (
        {"encoding": "cp1251", "value": "\u0446\u0435\u043d\u0430"},
        rows("date,\u0446\u0435\u043d\u0430", "2020-01-0{i},{i}"),
        ("2020-01-03", 3.0),
    ),
    "timezone": (
        {"timezone": "Europe/Berlin"},
        rows("date,x", "2020-01-01 0{i}:00,{i}"),
        ("2020-01-01T02:00", 3.0),
    ),
    "skip_rows": (
        {"skip_rows": 1},
        "2019-12-31,7\n" + rows("date,x", "2020-01-0{i},{i}"),
        ("2020-01-03", 3.0),
    ),
}


def last(path, options):
    series = bk.read_series(path, **options)
    return str(series.times[-1].astype("M8[m]")), float(series.values[-1])


@pytest.mark.parametrize("name", NAMES)
def test_each_option_changes_what_is_read(name, tmp_path):
    assert name in CASES, f"add a case of the option {name!r} to the table above"
    options, text, (time, value) = CASES[name]
    path = tmp_path / ("table.xlsx" if name == "sheet" else "table.csv")
    if name == "sheet":
        times = pd.date_range("2020-01-01", periods=3)
        with pd.ExcelWriter(path) as book:
            for sheet, values in (("a", [1, 2, 3]), ("b", [7, 8, 9])):
                frame = pd.DataFrame({"date": times, "x": values})
                frame.to_excel(book, sheet_name=sheet, index=False)
    else:
        path.write_text(text, encoding=options.get("encoding", "utf-8"))
    expected = time if "T" in time else f"{time}T00:00", value
    assert last(path, options) == expected
    others = {option: given for option, given in options.items() if option != name}
    # Without the option the file is refused, or something else is read.
    with contextlib.suppress(ValueError):
        assert last(path, others) != expected


@pytest.mark.parametrize("name", NAMES)
def test_each_option_has_help_and_a_flag(name, capsys):
    attributes = (ReadOptions.__doc__ or "").partition("Attributes:")[2]
    assert re.search(rf"^ +{name}: \w", attributes, flags=re.MULTILINE), f"no help of {name!r}"
    assert name in {field.name for field in fields(Reading)}
    app(["forecast", "--help"], exit_on_error=False, result_action="return_value")
    # Regressors have a flag of their own, which may be repeated.
    flag = "--regressor" if name == "regressors" else f"--{name.replace('_', '-')}"
    assert flag in capsys.readouterr().out
