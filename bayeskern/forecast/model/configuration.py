"""From the arguments of `forecast` to the values that are fitted and the structures for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from bayeskern.core import validation
from bayeskern.core.formatting import counted
from bayeskern.forecast.data.series import MIN_VALUES, Series
from bayeskern.forecast.data.times import parse_times
from bayeskern.forecast.model.effects import Effects, effects_of
from bayeskern.forecast.model.kernels import CYCLES, HISTORY, LEVEL, TRENDS, name_seasons
from bayeskern.forecast.model.learned import frequency_of, learned
from bayeskern.forecast.model.structural_model import StructuralModel
from bayeskern.forecast.model.structure import Choices
from bayeskern.forecast.model.transformation import (
    MANY_ZEROS,
    MAX_SIZE,
    MIN_RETURNS,
    bounds_of,
    is_constant,
    ordinary,
    require_positive,
    require_possible,
)
from bayeskern.likelihoods.numpy_likelihoods import LIKELIHOODS, NumpyLikelihood

# Dense covariances of more values take gigabytes each, and a step of the fit takes minutes.
MAX_VALUES = 10_000
# Number of last values that are fitted by default: a fit takes cubic time, and the last values
# determine the next ones. The larger limit is for seasons of which MAX_FITTED values hold fewer
# than MIN_PERIODS. With a likelihood each step of a fit has a search of its own.
MAX_FITTED, MAX_FITTED_LONG_SEASON, MAX_FITTED_WITH_LIKELIHOOD = 600, 1_000, 500
MIN_PERIODS = 5
# More steps are of no use, and from 1000 values this many take gigabytes.
MAX_STEPS = 100_000


class Request(NamedTuple):
    """Arguments of `forecast` that say how a series is modelled."""

    model: StructuralModel = StructuralModel()
    season: Any = None
    trend: str | None = None
    holidays: str | None = None
    events: Any = None
    likelihood: str | None = None


class Configuration(NamedTuple):
    """Values and structures to fit.

    Attributes:
        series: The values that are fitted, with remarks on those that are not.
        choices: The structures that are weighed against one another.
        frequency: The entry of the learned table.
    """

    series: Series
    choices: Choices
    frequency: str


def configure(series: Series, horizon: int, request: Request) -> Configuration:
    """Values and structures that a request asks for.

    Raises ValueError for values and options that exclude one another.
    """
    model = request.model
    observed_through = _likelihood(request.likelihood, model)
    trends = _trends(request.trend, model)
    seasons = name_seasons(series.calendar, request.season)
    series = _ordinary_values(series)
    latest = series.values[series.observed][-(model.last or MAX_FITTED) :]
    ranks = _takes_ranks(latest, model, observed_through)
    needed = 0.0 if ranks else _values_needed(series, seasons)
    whole = _takes_whole_history(int(series.observed.sum()), needed, request)
    if not whole:
        limit = MAX_FITTED if needed <= MAX_FITTED else MAX_FITTED_LONG_SEASON
        limit = limit if observed_through is None else MAX_FITTED_WITH_LIKELIHOOD
        series = _fitted_values(series, model, limit)
    require_within_reach(series, horizon)
    series, bounds = _bounded(series, model, observed_through)
    series, seasons, frequency = _visible(series, seasons)
    effects = effects_of(
        series,
        horizon,
        request.holidays,
        model.holiday_window,
        request.events,
        model.effect_kernels,
    )
    _require_compatible(effects, model, seasons)
    if model.priors is not None:
        model.priors.require_step(series.calendar.step)
    y = series.values[series.observed]
    finds_changes = isinstance(model.changes, str) and model.changes == "find"
    logs = _logs(y, model, observed_through)
    choices = Choices(
        trends=(HISTORY,) if whole else trends,
        seasons=seasons,
        logs=logs,
        learned=learned(frequency),
        step=series.calendar.step,
        unit=max([*seasons.values()], default=series.calendar.step),
        ranks=ranks,
        changes=() if finds_changes else _changes(series, model.changes),
        find_changes=finds_changes,
        robust=model.robust,
        kernels=model.kernels,
        effects=effects,
        bounds=bounds,
        likelihood=observed_through,
        priors=model.priors,
        whole_history=whole,
        end=float(series.calendar.positions(series.calendar.future(horizon))[-1]),
    )
    return Configuration(series, choices, frequency)


def _values_needed(series: Series, seasons) -> float:
    """Number of values that hold MIN_PERIODS of the longest season."""
    return MIN_PERIODS * max(seasons.values(), default=0.0) / series.calendar.step


def _takes_whole_history(count: int, needed: float, request: Request) -> bool:
    """True if basis functions describe all values: their season is too long for covariances.

    Args:
        count: Number of values.
        needed: Number of values that hold MIN_PERIODS of the longest season.
        request: What was asked for; a wish that basis functions do not meet excludes them.
    """
    model = request.model
    is_default = request.trend is None and request.likelihood is None and not model.robust
    replaced = (model.kernel, model.changes, model.effect_kernels, model.priors, model.last)
    is_default &= all(option is None for option in replaced)
    is_default &= model.method is None or model.is_map
    # The larger limit pays only where it holds enough of the season.
    limit = MAX_FITTED_LONG_SEASON if needed <= MAX_FITTED_LONG_SEASON else MAX_FITTED
    return is_default and needed > MAX_FITTED and count > limit


def _ordinary_values(series: Series) -> Series:
    """The series without numbers that are none, and remarks on them."""
    y = series.values[series.observed]
    if is_constant(y):
        return series

    def labels():
        return series.calendar.labels(series.times[series.observed])

    usable, remarks = ordinary(y, labels)
    if not remarks:
        return series
    kept = int(np.sum(np.isfinite(usable)))
    if kept < MIN_VALUES:
        raise ValueError(
            f"{series.value_name} has {counted(kept, 'value')} below {MAX_SIZE:g} in size; wanted "
            f"at least {MIN_VALUES}."
        )
    values = series.values.copy()
    values[series.observed] = usable
    changed = replace(series, values=values, remarks=(*series.remarks, *remarks))
    return replace(changed.until(len(values)), remarks=changed.remarks)


def _visible(series: Series, seasons: dict[str, float]) -> tuple[Series, dict[str, float], str]:
    """The series with a remark on seasons too long for it, the others, and the frequency."""
    calendar = series.calendar
    span = calendar.step * (int(calendar.steps()[-1]) + 1)
    visible = {name: period for name, period in seasons.items() if period < span}
    for name in seasons.keys() - visible.keys():
        too_long = f"the series is no longer than a season of {calendar.in_words(seasons[name])}"
        series = replace(series, remarks=(*series.remarks, f"{too_long}, which is left out"))
    shortest = min((period / calendar.step for period in seasons.values()), default=None)
    step = calendar.step if calendar.unit == "years" else None
    return series, visible, frequency_of(step, shortest, bool(visible))


def _takes_ranks(y, model: StructuralModel, likelihood: NumpyLikelihood | None) -> bool:
    """True if many values are zero, now and again: ranks describe such series best."""
    if likelihood is not None or model.kernel is not None or model.log is not None or model.robust:
        return False
    if model.lower is not None and model.lower < 0.0:
        # Ranks never go below the smallest value.
        return False
    returns = np.sum((y[:-1] == 0.0) & (y[1:] > 0.0))
    return bool(np.min(y) == 0.0 and np.mean(y == 0.0) >= MANY_ZEROS and returns >= MIN_RETURNS)


def _likelihood(name: str | None, model: StructuralModel) -> NumpyLikelihood | None:
    """Likelihood by name. Raises ValueError for options that it excludes."""
    if name is None:
        return None
    likelihood = LIKELIHOODS[validation.one_of("likelihood", name, LIKELIHOODS)]
    for option in ("kernel", "log", "robust", "lower", "upper", "method"):
        value = getattr(model, option)
        if value is not None and value is not False and not (option == "method" and model.is_map):
            raise ValueError(
                f"likelihood={name!r} sets the possible values and their noise, and excludes "
                f"StructuralModel({option}=...). For kernels and methods of your own, use LatentGP."
            )
    return likelihood


def _trends(trend: str | None, model: StructuralModel) -> tuple[str, ...]:
    """Names of the trends, or of the kernels that replace them."""
    if model.kernels is None:
        return tuple(TRENDS) if trend is None else (validation.one_of("trend", trend, TRENDS),)
    if trend is not None:
        raise ValueError(
            f"StructuralModel(kernel=...) replaces all trends; got trend={trend!r} beside it."
        )
    return tuple(model.kernels)


def _fitted_values(series: Series, model: StructuralModel, limit: int) -> Series:
    """Last values of a series, as many as are fitted. Raises ValueError for too many values.

    limit: Their number where neither `last` nor a kernel says another.
    """
    count = int(series.observed.sum())
    if model.last is not None:
        limit = model.last
    elif model.kernel is not None:
        limit = count
    if min(count, limit) > MAX_VALUES:
        raise ValueError(
            f"{min(count, limit)} values of {series.value_name} were to be fitted, but a forecast "
            f"takes at most {MAX_VALUES}. Aggregate them (hours to days, say), or use "
            "StructuralModel(last=1000). GPRegression takes more values by other solvers, if the "
            "kernel allows it."
        )
    return series.last(limit) if count > limit else series


def _bounded(
    series: Series, model: StructuralModel, likelihood: NumpyLikelihood | None
) -> tuple[Series, tuple[float, float]]:
    """The series with a remark on inferred bounds, and the bounds.

    Raises ValueError for values beyond the bounds or impossible under the likelihood.
    """
    y = series.values[series.observed]

    def labels():
        return series.calendar.labels(series.times[series.observed])

    if likelihood is not None:
        require_possible(y, likelihood, labels)
        return series, (-np.inf, np.inf)
    bounds, remark = bounds_of(y, model.lower, model.upper, labels)
    if model.log:
        require_positive(y, labels())
    return replace(series, remarks=(*series.remarks, *remark)), bounds


def _logs(y, model: StructuralModel, likelihood: NumpyLikelihood | None) -> tuple[bool, ...]:
    """The scales: False for the values, True for their logarithm."""
    if likelihood is not None:
        return (False,)
    if model.log is not None:
        return (model.log,)
    return (False, True) if np.all(y > 0) else (False,)


def _require_compatible(effects: Effects | None, model: StructuralModel, seasons) -> None:
    """Raise ValueError for effects beside a kernel or a method, or named as a component."""
    if effects is None:
        return
    if model.kernel is not None or not (model.method is None or model.is_map):
        raise ValueError(
            "regressors=, events= and holidays= apply to the built-in structures, averaged or with "
            "StructuralModel(method='map'); got a kernel or another method beside them."
        )
    taken = {LEVEL, CYCLES, *seasons} & {*effects.names}
    if taken:
        raise ValueError(f"{taken.pop()!r} is the name of a component; rename the regressor.")


def _changes(series: Series, changes) -> tuple[float, ...]:
    """Positions of change points at given times. Raises ValueError outside of the series."""
    if changes is None:
        return ()
    times = np.sort(parse_times(np.atleast_1d(changes), "StructuralModel(changes=...)"))
    at = series.calendar.positions(times)
    first, last = series.calendar.positions(series.times[[0, -1]])
    if np.any(at <= first) or np.any(at > last):
        begin, end = series.calendar.labels(series.times[[0, -1]])
        raise ValueError(
            f"StructuralModel(changes=...) must lie after {begin} and not after {end}, where the "
            f"series begins and ends; got {', '.join(series.calendar.labels(times))}."
        )
    # The value at that time is already a changed one.
    return tuple(float(a) - 0.5 * series.calendar.step for a in at)


def require_within_reach(series: Series, horizon: int) -> None:
    """Raise ValueError for a horizon beyond the memory or the calendar."""
    count = min(int(np.sum(series.observed)), MAX_VALUES)
    most = min(MAX_STEPS, MAX_VALUES**2 // count)
    if horizon > most:
        raise ValueError(
            f"horizon is {horizon}; from {count} values at most {most} steps can be forecast. "
            "Take fewer, or longer steps (days for hours, say)."
        )
    if series.calendar.unit == "years":
        last_year = series.times[-1].astype("M8[Y]").astype(int) + 1970
        if last_year + horizon * series.calendar.step >= 9999:
            raise ValueError(f"horizon: {horizon} steps go beyond the year 9999; take fewer.")
