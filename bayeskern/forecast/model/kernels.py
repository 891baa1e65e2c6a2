"""Kernels of the structures of a series: a trend, seasons, cycles.

Level, slope and season are random walks, so that the distant past is forgotten: Harvey (1989),
"Forecasting, structural time series models and the Kalman filter", chapter 2, in continuous time.
The smooth trend with its two cycles follows Corani, Benavoli and Zaffalon (2021), "Time series
forecasting with Gaussian processes needs priors", ECML-PKDD. Kernels apply to standardised y and to
time in years, or in steps if times are numbers. All hyperparameters have log-normal priors, learned
from many series (`learned`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpyro.distributions as dist
from numpy.typing import ArrayLike
from numpyro.distributions import constraints

from bayeskern.forecast.data.calendar import Calendar
from bayeskern.kernels import (
    RBF,
    Brownian,
    ChangePoint,
    Constant,
    Cosine,
    IntegratedOrnsteinUhlenbeck,
    Kernel,
    Linear,
    Matern12,
    Periodic,
    Seasonal,
)
from bayeskern.kernels.compound import Sum

# Names of components: the trend, which carries the level of the series; damped cycles; short-term
# deviations of fine steps.
LEVEL, CYCLES, SHORT_TERM = "trend", "cycles", "short_term"
# Name of a user's kernel without a name.
GIVEN = "given"
# Site of the noise variance.
NOISE = "noise"
# Trend -> its description.
TRENDS = {
    "slope": "local slope",
    "drift": "local level with drift",
    "reverting": "level that reverts to a line",
    "smooth": "smooth trend",
}
# Trends that are averaged by default.
AVERAGED = ("slope", "reverting", "smooth")
# Trends of a search for changes, in addition to TRENDS -> their descriptions. A steady level has
# changes of the level only; all others have changes of level and slope.
STEADY, LINE = "steady", "line"
CHANGING = {STEADY: "steady level", LINE: "straight line"}
# Log of the prior median variance of a jump of the level. A change of slope has the same variance
# after half the time span of the series.
JUMP_VARIANCE = -1.5
# Last two parts of a hyperparameter's name -> its unit: exponents of the squared step size of the
# series, and of time.
UNITS = {
    "level.variance": (1, -1),
    "slope.lengthscale": (0, 1),
    "slope.variance": (1, -2),
    "drift.variance": (1, -2),
    "memory.lengthscale": (0, 1),
    "memory.variance": (1, 0),
    "bend.lengthscale": (0, 1),
    "bend.variance": (1, 0),
    "rbf.lengthscale": (0, 1),
    "rbf.variance": (1, 0),
    "cosine.period": (0, 1),
    "constant.variance": (1, 0),
    "brownian.variance": (1, -1),
    "seasonal.lengthscale": (0, 0),
    "periodic.lengthscale": (0, 0),
    "noise": (1, 0),
}


def default_noise(location: float = 0.0, scale: float = 1.0) -> dist.Distribution:
    """Prior of the noise variance for standardised y: 1e-8 + LogNormal(location, scale).

    The lower limit, an sd of 1e-4, keeps the covariance of a smooth series well-conditioned.
    """
    return above(1e-8, location, scale)


def above(least: float, location: float = 0.0, scale: float = 1.0) -> dist.Distribution:
    """Prior least + LogNormal(location, scale)."""
    prior = dist.LogNormal(location, scale)
    if least == 0.0:
        return prior
    shift = dist.transforms.AffineTransform(least, 1.0, constraints.positive)
    return dist.TransformedDistribution(prior, shift)


def default_kernel(
    trend: str,
    seasons: Mapping[str, float],
    changes: tuple[float, ...] = (),
    width: float = 0.0,
    step: float = 0.0,
) -> Kernel:
    """Kernel of a trend and its seasons; the smooth trend adds two damped cycles.

    Callers replace the priors, LogNormal(0, 1), by learned priors, and set `trend.start.variance`
    and `trend.drift.center` from the series.

    Args:
        trend: One of TRENDS, STEADY or LINE. Random walks of level and slope start at time 0.
        seasons: Name -> period, in the unit of the kernel's input.
        changes: Change points of level and slope, of the level if STEADY, in the same unit.
        width: Duration of a change, in the same unit.
        step: Shortest lengthscale of stationary terms, in the same unit. Deviations that are
            forgotten within a step are noise.
    """
    level = Brownian(_any()).named("level")
    drift = Linear(_any(), 0.0).named("drift")
    memory = Matern12(above(step), _any()).named("memory")
    parts = {
        "slope": (level, IntegratedOrnsteinUhlenbeck(_any(), _any()).named("slope"), memory),
        "drift": (level, drift),
        "reverting": (memory, drift),
        "smooth": (drift, RBF(above(step), _any()).named("bend")),
        STEADY: (),
        LINE: (drift,),
    }
    terms = [Constant(1.0).named("start"), *parts[trend]]
    for time in changes:
        after = Constant(_any()) if trend == STEADY else Constant(_any()) + Linear(_any(), time)
        terms.append(ChangePoint(Constant(0.0), after, time, width))
    kernel = Sum(tuple(terms)).named(LEVEL)
    for name, period in seasons.items():
        # The amplitude is a random walk.
        season = (Constant(_any()) + Brownian(_any())).named("size")
        season *= Seasonal(period, _any(), 1.0)
        shorter = longest_factor(period, seasons)
        if shorter is not None:
            # The days of a week differ in level and in the shape of the day.
            season *= Periodic(shorter, _any(), 1.0)
        kernel += season.named(name)
    if trend != "smooth":
        return kernel
    long, short = (
        (RBF(above(step), _any()) * Cosine(_any(), 1.0)).named(n) for n in ("long", "short")
    )
    return kernel + (long + short).named(CYCLES)


def longest_factor(period: float, seasons: Mapping[str, float]) -> float | None:
    """Longest shorter period of which `period` is a multiple, such as the day of a week."""
    ratios = {other: period / other for other in seasons.values() if other < period}
    whole = [p for p, ratio in ratios.items() if abs(ratio - round(ratio)) < 1e-6 * ratio]
    return max(whole, default=None)


def _any() -> dist.Distribution:
    """Placeholder for a learned prior."""
    return dist.LogNormal(0.0, 1.0)


def in_units(location: float, name: str, size: float, step: float) -> float:
    """Location of a log-normal prior for standardised y and times in the calendar's unit.

    Args:
        location: Location for values in units of `size` and times in steps.
        name: Name of the hyperparameter.
        size: Step size of the standardised series, the RMS of its differences.
        step: Time from one value to the next, in the calendar's unit.
    """
    of_squared_size, of_time = UNITS[".".join(name.split(".")[-2:])]
    return location + 2.0 * of_squared_size * np.log(size) + of_time * np.log(step)


def priors_of_changes(trend: str, count: int, span: float) -> dict[str, tuple[float, float]]:
    """Name of a variance of a change -> location and scale of its logarithm.

    Args:
        trend: Trend of the structure.
        count: Number of changes.
        span: Time span of the series, so that the prior of a slope has no unit of time.
    """
    of_slope = JUMP_VARIANCE - 2.0 * float(np.log(0.5 * span))
    of_change = {"sum.constant": (JUMP_VARIANCE, 1.0), "sum.linear": (of_slope, 1.0)}
    if trend == STEADY:
        of_change = {"constant_2": (JUMP_VARIANCE, 1.0)}
    return {
        f"{LEVEL}.changepoint{f'_{i + 1}' if i else ''}.{name}.variance": prior
        for i in range(count)
        for name, prior in of_change.items()
    }


def name_seasons(calendar: Calendar, season: ArrayLike | None) -> dict[str, float]:
    """Periods of the seasons by component name, in the unit of the calendar's positions.

    Args:
        calendar: Calendar of the series.
        season: None to infer the seasons, one or several numbers of steps, or 0 for no season.

    Raises:
        ValueError: A season is not a number of at least 2 steps.
    """
    if season is None:
        periods = calendar.seasons()
        if len(periods) == 1:
            return {"season": next(iter(periods.values()))}
        return {f"season_{name}": period for name, period in periods.items()}
    try:
        steps = np.ravel(np.asarray(season, float)).tolist()
    except (TypeError, ValueError):
        steps = [np.nan]
    lengths = [length for length in steps if length != 0]
    if 0 < len(lengths) < len(steps):
        raise ValueError(f"season: 0 means no season and excludes other lengths; got {season!r}.")
    if not np.all(np.isfinite(lengths)) or any(length < 2 for length in lengths):
        raise ValueError(
            "season must be a number of steps, at least 2, or several such numbers, or 0 for no "
            f"season; got {season!r}."
        )
    if len(lengths) == 1:
        return {"season": lengths[0] * calendar.step}
    return {f"season_{length:.10g}".replace(".", "_"): length * calendar.step for length in lengths}
