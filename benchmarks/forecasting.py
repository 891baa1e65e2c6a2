"""Forecasts of the M1 competition, scored beside the seasonal-naive forecast.

    uv run python -m benchmarks.forecasting [--every 10] [--data ../shared/forecasting]

The folder holds m1.csv (Makridakis et al. 1982) and score.py, whose definitions are used: errors
of the median, and the Gaussian with sd (q97.5 - q2.5) / 3.92, on the scale of the training part.
"""

import argparse
import csv
import importlib.util
import time
from pathlib import Path

import numpy as np
from tqdm import tqdm

import bayeskern as bk
from bayeskern.forecast.seasonal_naive import SeasonalNaive

SEASON = {"MONTHLY": 12, "QUARTERLY": 4, "YEARLY": 0}


def load_score(folder: Path):
    spec = importlib.util.spec_from_file_location("score", folder / "score.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ours(x, horizon, season):
    forecast = bk.forecast(x, horizon, season=season, progress=False)
    lower, upper = forecast.interval(0.95)
    return forecast.median, (upper - lower) / 3.92


def naive(x, horizon, season):
    found = SeasonalNaive.of(x, horizon, max(1, min(season, len(x) - 1)))
    return found.mean, found.sd


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/forecasting"))
    parser.add_argument("--every", type=int, default=1, help="only every so manieth series")
    parser.add_argument("--period", nargs="*", default=["MONTHLY", "QUARTERLY"])
    parser.add_argument("--output", type=Path, help="write the forecasts of bayeskern here")
    arguments = parser.parse_args()
    score = load_score(arguments.data)
    data = score.load_series(arguments.data / "m1.csv")
    chosen = [k for k, s in data.items() if s["period"] in arguments.period][:: arguments.every]
    found = {"bayeskern": {}, "seasonal naive": {}}
    seconds = {period: [] for period in arguments.period}
    for key in tqdm(chosen, desc="series"):
        s = data[key]
        season, horizon = SEASON[s["period"]], len(s["xx"])
        start = time.perf_counter()
        found["bayeskern"][key] = ours(s["x"], horizon, season)
        seconds[s["period"]].append(time.perf_counter() - start)
        found["seasonal naive"][key] = naive(s["x"], horizon, season)
    head = "".join(f"{name:>9}" for name in score.METRICS)
    print(f"{'':11}{'n':>4}  {'':15}{head}{'s/series':>10}")
    for period in arguments.period:
        for model, forecasts in found.items():
            # A spread of 0 has no density; it is scored as one thousandth of the training sd.
            raw = {
                k: (m, np.maximum(sd, 1e-3 * data[k]["std"]))
                for k, (m, sd) in forecasts.items()
                if data[k]["period"] == period
            }
            rows = score.score_all(raw, data, raw=True)
            cells = "".join(f"{np.mean([r[m] for r in rows]):9.4f}" for m in score.METRICS)
            each = f"{np.median(seconds[period]):10.3f}" if model == "bayeskern" else ""
            print(f"{period:11}{len(rows):>4}  {model:15}{cells}{each}")
    if arguments.output:
        with arguments.output.open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["st", "h", "mean", "sd"])
            for key, (mean, sd) in found["bayeskern"].items():
                rows.writerows(
                    [key, h + 1, m, s] for h, (m, s) in enumerate(zip(mean, sd, strict=True))
                )


if __name__ == "__main__":
    main()
