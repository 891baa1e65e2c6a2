"""Time and memory of `forecast_many` on all cores, and a run that is killed and resumed.

    uv run python -m benchmarks.many_series [SERIES]

Monthly series of 120 values: a line, a season, a level that wanders, and noise. The first part runs
150 series with and without verdicts; the processes are started before the clock is. The second part
writes SERIES forecasts (1000 by default) to a folder, is killed half way, and resumed.
"""

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from joblib.externals.loky import get_reusable_executor

import bayeskern as bk

MONTHS, HORIZON = 120, 12


def series(count: int) -> dict[str, pd.Series]:
    rng, t = np.random.default_rng(0), np.arange(MONTHS)
    months = pd.date_range("2010-01-01", periods=MONTHS, freq="MS")
    drawn = {}
    for i in range(count):
        season = rng.uniform(0.0, 2.0) * np.sin(2.0 * np.pi * t / 12 + rng.uniform(0.0, 6.0))
        level = 10.0 + 0.02 * rng.normal() * t + np.cumsum(rng.normal(0.0, 0.1, MONTHS))
        drawn[f"s{i}"] = pd.Series(level + season + rng.normal(0.0, 0.4, MONTHS), months)
    return drawn


def seconds_a_series(count: int = 150) -> None:
    drawn = series(count)
    first = dict(list(drawn.items())[:10])
    for verdict in (False, True):
        options = {"verdict": verdict, "progress": False}
        bk.forecast_many(first, HORIZON, **options)
        start = time.perf_counter()
        bk.forecast_many(drawn, HORIZON, **options)
        seconds = (time.perf_counter() - start) / len(drawn)
        print(f"{'with' if verdict else 'without'} verdict  {seconds:.3f} s a series", flush=True)


def run_into(folder: str, count: str) -> None:
    """Forecast into a folder, and print the memory of this process and of its largest worker."""
    forecasts = bk.forecast_many(
        series(int(count)), HORIZON, folder=folder, resume=True, progress=False
    )
    # Memory of processes counts when they have ended.
    get_reusable_executor().shutdown(wait=True)
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own, worker = (u.ru_maxrss / 1024.0 for u in usage)
    size = sum(path.stat().st_size for path in Path(folder).iterdir()) / len(forecasts) / 1024.0
    print(
        f"{len(forecasts)} forecasts, at most {own:.0f} MB in the process and {worker:.0f} MB in a "
        f"worker, {size:.0f} kB a series on disk",
        flush=True,
    )


def killed_and_resumed(count: int) -> None:
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "forecasts"
        command = [sys.executable, "-m", "benchmarks.many_series", "--into", folder, str(count)]
        start = time.perf_counter()
        job = subprocess.Popen(command)
        while job.poll() is None and len(list(folder.glob("*.nc"))) < count // 2:
            time.sleep(0.5)
        os.kill(job.pid, signal.SIGKILL)
        job.wait()
        half, kept = time.perf_counter() - start, len(list(folder.glob("*.nc")))
        subprocess.run(command, check=True)
        total = time.perf_counter() - start
        print(f"killed after {half:.0f} s with {kept} forecasts; in all {total:.0f} s, "
              f"{count / total:.1f} series a second on {os.cpu_count()} cores")  # fmt: skip


def main(*arguments: str) -> None:
    if arguments[:1] == ("--into",):
        run_into(*arguments[1:])
        return
    seconds_a_series()
    killed_and_resumed(int(arguments[0]) if arguments else 1000)


if __name__ == "__main__":
    main(*sys.argv[1:])
