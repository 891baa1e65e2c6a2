"""Values to fit and structures to compare, from the arguments of `forecast`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from bayeskern.core import validation
from bayeskern.core.formatting import counted
from bayeskern.forecast.data.series import MIN_VALUES, Series
from bayeskern.forecast.data.times import parse_times
from bayeskern.forecast.model.effects import effects_of
from bayeskern.forecast.model.kernels import CYCLES, HISTORY, LEVEL, TRENDS, name_seasons
from bayeskern.forecast.model.learned import frequency_of, learned
from bayeskern.forecast.model.structural_model import StructuralModel
from bayeskern.forecast.model.structure import Choices
from bayeskern.forecast.model.transformation import (
    MAX_SIZE,
    bounds_of,
    is_constant,
    ordinary,
    require_all,
    require_possible,
)
from bayeskern.likelihoods.numpy_likelihoods import LIKELIHOODS, NumpyLikelihood

# Longest forecast, in steps: from 1000 values, one of this length takes gigabytes.
MAX_STEPS = 100_000
# Most values of any fit by covariances: more take gigabytes and minutes a step.
MAX_VALUES = 10_000
# Numbers of last values that are fitted by default: a fit takes cubic time, and the last values
# determine the next ones. The second number applies where the first holds fewer than MIN_PERIODS of
# the longest season, the third to likelihoods, whose steps have an inner search.
MAX_FITTED, MAX_FITTED_LONG_SEASON, MAX_FITTED_WITH_LIKELIHOOD = 600, 1_000, 500
MIN_PERIODS = 5


class Request(NamedTuple):
    """Arguments of `forecast` that determine the model of a series."""

    model: StructuralModel = StructuralModel()
    season: Any = None
    trend: str | None = None
    holidays: str | None = None
    events: Any = None
    likelihood: str | None = None


def configure(series: Series, horizon: int, request: Request) -> tuple[Series, Choices]:
    """Values and structures for a request.

    Args:
        series: The series.
        horizon: Number of steps to forecast.
        request: Arguments of `forecast`.

    Returns:
        The values to fit, with remarks on values that are left out, and the options of the
        structures that are compared.

    Raises:
        ValueError: Values and options exclude one another.
    """
    model = request.model
    likelihood = _likelihood(request.likelihood, model)
    trends = _trends(request.trend, model)
    seasons = name_seasons(series.calendar, request.season)
    series = _ordinary_values(series)
    latest = series.values[series.observed][-(model.last or MAX_FITTED) :]
    ranks = likelihood is None and _suits_ranks(latest, model)
    # Number of values that hold enough of the longest season; ranks need no more.
    longest = max(seasons.values(), default=0.0)
    needed = 0.0 if ranks else MIN_PERIODS * longest / series.calendar.step
    whole = _takes_whole_history(int(series.observed.sum()), needed, request)
    if not whole:
        most = MAX_FITTED if needed <= MAX_FITTED else MAX_FITTED_LONG_SEASON
        most = most if likelihood is None else MAX_FITTED_WITH_LIKELIHOOD
        series = _fitted_values(series, model, most)
    require_within_reach(series, horizon)
    calendar, labels = series.calendar, _labels_of(series)
    y, bounds, logs = series.values[series.observed], (-np.inf, np.inf), (False,)
    if likelihood is not None:
        require_possible(y, likelihood, labels)
    else:
        bounds, remarks = bounds_of(y, model.lower, model.upper, labels)
        series = series.with_remarks(*remarks)
        if model.log:
            needs = "the logarithm (StructuralModel(log=True), --log, --positive) needs values"
            require_all(y > 0, y, labels, f"{needs} above zero")
        logs = (False, True) if np.all(y > 0) else (False,)
        logs = logs if model.log is None else (model.log,)
    span = calendar.step * (int(calendar.steps()[-1]) + 1)
    visible = {name: period for name, period in seasons.items() if period < span}
    for name in seasons.keys() - visible.keys():
        season = calendar.in_words(seasons[name])
        series = series.with_remarks(
            f"the series is no longer than a season of {season}, which is left out"
        )
    shortest = min((period / calendar.step for period in seasons.values()), default=None)
    step = calendar.step if calendar.unit == "years" else None
    effects = effects_of(
        series, horizon, request.holidays, model.holiday_window, request.events,
        model.effect_kernels,
    )  # fmt: skip
    if effects is not None:
        _require_built_in(effects.names, model, visible)
    if model.priors is not None:
        model.priors.require_step(calendar.step)
    finds_changes = isinstance(model.changes, str) and model.changes == "find"
    choices = Choices(
        trends=(HISTORY,) if whole else trends,
        seasons=visible,
        logs=logs,
        learned=learned(frequency_of(step, shortest, bool(visible))),
        step=calendar.step,
        unit=max(visible.values(), default=calendar.step),
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
        end=float(calendar.positions(calendar.future(horizon))[-1]),
    )
    return series, choices


def _takes_whole_history(count: int, needed: float, request: Request) -> bool:
    """True to fit all values by basis functions: the season is too long for covariances.

    Args:
        count: Number of values.
        needed: Number of values that hold enough of the longest season.
        request: Arguments of `forecast`; options that basis functions lack exclude them.
    """
    model = request.model
    replaced = (request.trend, request.likelihood, model.kernel, model.changes)
    replaced += (model.effect_kernels, model.priors, model.last)
    if model.robust or not (model.method is None or model.is_map):
        return False
    # The larger limit pays only if it holds enough of the season.
    limit = MAX_FITTED_LONG_SEASON if needed <= MAX_FITTED_LONG_SEASON else MAX_FITTED
    return needed > MAX_FITTED and count > limit and all(option is None for option in replaced)


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
            f"{series.value_name} must have at least {MIN_VALUES} values below {MAX_SIZE:g} in "
            f"size; got {counted(kept, 'value')}."
        )
    values = series.values.copy()
    values[series.observed] = usable
    changed = replace(series, values=values).until(len(values))
    return replace(changed, remarks=(*series.remarks, *remarks))


def _suits_ranks(y: np.ndarray, model: StructuralModel) -> bool:
    """True for series that are often zero and return from it, which ranks describe best."""
    if model.kernel is not None or model.log is not None or model.robust:
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


def _fitted_values(series: Series, model: StructuralModel, limit: int) -> Series:
    """Last values of a series that are fitted.

    Args:
        series: The series.
        model: Options; `last` and a kernel override the limit.
        limit: Number of values by default.

    Raises:
        ValueError: Too many values were asked for.
    """
    count = int(series.observed.sum())
    if model.last is not None:
        limit = model.last
    elif model.kernel is not None:
        limit = count
    if min(count, limit) > MAX_VALUES:
        raise ValueError(
            f"a forecast can be fitted to at most {MAX_VALUES} values; got {min(count, limit)} of "
            f"{series.value_name}. Aggregate them, hours to days for example, or use "
            "StructuralModel(last=1000). GPRegression fits more values by other solvers, if the "
            "kernel allows it."
        )
    return series.last(limit) if count > limit else series


def _require_built_in(
    names: tuple[str, ...], model: StructuralModel, seasons: dict[str, float]
) -> None:
    """Raise ValueError for effects with a kernel or a method, or with the name of a component."""
    if model.kernel is not None or not (model.method is None or model.is_map):
        raise ValueError(
            "regressors=, events= and holidays= apply to the built-in structures, averaged or with "
            "StructuralModel(method='map'); got a kernel or another method beside them."
        )
    taken = {LEVEL, CYCLES, *seasons} & {*names}
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
    count = min(int(np.sum(series.observed)), MAX_VALUES)
    most = min(MAX_STEPS, MAX_VALUES**2 // count)
    if horizon > most:
        raise ValueError(
            f"horizon can be at most {most} steps from {count} values; got {horizon}. Take fewer "
            "or longer steps, days instead of hours for example."
        )
    if series.calendar.unit == "years":
        last_year = series.times[-1].astype("M8[Y]").astype(int) + 1970
        if last_year + horizon * series.calendar.step >= 9999:
            raise ValueError(f"horizon: {horizon} steps go beyond the year 9999; take fewer.")
