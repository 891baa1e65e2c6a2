"""Reconciled forecasts beside those of hierarchicalforecast, on simulated hierarchies.

    uv run --group bench python -m benchmarks.hierarchies [HIERARCHIES]
    uv run python -m benchmarks.hierarchies --agreement [SERIES]

Twelve stores in three regions, 96 months, a year ahead is held out. Two makings: stores with common
trends, and stores whose noise cancels within a region, as when customers move between them. Base
forecasts are those of bayeskern, and AutoETS of statsforecast for hierarchicalforecast (normal
intervals). CRPS from 98 quantiles, relative to the base forecasts of AutoETS at the level; coverage
of 80 % intervals over all series; seconds of the reconciliation alone, for a hierarchy (ours with
the joint draws).

With --agreement: correlation of the errors of two forecasts of the first quarter and of the first
year of a monthly series, one by the sum of the months and one from a series of its own.
"""

import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable

import numpy as np
import pandas as pd

import bayeskern as bk
from bayeskern.core.formatting import aligned
from benchmarks.table import peer

PAST, AHEAD, REGIONS, STORES = 96, 12, 3, 4
MONTHS = pd.date_range("2015-01-01", periods=PAST + AHEAD, freq="MS")
GROUPS = pd.DataFrame(
    [("all", f"r{i}", f"r{i}s{j}") for i in range(REGIONS) for j in range(STORES)],
    columns=["country", "region", "store"],
)
# Ends of the central intervals of 2, 4, ..., 98 %, and the median.
LEVELS = np.arange(2, 100, 2)
PROBABILITIES = np.concatenate([0.5 - LEVELS / 200.0, 0.5 + LEVELS / 200.0])


def common_trends(rng: np.random.Generator) -> np.ndarray:
    """Sales of all stores, (months, stores): random walks of all, of a region and of a store."""
    months = np.arange(PAST + AHEAD)
    walk = np.cumsum(rng.normal(0.0, 1.0, len(months)))[:, None]
    region = np.cumsum(rng.normal(0.0, 0.7, (len(months), REGIONS)), axis=0)
    store = np.cumsum(rng.normal(0.0, 0.5, (len(months), REGIONS * STORES)), axis=0)
    season = 8.0 * np.sin(2.0 * np.pi * months / 12)[:, None]
    noise = rng.normal(0.0, 3.0, store.shape)
    return 80.0 + walk + np.repeat(region, STORES, axis=1) + store + season + noise


def moving_customers(rng: np.random.Generator) -> np.ndarray:
    """Sales of all stores, (months, stores): a common walk, and noise that cancels in regions."""
    months = np.arange(PAST + AHEAD)
    walk = np.cumsum(rng.normal(0.0, 0.4, len(months)))[:, None]
    noise = rng.normal(0.0, 4.0, (len(months), REGIONS, STORES))
    noise -= noise.mean(axis=2, keepdims=True)
    season = 8.0 * np.sin(2.0 * np.pi * months / 12)[:, None]
    own = rng.normal(0.0, 1.0, (len(months), REGIONS * STORES))
    return 80.0 + walk + season + noise.reshape(len(months), -1) + own


def sums(values: np.ndarray) -> dict[str, np.ndarray]:
    """Values of all series by name, the total first."""
    regions = values.reshape(len(values), REGIONS, STORES).sum(axis=2)
    named = {"all": values.sum(axis=1)} | {f"r{i}": regions[:, i] for i in range(REGIONS)}
    return named | dict(zip(GROUPS["store"], values.T, strict=True))


# Model -> (quantiles by name of the series, (98, horizon) each; seconds).
Results = dict[str, tuple[dict[str, np.ndarray], float]]


def ours(past: dict[str, np.ndarray]) -> Results:
    """Base and reconciled forecasts of bayeskern."""
    base = {
        name: bk.forecast(pd.Series(values, MONTHS[:PAST]), AHEAD) for name, values in past.items()
    }
    quantiles = {name: f.quantile(PROBABILITIES) for name, f in base.items()}
    results = {"bayeskern, base": (quantiles, 0.0)}
    parents = dict(zip(GROUPS["store"], GROUPS["region"], strict=True))
    parents |= dict.fromkeys(GROUPS["region"], "all")
    for method in ("wls", "mint", "ols", "bottom-up"):
        start = time.perf_counter()
        r = bk.reconcile(base, parents, method)
        seconds = time.perf_counter() - start
        quantiles = {name: series.quantile(PROBABILITIES) for name, series in r.items()}
        results[f"bayeskern, {method}"] = quantiles, seconds
    return results


