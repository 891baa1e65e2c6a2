"""Forecast accuracy of bayeskern and statsforecast on M1 and on a corpus of 8,000 series.

    uv run python -m benchmarks.board [--data FOLDER] [--limit N] [--every K] [--half judge]
        [--cells M1/yearly business-industry/weekly] [--left-out benchmarks/results/left_out.json]
        [--peers PEERS.npz] [--output SCORES.json] [--workers 2]

The folder holds m1.csv (Makridakis et al., 1982), corpus.csv.gz and long.csv.gz. Each pair of kind
and period of these with at least 20 series is a cell. Priors are learned on one half of the series
(`learn`) and are judged on the other (`judge`): a hash of the id decides.

Protocol
    The last h values of each series are held out once. The point forecast is the median.

MASE
    Mean absolute error over the in-sample mean of |y_t - y_(t-m)|, averaged over series; m is the
    season, or 1 for a series no longer than a season. Series with a zero or undefined scale are
    left out of the MASE and of the interval scores only.
WQL
    Weighted quantile loss at the levels 0.1, ..., 0.9: twice the pinball loss, summed over series
    and steps, divided by the sum of |y|, averaged over levels. Large series dominate it.
SQL
    Scaled quantile loss: for each series the mean over steps and the levels 0.1, ..., 0.9 of twice
    the pinball loss, over the scale of the MASE; averaged over series.
IS 80, IS 95
    Interval score of the central interval (Gneiting and Raftery, 2007, "Strictly proper scoring
    rules, prediction, and estimation", section 6.2), on the scale of the MASE.
cov 80, cov 95
    Share of the held-out values inside the central interval: over the whole horizon, and over its
    first and last third. Intervals whose ends have a probability of their own, as in series of
    counts, hold more than they promise.
CPU s
    Median processor time per series, so that compilation in the first series does not count.
dMASE, dWQL
    Score of a rival minus that of bayeskern on the same series, with its standard error:
    positive where bayeskern is better. The standard error of dWQL is a jackknife over series.
failed
    Series on which the model raised an error or returned a non-finite value. The seasonal naive
    forecast stands in for it.

Rivals
    Seasonal naive; AutoETS, AutoTheta and AutoCES of statsforecast, and the median of the three,
    quantile by quantile (Petropoulos and Svetunkov, 2020, "A simple combination of univariate
    models"). Hourly, daily and weekly data add MSTL, with the seasons 24 and 168, 7 and 365, and 52
    of which a series has more than two. MSTL omits series without any: see its n, and compare it by
    dMASE and dWQL. Weekly data keep season 52 in every rival: statsforecast 2.0 fits it within
    seconds, and season 1 had the higher MASE and interval scores in most trials. Series no longer
    than a season have season 1. statsforecast is given the last 2,000 values: AutoCES takes half a
    minute for 4,500. The mean forecast stands for its median.

kind left out
    bayeskern with weights and widths that were learned without any series of the kind of the cell,
    from the file of --left-out (`benchmarks.learn_default_priors`).
verdicts
    For each verdict, the share of the series whose mean absolute error was larger than that of
    seasonal naive, and with less than half of the held-out values in the 80 % interval; and the
    central 80 % of the shares inside.

--peers names a cache of the rivals' quantiles. Missing entries are computed and added. Bayeskern is
always run.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from tqdm import tqdm

from bayeskern.core.files import atomic_write
from benchmarks.corpus import HALVES, PERIODS, Series, load, select
from benchmarks.rivals import (
    LEVELS,
    NAIVE,
    Forecast,
    RivalCache,
    bayeskern,
    kind_left_out,
    rival_forecasts,
    run,
)

WQL_LEVELS = slice(1, -1)
MEDIAN = 5
# Percent -> indices of the bounds of the central interval.
INTERVALS = {80: (1, 9), 95: (0, 10)}

VERDICTS = ("", "good", "caution", "bad", "not assessable")
OWN, LEFT_OUT = "bayeskern", "kind left out"

# MASE and WQL of all series by the same protocol: the zero-shot benchmark of Chronos (27 data sets,
# three of them M1), github.com/autogluon/fev, benchmarks/chronos_zeroshot/results.
# All quantiles of its seasonal naive are the point forecast, hence the larger WQL than ours.
PUBLISHED = {
    "M1/monthly": {
        "seasonal naive": (1.314, 0.191),
        "AutoETS": (1.089, 0.165),
        "AutoARIMA": (1.114, 0.154),
        "AutoTheta": (1.092, 0.159),
        "Chronos-Bolt base": (1.100, 0.139),
        "TiRex": (1.060, 0.132),
        "TimesFM 1": (1.068, 0.123),
        "TimesFM 2": (1.052, 0.130),
        "Moirai large": (1.137, 0.168),
    },
    "M1/quarterly": {
        "seasonal naive": (2.078, 0.150),
        "AutoETS": (1.661, 0.085),
        "AutoARIMA": (1.689, 0.088),
        "AutoTheta": (1.667, 0.082),
        "Chronos-Bolt base": (1.773, 0.101),
        "TiRex": (1.674, 0.100),
        "TimesFM 1": (1.670, 0.087),
        "TimesFM 2": (1.711, 0.113),
        "Moirai large": (1.736, 0.110),
    },
    "M1/yearly": {
        "seasonal naive": (4.894, 0.209),
        "AutoETS": (3.957, 0.139),
        "AutoARIMA": (3.486, 0.133),
        "AutoTheta": (3.659, 0.137),
        "Chronos-Bolt base": (4.404, 0.151),
        "TiRex": (3.703, 0.131),
        "TimesFM 1": (4.004, 0.163),
        "TimesFM 2": (3.596, 0.145),
        "Moirai large": (4.023, 0.126),
    },
}


# Scores


def score(series: Series, forecast: Forecast) -> dict[str, float]:
    """Scores of one forecast. The WQL is in parts: "loss" and "size" are summed over series."""
    y, q, scale = series.y, forecast.quantiles, series.mase_scale
    error = y - q[WQL_LEVELS]
    level = LEVELS[WQL_LEVELS, None]
    third = max(1, round(len(y) / 3))
    loss = np.mean(2.0 * np.maximum(level * error, (level - 1.0) * error), axis=0)
    scores = {
        "MASE": np.mean(np.abs(y - q[MEDIAN])) / scale,
        "SQL": np.mean(loss) / scale,
        "loss": np.sum(loss),
        "size": np.sum(np.abs(y)),
        "verdict": VERDICTS.index(forecast.verdict),
    }
    for percent, (low, high) in INTERVALS.items():
        lower, upper = q[low], q[high]
        miss = np.maximum(lower - y, 0.0) + np.maximum(y - upper, 0.0)
        inside = (lower <= y) & (y <= upper)
        interval_score = upper - lower + 2.0 / (1.0 - percent / 100.0) * miss
        scores[f"IS {percent}"] = np.mean(interval_score) / scale
        scores[f"cov {percent}"] = np.mean(inside)
        scores[f"cov {percent} first third"] = np.mean(inside[:third])
        scores[f"cov {percent} last third"] = np.mean(inside[-third:])
    scores |= {"CPU s": forecast.seconds, "failed": float(forecast.failed)}
    return {name: float(value) for name, value in scores.items()}


# Model -> id -> scores
Scores = dict[str, dict[str, dict[str, float]]]


def column(scores: dict[str, dict[str, float]], name: str, ids: Iterable[str]) -> np.ndarray:
    return np.array([scores[i][name] for i in ids])


def ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator else np.nan


def mean(numbers: np.ndarray) -> float:
    """Mean of the numbers that are not NaN; NaN if there are none."""
    defined = numbers[~np.isnan(numbers)]
    return float(np.mean(defined)) if len(defined) else np.nan


def mase_difference(own: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """Mean of other - own over series, and its standard error."""
    difference = other - own
    difference = difference[~np.isnan(difference)]
    if len(difference) < 2:
        return mean(difference), np.nan
    return mean(difference), float(np.std(difference, ddof=1) / np.sqrt(len(difference)))


def wql_difference(own, other, size: np.ndarray) -> tuple[float, float]:
    """Difference other - own of pooled losses over size, and its jackknife standard error."""
    difference, n = other - own, len(size)
    rest = np.sum(size) - size
    if n < 2 or np.any(rest <= 0):
        return ratio(np.sum(difference), np.sum(size)), np.nan
    without = (np.sum(difference) - difference) / rest
    error = np.sqrt((n - 1) / n * np.sum(np.square(without - np.mean(without))))
    return float(np.sum(difference) / np.sum(size)), float(error)


def summary(scores: Scores, reference: str | None = OWN) -> dict[str, dict[str, Any]]:
    """Model -> its scores over all its series, and differences to the reference model."""
    rows = {}
    for model, of_series in scores.items():
        ids = list(of_series)
        columns = {name: column(of_series, name, ids) for name in of_series[ids[0]]}
        loss, size = columns.pop("loss"), columns.pop("size")
        seconds, failed = columns.pop("CPU s"), columns.pop("failed")
        verdicts = columns.pop("verdict")
        row = {"n": len(ids), "WQL": ratio(np.sum(loss), np.sum(size))}
        row["largest share of WQL"] = ratio(np.max(loss), np.sum(loss))
        row |= {name: mean(numbers) for name, numbers in columns.items()}
        row |= {"CPU s": float(np.median(seconds)), "failed": int(np.sum(failed))}
        if verdicts.any():
            naive = column(scores[NAIVE], "MASE", ids)
            row["verdicts"] = {
                name: {
                    "n": int(np.sum(verdicts == i)),
                    "worse": int(np.sum(columns["MASE"][verdicts == i] > naive[verdicts == i])),
                    "cov 80": np.round(columns["cov 80"][verdicts == i], 3).tolist(),
                }
                for i, name in enumerate(VERDICTS)
            }
        if reference is not None and model != reference:
            own = scores[reference]
            row["dMASE"], row["dMASE se"] = mase_difference(
                column(own, "MASE", ids), columns["MASE"]
            )
            row["dWQL"], row["dWQL se"] = wql_difference(column(own, "loss", ids), loss, size)
        rows[model] = row
    return rows


# Table


def number(value: float, digits: int) -> str:
    """Fixed-point number, or a power of ten if it has more than four integer digits."""
    return f"{value:.1e}" if abs(value) >= 1e4 else f"{value:.{digits}f}"


def difference(row: dict[str, float], name: str) -> str:
    """Difference to bayeskern with its standard error; blank for bayeskern."""
    if name not in row:
        return ""
    sign = "+" if row[name] >= 0 else ""
    return f"{sign}{number(row[name], 3)} ({number(row[f'{name} se'], 3)})"


HEADER = (
    f"  {'model':<20}{'n':>5}{'MASE':>8}{'WQL':>8}{'SQL':>8}{'IS 80':>8}{'IS 95':>8}"
    f"{'cov 80 (thirds)':>18}{'cov 95 (thirds)':>18}{'CPU s':>8}{'dMASE (se)':>17}"
    f"{'dWQL (se)':>17}{'failed':>8}"
)


def table(cell: str, rows: dict[str, dict[str, float]]) -> str:
    """Lines of one cell: a row per model, and the published figures."""
    lines = [cell, HEADER]
    for model, row in rows.items():
        coverage = [
            f"{row[f'cov {p}']:.2f} ({row[f'cov {p} first third']:.2f} "
            f"{row[f'cov {p} last third']:.2f})"
            for p in INTERVALS
        ]
        lines.append(
            f"  {model:<20}{row['n']:5d}{number(row['MASE'], 3):>8}{number(row['WQL'], 3):>8}"
            f"{number(row['SQL'], 3):>8}"
            f"{number(row['IS 80'], 2):>8}{number(row['IS 95'], 2):>8}"
            f"{coverage[0]:>18}{coverage[1]:>18}{row['CPU s']:8.3f}"
            f"{difference(row, 'dMASE'):>17}{difference(row, 'dWQL'):>17}{row['failed']:8d}"
        )
    if cell in PUBLISHED:
        lines.append("  published, all series")
        for model, (mase, wql) in PUBLISHED[cell].items():
            lines.append(f"  {model:<25}{mase:8.3f}{wql:8.3f}")
    return "\n".join(lines)


def conclusion(cells: dict[str, dict[str, dict[str, float]]]) -> str:
    """Cells where bayeskern has the best score, and where it is clearly behind a rival.

    Rivals with forecasts of all series of a cell count.
    """
    best, behind, above = dict.fromkeys(("MASE", "WQL", "SQL", "IS 80", "IS 95"), 0), [], []
    for cell, rows in cells.items():
        own = rows[OWN]
        others = {m: row for m, row in rows.items() if m not in (OWN, LEFT_OUT)}
        rivals = {m: row for m, row in others.items() if row["n"] == own["n"]}
        share = f"{100.0 * own['largest share of WQL']:.0f} % of it by one series"
        for name in best:
            best[name] += all(own[name] <= row[name] for row in rivals.values())
        for name, remark in (("MASE", ""), ("WQL", f", {share}")):
            behind += [
                f"{name} of {cell} ({model}{remark})"
                for model, row in rivals.items()
                if row[f"d{name}"] < -2.0 * row[f"d{name} se"]
            ]
            if own[name] > rows["seasonal naive"][name]:
                above.append(f"{name} of {cell}{remark}")
    counts = ", ".join(f"{name} {count}" for name, count in best.items())
    return "\n".join(
        [
            f"best of the models with forecasts of all series, of {len(cells)} cells: {counts}",
            f"behind by more than two standard errors: {'; '.join(behind) or 'nowhere'}",
            f"above seasonal naive: {'; '.join(above) or 'nowhere'}",
            *mean_ratios(cells),
            *coverage_by_period(cells),
            *(line for name in (OWN, LEFT_OUT) for line in verdict_lines(cells, name)),
        ]
    )


def mean_ratios(cells: dict[str, dict[str, dict[str, Any]]]) -> list[str]:
    """Lines with the geometric mean over cells of MASE and SQL over those of bayeskern.

    And over those with the kind left out, where there are any.
    """
    lines = []
    models = dict.fromkeys(model for rows in cells.values() for model in rows)
    for own, model in product((OWN, LEFT_OUT), models):
        shared = [rows for rows in cells.values() if own in rows and model in rows]
        shared = [rows for rows in shared if rows[model]["n"] == rows[own]["n"]]
        if model == own or not shared:
            continue
        ratios = [
            np.exp(np.mean([np.log(rows[model][name] / rows[own][name]) for rows in shared]))
            for name in ("MASE", "SQL")
        ]
        lines.append(
            f"geometric mean over {len(shared)} cells, over {own}: {model} "
            f"MASE {ratios[0]:.3f}, SQL {ratios[1]:.3f}"
        )
    return lines


def verdict_lines(cells: dict[str, dict[str, dict[str, Any]]], model: str) -> list[str]:
    """Line for each verdict of a model: how often its forecasts failed."""
    lines = []
    for verdict in VERDICTS[1:]:
        rows = [of[model]["verdicts"][verdict] for of in cells.values() if model in of]
        count = sum(row["n"] for row in rows)
        if count:
            worse = sum(row["worse"] for row in rows) / count
            inside = np.array([share for row in rows for share in row["cov 80"]])
            low, high = np.quantile(inside, [0.1, 0.9])
            lines.append(
                f"{model}, {verdict} {count} times: error above seasonal naive "
                f"{100 * worse:.0f} %, less than half in the 80 % interval "
                f"{100 * np.mean(inside < 0.5):.0f} %, in 8 of 10 windows "
                f"{100 * low:.0f} to {100 * high:.0f} % of them"
            )
    return lines


def coverage_by_period(cells: dict[str, dict[str, dict[str, float]]]) -> list[str]:
    """Lines with the coverage of bayeskern over all series of a period, and by thirds."""
    lines = []
    for period in PERIODS:
        rows = [of[OWN] for cell, of in cells.items() if cell.endswith(f"/{period}")]
        if not rows:
            continue
        weights = np.array([row["n"] for row in rows]) / sum(row["n"] for row in rows)
        shown = []
        for percent in INTERVALS:
            whole, first, last = (
                weights @ [row[f"cov {percent}{part}"] for row in rows]
                for part in ("", " first third", " last third")
            )
            shown.append(f"{percent} % {whole:.3f} ({first:.3f} {last:.3f})")
        lines.append(f"coverage of {period} series: {', '.join(shown)}")
    return lines


def score_series(
    series: Series, cache: RivalCache, left_out: dict[str, dict] | None
) -> tuple[dict[str, dict], RivalCache]:
    """Model -> its scores on one series; and the cache with the forecasts of all rivals."""
    forecasts = {OWN: run(OWN, bayeskern, series)}
    if left_out is not None and series.cell.split("/")[0] in left_out:
        with kind_left_out(series, left_out):
            forecasts[LEFT_OUT] = run(LEFT_OUT, bayeskern, series)
    forecasts |= rival_forecasts(series, cache)
    return {model: score(series, forecast) for model, forecast in forecasts.items()}, cache


def score_cell(
    series: list[Series], cache: RivalCache, left_out: dict[str, dict] | None, pool: Parallel
) -> Scores:
    """Scores of bayeskern and its rivals on the series of a cell."""
    scores: Scores = {}
    results = pool(delayed(score_series)(s, cache.of(s), left_out) for s in series)
    for s, (by_model, forecasts) in zip(tqdm(series, desc=series[0].cell), results, strict=True):
        cache.add(forecasts)
        for model, row in by_model.items():
            scores.setdefault(model, {})[s.id] = row
    cache.write()
    return scores


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/forecasting"))
    parser.add_argument("--limit", type=int, help="series per cell, the first of the file")
    parser.add_argument("--every", type=int, default=1, help="thinning interval of M1")
    parser.add_argument("--cells", nargs="+", help="such as M1/yearly economics/weekly")
    parser.add_argument("--half", choices=[*HALVES, "both"], default="both", help="of the corpus")
    parser.add_argument("--left-out", type=Path, help="weights learned without each kind")
    parser.add_argument("--peers", type=Path, help="npz cache of the rivals' quantiles")
    parser.add_argument("--output", type=Path, help="JSON file for the scores")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    arguments = parser.parse_args()
    cells = load(arguments.data)
    unknown = set(arguments.cells or ()) - set(cells)
    if unknown:
        parser.error(f"unknown cells {sorted(unknown)}; the cells are {', '.join(cells)}")
    cache = RivalCache(arguments.peers)
    left_out = json.loads(arguments.left_out.read_text()) if arguments.left_out else None
    output = {
        "versions": {name: version(name) for name in ("bayeskern", "statsforecast", "jax")},
        "half": arguments.half,
        "cells": {},
    }
    with Parallel(n_jobs=arguments.workers, return_as="generator") as pool:
        for cell in arguments.cells or cells:
            series = select(cells[cell], arguments.half, arguments.limit, arguments.every)
            if not series:
                continue
            rows = summary(score_cell(series, cache, left_out, pool))
            print(table(cell, rows), end="\n\n", flush=True)
            output["cells"][cell] = rows
            if arguments.output is not None:
                with atomic_write(arguments.output) as temporary:
                    temporary.write_text(json.dumps(output, indent=1))
    print(conclusion(output["cells"]))


if __name__ == "__main__":
    main()
