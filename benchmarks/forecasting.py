"""Forecasts of the M1 competition, beside those of statsforecast and the seasonal-naive forecast.

    uv run --group bench python -m benchmarks.forecasting [--every 10] [--data folder]

The folder holds m1.csv (Makridakis et al. 1982). Scores are on the scale of the training part,
(y - mean) / sd, averaged over the steps of a series and then over the series: absolute error of the
median, CRPS, log score, coverage of central intervals, and MASE. Ours are those of the predictive
distribution itself; the others are Gaussian, with the sd that their 95 % interval has. The median
is that of the three of statsforecast, bound by bound (Petropoulos and Svetunkov, 2020, "A simple
combination of univariate models").

Priors, the power of the evidence and how much the volatility may change were chosen on the first
half of the series of each frequency; the last by the log score, and among choices that tie there by
the coverage of all series. Which structures are averaged was chosen on other halves, which share
series with both.
"""

import argparse
import csv
import time
from pathlib import Path

import numpy as np
from scipy.special import ndtr
from tqdm import tqdm

import bayeskern as bk
from bayeskern.forecast.evaluate import scores
from bayeskern.forecast.evaluate.seasonal_naive import SeasonalNaive

SEASON = {"MONTHLY": 12, "QUARTERLY": 4, "YEARLY": 1}
SCORES = ("MAE", "CRPS", "log score", "cov 95", "cov 80", "MASE", "s/series")
# A spread of 0 has no density; it is scored as this share of the sd of the training part.
LEAST_SPREAD = 1e-3


def load(path: Path) -> dict[str, list[dict]]:
    """Frequency -> its series, with training part x and test part y."""
    csv.field_size_limit(1 << 30)
    series = {period: [] for period in SEASON}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            x, y = (np.array(row[k].split(";"), float) for k in ("x", "xx"))
            series[row["period"].upper()].append({"name": row["st"], "x": x, "y": y})
    return series


def ours(x, y, season):
    """Scores of this project, in the units of the data but for the log score."""
    f = bk.forecast(x, len(y), season=season if season > 1 else 0, progress=False)
    of_quantiles = scores.score(f.quantile(scores.WANTED), y)
    return {
        "MAE": np.abs(of_quantiles.errors),
        "CRPS": of_quantiles.crps,
        "log score": f.log_density(y),
        "cov 95": of_quantiles.inside[0.95],
        "cov 80": of_quantiles.inside[0.8],
    }


def gaussian(mean, sd, y, spread):
    """The same scores of a Gaussian forecast."""
    sd = np.maximum(sd, LEAST_SPREAD * spread)
    z = (y - mean) / sd
    density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    return {
        "MAE": np.abs(y - mean),
        "CRPS": sd * (z * (2.0 * ndtr(z) - 1.0) + 2.0 * density - 1.0 / np.sqrt(np.pi)),
        "log score": -0.5 * z**2 - np.log(sd) - 0.5 * np.log(2.0 * np.pi),
        "cov 95": np.abs(z) <= 1.959964,
        "cov 80": np.abs(z) <= 1.281552,
    }


def peers(x, horizon, season):
    """Name -> median, sd and seconds, by statsforecast."""
    from statsforecast.models import AutoCES, AutoETS, DynamicOptimizedTheta

    found = {}
    for model in (AutoETS, DynamicOptimizedTheta, AutoCES):
        start = time.perf_counter()
        f = model(season_length=season).forecast(y=x, h=horizon, level=[95])
        found[model.__name__] = (f["mean"], f["lo-95"], f["hi-95"], time.perf_counter() - start)
    middle = [np.median([f[i] for f in found.values()], axis=0) for i in range(3)]
    found["their median"] = (*middle, sum(f[3] for f in found.values()))
    return {k: (m, (high - low) / 3.92, s) for k, (m, low, high, s) in found.items()}


def score(s: dict, season: int) -> dict[str, dict[str, float]]:
    """Model -> its mean scores over the steps of one series."""
    x, y = s["x"], s["y"]
    spread = np.std(x, ddof=1) or 1.0
    start = time.perf_counter()
    of_models = {"bayeskern": ours(x, y, season)}
    seconds = {"bayeskern": time.perf_counter() - start}
    for name, (mean, sd, taken) in peers(x, len(y), season).items():
        of_models[name], seconds[name] = gaussian(mean, sd, y, spread), taken
    naive = SeasonalNaive.of(x, len(y), max(1, min(season, len(x) - 1)))
    of_models["seasonal naive"] = gaussian(naive.mean, naive.sd, y, spread)
    seconds["seasonal naive"] = 0.0
    rows = {}
    for name, of_model in of_models.items():
        row = {k: float(np.mean(v)) for k, v in of_model.items()}
        row["MASE"] = row["MAE"] / np.mean(np.abs(x[season:] - x[:-season]))
        row["MAE"], row["CRPS"] = row["MAE"] / spread, row["CRPS"] / spread
        row["log score"] += np.log(spread)
        rows[name] = row | {"s/series": seconds[name]}
    return rows


def table(title: str, rows: list[dict]) -> str:
    head = f"{title:<24}" + "".join(f"{name:>11}" for name in SCORES)
    lines = [head]
    for model in rows[0]:
        cells = []
        for name in SCORES:
            # Seconds vary with what else the machine does; their median does less.
            average = np.median if name == "s/series" else np.mean
            cells.append(f"{average([row[model][name] for row in rows]):11.3f}")
        lines.append(f"  {model:<22}" + "".join(cells))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/forecasting"))
    parser.add_argument("--every", type=int, default=1, help="only every so manieth series")
    parser.add_argument("--period", nargs="*", default=list(SEASON))
    arguments = parser.parse_args()
    data = load(arguments.data / "m1.csv")
    for period in arguments.period:
        series, season = data[period], SEASON[period]
        half = len(series) // 2
        by_half = {"first half": series[:half], "second half": series[half:]}
        rows = {}
        for name, of_half in by_half.items():
            chosen = of_half[:: arguments.every]
            rows[name] = [score(s, season) for s in tqdm(chosen, desc=f"{period} {name}")]
            print(table(f"{period.lower()}, {name}", rows[name]))
        both = [row for of_half in rows.values() for row in of_half]
        print(table(f"{period.lower()}, {len(both)} series", both), end="\n\n")


if __name__ == "__main__":
    main()
