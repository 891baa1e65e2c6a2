"""Coverage of 80 % intervals on past values and on held-out values.

    uv run python -m benchmarks.interval_coverage [--data FOLDER] [--half judge] [--every 4]
        [--output TABLE.txt]

past
    Coverage of past values by the forecasts from earlier origins, at the hyperparameters of the
    whole series.
expected
    Coverage of past values that the verdict expects. The half `learn` taught it.
future
    Coverage of the held-out values.
shared
    The same, but a value at an interval end with a probability of its own counts by the share of
    this probability that is inside: the coverage of the randomised probability integral transform
    (Czado, Gneiting and Held, 2009, "Predictive model assessment for count data"). Inventory has
    such ends.
conformal
    Coverage of the held-out values by conformal intervals, where all their ends are finite.
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
    """Verdict and remark on one forecast, and the coverage of its intervals."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        forecast = bk.forecast(series.dated, len(series.y))
    trust = forecast.trust
    return {
        "series": "inventory" if series.cell == "inventory/monthly" else series.cell.split("/")[1],
        "remark": remark_on_width(forecast),
        "verdict": trust.verdict,
        "past": trust.evidence.get("coverage_80", np.nan),
        "expected": trust.evidence.get("coverage_80_expected", np.nan),
        "future": share_inside(forecast.interval(0.8), series.y),
        "shared": shared_coverage(forecast, series.y),
        "conformal": conformal_coverage(forecast, series.y),
    }


def remark_on_width(forecast: bk.Forecast) -> str:
    """Judgement of the intervals by the remarks or the verdict: "wide", "narrow" or "none"."""
    text = " ".join([*forecast.remarks, forecast.trust.advice])
    if "too wide" in text:
        return "wide"
    return "narrow" if "too narrow" in text or "more values outside" in text else "none"


def share_inside(interval: tuple[np.ndarray, np.ndarray], y: np.ndarray) -> float:
    """Share of values inside an interval."""
    lower, upper = interval
    return float(np.mean((lower <= y) & (y <= upper)))


def shared_coverage(forecast: bk.Forecast, y: np.ndarray) -> float:
    """Coverage of 80 % intervals of the randomised probability integral transform."""
    probabilities = (np.arange(1000) + 0.5) / 1000
    quantiles, inside = forecast.quantile(probabilities), np.abs(probabilities - 0.5) < 0.4
    equal = np.isclose(quantiles, y, rtol=1e-9, atol=1e-9)
    below = np.mean(quantiles < y, axis=0)
    shares = np.sum(equal[inside], axis=0) / np.maximum(1, np.sum(equal, axis=0))
    return float(np.mean(np.where(equal.any(axis=0), shares, np.abs(below - 0.5) < 0.4)))


def conformal_coverage(forecast: bk.Forecast, y: np.ndarray) -> float:
    """Coverage of conformal 80 % intervals; NaN if an end is infinite."""
    try:
        interval = forecast.conformal(0.8).interval
    except ValueError:  # too few past errors
        return np.nan
    return share_inside(interval, y) if np.all(np.isfinite(interval)) else np.nan


def tables(rows: Iterable[dict]) -> str:
    """Mean coverages by frequency, verdict and remark."""
    frame = pd.DataFrame(rows)
    shares = ["past", "expected", "future", "shared", "conformal"]
    means = ", ".join(f"{frame[share].mean():.2f} {share}" for share in shares)
    parts = [f"{len(frame)} series: {means}"]
    for keys in (["series"], ["verdict"], ["remark"], ["remark", "series"]):
        groups = frame.groupby(keys)
        table = groups[shares].mean().round(2)
        table.insert(0, "n", groups.size())
        parts.append(table.to_string())
    excess = frame["past"] - frame["expected"]
    by_series = {
        name: f"{excess[group.index].corr(group['future'], method='spearman'):.2f}"
        for name, group in frame.groupby("series")
    }
    parts.append(
        "rank correlation of past less expected coverage with that of held-out values: "
        + ", ".join(f"{name} {correlation}" for name, correlation in by_series.items())
    )
    return "\n\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/forecasting"))
    parser.add_argument("--half", choices=("learn", "judge"), default="judge")
    parser.add_argument("--every", type=int, default=4, help="thinning interval of each cell")
    parser.add_argument("--output", type=Path, help="file for the tables")
    arguments = parser.parse_args()
    series = [
        s
        for cell, all_series in load(arguments.data).items()
        for s in select(all_series, arguments.half, None, 1)[:: arguments.every]
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
