"""Files that are small on disk and large in memory are refused before they are unpacked."""

import gzip
import io
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayeskern as bk
from bayeskern.series.files.tables import read_table
from tests.faults.broken_files import SHEET, cell, edited, newline_bomb, row, with_rows
from tests.faults.valid_files import csv, valid_files

VARIABLE = "BAYESKERN_MAX_FILE_MB"
MB = 1_000_000


def repeated_text():
    """Parquet of one text of 10 kB, 2,000 times: 20 MB as separate texts."""
    buffer, text = io.BytesIO(), pa.array(["x" * 10_000])
    texts = pa.DictionaryArray.from_arrays(np.zeros(2_000, "i4"), text).cast(pa.string())
    pq.write_table(pa.table({"t": np.arange(2_000), "text": texts}), buffer)
    return buffer.getvalue()


def large_parquet():
    buffer = io.BytesIO()
    pq.write_table(pa.table({"t": np.zeros(300_000), "x": np.zeros(300_000)}), buffer)
    return buffer.getvalue()


def padded_zip():
    """A workbook with 50 MB of zeros beside its sheets."""
    return edited("xl/media/image.png", lambda _: b"\x00" * (50 * MB))


def two_sheets():
    """Workbook of two sheets, each of them below 20 MB."""
    buffer = io.BytesIO()
    with pd.ExcelWriter(buffer) as writer:
        for name in ("first", "second"):
            pd.DataFrame({"t": [1], "x": [2]}).to_excel(writer, sheet_name=name, index=False)
    rows = row(1, cell("A1")) + row(200_000, cell("A200000"))
    head = b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
    sheet = head + b"<sheetData>" + rows + b"</sheetData></worksheet>"
    content = buffer.getvalue()
    for part in (SHEET, SHEET.replace("1", "2")):
        content = edited(part, lambda _: sheet, content)
    return content


# Each exceeds 20 MB in memory, and most are below 100 kB on disk.
LARGE = {
    "gzipped text": lambda: gzip.compress(b"month,sales\n" + b"2020-01-01,1\n" * 2 * MB),
    "gzipped line breaks": lambda: newline_bomb(50 * MB),
    "line breaks below the limit": lambda: gzip.compress(b"\n" * MB),
    "carriage returns": lambda: gzip.compress(b"a,b\n" + b"\r" * MB),
    "short cells": lambda: gzip.compress(b"a,b\n" + b"1,2\n" * MB),
    "empty cells": lambda: gzip.compress(b";" * MB),
    "text": lambda: b"month,sales\n" + b"2020-01-01,1\n" * 2 * MB,
    "empty lists": lambda: gzip.compress(json.dumps([[]] * MB).encode()),
    "short numbers": lambda: gzip.compress(json.dumps({"x": [1] * MB}).encode()),
    "Parquet": large_parquet,
    "gzipped Parquet": lambda: gzip.compress(large_parquet()),
    "a zip file": padded_zip,
    "a wide sheet": lambda: with_rows(b"".join(row(i, cell(f"XFD{i}")) for i in range(1, 40))),
    "a long sheet": lambda: with_rows(row(1, cell("A1")) + row(300_000, cell("B300000"))),
    "two sheets": two_sheets,
    "a large tree": lambda: edited("xl/styles.xml", lambda text: text + b" " * MB),
}


@pytest.mark.parametrize("name", LARGE)
def test_files_above_the_limit_are_refused(tmp_path, monkeypatch, name):
    monkeypatch.setenv(VARIABLE, "20")
    path = tmp_path / "file"
    path.write_bytes(LARGE[name]())
    with pytest.raises(ValueError, match=f"limit of 20 MB .*{VARIABLE}=[0-9]+"):
        bk.read_series(path)


@pytest.mark.parametrize("name", valid_files())
def test_small_files_are_read_with_a_small_limit(tmp_path, monkeypatch, name):
    monkeypatch.setenv(VARIABLE, "0.5")
    path = tmp_path / "file"
    path.write_bytes(valid_files()[name])
    assert len(bk.read_series(path).values) == 36


def test_repeated_texts_stay_one_object(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(repeated_text())
    assert path.stat().st_size < MB
    cells = read_table(path).columns["text"]
    assert len(cells) == 2_000 and len({id(text) for text in cells}) == 1


def test_a_limit_can_be_raised(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_text(csv())
    monkeypatch.setenv(VARIABLE, "0.001")
    with pytest.raises(ValueError, match=f"{VARIABLE}=[0-9]+") as error:
        bk.read_series(path)
    name, value = str(error.value).rstrip(".").rsplit(maxsplit=1)[1].split("=")
    monkeypatch.setenv(name, value)
    assert len(bk.read_series(path).values) == 36


@pytest.mark.parametrize("text", ["x", "-1", "0", "nan", "inf"])
def test_bad_limits_are_refused(monkeypatch, tmp_path, text):
    (tmp_path / "file").write_text(csv())
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(ValueError, match=f"{VARIABLE} must be a positive number .* got '{text}'"):
        bk.read_series(tmp_path / "file")


def test_many_series_have_the_limit_too(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, "20")
    path = tmp_path / "file"
    path.write_bytes(newline_bomb(50 * MB))
    with pytest.raises(ValueError, match="limit of 20 MB"):
        bk.forecast_many(path, 3, id="store")


PEAK = """
import resource, sys, bayeskern as bk
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    bk.read_series(sys.argv[1])
except ValueError as error:
    print(error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("size_gb", [0.5, 2.0])
def test_memory_for_gzipped_line_breaks(tmp_path, size_gb):
    """2 GB of line breaks took 11.5 GB."""
    path = tmp_path / "file"
    path.write_bytes(newline_bomb(int(size_gb * 2**30)))
    assert path.stat().st_size < 3 * MB
    done = subprocess.run([sys.executable, "-c", PEAK, path], capture_output=True, text=True)
    message, peak_kb = done.stdout.splitlines()
    assert "limit of 512 MB" in message
    # The content, and a copy while it grows.
    assert 1024 * int(peak_kb) < 2.5 * 512 * MB
