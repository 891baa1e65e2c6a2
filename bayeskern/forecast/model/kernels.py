"""The kernels of the structures that a series may have: a trend, seasons, cycles.

Level, slope and season wander, so that the distant past is forgotten: Harvey (1989), "Forecasting,
structural time series models and the Kalman filter", chapter 2, in continuous time. The smooth
trend with its two cycles is that of Corani, Benavoli and Zaffalon (2021), "Time series forecasting
with Gaussian processes needs priors", ECML-PKDD. Kernels see y standardised and time in years (or
steps). All hyperparameters have log-normal priors, learned from many series (`learned`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import constraints

from bayeskern.forecast.data.calendar import Calendar
from bayeskern.kernels import (
    RBF,
    Brownian,
    ChangePoint,
    Constant,
    Cosine,
    IntegratedBrownian,
    IntegratedOrnsteinUhlenbeck,
    Kernel,
    Linear,
    Matern12,
    Periodic,
    Seasonal,
)

# The component that carries the level of the series, and that of damped cycles.
LEVEL, CYCLES = "trend", "cycles"
# The component of short-lived deviations in a long series.
SHORT_TERM = "short_term"
# The name of a kernel that was given without one, and of the structure of a long series.
GIVEN, HISTORY = "given", "history"
# The noise variance, by the name that the model gives it.
NOISE = "noise"
# The trends, and how people call them.
TRENDS = {
    "slope": "local slope",
    "drift": "local level with drift",
    "reverting": "level that reverts to a line",
    "smooth": "smooth trend",
}
# Sites whose values follow from the series: the variance of the level at the start, and the pivot
# of the straight line.
START, CENTER = "trend.start.variance", "trend.drift.center"
# The variance of a jump of the level or, per year, of the slope, as a log.
JUMP_VARIANCE = -1.5
# Powers of the squared size of a step of the series and of time in the unit of a hyperparameter,
# by the end of its name.
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
    "season.lengthscale": (0, 0),
    "season.variance": (1, 0),
    "noise": (1, 0),
}


def default_noise(location: float = 0.0, scale: float = 1.0) -> dist.Distribution:
    """The prior of the noise variance, for y standardised: LogNormal(location, scale).

    It keeps above a ten-thousandth of the spread of the series, squared: with no noise at all the
    covariance of a smooth series is too ill-conditioned to be worked with.
    """
    prior = dist.LogNormal(location, scale)
    return dist.TransformedDistribution(
        prior, dist.transforms.AffineTransform(1e-8, 1.0, constraints.positive)
    )


def default_kernel(
    trend: str,
    seasons: Mapping[str, float],
    changes: tuple[float, ...] = (),
    width: float = 0.0,
) -> Kernel:
    """Kernel of a trend, a season for each period and, beside the smooth trend, two damped cycles.

    The priors are LogNormal(0, 1), to be replaced by learned ones; so are START and CENTER.

    Args:
        trend: One of TRENDS. Levels and slopes begin to wander at time 0.
        seasons: Name -> period, in the unit of the kernel's input.
        changes: Times at which level and slope change at once, in that unit.
        width: The width of a change, in that unit.
    """
    parts = {
        "slope": (_level, _slope, _memory),
        "drift": (_level, _drift),
        "reverting": (_memory, _drift),
        "smooth": (_drift, _bend),
    }
    kernel = Constant(1.0).named("start")
    for part in parts[trend]:
        kernel = kernel + part()
    for at in changes:
        jump = dist.LogNormal(JUMP_VARIANCE, 1.0)
        kernel = kernel + ChangePoint(Constant(0.0), Constant(jump) + Linear(jump, at), at, width)
    kernel = kernel.named(LEVEL)
    for name, period in seasons.items():
        kernel += (_repeating if trend == "smooth" else _drifting)(period).named(name)
    if trend != "smooth":
        return kernel
    cycles = [(RBF(_any(), _any()) * Cosine(_any(), 1.0)).named(name) for name in ("long", "short")]
    return kernel + (cycles[0] + cycles[1]).named(CYCLES)


def history_kernel(seasons: Mapping[str, float], center: float, start: float) -> Kernel:
    """Kernel whose basis functions describe a long series: trend, seasons, short memory.

    Args:
        seasons: Name -> period, in the unit of the kernel's input.
        center: The pivot of the straight line.
        start: The time from which on level and slope wander.
    """
    line = Constant(_any()) + Linear(_any(), center)
    wandering = Brownian(_any(), start) + IntegratedBrownian(_any(), start)
    kernel = (line + wandering).named(LEVEL)
    for name, period in seasons.items():
        kernel += Periodic(period, _any(), _any()).named(name)
    return kernel + Matern12(_any(), _any()).named(SHORT_TERM)


def _any() -> dist.Distribution:
    return dist.LogNormal(0.0, 1.0)


def _level() -> Kernel:
    return Brownian(_any()).named("level")


def _slope() -> Kernel:
    return IntegratedOrnsteinUhlenbeck(_any(), _any()).named("slope")


def _drift() -> Kernel:
    return Linear(_any(), 0.0).named("drift")


def _memory() -> Kernel:
    return Matern12(_any(), _any()).named("memory")


def _bend() -> Kernel:
    return RBF(_any(), _any()).named("bend")


def _repeating(period: float) -> Kernel:
    return Seasonal(period, _any(), _any())


def _drifting(period: float) -> Kernel:
    """A season whose shape wanders: (c + W) S, with W Brownian motion."""
    return (Constant(_any()) + Brownian(_any())).named("size") * Seasonal(period, _any(), 1.0)


def in_units(location: float, name: str, size: float, step: float) -> float:
    """Location of a log-normal prior for y standardised and times in the calendar's unit.

    Args:
        location: That for values in units of `size`, and times in steps.
        name: The name of the hyperparameter.
        size: The size of a step of the series, standardised: sd of its differences.
        step: The time from one value to the next.
    """
    values, time = UNITS[".".join(name.split(".")[-2:])]
    return location + 2.0 * values * np.log(size) + time * np.log(step)


def name_seasons(calendar: Calendar, season) -> dict[str, float]:
    """Component name -> period in the unit of the calendar's positions.

    season: None to infer them, a number of steps or several, 0 for none.
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
        raise ValueError(f"season: 0 is for none and goes with no other, got {season!r}.")
    if not np.all(np.isfinite(lengths)) or any(length < 2 for length in lengths):
        raise ValueError(
            f"season must be a number of steps of at least 2, several of them, or 0 for none; "
            f"got {season!r}."
        )
    if len(lengths) == 1:
        return {"season": lengths[0] * calendar.step}
    return {f"season_{length:.10g}".replace(".", "_"): length * calendar.step for length in lengths}
