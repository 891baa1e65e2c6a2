"""Values to fit and structures to compare, from the arguments of `forecast`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from bayeskern.core import validation
from bayeskern.forecast.model.effects import Effects, effects_of
from bayeskern.forecast.model.kernels import CYCLES, LEVEL, name_seasons
from bayeskern.forecast.model.learned import frequency_of, learned
from bayeskern.forecast.model.level_shift import level_shift
from bayeskern.forecast.model.structural_model import StructuralModel
from bayeskern.forecast.model.structure import StructureChoices
from bayeskern.forecast.model.transformation import (
    MAX_VALUE,
    bounds_of,
    is_constant,
    plausible_values,
    require_all,
    require_possible,
)
from bayeskern.forecast.model.trends import AVERAGED, CHANGING, TRENDS
from bayeskern.likelihoods.analytic import Analytic
from bayeskern.series.calendar import Calendar
from bayeskern.series.dates.times import parse_times
from bayeskern.series.series import MIN_VALUES, Series

# Longest forecast, in steps; with 1000 fitted values it takes gigabytes.
MAX_HORIZON = 100_000
# Most values of a fit with dense covariance matrices. More take gigabytes, and minutes for each
# step.
MAX_DENSE_VALUES = 10_000
# Last values fitted by default. Level, slope, seasons and their hyperparameters change, so that
# older values tell little about the next ones.
DEFAULT_FITTED_VALUES = 600
# Number of periods of the longest season that fitted values should span.
MIN_PERIODS = 5
# Last values fitted by default by a filter and with dense covariances, if the season is long.
DEFAULT_FILTERED_VALUES, DEFAULT_DENSE_VALUES = 6_000, 1_000
# Last values fitted by default with a likelihood.
DEFAULT_VALUES_WITH_LIKELIHOOD = 500
# Most missing values between the values of a filter.
MAX_MISSING_VALUES = 300


class Request(NamedTuple):
    """Arguments of `forecast` that determine the model of a series."""

    model: StructuralModel = StructuralModel()
    season: Any = None
    trend: str | None = None
    holidays: str | None = None
    events: Any = None
    likelihood: str | None = None


def configure(series: Series, horizon: int, request: Request) -> tuple[Series, StructureChoices]:
    """Values and structures for a request.

    Args:
        series: The series.
        horizon: Number of steps to forecast.
        request: Arguments of `forecast`.

    Returns:
        The values to fit, with remarks on values that are left out, and the options of the
        structures that are compared.

    Raises:
        ValueError: The options contradict the values or one another.
    """
    model = request.model
    likelihood = _likelihood(request.likelihood, model)
    trends = _trends(request)
    seasons = name_seasons(series.calendar, request.season)
    fitted = _fitted_values(_plausible_series(series), request, trends, seasons)
    require_within_reach(fitted.series, horizon)
    scales = _scales(fitted.series, model, likelihood)
    visible, hidden = _visible_seasons(fitted.series, seasons)
    effects = _effects(fitted.series, horizon, request, visible)
    if model.priors is not None:
        model.priors.require_step(series.calendar.step)
    # The search for changes fits dense covariance matrices. A regressor or an event may explain a
    # shift of the level.
    excludes_search = fitted.is_long or fitted.ranks or likelihood or effects or model.kernels
    changes = _changes(fitted.series, model, visible, any(scales.logs), not excludes_search)
    choices = StructureChoices(
        trends=(*trends, *CHANGING) if changes.find and request.trend is None else trends,
        seasons=visible,
        logs=scales.logs,
        learned=learned(_frequency(series.calendar, seasons, visible)),
        step=series.calendar.step,
        ranks=fitted.ranks,
        changes=changes.known,
        find_changes=changes.find,
        robust=model.robust,
        kernels=model.kernels,
        effects=effects,
        bounds=scales.bounds,
        likelihood=likelihood,
        priors=model.priors,
        on_grid=fitted.on_grid and not changes.find,
    )
    return fitted.series.with_remarks(*scales.remarks, *hidden, *changes.remarks), choices


def _labels_of(series: Series) -> Callable[[], list[str]]:
    """() -> times of the observed values as text."""
    return lambda: series.calendar.labels(series.times[series.observed])


def _plausible_series(series: Series) -> Series:
    """Replace values of implausible magnitude, and add remarks on them."""
    y = series.values[series.observed]
    if is_constant(y):
        return series
    usable, remarks = plausible_values(y, _labels_of(series))
    if not remarks:
        return series
    count = int(np.sum(np.isfinite(usable)))
    if count < MIN_VALUES:
        raise ValueError(
            f"{series.value_name} must have at least {MIN_VALUES} values below {MAX_VALUE:g} in "
            f"absolute value; got {count}."
        )
    values = series.values.copy()
    values[series.observed] = usable
    changed = replace(series, values=values).until(len(values))
    return replace(changed, remarks=(*series.remarks, *remarks))


def _suits_ranks(y: np.ndarray, model: StructuralModel) -> bool:
    """True for an intermittent series: many zeros, and repeated returns to positive values."""
    if model.kernel is not None or model.log is not None or model.robust:
        return False
    if model.lower is not None and model.lower < 0.0:
        # The user expects negative values; a forecast by ranks has none.
        return False
    # Zeros at the end alone, of a series that has stopped, are no reason for ranks.
    returns = np.sum((y[:-1] == 0.0) & (y[1:] > 0.0))
    return bool(np.min(y) == 0.0 and np.mean(y == 0.0) >= 0.2 and returns >= 3)


def _likelihood(name: str | None, model: StructuralModel) -> Analytic | None:
    """Likelihood by name. Raises ValueError for options that a likelihood excludes."""
    if name is None:
        return None
    known = Analytic.by_name()
    likelihood = known[validation.one_of("likelihood", name, known)]
    for option in ("kernel", "log", "robust", "lower", "upper", "method"):
        value = getattr(model, option)
        if value is not None and value is not False and not (option == "method" and model.is_map):
            raise ValueError(
                f"likelihood={name!r} determines the possible values and their noise, and excludes "
                f"StructuralModel({option}=...). For other kernels or methods, use LatentGP."
            )
    return likelihood


def _trends(request: Request) -> tuple[str, ...]:
    """Names of the trends, or of the kernels that replace them."""
    trend, kernels = request.trend, request.model.kernels
    if kernels is None:
        if trend is not None:
            return (validation.one_of("trend", trend, TRENDS),)
        # The learned weights do not apply to a likelihood.
        return AVERAGED if request.likelihood is None else tuple(TRENDS)
    if trend is not None:
        raise ValueError(
            f"StructuralModel(kernel=...) replaces all trends; remove trend={trend!r}."
        )
    return tuple(kernels)


class FittedValues(NamedTuple):
    """The values to fit.

    Attributes:
        series: The most recent values of the series.
        ranks: True to model their ranks.
        on_grid: True if a filter supports the options and the times.
    """

    series: Series
    ranks: bool
    on_grid: bool

    @property
    def is_long(self) -> bool:
        """True for more values than are fitted with dense matrices by default."""
        return self.on_grid and int(self.series.observed.sum()) > DEFAULT_FITTED_VALUES


def _fitted_values(
    series: Series, request: Request, trends: Sequence[str], seasons: Mapping[str, float]
) -> FittedValues:
    """Most recent values of a series; `last` replaces the limits, and a kernel removes them.

    Raises:
        ValueError: The number of values of a dense fit exceeds `MAX_DENSE_VALUES`.
    """
    model, count = request.model, int(series.observed.sum())
    latest = series.values[series.observed][-(model.last or DEFAULT_FITTED_VALUES) :]
    ranks = request.likelihood is None and _suits_ranks(latest, model)
    on_grid = not ranks and _suits_filter(series, request, trends)
    # Number of values that span `MIN_PERIODS` of the longest season; ranks have no minimum.
    longest = 0.0 if ranks else max(seasons.values(), default=0.0)
    needed = np.ceil(MIN_PERIODS * longest / series.calendar.step - 1e-6)
    most = DEFAULT_FILTERED_VALUES if on_grid else DEFAULT_DENSE_VALUES
    limit = int(np.clip(needed, DEFAULT_FITTED_VALUES, most))
    if request.likelihood is not None:
        limit = DEFAULT_VALUES_WITH_LIKELIHOOD
    wanted = min(count, model.last or (limit if model.kernel is None else count))
    if on_grid and (filtered := _count_on_grid(series)) < wanted:
        # Too many values are missing between the values wanted.
        on_grid = model.last is None and filtered > DEFAULT_FITTED_VALUES
        if model.last is None:
            wanted = min(wanted, filtered if on_grid else DEFAULT_DENSE_VALUES)
    if not on_grid and wanted > MAX_DENSE_VALUES:
        raise ValueError(
            f"a forecast with these options can be fitted to at most {MAX_DENSE_VALUES} "
            f"values; got {wanted} of {series.value_name}. Aggregate them, hours to days for "
            "example, or use StructuralModel(last=1000). For some kernels, GPRegression has "
            "solvers for more values."
        )
    return FittedValues(series.last(wanted) if count > wanted else series, ranks, on_grid)


def _suits_filter(series: Series, request: Request, trends: Sequence[str]) -> bool:
    """True if the times are a regular grid and a filter supports all options."""
    model = request.model
    dense = (request.likelihood, model.kernel, model.changes, model.effect_kernels)
    is_supported = all(option is None for option in dense) and not model.robust
    is_averaged = model.method is None or model.is_map
    return (
        series.calendar.regular
        and is_supported
        and is_averaged
        and all(TRENDS[trend].states is not None for trend in trends)
    )


def _count_on_grid(series: Series) -> int:
    """Number of last values with at most `MAX_MISSING_VALUES` missing values between them."""
    steps = series.calendar.steps()[series.observed]
    missing = steps[-1] - steps - np.arange(len(steps))[::-1]
    return int(np.sum(missing <= MAX_MISSING_VALUES))


class CandidateScales(NamedTuple):
    """Transformations to compare, and possible values.

    Attributes:
        logs: True for the logarithm, False for the values.
        bounds: Smallest and largest possible value.
        remarks: Remark on an inferred bound.
    """

    logs: tuple[bool, ...]
    bounds: tuple[float, float] = (-np.inf, np.inf)
    remarks: tuple[str, ...] = ()


def _scales(series: Series, model: StructuralModel, likelihood: Analytic | None) -> CandidateScales:
    """Scales for the values of a series. Raises ValueError for an impossible value."""
    y, labels = series.values[series.observed], _labels_of(series)
    if likelihood is not None:
        require_possible(y, likelihood, labels)
        return CandidateScales((False,))
    bounds, remarks = bounds_of(y, model.lower, model.upper, labels)
    if model.log:
        needs = "the logarithm (StructuralModel(log=True), --log, --positive) needs values"
        require_all(y > 0, y, labels, f"{needs} above zero")
    logs = (False, True) if np.all(y > 0) else (False,)
    return CandidateScales(logs if model.log is None else (model.log,), bounds, remarks)


def _span(series: Series) -> float:
    """Time span of a series, in the unit of its positions."""
    return series.calendar.step * (int(series.calendar.steps()[-1]) + 1)


def _visible_seasons(
    series: Series, seasons: Mapping[str, float]
) -> tuple[dict[str, float], tuple[str, ...]]:
    """Seasons shorter than the series, and remarks on the others."""
    visible = {name: period for name, period in seasons.items() if period < _span(series)}
    hidden = [series.calendar.in_words(seasons[name]) for name in seasons if name not in visible]
    return visible, tuple(
        f"the season of {season} is left out: the series does not span more than one"
        for season in hidden
    )


def _frequency(
    calendar: Calendar, seasons: Mapping[str, float], visible: Mapping[str, float]
) -> str:
    """Frequency whose learned quantities apply."""
    step = calendar.step if calendar.unit == "years" else None
    shortest = min((period / calendar.step for period in seasons.values()), default=None)
    return frequency_of(step, shortest, bool(visible))


def _effects(
    series: Series, horizon: int, request: Request, seasons: Mapping[str, float]
) -> Effects | None:
    """Effects of regressors, holidays and events.

    Raises ValueError if they meet a custom kernel or method, or share a component's name.
    """
    model = request.model
    effects = effects_of(
        series, horizon, request.holidays, model.holiday_window, request.events,
        model.effect_kernels,
    )  # fmt: skip
    if effects is None:
        return None
    if model.kernel is not None or not (model.method is None or model.is_map):
        raise ValueError(
            "regressors=, events= and holidays= apply to the built-in structures, averaged or with "
            "StructuralModel(method='map'), not to a kernel or another method."
        )
    taken = {LEVEL, CYCLES, *seasons} & {*effects.names}
    if taken:
        raise ValueError(
            f"{taken.pop()!r} is the name of a component; rename the regressor or event."
        )
    return effects


class ChangePoints(NamedTuple):
    """Change points of level and slope.

    Attributes:
        known: Their positions, if the user knows them.
        find: True to search for them.
        remarks: Remark on a level shift that is a reason to search.
    """

    known: tuple[float, ...] = ()
    find: bool = False
    remarks: tuple[str, ...] = ()


def _changes(
    series: Series,
    model: StructuralModel,
    seasons: Mapping[str, float],
    log: bool,
    may_search: bool,
) -> ChangePoints:
    """Change points by the options of the model, or by a level shift if `may_search`."""
    if isinstance(model.changes, str) and model.changes == "find":
        return ChangePoints(find=True)
    if model.changes is not None:
        return ChangePoints(_positions_of(model.changes, series))
    # A trend and a season describe a staircase with a step every season. Few seasons do not tell it
    # from a single step.
    if may_search and _span(series) < MIN_PERIODS * max(seasons.values(), default=0.0):
        y = series.values[series.observed]
        at = level_shift(np.log(y) if log else y)
        if at is not None:
            remark = (
                f"the level shifts near {_labels_of(series)()[at]}, far more than elsewhere, so "
                "change points are searched for; StructuralModel(changes=()) turns this off"
            )
            return ChangePoints(find=True, remarks=(remark,))
    return ChangePoints()


def _positions_of(changes: Any, series: Series) -> tuple[float, ...]:
    """Positions of change points at given times. Raises ValueError outside the series."""
    if not np.size(changes):
        return ()
    times = np.sort(parse_times(np.atleast_1d(changes), "StructuralModel(changes=...)"))
    positions = series.calendar.positions(times)
    first, last = series.calendar.positions(series.times[[0, -1]])
    if np.any(positions <= first) or np.any(positions > last):
        begin, end = series.calendar.labels(series.times[[0, -1]])
        raise ValueError(
            f"StructuralModel(changes=...) must lie after {begin} and not after {end}, the first "
            f"and the last time of the series; got {', '.join(series.calendar.labels(times))}."
        )
    # Half a step earlier: the value at the given time already follows the change.
    return tuple(float(p) - 0.5 * series.calendar.step for p in positions)


def require_within_reach(series: Series, horizon: int) -> None:
    """Raise ValueError if the horizon takes too much memory or exceeds the year 9999."""
    count = min(int(np.sum(series.observed)), MAX_DENSE_VALUES)
    max_steps = min(MAX_HORIZON, MAX_DENSE_VALUES**2 // count)
    if horizon > max_steps:
        raise ValueError(
            f"horizon can be at most {max_steps} steps from {count} values; got {horizon}. Take "
            "fewer or longer steps, days instead of hours for example."
        )
    if series.calendar.unit == "years":
        last_year = series.times[-1].astype("M8[Y]").astype(int) + 1970
        if last_year + horizon * series.calendar.step >= 9999:
            raise ValueError(f"horizon: {horizon} steps go beyond the year 9999; take fewer.")
