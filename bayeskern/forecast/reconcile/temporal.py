"""Reconciliation of one series over periods: months, quarters and years.

Temporal hierarchies: Athanasopoulos, Hyndman, Kourentzes and Petropoulos (2017), "Forecasting with
temporal hierarchies", EJOR. The values are summed over blocks of consecutive steps that end with
the last value, so that each sum uses the latest values. The sums are forecast as series of their
own. Weights use the correlations of errors within each level: Nystrup, Lindstroem, Pinson and
Madsen (2020), "Temporal hierarchies with autocorrelation for load forecasting", EJOR.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.linalg import block_diag

from bayeskern.core import validation
from bayeskern.core.formatting import counted
from bayeskern.core.progress import hidden_progress
from bayeskern.forecast.fit.rolling import MAX_ORIGINS, MIN_KNOWN_VALUES
from bayeskern.forecast.forecast import forecast as forecast_series
from bayeskern.forecast.reconcile.coupling import in_rank_order, require_draws, root_of_paths
from bayeskern.forecast.reconcile.hierarchy import Hierarchy
from bayeskern.forecast.reconcile.past import PastPoint, past_quantiles, score_table
from bayeskern.forecast.reconcile.reconciled import CoherentForecast, CoherentForecasts
from bayeskern.forecast.reconcile.weights import RECONCILIATION_METHODS, Projector, spreads_of
from bayeskern.forecast.result import Forecast
from bayeskern.series.calendar import SECONDS_PER_YEAR, Calendar
from bayeskern.series.frequency import infer_calendar
from bayeskern.series.series import MIN_VALUES, Series

if TYPE_CHECKING:
    import pandas as pd

TEMPORAL_METHODS = tuple(method for method in RECONCILIATION_METHODS if method != "top-down")
# Unit of a calendar -> name of a period -> its length in this unit.
PERIOD_LENGTHS = {
    "month": {"month": 1, "quarter": 3, "half-year": 6, "year": 12},
    "day": {"day": 1, "week": 7},
    "business": {"day": 1, "week": 5},
    "second": {"minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800},
}
PERIOD_LENGTHS["business month"] = PERIOD_LENGTHS["month"]
# Correlation between the forecast errors of a block and of the sum of its steps: 0.80 to 0.99 in
# simulations (benchmarks/results/agreement.txt).
AGREEMENT = 0.9


class Level(NamedTuple):
    """One level of a temporal hierarchy.

    Attributes:
        name: Name of its period.
        size: Number of steps of a block.
        forecast: Forecast of the sums over blocks.
    """

    name: str
    size: int
    forecast: Forecast


@dataclass(frozen=True, eq=False)
class TemporalBlocks:
    """Blocks of all levels within a number of steps, and correlations of their errors.

    Attributes:
        levels: The levels, from the longest blocks to single steps.
        steps: Number of steps.
        roots: Cholesky factor of the correlation of the errors of each level.
        spreads: Spread of the forecast of each step, (horizon,).
    """

    levels: tuple[Level, ...]
    steps: int
    roots: tuple[np.ndarray, ...]
    spreads: np.ndarray

    @property
    def counts(self) -> list[int]:
        """Number of blocks of each level."""
        return [self.steps // level.size for level in self.levels]

    @cached_property
    def sums(self) -> np.ndarray:
        """Matrix of zeros and ones from steps to blocks of several steps, (blocks, steps)."""
        rows = [
            np.repeat(np.eye(count), level.size, axis=1)
            for level, count in zip(self.levels[:-1], self.counts[:-1], strict=True)
        ]
        return np.vstack([np.pad(r, ((0, 0), (0, self.steps - r.shape[1]))) for r in rows])

    @property
    def hierarchy(self) -> Hierarchy:
        """The blocks as sums of steps."""
        pairs = [
            (level.name, i)
            for level, count in zip(self.levels, self.counts, strict=True)
            for i in range(count)
        ]
        return Hierarchy(tuple(pairs), tuple(name for name, _ in pairs), self.sums)

    @cached_property
    def loadings(self) -> np.ndarray:
        """Matrix from independent normal numbers to normal errors of all blocks.

        The error of a block is `AGREEMENT` times the error of the sum of its steps, standardised,
        plus an independent error. Rows have norm 1.
        """
        *roots, root = self.roots
        root = root[: self.steps, : self.steps]
        of_sums = (self.sums * self.spreads[: self.steps]) @ root
        norms = np.linalg.norm(of_sums, axis=1, keepdims=True)
        of_sums = np.divide(of_sums, norms, out=np.zeros_like(of_sums), where=norms > 0.0)
        own = np.asarray(
            block_diag(*(r[:n, :n] for r, n in zip(roots, self.counts[:-1], strict=True)))
        )
        blocks = np.hstack([np.sqrt(1.0 - AGREEMENT**2) * own, AGREEMENT * of_sums])
        steps = np.hstack([np.zeros((len(root), len(own))), root])
        return np.vstack([blocks, steps])

    @property
    def within(self) -> np.ndarray:
        """Correlation of errors within levels, and 0 between levels, (n, n)."""
        roots = (r[:n, :n] for r, n in zip(self.roots, self.counts, strict=True))
        return np.asarray(block_diag(*(root @ root.T for root in roots)))


@dataclass(frozen=True, eq=False, repr=False)
class TemporallyReconciled(CoherentForecasts):
    """Forecasts of one series over periods that add up, from `reconcile_temporal`.

    `reconciled["year"]` is the forecast of sums over blocks of twelve months, the first of which
    begins after the last value.

    Attributes:
        blocks: The blocks of all levels within the horizon.
        nonnegative: True if negative draws were set to 0.
        seed: Random seed.
    """

    blocks: TemporalBlocks
    nonnegative: bool
    seed: int

    @cached_property
    def scores(self) -> pd.DataFrame | None:
        """Mean scores of rolling-origin forecasts, as in `Reconciled.scores`.

        Each forecast covers one block of the longest period. None if the series is too short, or if
        the longest block does not hold whole blocks of another level.
        """
        levels, size = self.blocks.levels, self.blocks.levels[0].size
        if any(size % level.size for level in levels):
            return None
        blocks = TemporalBlocks(levels, size, self.blocks.roots, self.blocks.spreads)
        known = min(len(level.forecast.series.on_grid()) * level.size for level in levels)
        # Half of the blocks, and five of the longest, are known at the oldest origin.
        count = min(known // size // 2, known // size - MIN_KNOWN_VALUES, MAX_ORIGINS)
        copula, points = blocks.loadings @ blocks.loadings.T, []
        for origin in range(max(count, 0), 0, -1):
            table = []
            for level in levels:
                age = origin * size // level.size
                values = past_quantiles(level.forecast, np.array([age]))
                steps = range(size // level.size)
                table += [values.get((age, age - 1 - step)) for step in steps]
            if None in table:
                continue
            draws, actual = zip(*table, strict=True)
            points.append(PastPoint(np.transpose(draws), np.array(actual), copula, blocks.within))
        projector = Projector(blocks.hierarchy, self.method, self.nonnegative)
        return score_table(points, projector, self.seed)


def reconcile_temporal(
    forecast: Forecast,
    periods: str | int | Sequence[str | int],
    method: str = "mint",
    *,
    nonnegative: bool = False,
    draws: int = 2_000,
    seed: int = 0,
    **options: Any,
) -> TemporallyReconciled:
    """Combine a forecast with forecasts of its sums over longer periods.

    The values are summed over blocks of consecutive steps, counted back from the last value: a
    "year" is twelve months, whatever the month of the last value. Sums are forecast as series of
    their own, without regressors and events, and all forecasts are made to add up. For sums over
    calendar years, add the draws of the months.

    Args:
        forecast: Forecast of a series with regular times.
        periods: Names, "quarter", "half-year" and "year" for months, "week" for days, "hour",
            "day" and "week" for shorter steps; or numbers of steps.
        method: Weights: "mint" (spreads of the forecasts, and correlations of errors within each
            level), "wls" (spreads only), "ols" (equal) or "bottom-up" (the single steps only).
        nonnegative: Set negative draws of single steps to 0 before they are summed.
        draws: Number of joint draws, more than twice the horizon.
        seed: Random seed of the draws.
        **options: Arguments of `bk.forecast` for the sums, such as model.

    Returns:
        A mapping from the names of the periods, the longest first, to coherent forecasts.

    Raises:
        ValueError: If times are irregular, a period is unknown or longer than the horizon, or too
            few blocks have values.

    Examples:
        ```python
        reconciled = bk.reconcile_temporal(bk.forecast("airline", 24), ["quarter", "year"])
        reconciled["month"].interval(0.8), reconciled["year"].interval(0.8)
        ```
    """
    if not isinstance(forecast, Forecast):
        raise TypeError(
            f"forecast must be a forecast of bk.forecast; got a {type(forecast).__name__}."
        )
    method = validation.one_of("method", method, TEMPORAL_METHODS)
    draws, seed = validation.positive_integer(draws, "draws"), validation.seed(seed)
    require_draws(draws, forecast.horizon)
    calendar = forecast.series.calendar
    if not calendar.regular:
        raise ValueError(
            f"reconcile_temporal needs regular times; those of this series are "
            f"{calendar.description}."
        )
    sizes = {}
    for period in [periods] if isinstance(periods, str | int) else periods:
        sizes[str(period)] = _size_of(period, calendar, forecast.horizon)
    if not sizes or len({*sizes.values()}) < len(sizes):
        raise ValueError(f"periods must be one period or several different ones; got {periods!r}.")
    levels = [
        Level(name, size, _forecast_of_blocks(forecast, name, size, options))
        for name, size in sorted(sizes.items(), key=lambda item: -item[1])
    ]
    single_steps = (name for name, n in _steps_by_period(calendar).items() if abs(n - 1.0) < 1e-6)
    levels.append(Level(next(single_steps, "step"), 1, forecast))
    probabilities = (np.arange(draws) + 0.5) / draws
    quantiles = [level.forecast.quantile(probabilities) for level in levels]
    roots = tuple(root_of_paths(level.forecast.sample(draws, seed)) for level in levels)
    blocks = TemporalBlocks(tuple(levels), forecast.horizon, roots, spreads_of(quantiles[-1])[1])
    rng = np.random.default_rng(seed)
    order = rng.standard_normal((draws, blocks.loadings.shape[1])) @ blocks.loadings.T
    joint = in_rank_order(np.hstack(quantiles), order)
    projector = Projector(blocks.hierarchy, method, nonnegative)
    ends = np.cumsum(blocks.counts)[:-1]
    by_level = np.split(projector.coherent(joint, blocks.within), ends, axis=1)
    series = {
        level.name: CoherentForecast(level.name, level.name, level.forecast, paths)
        for level, paths in zip(levels, by_level, strict=True)
    }
    return TemporallyReconciled(series, method, (), blocks, nonnegative, seed)


def _steps_by_period(calendar: Calendar) -> dict[str, float]:
    """Number of steps of each period of the calendar, by name."""
    is_ticks = calendar.kind == "second"
    unit = calendar.step * SECONDS_PER_YEAR if is_ticks else calendar.every
    return {name: n / unit for name, n in PERIOD_LENGTHS.get(calendar.kind, {}).items()}


def _size_of(period: str | int, calendar: Calendar, horizon: int) -> int:
    """Number of steps of a period.

    Raises ValueError unless it is between 2 and the horizon.
    """
    if isinstance(period, str):
        steps = _steps_by_period(calendar).items()
        whole = {name: n for name, n in steps if n > 1.5 and abs(n - round(n)) < 1e-6}
        if not whole:
            raise ValueError(
                f"periods: {period!r} is not a whole number of steps of a series that is "
                f"{calendar.description}; give numbers of steps."
            )
        size = round(whole[validation.one_of("periods", period, whole)])
    else:
        size = validation.positive_integer(period, "periods", 2)
    if size > horizon:
        raise ValueError(
            f"periods: {period!r} has {size} steps and the horizon {counted(horizon, 'step')}; "
            "forecast more steps."
        )
    return size


def _forecast_of_blocks(f: Forecast, name: str, size: int, options: dict[str, Any]) -> Forecast:
    """Forecast of sums over blocks of `size` steps that end with the last value."""
    values, calendar = f.series.on_grid(), f.series.calendar
    count = len(values) // size
    sums = values[len(values) - count * size :].reshape(count, size).sum(axis=1)
    known = np.flatnonzero(np.isfinite(sums))
    if len(known) < MIN_VALUES or known[-1] < count - 1:
        reason = (
            f"{counted(len(known), 'block')} with all values; {MIN_VALUES} are needed"
            if len(known) < MIN_VALUES
            else "a missing value in the last block"
        )
        raise ValueError(f"periods: {name!r}, {size} steps, has {reason}.")
    times = calendar.grid(0)[len(values) - count * size :: size][known[0] :]
    series = Series(
        f"{f.series.name} by {name}",
        f.series.time_name,
        f.series.value_name,
        sums[known[0] :],
        infer_calendar(times, calendar.tz, f.series.time_name),
        (),
    )
    lengths = [period / calendar.step / size for period in f.seasons.values()]
    options = {"season": [length for length in lengths if length >= 2.0] or 0} | options
    with hidden_progress():
        return forecast_series(series, f.horizon // size, **options)
