"""Forecast a series: read it, choose its scale, fit the model."""

from __future__ import annotations

import numpy as np

from bayeskern.core import validation
from bayeskern.forecast.model import default_kernel, default_noise, name_seasons
from bayeskern.forecast.reading import read_series
from bayeskern.forecast.result import Forecast
from bayeskern.forecast.scale import Scale, is_constant, require_ordinary, require_positive
from bayeskern.forecast.series import Series
from bayeskern.forecast.uncompiled import Mode
from bayeskern.gp import GPRegression
from bayeskern.inference import Posterior, infer
from bayeskern.kernels import Kernel

# Series are filled up to a multiple of this with masked rows, so that series of nearly the same
# length share their compiled functions.
BUCKET = 32
# Dense covariances of more values than this take gigabytes each and a step of the fit minutes.
MOST_VALUES = 10_000
# Nor can more steps be of use; as many as this from 1000 values take gigabytes too.
MOST_STEPS = 100_000


def forecast(
    series,
    horizon: int,
    season=None,
    kernel: Kernel | None = None,
    method="map",
    *,
    times=None,
    time: str | None = None,
    value: str | None = None,
    positive: bool = False,
    seed: int = 0,
    progress: bool = True,
) -> Forecast:
    """Forecast the next `horizon` steps of a series, with uncertainty.

    A Gaussian process is fitted to the series as it is and, if all its values are positive, to its
    logarithm; the scale with the higher evidence log p(y) = log p(z) + sum log |dz/dy| is kept,
    where z is y, or log y, standardised. Times may be irregular and values may be missing.

    The default model and its priors: Corani, Benavoli and Zaffalon (2021), "Time series forecasting
    with Gaussian processes needs priors", ECML-PKDD.

    Args:
        series: The name of a data set ("co2"), the path of a CSV file, a pandas or polars frame or
            series, or an array of shape (n,); NaN where a value is missing.
        horizon: How many steps to forecast.
        season: The length of a season in steps, or several; 0 for none. None infers them from the
            dates.
        kernel: A kernel for y standardised and time in years since the first observation (steps,
            for plain numbers). None for a trend, the seasons and slow cycles.
        method: How to fit: a name or an object, as in `infer`.
        times: The times of an array, shape (n,): dates, datetimes, text or numbers.
        time: The column of times of a file or a frame; guessed if None.
        value: The column of values of a file or a frame; needed if there are several.
        positive: Whether to keep the forecast above zero, by fitting the logarithm.
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
    horizon = validation.positive_integer(horizon, "horizon")
    series = read_series(series, times, time, value)
    seasons = name_seasons(series.calendar, season)
    y = series.values[series.observed]
    if len(y) > MOST_VALUES:
        raise ValueError(
            f"{series.value_name} has {len(y)} values; at most {MOST_VALUES} can be fitted. "
            "Aggregate them (hours to days, say), or give the last part of the series."
        )
    require_within_reach(series, horizon)
    if positive:
        require_positive(y, series.calendar.labels(series.times[series.observed]))
    if is_constant(y):
        return Forecast(series, horizon, seasons, Scale(False, float(y[0]), 0.0), None, None)
    require_ordinary(y)
    t = series.calendar.positions(series.times[series.observed])
    if kernel is None:
        unit = max([*seasons.values()], default=series.calendar.step)
        kernel = default_kernel(seasons, unit, center=float(np.mean(t)))
    model = GPRegression(kernel, default_noise())

    def fit(scale: Scale, method) -> Posterior:
        data = _padded(t, scale.forward(y))
        return infer(model, *data, method=method, seed=seed, progress=progress)

    logs = (True,) if positive else (False, True) if np.all(y > 0) else (False,)
    scales = [Scale.of(y, log) for log in logs]
    modes = {scale: fit(scale, Mode()) for scale in scales}
    scale = max(modes, key=lambda scale: _evidence(modes[scale], scale, y))
    # The scale is chosen by the modes; only the chosen one is worth another method.
    posterior = modes[scale] if method == "map" else fit(scale, method)
    return Forecast(series, horizon, seasons, scale, model, posterior)


def _evidence(mode: Posterior, scale: Scale, y: np.ndarray) -> float:
    """The log density at the mode as one of y, whatever the scale; -inf where it is undefined."""
    evidence = mode.optimum.log_density + float(np.sum(scale.log_jacobian(y)))
    return evidence if np.isfinite(evidence) else -np.inf


def require_within_reach(series: Series, horizon: int) -> None:
    """Raise ValueError where so many steps ahead need too much memory, or too many years."""
    count = int(np.sum(series.observed))
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


def _padded(t: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, y and the mask that tells the real rows from those that fill up the bucket."""
    n = len(t)
    size = -(-n // BUCKET) * BUCKET
    X, y, mask = np.zeros(size), np.zeros(size), np.arange(size) < n
    X[:n], y[:n] = t, z
    return X, y, mask
