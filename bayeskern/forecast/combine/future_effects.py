"""New future values of regressors and events, at the same hyperparameter draws."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bayeskern.core import validation
from bayeskern.core.formatting import counted
from bayeskern.forecast.combine.alternatives import require_memory
from bayeskern.forecast.combine.stacking import Combination, Part
from bayeskern.forecast.fit.draws import NO_TIMES
from bayeskern.forecast.model.effects import Effects, EffectSources
from bayeskern.forecast.model.future_values import FutureTimes
from bayeskern.series.reading import regressors_of
from bayeskern.series.series import Series

NO_EFFECTS = (
    "this forecast has no regressors, events or holidays: forecast the series with regressors= or "
    "events= first."
)


def scenario_of(
    combination: Combination | None,
    series: Series,
    horizon: int,
    values: Mapping[str, Any],
    seed: int,
) -> tuple[Series, Combination]:
    """Series with remarks, and structures with other future values of some columns.

    Args:
        combination: The structures of the forecast; None for a constant series.
        series: The series.
        horizon: Number of steps to forecast.
        values: Name of a regressor or event -> its future values, as `FutureTimes.read` takes them.
        seed: Seed of the draws of uncertain values.

    Raises:
        ValueError: There are no effects, a name is unknown, values cannot be read, or draws over
            the horizon do not fit into memory.
    """
    effects = None if combination is None else combination.choices.effects
    if combination is None or effects is None:
        raise ValueError(NO_EFFECTS)
    if not values:
        raise ValueError(
            "scenario needs the future values of a regressor or event, as in "
            f"scenario({{{effects.columns[0]!r}: ...}}); the names are "
            f"{', '.join(effects.columns)}."
        )
    for name in values:
        validation.one_of("regressor", name, effects.columns)
    times = series.calendar.future(horizon)
    x, count = series.calendar.positions(times), None
    current = effects.values_at(x)[None]
    if effects.draws is not None:
        current, count = effects.in_units(effects.draws), len(effects.draws)
    name = f"the {counted(horizon, 'future time')}"
    reader = FutureTimes(series.calendar, times, name, seed, effects.indicators, count)
    draws = reader.read(values)
    reader.require_complete(draws)
    changed = effects.continued(x, _with_columns(effects, current, draws), horizon)
    if changed.draws is not None:
        require_memory(combination, changed.draws)
    uncertain = [name for name, column in draws.items() if np.ptp(column, axis=0).any()]
    remarks = [f"scenario: {', '.join(values)} changed"]
    if uncertain:
        remarks.append(f"averaged over draws: {', '.join(uncertain)}; components use their mean")
    outside = _extrapolated(changed, horizon, values)
    if outside:
        remarks.append(f"effects beyond the past range are extrapolated: {', '.join(outside)}")
    return series.with_remarks(*remarks), with_effects(combination, changed)


def continued(
    combination: Combination, old: Series, series: Series, horizon: int, values: Any, seed: int
) -> Combination:
    """Structures with effects at the new times of a longer series and after them.

    Values of a column come from `values` or, in this order, from the effects of the old horizon,
    the regressors of the series, and the dates of events and holidays.

    Args:
        combination: The structures of the forecast of the old series.
        old: The series before the new values.
        series: The series with the new values.
        horizon: Number of steps to forecast.
        values: Name of a regressor or event -> its values at the new times and over the horizon;
            or a frame of regressors.
        seed: Seed of the draws of uncertain values.

    Raises:
        ValueError: There are values but no effects, a name is unknown, values cannot be read, or a
            value is missing.
    """
    effects = combination.choices.effects
    if effects is None:
        if values is not None:
            raise ValueError(f"update: {NO_EFFECTS}")
        return combination
    calendar, n = series.calendar, len(old.values)
    is_new = series.observed & (np.arange(len(series.values)) >= n)
    times = np.append(series.times[is_new], calendar.future(horizon))
    x, count = calendar.positions(times), int(is_new.sum())
    planned, unseen = _planned(effects, old, series, horizon, times)
    name = f"the {counted(count, 'new time')} and the {horizon} after that"
    reader = FutureTimes(calendar, times, name, seed, effects.indicators)
    draws = reader.read(_columns(effects, values, old))
    for name, column in draws.items():
        # Times without a value keep their planned value.
        planned_column = planned[:, effects.columns.index(name)]
        draws[name] = np.where(np.isnan(column), planned_column, column)
        if np.ptp(np.nan_to_num(draws[name][:, :count]), axis=0).any():
            raise ValueError(
                f"{name} must be known at the times of the new values; its draws differ there."
            )
    values_by_draw = _with_columns(effects, planned[None], draws)
    reader.require_complete(
        {name: values_by_draw[..., j] for j, name in enumerate(effects.columns)}
    )
    longer = effects.continued(x, values_by_draw, horizon)
    return with_effects(combination, replace(longer, unseen=unseen))


def _planned(
    effects: Effects, old: Series, series: Series, horizon: int, times: np.ndarray
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Known values of all columns at times (m,), and names of unseen holidays.

    The values have shape (m, k), NaN where unknown. Columns that are uncertain in a scenario are
    unknown.
    """
    calendar = series.calendar
    # Events and holidays are located among all times, since the periods of a calendar are counted
    # from its first time.
    all_times = np.append(series.times, calendar.future(horizon))
    sources = effects.sources or EffectSources()
    events, holidays, future_only = sources.columns(all_times, len(series.times), calendar)
    rows = np.isin(all_times, times)
    indicators = {name: column[rows] for name, column in (events | holidays).items()}
    table = {} if old.regressors is None else old.regressors.at(times)
    planned = effects.values_at(calendar.positions(times))
    for j, name in enumerate(effects.columns):
        for columns in (table, indicators):
            if name in columns:
                planned[:, j] = np.where(np.isnan(planned[:, j]), columns[name], planned[:, j])
    planned[:, effects.uncertain] = np.nan
    new = [name for name in holidays if name not in effects.columns and indicators[name].any()]
    return planned, (*future_only, *new)


