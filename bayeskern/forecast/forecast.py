"""Forecast a series by an average of structural models.

1. Each structure is a Gaussian process: one of four trends and all seasons, of the values or of
   their logarithm (`model/kernels.py`).
2. The hyperparameters have log-normal priors learned from many series (`model/learned.py`). Each
   structure is fitted at the posterior mode and averaged over draws around it (`fit/modes.py`).
3. At the full-data hyperparameters, each structure forecasts from earlier origins
   (`fit/rolling.py`).
4. The weights of the structures depend on their log marginal likelihoods and on the errors of these
   rolling-origin forecasts, by coefficients learned from many series (`combine/stacking.py`).
5. The quantiles of the forecast are weighted averages of the quantiles of the structures
   (`combine/average.py`).
6. The standardised errors have Student's t distribution. Its scale combines a learned prior with
   the rolling-origin residuals of the series (`combine/width.py`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from bayeskern.core import validation
from bayeskern.core.formatting import counted
from bayeskern.core.memory import Memory
from bayeskern.forecast.combine.stacking import alone, combine, contenders
from bayeskern.forecast.combine.updating import likely_times
from bayeskern.forecast.data.horizon import steps_ahead
from bayeskern.forecast.data.reading import read_series
from bayeskern.forecast.data.series import FEWEST, Series
from bayeskern.forecast.data.times import parse_times
from bayeskern.forecast.fit.modes import Draws, Fitted
from bayeskern.forecast.fit.rolling import origins_of
from bayeskern.forecast.model.effects import Effects, effects_of
from bayeskern.forecast.model.evidence import bound
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
from bayeskern.forecast.result import Forecast
from bayeskern.gp.numpy_likelihoods import LIKELIHOODS, NumpyLikelihood
from bayeskern.inference import Posterior
from bayeskern.inference.infer import as_method, fit_target
from bayeskern.prediction.mixture import thin

# Dense covariances of more values take gigabytes each, and a step of the fit takes minutes.
MAX_VALUES = 10_000
# Number of last values that are fitted by default: a fit takes cubic time, and the last values
# determine the next ones. MAX_FITTED do if they hold MIN_PERIODS of the longest season. With a
# likelihood each step of a fit has a search of its own.
MAX_FITTED, MIN_PERIODS, MAX_FITTED_LONG_SEASON = 600, 5, 1_000
MAX_FITTED_WITH_LIKELIHOOD = 500
# More steps are of no use, and from 1000 values this many take gigabytes.
MAX_STEPS = 100_000
# Recent fits: people ask again, with another horizon or for a figure.
_fits, _combinations = Memory(4), Memory(4)


def forecast(
    series,
    horizon: int | str,
    *,
    season=None,
    trend: str | None = None,
    regressors=None,
    holidays: str | None = None,
    events=None,
    likelihood: str | None = None,
    model: StructuralModel = StructuralModel(),
    seed: int = 0,
) -> Forecast:
    """Forecast the next `horizon` steps of a series, with uncertainty.

    The forecast averages structural models, each a Gaussian process of a trend and all seasons.
    There are four trends: a local slope, a local level with drift, a level that reverts to a line,
    and a smooth trend with two damped cycles. Each describes the values and, if all are positive,
    their logarithm. The hyperparameters have priors learned from many series, and each structure
    is averaged over draws of them.

    The quantiles of the forecast are weighted averages of the quantiles of the structures. The
    weights depend on the log marginal likelihood log p(y) of each structure and on the error of its
    rolling-origin forecasts, by coefficients that were learned from many series too.

    The forecast errors have Student's t distribution. Its scale combines a learned prior with the
    residuals of the rolling-origin forecasts of this series.

    If many values are 0 and the series returns from 0 several times, the structures describe the
    ranks of the values, and the forecast stays within the range of the series.

    Of a long series the last 600 values are fitted if they hold at least five of its longest
    season. Otherwise, more than 1000 values are all described by one structure, a smooth trend,
    seasons and a short-memory residual, by basis functions, in time linear in their number
    (`history/`).

    A progress bar is shown while a fit takes long, if the standard error is a terminal.

    Args:
        series: The name of a data set ("co2"), the path of a file, a pandas or polars frame or
            series, or an array of shape (n,) with NaN for missing values. Everything about how it
            is read, such as the column of values or the times of an array, is an option of
            `read_series`, whose result can be passed instead.
        horizon: Number of steps; or a duration, "90 days", or an end, "until 2025-12".
        season: Length of a season in steps, or several lengths; 0 for no season. None infers the
            seasons from the dates. A season that is not shorter than the series is left out, with a
            remark.
        trend: "slope", "drift", "reverting" or "smooth", to use this trend only.
        regressors: Variables known for the future too: names of columns of the file or frame, whose
            last rows have no value of the series; or a frame with a time column of its own. With
            the result of `read_series`, name columns there; a frame can be passed here. Each
            regressor has a linear effect, in `effects` and `components`.
        holidays: Code of a country, such as "DE". Each of its public holidays has an effect.
        events: Name -> dates. Each event has an effect on the day, week or month of its dates.
        likelihood: For counts "poisson", "negative_binomial" (overdispersed) or "zero_inflated"
            (with excess zeros); for shares strictly between 0 and 1 "beta". The structures then
            describe the log mean, or its log odds.
        model: Further options of the structural model: logarithm, change points, robust noise,
            kernels, bounds, priors, inference method.
        seed: Random seed.

    Returns:
        The forecast with its quantiles, intervals, draws, components and plots.

    Raises:
        ValueError: For input that cannot be read or forecast, naming the column and the row.

    References:
        Harvey (1989), "Forecasting, structural time series models and the Kalman filter", on the
        trends and the seasons.

        Corani, Benavoli and Zaffalon (2021), "Time series forecasting with Gaussian processes needs
        priors", ECML-PKDD, on the smooth trend and on priors learned from many series.

        Yao, Vehtari, Simpson and Gelman (2018), "Using stacking to average Bayesian predictive
        distributions", on weights by predictive performance.

        Lichtendahl, Grushka-Cockayne and Winkler (2013), "Is it better to average probabilities or
        quantiles?", on averages of quantiles (Vincentization).

    Examples:
        ```python
        f = bk.forecast("co2", 12)
        lower, upper = f.interval(0.8)
        f.plot()

        sales = bk.read_series("sales.csv", time="month", value="sales")
        bk.forecast(sales, 6, model=bk.StructuralModel(log=True))
        ```
    """
    seed = validation.seed(seed)
    if not isinstance(model, StructuralModel):
        raise TypeError(
            "model must be a StructuralModel, such as bk.StructuralModel(log=True); got a "
            f"{type(model).__name__}."
        )
    series = read_series(series, regressors=regressors)
    horizon = steps_ahead(horizon, series.calendar, MAX_STEPS)
    said = Said(season, trend, holidays, events, likelihood)
    series, choices, _ = choices_of(series, horizon, model, said)
    return _fitted_forecast(series, horizon, choices, model.method, seed)


class Said(NamedTuple):
    """Arguments of `forecast` beside the series and the model."""

    season: Any = None
    trend: str | None = None
    holidays: str | None = None
    events: Any = None
    likelihood: str | None = None


def choices_of(
    series: Series, horizon: int, model: StructuralModel, said: Said
) -> tuple[Series, Choices, str]:
    """The values that are fitted, the structures that are weighed, and the frequency.

    Raises ValueError for values and options that exclude one another.
    """
    observed_through = _likelihood(said.likelihood, model)
    trends = _trends(said.trend, model)
    seasons = name_seasons(series.calendar, said.season)
    limit = _most_fitted(series, seasons, observed_through)
    whole = limit == MAX_FITTED_LONG_SEASON and _takes_whole_history(series, model, said)
    if not whole:
        series = _fitted_values(series, model, limit)
    series = _ordinary_values(series)
    require_within_reach(series, horizon)
    series, bounds = _bounded(series, model, observed_through)
    series, seasons, frequency = _visible(series, seasons)
    effects = effects_of(
        series, horizon, said.holidays, model.holiday_window, said.events, model.effect_kernels
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
        ranks=not whole and _takes_ranks(y, model, observed_through),
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
        rows=len(y),
    )
    return series, choices, frequency


def _most_fitted(series: Series, seasons, likelihood: NumpyLikelihood | None) -> int:
    """Number of last values that are fitted by default."""
    if likelihood is not None:
        return MAX_FITTED_WITH_LIKELIHOOD
    longest = max(seasons.values(), default=0.0)
    is_covered = MIN_PERIODS * longest <= MAX_FITTED * series.calendar.step
    return MAX_FITTED if is_covered else MAX_FITTED_LONG_SEASON


def _takes_whole_history(series: Series, model: StructuralModel, said: Said) -> bool:
    """Whether basis functions may describe all of a series too long for covariances."""
    is_default = said.trend is None and said.likelihood is None and not model.robust
    replaced = (model.kernel, model.changes, model.effect_kernels, model.priors, model.last)
    is_default &= all(option is None for option in replaced)
    is_default &= model.method is None or _is_map(model.method)
    return is_default and int(series.observed.sum()) > MAX_FITTED_LONG_SEASON


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
    if kept < FEWEST:
        raise ValueError(
            f"{series.value_name} has {counted(kept, 'value')} below {MAX_SIZE:g} in size; wanted "
            f"at least {FEWEST}."
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
        said = f"the series is no longer than a season of {calendar.in_words(seasons[name])}"
        series = replace(series, remarks=(*series.remarks, f"{said}, which is left out"))
    shortest = min((period / calendar.step for period in seasons.values()), default=None)
    step = calendar.step if calendar.unit == "years" else None
    return series, visible, frequency_of(step, shortest, bool(visible))


def _takes_ranks(y, model: StructuralModel, likelihood: NumpyLikelihood | None) -> bool:
    """Whether many values are zero, now and again, so that ranks describe them best."""
    if likelihood is not None or model.kernel is not None or model.log is not None or model.robust:
        return False
    if model.lower is not None and model.lower < 0.0:
        # Ranks never go below the smallest value.
        return False
    returns = np.sum((y[:-1] == 0.0) & (y[1:] > 0.0))
    return bool(np.min(y) == 0.0 and np.mean(y == 0.0) >= MANY_ZEROS and returns >= MIN_RETURNS)


def _fitted_forecast(series: Series, horizon: int, choices: Choices, method, seed: int) -> Forecast:
    """Forecast from the structures, fitted by a method; flat for a constant series."""
    y = series.values[series.observed]
    if is_constant(y):
        return Forecast(series, horizon, choices, None, seed)
    t = series.calendar.positions(series.times[series.observed])
    season = min((round(p / choices.step) for p in choices.seasons.values()), default=1)
    steps = series.calendar.steps()[series.observed]
    origins = origins_of(steps, horizon, season)
    fits = _contenders(t, y, choices)
    if choices.whole_history:
        key = (fits, horizon)
        combination = _combinations.recall(key, lambda: alone(fits[0].as_point(), origins))
        return Forecast(series, horizon, choices, combination, seed)
    if method is None:
        later, _ = likely_times(series, horizon, choices)
        key = (fits, seed, horizon, later.tobytes())
        combination = _combinations.recall(key, lambda: combine(fits, origins, seed, later))
        return Forecast(series, horizon, choices, combination, seed)
    best = max(fits, key=lambda fitted: fitted.log_evidence)
    if _is_map(method):
        key = (best, method, horizon)
        combination = _combinations.recall(key, lambda: alone(best.at_mode(), origins))
        return Forecast(series, horizon, choices, combination, seed)
    target = bound(best.model, t, best.scale.forward(y))
    posterior = fit_target(as_method(method), target, seed, progress=True)
    combination = alone(_draws_of(posterior, best), origins)
    return Forecast(series, horizon, choices, combination, seed, posterior)


def _contenders(x, y, choices: Choices) -> tuple[Fitted, ...]:
    """Likely structures at their modes, remembered for the last few series."""

    def fit():
        return tuple(contenders(x, y, choices))

    # A kernel of the user may hold arrays, which are no keys.
    key = (x.tobytes(), y.tobytes(), choices.key)
    return fit() if choices.kernels is not None else _fits.recall(key, fit)


def _is_map(method) -> bool:
    """Whether the method is the mode of the most probable structure."""
    return isinstance(method, str) and method == "map"


def _likelihood(name: str | None, model: StructuralModel) -> NumpyLikelihood | None:
    """Likelihood by name. Raises ValueError for options that it excludes."""
    if name is None:
        return None
    likelihood = LIKELIHOODS[validation.one_of("likelihood", name, LIKELIHOODS)]
    for option in ("kernel", "log", "robust", "lower", "upper", "method"):
        value = getattr(model, option)
        if value is not None and value is not False and not (option == "method" and _is_map(value)):
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
    if model.kernel is not None or not (model.method is None or _is_map(model.method)):
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


def _draws_of(posterior: Posterior, fitted: Fitted) -> Draws:
    """Equally weighted draws of the posterior of a structure, at most 200."""
    z = np.asarray(thin({"z": posterior.z.reshape(-1, posterior.z.shape[-1])})["z"])
    return Draws(fitted, z, np.zeros(len(z)))


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
