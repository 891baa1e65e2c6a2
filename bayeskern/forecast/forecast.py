"""Forecast a series by an average of structural models.

1. Each structure is a Gaussian process: one of several trends and all seasons, of the values or of
   their logarithm (`model/trends.py`).
2. The hyperparameters have log-normal priors learned from many series (`model/learned.py`). Each
   structure is fitted at the posterior mode and averaged over draws around it (`fit/modes.py`).
3. At the full-data hyperparameters, each structure forecasts from earlier origins
   (`fit/rolling.py`).
4. The weights of the structures depend on their log marginal likelihoods, on the errors of these
   rolling-origin forecasts and on the number of values in the errors, by coefficients learned from
   many series (`model/learned.py`, `combine/stacking.py`).
5. The quantiles of the forecast are weighted averages of the quantiles of the structures
   (`prediction/quantile_average.py`).
6. The standardised errors have Student's t distribution. Its scale combines a learned prior with
   the rolling-origin residuals of the series (`combine/width.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bayeskern.core import validation
from bayeskern.core.cache import ResultCache
from bayeskern.core.formatting import printable_errors
from bayeskern.forecast.combine.candidates import RECENT_VALUES, candidates
from bayeskern.forecast.combine.stacking import alone, combine
from bayeskern.forecast.combine.updating import likely_times
from bayeskern.forecast.fit.draws import Draws
from bayeskern.forecast.fit.modes import FittedStructure
from bayeskern.forecast.fit.rolling import MAX_ORIGINS, MAX_ORIGINS_WITH_LIKELIHOOD, origins_of
from bayeskern.forecast.model.configuration import MAX_HORIZON, Request, configure
from bayeskern.forecast.model.future_values import table_of
from bayeskern.forecast.model.structural_model import StructuralModel, require_structural_model
from bayeskern.forecast.model.structure import StructureChoices
from bayeskern.forecast.model.transformation import is_constant
from bayeskern.forecast.result import Forecast
from bayeskern.inference.infer import as_method, fit_target
from bayeskern.prediction.mixture import thin
from bayeskern.series.horizon import steps_ahead
from bayeskern.series.reading import read_series
from bayeskern.series.series import Series

# Caches: users often repeat a forecast with another horizon, or for a figure.
_fits, _combinations = ResultCache(4), ResultCache(4)


@printable_errors()
def forecast(
    series: Any,
    horizon: int | str,
    *,
    season: float | Sequence[float] | None = None,
    trend: str | None = None,
    regressors: Any = None,
    holidays: str | None = None,
    events: Mapping[str, Any] | None = None,
    likelihood: str | None = None,
    model: StructuralModel = StructuralModel(),
    seed: int = 0,
) -> Forecast:
    """Forecast the next `horizon` steps of a series, with uncertainty.

    The forecast averages structural models, each a Gaussian process of a trend and all seasons.
    Each trend (docs/forecasting.md has a table of them) describes the values and, if all are
    positive, also their logarithm. The hyperparameters have priors learned from many series, and
    each structure is averaged over draws of its hyperparameters.

    The quantiles of the forecast are weighted averages of the quantiles of the structures. The
    weights depend on the log marginal likelihood log p(y) of each structure and on the error of its
    rolling-origin forecasts: the longer the series, the more on the error. The coefficients are
    learned from many series.

    The forecast errors have Student's t distribution. Its scale combines a learned prior with the
    residuals of the rolling-origin forecasts of this series.

    If many values are 0 and the series becomes positive again several times, the structures
    describe the ranks of the values, and the forecast stays within the range of the series.

    The last 600 values are fitted, or as many as five of the longest season span; above 250 values
    on a regular grid, by a filter in time linear in their number. `StructuralModel.last` lists the
    exceptions.

    For totals that continue in values of a finer frequency, see `forecast_mixed`.

    A long fit shows a progress bar, if the standard error is a terminal.

    Args:
        series: The name of a data set ("co2"), the path of a file, a pandas or polars frame or
            series, or an array of shape (n,) with NaN for missing values. To choose columns, times
            or formats, call `read_series` and pass its result.
        horizon: Number of steps; or a duration, "90 days", or an end, "until 2025-12".
        season: Length of a season in steps, or several lengths; 0 for no season. None infers the
            seasons from the dates. A season at least as long as the series is dropped, with a
            remark.
        trend: Name of a trend, such as "slope", to use this trend only.
        regressors: Variables with known future values: column names of the file or frame, whose
            last rows have an empty value of the series; or a separate frame with a time column; or
            a dict of pandas Series indexed by time and of forecasts of regressors, whose joint
            draws stand for the unknown future, as in `Forecast.scenario`.
            If `series` comes from `read_series`, name the columns in `read_series` or pass a frame
            here. Each regressor has a linear effect, reported by `effects` and `decompose`.
        holidays: Code of a country, such as "DE". Each of its public holidays has an effect.
        events: Name -> dates. Each event has an effect on the day, week or month of its dates.
        likelihood: For counts "poisson", "negative_binomial" (overdispersed) or "zero_inflated"
            (with excess zeros); for shares strictly between 0 and 1 "beta". The structures then
            describe the log mean of counts, or the log odds of the mean share.
        model: Further options of the structural model: logarithm, change points, robust noise,
            kernels, bounds, priors, inference method.
        seed: Random seed.

    Returns:
        The forecast with its quantiles, intervals, draws, components and plots.

    Raises:
        ValueError: If the input cannot be read or forecast; the message names column and row.

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
    require_structural_model(model)
    regressors, uncertain = table_of(regressors)
    series = read_series(series, regressors=regressors)
    horizon = steps_ahead(horizon, series.calendar, MAX_HORIZON)
    request = Request(model, season, trend, holidays, events, likelihood)
    series, choices = configure(series, horizon, request)
    result = _fitted_forecast(series, horizon, choices, model, seed)
    return result.scenario(uncertain) if uncertain else result


