"""The nightly job of the documentation, on files that the test writes, killed at any moment."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayeskern as bk

SCRIPT = Path(__file__).parents[2] / "docs" / "nightly.py"
DAYS = pd.date_range("2024-01-01", periods=90)
STORES = ("a1", "a2", "b1")
ONE = {"trend": "drift", "model": bk.StructuralModel(log=False, method="map")}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files of three stores in two regions: a folder of forecasts, and ten new days."""
    folder = tmp_path_factory.mktemp("nightly")
    rng = np.random.default_rng(0)
    frames = [
        pd.DataFrame({"store": name, "day": DAYS, "units": 50.0 + np.cumsum(rng.normal(size=90))})
        for name in STORES
    ]
    sales = pd.concat(frames)
    options = {"id": "store", "workers": 1, "progress": False, **ONE}
    bk.forecast_many(sales[sales["day"] < DAYS[80]], 14, folder=folder / "forecasts", **options)
    sales[sales["day"] >= DAYS[70]].to_csv(folder / "new.csv", index=False)
    regions = pd.DataFrame({"region": ["a", "a", "b"], "store": STORES})
    regions.to_csv(folder / "regions.csv", index=False)
    return folder


def command(folder):
    return [sys.executable, SCRIPT, "forecasts", "new.csv", "regions.csv", "out"], {"cwd": folder}


def results(folder):
    """Tables that the job wrote, and the saved forecasts as one frame."""
    tables = [pd.read_csv(folder / "out" / f"{name}.csv") for name in ("stores", "reconciled")]
    return [*tables, bk.load(folder / "forecasts").to_frame()]


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs signals of POSIX")
def test_job_survives_kills(files, tmp_path):
    shutil.copytree(files, tmp_path / "undisturbed")
    arguments, options = command(tmp_path / "undisturbed")
    start = time.monotonic()
    subprocess.run(arguments, check=True, capture_output=True, timeout=300, **options)
    duration = time.monotonic() - start
    expected = results(tmp_path / "undisturbed")
    assert set(expected[2]["store"]) == set(STORES)
    last = pd.to_datetime(expected[2]["day"]).max()
    assert last == DAYS[-1] + pd.Timedelta(days=14)

    shutil.copytree(files, tmp_path / "killed")
    arguments, options = command(tmp_path / "killed")
    # The later kills hit the part that writes files.
    for share in (0.6, 0.85, 0.95):
        job = subprocess.Popen(
            arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options
        )
        try:
            job.wait(share * duration)
        except subprocess.TimeoutExpired:
            job.send_signal(signal.SIGKILL)
            job.wait()
        # Old or new, never half.
        lengths = {
            len(f.series.values) for f in bk.load(tmp_path / "killed" / "forecasts").values()
        }
        assert lengths in ({80}, {90})
    subprocess.run(arguments, check=True, capture_output=True, timeout=300, **options)
    for table, again in zip(expected, results(tmp_path / "killed"), strict=True):
        pd.testing.assert_frame_equal(table, again, rtol=1e-8)
    left = [path.name for path in (tmp_path / "killed").rglob("*") if path.name.startswith(".")]
    assert left == []
