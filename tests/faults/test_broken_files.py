"""Broken files: each gives a short error on one line, whichever way it is read."""

import subprocess
import sys
import unicodedata
import warnings

import numpy as np
import pandas as pd
import pytest

import bayeskern as bk
from bayeskern import cli
from bayeskern.series.series import Series
from tests.faults.broken_files import broken_files
from tests.faults.mutations import mutated
from tests.faults.valid_files import MONTHS, VALUES, valid_files
from tests.marks import slow

HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")


def is_sound(message):
    """True for one line of 1 to 2,000 characters, none of which is hidden."""
    hidden = [c for c in message if unicodedata.category(c) in HIDDEN and c not in "\u200c\u200d"]
    return 0 < len(message) <= 2000 and not hidden


def read(path, content, **options):
    """The series in a file with this content, or the message of the error."""
    path.write_bytes(content)
    with warnings.catch_warnings():
        # openpyxl warns about cells that it leaves empty.
        warnings.simplefilter("ignore", UserWarning)
        try:
            return bk.read_series(path, **options)
        except ValueError as error:
            return str(error)


@pytest.mark.parametrize("name", valid_files())
def test_valid_files_are_read(tmp_path, name):
    series = read(tmp_path / "file", valid_files()[name])
    np.testing.assert_array_equal(series.values, VALUES)
    np.testing.assert_array_equal(series.times.astype("M8[M]"), np.array(MONTHS, "M8[M]"))


@pytest.mark.parametrize("name", broken_files())
def test_broken_files_are_refused(tmp_path, name):
    message = read(tmp_path / "file", broken_files()[name])
    assert isinstance(message, str) and is_sound(message), message


@pytest.mark.parametrize("name", valid_files())
@pytest.mark.parametrize("seeds", [range(5), slow(range(5, 600))])
def test_changed_files_are_read_or_refused(tmp_path, name, seeds):
    for seed in seeds:
        result = read(tmp_path / "file", mutated(name, seed))
        assert isinstance(result, Series) or is_sound(result), (seed, result)


def command(path, output):
    """(exit status, stdout, stderr) of `bayeskern forecast` in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "bayeskern", "forecast", path, "--horizon", "3", "--output", output],
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("step", [9, slow(1)])
def test_command_refuses_broken_files(tmp_path, monkeypatch, capsys, step):
    """Each or some of the broken files, in this process."""
    monkeypatch.chdir(tmp_path)
    for name in list(broken_files())[::step]:
        (tmp_path / "file").write_bytes(broken_files()[name])
        with pytest.raises(SystemExit) as stop, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            cli.main(["forecast", "file", "--horizon", "3"])
        out, err = capsys.readouterr()
        assert (stop.value.code, out) == (2, ""), name
        assert err.startswith("bayeskern: ") and err.endswith("\n") and is_sound(err[:-1]), name
        assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("step", [9, slow(1)])
def test_many_series_of_broken_files_are_refused(tmp_path, step):
    """Each month is a series of one value, so that even a valid file has no forecast."""
    path = tmp_path / "file"
    for name in list(broken_files())[::step]:
        path.write_bytes(broken_files()[name])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            with pytest.raises(ValueError, match=".") as error:
                bk.forecast_many(path, 3, id="month", workers=1, progress=False)
        assert is_sound(str(error.value)), name


READINGS = [
    {"time": "month", "value": "sales"},
    {"every": "quarter", "by": "sum"},
    {"date_format": "%Y-%m-%d", "decimal": "."},
    {"encoding": "utf-16"},
    {"encoding": "utf-7"},
    {"sheet": "Sheet1"},
    {"regressors": ["sales"], "value": "month"},
]


@pytest.mark.parametrize("options", READINGS, ids=str)
@pytest.mark.parametrize("seeds", [range(2), slow(range(2, 60))])
def test_changed_files_are_read_or_refused_with_options(tmp_path, options, seeds):
    for name in valid_files():
        for seed in seeds:
            result = read(tmp_path / "file", mutated(name, seed), **options)
            assert isinstance(result, Series) or is_sound(result), (name, seed, result)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "text: value control characters",
        "json: lists in lists",
        "gzip: garbage",
        "workbook: entities in entities",
        "workbook: cells far apart",
        "parquet: lists",
        "parquet: garbage in the data",
    ],
)
def test_command_refuses_broken_files_from_outside(tmp_path, name):
    path, output = tmp_path / "file", tmp_path / "out"
    path.write_bytes(broken_files()[name])
    status, out, err = command(path, output)
    assert (status, out) == (2, "") and err.startswith("bayeskern: ") and is_sound(err[:-1])
    assert not output.exists()


@pytest.mark.parametrize("cell", [[1.0], (1.0, 2.0), {"a": 1.0}, np.ones(2), 1j, object()])
def test_frames_with_other_cells_are_refused(cell):
    frame = pd.DataFrame({"month": MONTHS, "sales": pd.Series(VALUES, dtype=object)})
    frame.at[5, "sales"] = cell
    with pytest.raises(ValueError, match="sales"):
        bk.read_series(frame.assign(sales=[cell, *VALUES[1:]]))
    with pytest.raises(ValueError, match="month"):
        bk.read_series(frame.assign(month=[cell, *MONTHS[1:]], sales=VALUES))


@pytest.mark.slow
def test_a_command_without_a_standard_output():
    code = "import os, sys; os.close(1); os.execv(sys.executable, sys.argv[1:])"
    command = [sys.executable, "-c", code, sys.executable, "-m", "bayeskern", "datasets"]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")
