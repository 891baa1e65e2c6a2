"""Values to fit and structures to compare, from the arguments of `forecast`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
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
    MAX_SIZE,
    bounds_of,
    is_constant,
    ordinary,
    require_positive,
    require_possible,
)
from bayeskern.likelihoods.numpy_likelihoods import LIKELIHOODS, NumpyLikelihood

# Longest forecast, in steps: from 1000 values, one of this length takes gigabytes.
MAX_STEPS = 100_000


@dataclass(frozen=True)
class FitLimits:
    """Numbers of last values that are fitted.

    A fit takes cubic time, and the last values determine the next ones.

    Attributes:
        max_values: Most values of any fit by covariances: more take gigabytes and minutes a step.
        max_fitted: Most values by default.
        max_fitted_long_season: The same if `max_fitted` values hold fewer than `min_periods` of the
            longest season.
        max_fitted_with_likelihood: The same with a likelihood, where each step has an inner search.
        min_periods: Number of longest seasons that the values should hold.
    """

    max_values: int = 10_000
    max_fitted: int = 600
    max_fitted_long_season: int = 1_000
    max_fitted_with_likelihood: int = 500
    min_periods: int = 5


class Request(NamedTuple):
    """Arguments of `forecast` that determine the model of a series."""

    model: StructuralModel = StructuralModel()
    season: Any = None
    trend: str | None = None
    holidays: str | None = None
    events: Any = None
    likelihood: str | None = None


class Configuration(NamedTuple):
    """Values and structures to fit.

    Attributes:
        series: The values to fit, with remarks on values that are left out.
        choices: Options of the structures that are compared.
        frequency: Entry of the learned table.
    """

    series: Series
    choices: Choices
    frequency: str


def configure(series: Series, horizon: int, request: Request) -> Configuration:
    """Values and structures for a request.

    Args:
        series: The series.
        horizon: Number of steps to forecast.
        request: Arguments of `forecast`.

    Raises:
        ValueError: Values and options exclude one another.
    """
    model, limits = request.model, FitLimits()
    likelihood = _likelihood(request.likelihood, model)
    trends = _trends(request.trend, model)
    seasons = name_seasons(series.calendar, request.season)
    series = _ordinary_values(series)
    latest = series.values[series.observed][-(model.last or limits.max_fitted) :]
    ranks = _takes_ranks(latest, model, likelihood)
    # Number of values that hold enough of the longest season; ranks need no more.
    longest = max(seasons.values(), default=0.0)
    needed = 0.0 if ranks else limits.min_periods * longest / series.calendar.step
    whole = _takes_whole_history(int(series.observed.sum()), needed, request, limits)
    if not whole:
        most = limits.max_fitted if needed <= limits.max_fitted else limits.max_fitted_long_season
        most = most if likelihood is None else limits.max_fitted_with_likelihood
        series = _fitted_values(series, model, most, limits.max_values)
    require_within_reach(series, horizon)
    series, bounds = _bounded(series, model, likelihood)
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
    finds_changes = isinstance(model.changes, str) and model.changes == "find"
    choices = Choices(
        trends=(HISTORY,) if whole else trends,
        seasons=seasons,
        logs=_logs(series.values[series.observed], model, likelihood),
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
        likelihood=likelihood,
        priors=model.priors,
        whole_history=whole,
        end=float(series.calendar.positions(series.calendar.future(horizon))[-1]),
    )
    return Configuration(series, choices, frequency)


def _takes_whole_history(count: int, needed: float, request: Request, limits: FitLimits) -> bool:
    """True to fit all values by basis functions: the season is too long for covariances.

    Args:
        count: Number of values.
        needed: Number of values that hold enough of the longest season.
        request: Arguments of `forecast`; options that basis functions lack exclude them.
        limits: Numbers of values that are fitted.
    """
    model = request.model
    is_default = request.trend is None and request.likelihood is None and not model.robust
    replaced = (model.kernel, model.changes, model.effect_kernels, model.priors, model.last)
    is_default &= all(option is None for option in replaced)
    is_default &= model.method is None or model.is_map
    # The larger limit pays only if it holds enough of the season.
    is_short = needed <= limits.max_fitted_long_season
    limit = limits.max_fitted_long_season if is_short else limits.max_fitted
    return is_default and needed > limits.max_fitted and count > limit


def _labels_of(series: Series) -> Callable[[], list[str]]:
    """() -> times of the observed values as text."""
    return lambda: series.calendar.labels(series.times[series.observed])


def _ordinary_values(series: Series) -> Series:
    """The series without numbers of an impossible size, and with remarks on them."""
    y = series.values[series.observed]
    if is_constant(y):
        return series
    usable, remarks = ordinary(y, _labels_of(series))
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
    """The series with a remark on seasons too long for it, the other seasons, and the frequency."""
    calendar = series.calendar
    span = calendar.step * (int(calendar.steps()[-1]) + 1)
    visible = {name: period for name, period in seasons.items() if period < span}
    for name in seasons.keys() - visible.keys():
        too_long = f"the series is no longer than a season of {calendar.in_words(seasons[name])}"
        series = replace(series, remarks=(*series.remarks, f"{too_long}, which is left out"))
    shortest = min((period / calendar.step for period in seasons.values()), default=None)
    step = calendar.step if calendar.unit == "years" else None
    return series, visible, frequency_of(step, shortest, bool(visible))


def _takes_ranks(y: np.ndarray, model: StructuralModel, likelihood: NumpyLikelihood | None) -> bool:
    """True for series that are often zero and return from it, which ranks describe best."""
    if likelihood is not None or model.kernel is not None or model.log is not None or model.robust:
        return False
    if model.lower is not None and model.lower < 0.0:
        # Ranks never go below the smallest value.
        return False
    # A series that has stopped does not return from zero.
    returns = np.sum((y[:-1] == 0.0) & (y[1:] > 0.0))
    return bool(np.min(y) == 0.0 and np.mean(y == 0.0) >= 0.2 and returns >= 3)


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


def _fitted_values(series: Series, model: StructuralModel, limit: int, max_values: int) -> Series:
    """Last values of a series that are fitted.

    Args:
        series: The series.
        model: Options; `last` and a kernel override the limit.
        limit: Number of values by default.
        max_values: Most values of any fit.

    Raises:
        ValueError: Too many values were asked for.
    """
    count = int(series.observed.sum())
    if model.last is not None:
        limit = model.last
    elif model.kernel is not None:
        limit = count
    if min(count, limit) > max_values:
        raise ValueError(
            f"{min(count, limit)} values of {series.value_name} were to be fitted, but a forecast "
            f"takes at most {max_values}. Aggregate them, hours to days for example, or use "
            "StructuralModel(last=1000). GPRegression fits more values by other solvers, if the "
            "kernel allows it."
        )
    return series.last(limit) if count > limit else series


def _bounded(
    series: Series, model: StructuralModel, likelihood: NumpyLikelihood | None
) -> tuple[Series, tuple[float, float]]:
    """The series with a remark on inferred bounds, and the bounds.

    Raises ValueError for values beyond the bounds or impossible under the likelihood.
    """
    y, labels = series.values[series.observed], _labels_of(series)
    if likelihood is not None:
        require_possible(y, likelihood, labels)
        return series, (-np.inf, np.inf)
    bounds, remarks = bounds_of(y, model.lower, model.upper, labels)
    if model.log:
        require_positive(y, labels())
    return replace(series, remarks=(*series.remarks, *remarks)), bounds


def _logs(
    y: np.ndarray, model: StructuralModel, likelihood: NumpyLikelihood | None
) -> tuple[bool, ...]:
    """Scales: False for the values, True for their logarithm."""
    if likelihood is not None:
        return (False,)
    if model.log is not None:
        return (model.log,)
    return (False, True) if np.all(y > 0) else (False,)


def _require_compatible(
    effects: Effects | None, model: StructuralModel, seasons: dict[str, float]
) -> None:
    """Raise ValueError for effects with a kernel or a method, or with the name of a component."""
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


def _changes(series: Series, changes: Any) -> tuple[float, ...]:
    """Positions of change points at given times. Raises ValueError outside the series."""
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
    # The value at the given time already follows the change.
    return tuple(float(a) - 0.5 * series.calendar.step for a in at)


def require_within_reach(series: Series, horizon: int) -> None:
    """Raise ValueError for a horizon beyond the memory or the calendar."""
    max_values = FitLimits().max_values
    count = min(int(np.sum(series.observed)), max_values)
    most = min(MAX_STEPS, max_values**2 // count)
    if horizon > most:
        raise ValueError(
            f"horizon is {horizon}; from {count} values at most {most} steps can be forecast. "
            "Take fewer or longer steps, days instead of hours for example."
        )
    if series.calendar.unit == "years":
        last_year = series.times[-1].astype("M8[Y]").astype(int) + 1970
        if last_year + horizon * series.calendar.step >= 9999:
            raise ValueError(f"horizon: {horizon} steps go beyond the year 9999; take fewer.")