def with_effects(combination: Combination, effects: Effects) -> Combination:
    """Structures with other effects, which must agree at the times of the data."""
    old = combination.choices.effects
    choices = replace(combination.choices, effects=effects)
    parts = []
    for draws, weight in combination.parts:
        predictive = draws.predictive
        if predictive is not None and old is not None:
            before, after = (e.values_at(predictive.x) for e in (old, effects))
            predictive = predictive if np.array_equal(before, after, equal_nan=True) else None
        fitted, next_times = draws.fitted.with_effects(choices), draws.next_times
        if predictive is None:
            next_times = NO_TIMES
        changed = replace(draws, fitted=fitted, next_times=next_times, computed=predictive)
        parts.append(Part(changed, weight))
    return replace(combination, parts=tuple(parts))


def _extrapolated(effects: Effects, horizon: int, names: Iterable[str]) -> list[str]:
    """Names of the regressors that leave their past range over the horizon."""
    past, future = effects.Z[:-horizon], effects.Z[-horizon:]
    outside = ((future < past.min(axis=0)) | (future > past.max(axis=0))).any(axis=0)
    return [name for name in names if outside[effects.columns.index(name)]]


def _with_columns(effects: Effects, values: np.ndarray, draws: dict[str, np.ndarray]) -> np.ndarray:
    """Values (S, m, k) with columns replaced by draws (S, m) or known values (1, m)."""
    count = max([len(values), *map(len, draws.values())])
    result = np.repeat(values, count // len(values), axis=0)
    for name, column in draws.items():
        result[..., effects.columns.index(name)] = column
    return result


def _columns(effects: Effects, values: Any, series: Series) -> dict[str, Any]:
    """Values by name, from a mapping or a frame with times."""
    if hasattr(values, "columns"):
        import pandas as pd  # slow to import

        table = regressors_of(values, series.time_name)
        index = series.calendar.index(table.times, series.time_name)
        values = {name: pd.Series(v, index).dropna() for name, v in table.columns.items()}
    columns = dict(values or {})
    for name in columns:
        validation.one_of("regressors", name, effects.columns)
    return columns
