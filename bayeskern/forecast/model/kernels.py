"""The models of a series: a trend, seasons and slow cycles, with priors.

The kernel and the priors of the smooth trend are those of Corani, Benavoli and Zaffalon (2021),
"Time series forecasting with Gaussian processes needs priors", ECML-PKDD, with the linear term
centred and the time unit taken from the series. The other trends are those of structural time
series (Harvey, 1989, "Forecasting, structural time series models and the Kalman filter", chapter
2) in continuous time. Kernels see y standardised and time in years (or steps).
"""

from __future__ import annotations

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
    Periodic,
)

# The component that carries the level of the series, and that of damped cycles.
LEVEL, CYCLES = "trend", "cycles"
# The name of a kernel that was given without one.
GIVEN = "given"
# The pivot of its straight line, by the name that the kernel gives it.
CENTER = "trend.linear.center"
# The noise variance, by the name that the model gives it.
NOISE = "noise"
# How long the cycles of few steps last, by the name that the kernel gives it.
SHORT_LENGTHSCALE = "cycles.short.rbf.lengthscale"
# So much shorter than the median of the prior, as a log, a second search begins.
SHORTER = 1.0
# What a trend does beside its straight line, and how people call it.
TRENDS = {
    "smooth": "smooth trend",
    "level": "local level",
    "slope": "local slope",
    "damped": "damped slope",
}
# Means of the logarithm of each parameter. The paper writes exp(-sin^2 / (2 l^2)) and cos(t / l),
# we write exp(-2 sin^2 / l^2) and cos(2 pi t / p).
SEASON_LENGTHSCALE = 0.2 + np.log(2.0)
LONG_PERIOD, SHORT_PERIOD = 1.6 + np.log(2.0 * np.pi), 0.5 + np.log(2.0 * np.pi)
TREND_LENGTHSCALE, LONG_DECAY, SHORT_DECAY = 1.1, 1.1, -0.7
VARIANCE = -1.5
# The gain in variance of the slope in a year, and how many years a damped slope lasts.
SLOPE_VARIANCE, SLOPE_LENGTHSCALE = -2.0, 0.7


def default_noise(location: float = VARIANCE, scale: float = 1.0) -> dist.Distribution:
    """The prior of the noise variance, for y standardised: LogNormal(location, scale).

    It keeps above a ten-thousandth of the spread of the series, squared: with no noise at all the
    covariance of a smooth series is too ill-conditioned to be worked with.
    """
    prior = dist.LogNormal(location, scale)
    return dist.TransformedDistribution(
        prior, dist.transforms.AffineTransform(1e-8, 1.0, constraints.positive)
    )


def default_kernel(
    seasons: dict[str, float],
    unit: float,
    center: float,
    trend: str = "smooth",
    changes: tuple[float, ...] = (),
    width: float = 0.0,
) -> Kernel:
    """trend + a season for each period + two damped cycles.

    seasons: name -> period; unit: the time that plays the part of a year in the priors; center:
    where the straight line of the trend has its pivot; trend: one of TRENDS, which begins to wander
    at time 0; changes: when the level and the slope change at once, and the width of the change.
    All in the unit of the kernel's input.
    """
    log_unit = np.log(unit)

    def variance(power=0.0, location=VARIANCE):
        """The prior of a variance per unit of time to this power."""
        return dist.LogNormal(location - power * log_unit, 1.0)

    def time(location):
        return dist.LogNormal(location + log_unit, 1.0)

    def cycle(decay, period):
        return RBF(time(decay), variance()) * Cosine(time(period), 1.0)

    bends = {
        "smooth": lambda: RBF(time(TREND_LENGTHSCALE), variance()),
        "level": lambda: Brownian(variance(1.0)).named("level"),
        "slope": lambda: IntegratedBrownian(variance(3.0, SLOPE_VARIANCE)).named("slope"),
        "damped": lambda: IntegratedOrnsteinUhlenbeck(time(SLOPE_LENGTHSCALE), variance(2.0)).named(
            "slope"
        ),
    }
    line = Linear(variance(2.0), center) + Constant(variance())
    level_and_slope = line + bends[trend]()
    for at in changes:
        jump = Constant(variance()) + Linear(variance(2.0), at)
        level_and_slope += ChangePoint(Constant(0.0), jump, at, width)
    kernel = level_and_slope.named(LEVEL)
    for name, period in seasons.items():
        kernel += Periodic(period, dist.LogNormal(SEASON_LENGTHSCALE, 1.0), variance()).named(name)
    if trend != "smooth" and not seasons:
        # A level or a slope that wanders leaves nothing for cycles of many steps to do.
        return kernel
    long, short = cycle(LONG_DECAY, LONG_PERIOD), cycle(SHORT_DECAY, SHORT_PERIOD)
    return kernel + (long.named("long") + short.named("short")).named(CYCLES)


def other_start(names, mode: np.ndarray, middle: np.ndarray) -> np.ndarray | None:
    """Where a second search for the mode begins, (d,); None where there is nothing else to find.

    What differs from one value to the next may be noise, or a cycle that lasts a few steps only:
    two modes, of which the first search finds the one that it begins next to. None is left where
    the first one has come to a short cycle.

    names: of the hyperparameters; mode: what the first search found; middle: the medians of the
    prior; (d,) each, in unconstrained coordinates.
    """
    if SHORT_LENGTHSCALE not in names:
        return None
    short = names.index(SHORT_LENGTHSCALE)
    if mode[short] < middle[short] - 0.5 * SHORTER:
        return None
    start = mode.copy()
    start[short] = middle[short] - SHORTER
    if NOISE in names:
        # What is seen through a likelihood has none.
        start[names.index(NOISE)] -= 1.0
    return start


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
