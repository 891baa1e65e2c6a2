"""Scores of base and of coherent forecasts from rolling origins.

As in `evaluate.rolling_origin`, nothing is fitted again: hyperparameters, weights of structures and
correlations are those of the whole series.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayeskern.forecast.fit.rolling import MAX_ORIGINS, MIN_KNOWN_VALUES, Origin
from bayeskern.forecast.reconcile.coupling import Coupling, in_rank_order, square_root
from bayeskern.forecast.reconcile.weights import Projector
from bayeskern.forecast.result import Forecast

if TYPE_CHECKING:
    import pandas as pd

# Number of draws of a past forecast, which are quantiles at evenly spaced probabilities.
PAST_DRAWS = 500
# Row of the scores of all series together.
ALL = "all series"


class PastPoint(NamedTuple):
    """Forecasts of all series from one past origin, with the values that followed.

    Attributes:
        draws: Quantiles of each series at evenly spaced probabilities, (D, n).
        actual: Values that followed, (n,).
        copula: Correlation of the normal errors of all series, (n, n).
        weighting: Correlation that determines the weights of the reconciliation, (n, n).
    """

    draws: np.ndarray
    actual: np.ndarray
    copula: np.ndarray
    weighting: np.ndarray


def crps(draws: np.ndarray, actual: np.ndarray) -> np.ndarray:
    """Continuous ranked probability score of draws (D, ...) of values (...,): (...,).

    E|x - y| - E|x - x'| / 2: Gneiting and Raftery (2007), "Strictly proper scoring rules,
    prediction, and estimation", equation 21.
    """
    count = len(draws)
    ranks = 2.0 * np.arange(1, count + 1) - count - 1.0
    spread = np.tensordot(ranks, np.sort(draws, axis=0), 1) / count**2
    return np.mean(np.abs(draws - actual), axis=0) - spread


def energy_score(draws: np.ndarray, actual: np.ndarray, shifts: int = 10) -> float:
    """Energy score of joint draws (D, n), in random order, of values (n,).

    E||x - y|| - E||x - x'|| / 2 (Gneiting and Raftery, 2007, equation 22). The second mean is taken
    over pairs of draws that are `shifts` different offsets apart.
    """
    distance = np.mean(np.linalg.norm(draws - actual, axis=1))
    offsets = np.unique(np.linspace(1, len(draws) - 1, shifts).astype(int))
    pairs = [np.mean(np.linalg.norm(draws - np.roll(draws, k, axis=0), axis=1)) for k in offsets]
    return float(distance - 0.5 * np.mean(pairs))


def past_points(forecasts: Sequence[Forecast], coupling: Coupling) -> list[PastPoint]:
    """Past forecasts from origins in the second half of the shortest series."""
    oldest = min(map(_oldest_origin, forecasts))
    if oldest < 1:
        return []
    count = min(MAX_ORIGINS, oldest)
    origins = np.unique(np.linspace(1, oldest, count).astype(int))[::-1]
    tables = [past_quantiles(f, origins) for f in forecasts]
    common = set(tables[0]).intersection(*tables[1:])
    points = []
    # Oldest first.
    for origin, age in sorted(common, reverse=True):
        draws, actual = zip(*(table[origin, age] for table in tables), strict=True)
        step = origin - age - 1
        correlations = coupling.by_step[step], coupling.one_step
        points.append(PastPoint(np.transpose(draws), np.array(actual), *correlations))
    return points


def _ages(f: Forecast) -> np.ndarray:
    """Steps from each observed value to the last one."""
    steps = f.series.calendar.steps()[f.series.observed]
    return steps[-1] - steps


def _oldest_origin(f: Forecast) -> int:
    """Age of the oldest origin at which half of the values are known; 0 without one."""
    ages, min_known = _ages(f), max(MIN_KNOWN_VALUES, f.season_in_steps + 2)
    return int(ages[max(len(ages) // 2, min_known) - 1]) if len(ages) > min_known else 0


def past_quantiles(
    f: Forecast, origins: np.ndarray
) -> dict[tuple[int, int], tuple[np.ndarray, float]]:
    """Forecasts of known values from past origins.

    Args:
        f: The forecast.
        origins: Age of each origin, in steps from the last value known there to the end.

    Returns:
        (Age of the origin, age of the value) -> quantiles (D,) and the value.
    """
    ages = _ages(f)
    y = f.series.values[f.series.observed]
    probabilities = (np.arange(PAST_DRAWS) + 0.5) / PAST_DRAWS
    keys, rows, past_origins = [], [], []
    for origin in origins.tolist():
        count = int(np.sum(ages >= origin))
        ahead = ages[(ages < origin) & (ages >= origin - f.horizon)]
        if len(ahead):
            past_origins.append(Origin(count, ages[count - 1] - ahead - 1))
            keys += [(origin, age) for age in ahead.tolist()]
            rows += range(count, count + len(ahead))
    if f.combination is None:
        quantiles = np.full((PAST_DRAWS, len(rows)), y[0])
    else:
        past = f.combination.from_origins(past_origins)
        errors = f.combination.errors(past.ahead.steps, past.ahead.known)
        assert past.past is not None
        quantiles = past.past.with_errors(errors).quantile(probabilities)
    return {
        key: (quantiles[:, i], float(y[row]))
        for i, (key, row) in enumerate(zip(keys, rows, strict=True))
    }


def score_table(
    points: Sequence[PastPoint], projector: Projector, seed: int
) -> pd.DataFrame | None:
    """Mean scores of past forecasts, before and after the reconciliation.

    Lower scores are better.

    Returns:
        A row for each level and one for all series: the number of series and, for the base and the
        coherent forecasts, the mean CRPS of the series and the energy score of the joint forecast.
        None without points.
    """
    import pandas as pd  # slow to import

    if not points:
        return None
    rng, hierarchy = np.random.default_rng(seed), projector.hierarchy
    levels = hierarchy.rows_by_level() | {ALL: [*range(len(hierarchy.names))]}
    tables = []
    for point in points:
        order = rng.standard_normal((len(point.draws), len(point.actual)))
        base = in_rank_order(point.draws, order @ square_root(point.copula))
        coherent = projector.coherent(base, point.weighting)
        tables.append([_scores(base, point, levels), _scores(coherent, point, levels)])
    # Level, score, forecast.
    means = np.transpose(np.mean(tables, axis=0), (1, 2, 0)).reshape(len(levels), -1)
    columns = ["crps_base", "crps", "energy_base", "energy"]
    table = pd.DataFrame(means, index=pd.Index([*levels], name="level"), columns=columns)
    table.insert(0, "series", [len(rows) for rows in levels.values()])
    return table


def _scores(
    draws: np.ndarray, point: PastPoint, levels: Mapping[str, Sequence[int]]
) -> list[tuple[float, float]]:
    """Mean CRPS and energy score of each level."""
    each = crps(draws, point.actual)
    return [
        (float(np.mean(each[rows])), energy_score(draws[:, rows], point.actual[rows]))
        for rows in levels.values()
    ]