def theirs(past: dict[str, np.ndarray]) -> Results:
    """AutoETS of statsforecast, base and reconciled by hierarchicalforecast."""
    core, methods, utils = (
        peer(f"hierarchicalforecast.{module}") for module in ("core", "methods", "utils")
    )
    models, statsforecast = peer("statsforecast.models"), peer("statsforecast")
    if core is None or statsforecast is None:
        return {}
    rows = [
        GROUPS.assign(ds=month, y=[past[store][t] for store in GROUPS["store"]])
        for t, month in enumerate(MONTHS[:PAST])
    ]
    spec = [["country"], ["country", "region"], ["country", "region", "store"]]
    Y, S, tags = utils.aggregate(pd.concat(rows), spec)
    engine = statsforecast.StatsForecast([models.AutoETS(season_length=12)], freq="MS")
    hats = engine.forecast(df=Y, h=AHEAD, level=LEVELS.tolist(), fitted=True)
    fitted = engine.forecast_fitted_values()
    reconcilers = {
        "wls": methods.MinTrace("wls_var"),
        "mint": methods.MinTrace("mint_shrink"),
        "ols": methods.MinTrace("ols"),
        "bottom-up": methods.BottomUp(),
    }
    results: Results = {"AutoETS, base": (_quantiles(hats, "AutoETS"), 0.0)}
    for name, reconciler in reconcilers.items():
        start = time.perf_counter()
        engine = core.HierarchicalReconciliation([reconciler])
        table = engine.reconcile(
            Y_hat_df=hats, tags=tags, Y_df=fitted, S_df=S, level=LEVELS.tolist(),
            intervals_method="normality",
        )  # fmt: skip
        seconds = time.perf_counter() - start
        (column,) = (
            c for c in table.columns if c.startswith("AutoETS/") and "-lo-" not in c
            and "-hi-" not in c
        )  # fmt: skip
        results[f"hierarchicalforecast, {name}"] = _quantiles(table, column), seconds
    return results


def _quantiles(table: pd.DataFrame, column: str) -> dict[str, np.ndarray]:
    """Quantiles of each series from the interval columns of a model."""
    columns = [f"{column}-{side}-{level}" for side in ("lo", "hi") for level in LEVELS]
    return {
        str(name).rpartition("/")[2]: rows[columns].to_numpy().T
        for name, rows in table.groupby("unique_id")
    }


def crps(quantiles: np.ndarray, y: np.ndarray) -> float:
    """Mean CRPS: twice the mean quantile loss."""
    loss = (y - quantiles) * (PROBABILITIES[:, None] - (y < quantiles))
    return float(2.0 * np.mean(loss))


def level_of(name: str) -> str:
    """Level of a series by its name."""
    return "total" if name == "all" else "store" if "s" in name else "region"


def rows_of(making: Callable[[np.random.Generator], np.ndarray], count: int) -> list[list[str]]:
    """Rows of the table for one making."""
    scores = defaultdict(lambda: defaultdict(list))
    inside, seconds = defaultdict(list), defaultdict(list)
    for seed in range(count):
        values = sums(making(np.random.default_rng(seed)))
        past = {name: y[:PAST] for name, y in values.items()}
        for model, (quantiles, taken) in (ours(past) | theirs(past)).items():
            seconds[model].append(taken)
            for name, y in values.items():
                future = y[PAST:]
                scores[model][level_of(name)].append(crps(quantiles[name], future))
                row = int(np.flatnonzero(LEVELS == 80)[0])
                low, high = quantiles[name][row], quantiles[name][len(LEVELS) + row]
                inside[model].append(np.mean((low <= future) & (future <= high)))
    reference = scores.get("AutoETS, base", scores["bayeskern, base"])
    rows = []
    for model, by_level in scores.items():
        ratios = [
            np.mean(by_level[k]) / np.mean(reference[k]) for k in ("total", "region", "store")
        ]
        cells = [f"{x:.3f}" for x in (*ratios, np.mean(inside[model]), np.mean(seconds[model]))]
        rows.append([making.__name__.replace("_", " "), model, *cells])
    return rows


def monthly(kind: str, rng: np.random.Generator) -> np.ndarray:
    """Months with a season: a wandering level or slope, an autoregression, or noise."""
    t, n = np.arange(PAST + AHEAD), PAST + AHEAD
    season = 3.0 * np.sin(2.0 * np.pi * t / 12 + rng.uniform(0.0, 6.0))
    noise = rng.normal(0.0, 1.0, n)
    if kind == "level":
        return 50.0 + np.cumsum(rng.normal(0.0, 0.5, n)) + season + noise
    if kind == "slope":
        return 50.0 + np.cumsum(0.3 + np.cumsum(rng.normal(0.0, 0.05, n))) + season + noise
    if kind == "noise":
        return 50.0 + 0.05 * t + season + 3.0 * noise
    for i in range(1, n):
        noise[i] += 0.7 * noise[i - 1]
    return 50.0 + 0.05 * t + season + noise


def print_agreement(count: int) -> None:
    """Print the correlations of the errors of the two forecasts of a block."""
    rows = [["series", "quarter", "year"]]
    for kind in ("level", "slope", "autoregression", "noise"):
        errors = {3: [], 12: []}
        for seed in range(count):
            y = monthly(kind, np.random.default_rng(seed))
            steps = bk.forecast(pd.Series(y[:PAST], MONTHS[:PAST]), AHEAD)
            for size, pairs in errors.items():
                blocks = pd.Series(y[:PAST].reshape(-1, size).sum(axis=1), MONTHS[:PAST:size])
                own = bk.forecast(blocks, 1).mean[0]
                truth = y[PAST : PAST + size].sum()
                pairs.append((steps.mean[:size].sum() - truth, own - truth))
        rows.append([kind, *(f"{np.corrcoef(np.transpose(e))[0, 1]:.2f}" for e in errors.values())])
    print("\n".join(aligned(rows)))


def main(count: str = "10", series: str = "40") -> None:
    """Print the table."""
    if count == "--agreement":
        print_agreement(int(series))
        return
    warnings.filterwarnings("ignore", category=FutureWarning)
    rows = [["series", "model", "total", "region", "store", "in 80 %", "s"]]
    for making in (common_trends, moving_customers):
        rows += rows_of(making, int(count))
    print("\n".join(aligned(rows)))


if __name__ == "__main__":
    main(*sys.argv[1:])