def _fitted_forecast(
    series: Series, horizon: int, choices: StructureChoices, model: StructuralModel, seed: int
) -> Forecast:
    """Fit the structures by the method of the model and combine them; flat if constant."""
    y = series.values[series.observed]
    if is_constant(y):
        return Forecast(series, horizon, choices, None, seed)
    x = series.calendar.positions(series.times[series.observed])
    season = min((round(p / choices.step) for p in choices.seasons.values()), default=1)
    max_origins = MAX_ORIGINS
    if choices.likelihood is not None:
        max_origins = MAX_ORIGINS_WITH_LIKELIHOOD
    origins = origins_of(series.calendar.steps()[series.observed], horizon, season, max_origins)

    def fit() -> tuple[FittedStructure, ...]:
        return tuple(candidates(x, y, choices, origins))

    # Only in a long series do forecasts from earlier origins choose structures. Kernels of the user
    # may hold arrays, which are not hashable.
    is_long = len(y) > RECENT_VALUES
    key = (x.tobytes(), y.tobytes(), choices.key, horizon if is_long else 0)
    fits = fit() if choices.kernels is not None else _fits.recall(key, fit)
    posterior = None
    if model.method is None:
        next_times, _ = likely_times(series, horizon, choices)
        key = (fits, seed, horizon, next_times.tobytes())
        combination = _combinations.recall(key, lambda: combine(fits, origins, seed, next_times))
    else:
        best = max(fits, key=lambda fitted: fitted.log_evidence)
        if model.is_map:
            key = (best, model.method, horizon)
            combination = _combinations.recall(key, lambda: alone(Draws.at_mode(best), origins))
        else:
            posterior = fit_target(as_method(model.method), best.target, seed, progress=True)
            # Equally weighted draws, at most 200.
            z = posterior.z.reshape(-1, posterior.z.shape[-1])
            z = np.asarray(thin({"z": z})["z"])
            combination = alone(Draws(best, z, np.zeros(len(z))), origins)
    return Forecast(series, horizon, choices, combination, seed, posterior)
