"""Seconds a series of `forecast_many`, with and without the verdict, on all cores.

    uv run python -m benchmarks.many_series [SERIES]

Monthly series of 120 values: a line, a season, a level that wanders, and noise. The processes are
started before the clock is.
"""

import sys
import time

import numpy as np
import pandas as pd

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


def main(count="150"):
    drawn = series(int(count))
    first = dict(list(drawn.items())[:10])
    for verdict in (False, True):
        options = {"verdict": verdict, "progress": False}
        bk.forecast_many(first, HORIZON, **options)
        start = time.perf_counter()
        bk.forecast_many(drawn, HORIZON, **options)
        seconds = (time.perf_counter() - start) / len(drawn)
        print(f"{'with' if verdict else 'without'} verdict  {seconds:.3f} s a series", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
