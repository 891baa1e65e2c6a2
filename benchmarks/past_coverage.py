"""Coverage of 80 % intervals on past values, which verdicts rest on, and on held-out values.

    uv run python -m benchmarks.past_coverage [--data FOLDER] [--every 4] [--output TABLE.txt]

Series of the half that taught the default priors, without inventory, whose interval ends have a
probability of their own. Past values are those of the forecasts from earlier origins at the
hyperparameters of the whole series.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from tqdm import tqdm

import bayeskern as bk
from bayeskern.core.files import atomic_write
from benchmarks.corpus import Series, load, select


def coverage_row(series: Series) -> dict:
    """Verdict and remark on one forecast, and the coverage of its 80 % intervals."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        forecast = bk.forecast(series.dated, len(series.y))
    lower, upper = forecast.interval(0.8)
    trust = forecast.trust
    return {
        "frequency": series.cell.split("/")[1],
        "remark": "wide" if any("wide beside" in r for r in forecast.remarks) else "none",
        "verdict": f"{trust.verdict}, may be too wide"
        if "too wide" in trust.advice
        else trust.verdict,
        "past": trust.evidence.get("coverage_80", np.nan),
        "future": np.mean((lower <= series.y) & (series.y <= upper)),
    }


def tables(rows: Iterable[dict]) -> str:
    """Mean coverage of past and of held-out values, by frequency, verdict and remark."""
    frame = pd.DataFrame(rows)
    parts = [
        f"{len(frame)} series: {frame['past'].mean():.2f} past, {frame['future'].mean():.2f} future"
    ]
    for keys in (["frequency"], ["verdict"], ["remark"], ["remark", "frequency"]):
        groups = frame.groupby(keys)
        table = groups[["past", "future"]].mean().round(2)
        table.insert(0, "series", groups.size())
        parts.append(table.to_string())
    return "\n\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/forecasting"))
    parser.add_argument("--every", type=int, default=4, help="thinning interval of each cell")
    parser.add_argument("--output", type=Path, help="file for the tables")
    arguments = parser.parse_args()
    series = [
        s
        for cell, all_series in load(arguments.data).items()
        if not cell.startswith("inventory")
        for s in select(all_series, "learn", None, 1)[:: arguments.every]
    ]
    with Parallel(n_jobs=2, return_as="generator") as pool:
        rows = pool(delayed(coverage_row)(s) for s in series)
        text = tables(tqdm(rows, total=len(series)))
    print(text)
    if arguments.output is not None:
        with atomic_write(arguments.output) as temporary:
            temporary.write_text(text + "\n")


if __name__ == "__main__":
    main()
