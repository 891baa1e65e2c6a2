"""Forecast a series: read it, weigh the structures that it may have, go on as it went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from bayeskern.core import validation
from bayeskern.core.memory import Memory
from bayeskern.forecast.combine.average import DRAWS, Part, contenders, weigh
from bayeskern.forecast.combine.updating import likely_times
from bayeskern.forecast.data.horizon import steps_ahead
from bayeskern.forecast.data.reading import read_series
from bayeskern.forecast.data.series import Series
from bayeskern.forecast.data.times import parse_times
from bayeskern.forecast.fit.modes import Draws, Fitted
from bayeskern.forecast.model.effects import effects_of
from bayeskern.forecast.model.evidence import bound
from bayeskern.forecast.model.kernels import CYCLES, GIVEN, LEVEL, TRENDS, name_seasons
from bayeskern.forecast.model.priors import Priors
from bayeskern.forecast.model.structure import Choices
from bayeskern.forecast.model.transformation import (
    bounds_of,
    is_constant,
    require_ordinary,
    require_positive,
    require_possible,
)
from bayeskern.forecast.result import Forecast
from bayeskern.gp.numpy_likelihoods import LIKELIHOODS, NumpyLikelihood
from bayeskern.inference import Posterior
from bayeskern.inference.infer import as_method, fit_target
from bayeskern.kernels import Kernel
from bayeskern.prediction.mixture import thin

# Dense covariances of more values than this take gigabytes each and a step of the fit minutes.
MOST_VALUES = 10_000
# Structures are fitted to so many of the last values: a fit takes cubic time, and the next values
# go on from the last ones.
MOST_FITTED = 1_000
# Where a likelihood asks for a search of its own at each step of a fit.
MOST_SEEN = 500
# Nor can more steps be of use; as many as this from 1000 values take gigabytes too.
MOST_STEPS = 100_000
# The fits of the last few series, since people ask again, with another horizon or to see a picture.
_fits, _parts = Memory(4), Memory(4)


def forecast(
    series,
    horizon: int | str,
    season=None,
    kernel: Kernel | Mapping[str, Kernel] | None = None,
    method=None,
    *,
    trend: str | None = None,
    log: bool | None = None,
    changes=None,
    robust: bool = False,
    regressors=None,
    effect_kernels: Mapping[str, Kernel] | None = None,
    events=None,
    holidays: str | None = None,
    holiday_window: tuple[int, int] = (0, 0),
    times=None,
    time: str | None = None,
    value: str | None = None,
    positive: bool = False,
    lower: float | None = None,
    upper: float | None = None,
    likelihood: str | None = None,
    priors: Priors | None = None,
    seed: int = 0,
    progress: bool = True,
) -> Forecast:
    """Forecast the next `horizon` steps of a series, with uncertainty.

    Several structures are fitted as Gaussian processes: a smooth trend, a level that wanders, a
    slope that wanders and one that is damped; with the seasons and without; of the values and, if
    all are positive, of their logarithm. The forecast is their average, weighted by the evidence
    log p(y) = log p(z) + sum log |dz/dy|, where z is y, or log y, standardised. Each is averaged
    over draws of its hyperparameters too, and over what the volatility to come may be: the fit
    learns its average only, and in real series it changes.

    The smooth trend, the seasons and their priors: Corani, Benavoli and Zaffalon (2021), "Time
    series forecasting with Gaussian processes needs priors", ECML-PKDD. The other trends: Harvey
    (1989), "Forecasting, structural time series models and the Kalman filter".

    Args:
        series: The name of a data set ("co2"), the path of a file, a pandas or polars frame or
            series, an array of shape (n,), NaN where a value is missing; or what `read_series`
            returns, which has further options for how files are read.
        horizon: How many steps to forecast; or a time, "90 days", or an end, "until 2025-12".
        season: The length of a season in steps, or several, which are then there; 0 for none. None
            infers from the dates which there may be, and from the values which there are.
        kernel: A kernel for y standardised and time in years since the first observation (steps,
            for plain numbers), in place of all structures; or several by name, as `search_kernel`
            finds them, which are averaged.
        method: None to average. "map" takes the most probable structure at its mode alone; any
            other name or object, as in `infer`, fits that structure.
        trend: "smooth", "level", "slope" or "damped", to take this one only.
        log: Whether to describe the logarithm of the values; None to weigh both.
        changes: Times from which on the level and the slope are others, or "find" to look for up to
            three of them.
        robust: Whether to take noise with Student's t distribution, so that single wild values
            count for little.
        regressors: What is known beside the series and for the future too: columns of the same
            file or frame, whose last rows have no value of the series; or a frame with times and
            columns of its own. Each has a linear effect, in `effects` and `components`.
        effect_kernels: Name of a regressor -> a kernel of numbers, for the column standardised and
            the values too: its effect is a function drawn with it, in place of a linear one.
        events: Name -> dates, on whose day, week or month it has an effect.
        holidays: The code of a country, "DE", whose public holidays have an effect each.
        holiday_window: How many days before and after a holiday have an effect of their own.
        times: The times of an array, shape (n,): dates, datetimes, text or numbers.
        time: The column of times of a file or a frame; guessed if None.
        value: The column of values of a file or a frame; needed if there are several.
        positive: Whether to keep the forecast above zero, by fitting the logarithm.
        lower: The least value that there can be: what the structures say lies below counts as
            that. None takes 0 if the series is 0 often and never less, as rain is.
        upper: The largest value that there can be.
        likelihood: "poisson", "negative_binomial" (counts that vary more) or "zero_inflated" (with
            more zeros than that) for whole numbers, "beta" for shares strictly between 0 and 1. The
            structures then describe the logarithm of the mean, or its log odds.
        priors: Priors of the hyperparameters that `learn_priors` has found in many such series.
        seed: The same seed gives the same numbers.
        progress: Whether to show a progress bar.

    Returns:
        The forecast with its quantiles, intervals, draws, components and pictures.

    Raises:
        ValueError: For input that cannot be read or forecast, naming the column and the row.

    Examples:
        ```python
        f = bk.forecast("co2", 12)
        lower, upper = f.interval(0.8)
        f.plot()

        bk.forecast("sales.csv", 6, time="month", value="sales", positive=True)
        ```
    """
    seed = validation.seed(seed)
    others = {"kernel": kernel, "log": log, "positive": positive, "robust": robust}
    seen = _likelihood(likelihood, **others, lower=lower, upper=upper, method=method)
    log = _required_scale(log, positive)
    kernels = _kernels(kernel)
    trends = _trends(trend, kernels)
    method = method if method in (None, "map") else as_method(method)
    series = read_series(series, times, time, value, regressors=regressors)
    horizon = steps_ahead(horizon, series.calendar, MOST_STEPS)
    seasons = name_seasons(series.calendar, season)
    y = series.values[series.observed]
    if kernel is not None and len(y) > MOST_VALUES:
        raise ValueError(
            f"{series.value_name} has {len(y)} values; a kernel of your own is fitted to at most "
            f"{MOST_VALUES}. Aggregate them (hours to days, say), or give the last part of the "
            "series. GPRegression takes more of them, by the solver that its kernel allows."
        )
    most = MOST_FITTED if seen is None else MOST_SEEN
    if kernel is None and len(y) > most:
        series = series.last(most)
        y = series.values[series.observed]
    require_within_reach(series, horizon)

    def labels():
        return series.calendar.labels(series.times[series.observed])

    bounds = (-np.inf, np.inf)
    if seen is None:
        bounds, remark = bounds_of(y, lower, upper, labels)
        series = replace(series, remarks=(*series.remarks, *remark))
    else:
        require_possible(y, seen, labels)
    if log:
        require_positive(y, labels())
    if kernel is not None and (robust or changes is not None):
        raise ValueError("robust=True and changes= go with the trends of bayeskern; got a kernel.")
    effects = effects_of(series, horizon, holidays, holiday_window, events, effect_kernels)
    if effects is not None and (kernel is not None or method not in (None, "map")):
        raise ValueError(
            "regressors=, events= and holidays= go with the structures of bayeskern, averaged or "
            "by method='map'; got a kernel or another method beside them."
        )
    taken = {LEVEL, CYCLES, *seasons} & {*(effects.names if effects is not None else ())}
    if taken:
        raise ValueError(f"{taken.pop()!r} is the name of a component; rename the regressor.")
    if priors is not None:
        if kernel is not None:
            raise ValueError("priors= are for the structures, and a kernel has its own: give one.")
        priors.require_step(series.calendar.step)
    finds = isinstance(changes, str) and changes == "find"
    logs = ((False, True) if np.all(y > 0) else (False,)) if log is None else (log,)
    choices = Choices(
        trends=trends,
        seasons=seasons,
        optional=season is None and kernel is None,
        logs=logs if seen is None else (False,),
        unit=max([*seasons.values()], default=series.calendar.step),
        step=series.calendar.step,
        changes=() if finds else _changes(series, changes),
        find_changes=finds,
        robust=robust,
        kernels=kernels,
        effects=effects,
        bounds=bounds,
        likelihood=seen,
        priors=priors,
        rows=len(y),
    )
    if is_constant(y):
        return Forecast(series, horizon, choices, (), seed)
    require_ordinary(y)
    t = series.calendar.positions(series.times[series.observed])
    fits = _contenders(t, y, choices, progress)
    if method is None:
        later, _ = likely_times(series, horizon, choices)
        key = (fits, seed, later.tobytes())
        parts = _parts.recall(key, lambda: weigh(fits, DRAWS, seed, later))
        return Forecast(series, horizon, choices, parts, seed)
    best = max(fits, key=lambda fitted: fitted.log_evidence)
    if method == "map":
        parts = _parts.recall((best, method), lambda: (Part(best.at_mode(), 1.0),))
        return Forecast(series, horizon, choices, parts, seed)
    posterior = fit_target(method, bound(best.model, t, best.scale.forward(y)), seed, progress)
    part = Part(_draws_of(posterior, best), 1.0)
    return Forecast(series, horizon, choices, (part,), seed, posterior)


def _contenders(x, y, choices: Choices, progress: bool) -> tuple[Fitted, ...]:
    """The likely structures, which are fitted once to each of the last few series."""

    def fit():
        return tuple(contenders(x, y, choices, progress))

    # A kernel that was given may hold arrays, by which nothing can be looked up.
    key = (x.tobytes(), y.tobytes(), choices.key)
    return fit() if choices.kernels is not None else _fits.recall(key, fit)


def _required_scale(log: bool | None, positive: bool) -> bool | None:
    """Whether the logarithm has to be taken; None where both scales may be."""
    if log not in (None, True, False):
        raise ValueError(f"log must be True, False, or None to weigh both; got {log!r}.")
    if positive and log is False:
        raise ValueError(
            "positive=True fits the logarithm, log=False the values as they are; take one of them."
        )
    return True if positive else log


def _likelihood(name: str | None, **others) -> NumpyLikelihood | None:
    """The likelihood of that name, beside which none of the others may be asked for."""
    if name is None:
        return None
    likelihood = LIKELIHOODS[validation.one_of("likelihood", name, LIKELIHOODS)]
    for other, value in others.items():
        is_fit = other == "method" and value == "map"
        if value is not None and value is not False and not is_fit:
            raise ValueError(
                f"likelihood={name!r} says which values there can be and how they vary: it takes "
                f"no {other}= beside it. For kernels and methods of your own, take LatentGP."
            )
    return likelihood


def _kernels(kernel) -> Mapping[str, Kernel] | None:
    """Kernels by name; None for none."""
    if kernel is None:
        return None
    kernels = kernel if isinstance(kernel, Mapping) else {GIVEN: kernel}
    for name, one in kernels.items():
        if not isinstance(one, Kernel):
            raise TypeError(f"kernel: {name} is a {type(one).__name__}; wanted a kernel.")
    if not kernels:
        raise ValueError("kernel: came none by name, wanted one at least.")
    return kernels


def _trends(trend: str | None, kernels: Mapping[str, Kernel] | None) -> tuple[str, ...]:
    if kernels is None:
        return tuple(TRENDS) if trend is None else (validation.one_of("trend", trend, TRENDS),)
    if trend is not None:
        raise ValueError(f"kernel takes the place of all trends; got trend={trend!r} beside it.")
    return tuple(kernels)


def _changes(series: Series, changes) -> tuple[float, ...]:
    """The positions of changes at given times, which lie within the series."""
    if changes is None:
        return ()
    times = np.sort(parse_times(np.atleast_1d(changes), "changes"))
    at = series.calendar.positions(times)
    first, last = series.calendar.positions(series.times[[0, -1]])
    if np.any(at <= first) or np.any(at > last):
        begin, end = series.calendar.labels(series.times[[0, -1]])
        raise ValueError(
            f"changes must lie after {begin} and not after {end}, where the series begins and "
            f"ends; got {', '.join(series.calendar.labels(times))}."
        )
    # The value of that time has changed already.
    return tuple(float(a) - 0.5 * series.calendar.step for a in at)


def _draws_of(posterior: Posterior, fitted: Fitted) -> Draws:
    """The draws of a posterior of the model of a structure, at most 200, equally weighted."""
    z = np.asarray(thin({"z": posterior.z.reshape(-1, posterior.z.shape[-1])})["z"])
    return Draws(fitted, z, np.zeros(len(z)))


def require_within_reach(series: Series, horizon: int) -> None:
    """Raise ValueError where so many steps ahead need too much memory, or too many years."""
    count = min(int(np.sum(series.observed)), MOST_VALUES)
    most = min(MOST_STEPS, MOST_VALUES**2 // count)
    if horizon > most:
        raise ValueError(
            f"horizon is {horizon}; from {count} values at most {most} steps can be forecast. "
            "Take fewer, or longer steps (days for hours, say)."
        )
    if series.calendar.unit == "years":
        last_year = series.times[-1].astype("M8[Y]").astype(int) + 1970
        if last_year + horizon * series.calendar.step >= 9999:
            raise ValueError(f"horizon: {horizon} steps go beyond the year 9999; take fewer.")
