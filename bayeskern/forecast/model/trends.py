"""Trends of a series, each registered once: its terms with their units, its words, its states.

To add a trend, add a `SeriesTrend` to `TRENDS`; docs/extend.md has the steps. Messages, the help of
the command line, reports, benchmarks and tests read the register.

Level, slope and season are random walks, so that the distant past is forgotten: Harvey (1989),
"Forecasting, structural time series models and the Kalman filter", chapter 2, in continuous time.
The smooth trend with its two cycles follows Corani, Benavoli and Zaffalon (2021), "Time series
forecasting with Gaussian processes needs priors", ECML-PKDD. Kernels apply to standardised y and to
time in years, or in steps if times are numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpyro.distributions as dist

from bayeskern.engine.state_blocks import LevelStates, StateBlock, StationaryStates
from bayeskern.forecast.model.kernels import CYCLES, GIVEN, LEVEL, NOISE, above, longest_factor
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
from bayeskern.kernels.families.markov_rbf import unit_process

# Log of the prior median variance of a jump of the level. A change of slope has the same variance
# after half the time span of the series.
JUMP_VARIANCE = -1.5


class Hyperparameter(NamedTuple):
    """Unit of a hyperparameter, and its log-normal prior before it is learned.

    Attributes:
        of_squared_size: Exponent of the squared step size of the series in its unit.
        of_time: Exponent of time in its unit.
        location: Location of its logarithm, for values in units of the step size and times in
            steps.
        scale: Scale of its logarithm.
    """

    of_squared_size: int
    of_time: int
    location: float
    scale: float


@dataclass(frozen=True)
class TrendTerm:
    """A term of a trend.

    Attributes:
        name: Name of its kernel.
        kernel: (shortest lengthscale) -> kernel, with `any_value` for hyperparameters.
        hyperparameters: Name within the kernel -> hyperparameter.
        component: Component that it belongs to.
    """

    name: str
    kernel: Callable[[float], Kernel]
    hyperparameters: Mapping[str, Hyperparameter]
    component: str = LEVEL

    def named(self, step: float) -> Kernel:
        """Kernel with its name; deviations that are forgotten within a step are noise."""
        return self.kernel(step).named(self.name)

    @property
    def learned(self) -> dict[str, Hyperparameter]:
        """Hyperparameters by their name in `learned.json`."""
        own = self.hyperparameters
        return {f"{self.component}.{self.name}.{name}": value for name, value in own.items()}


@dataclass(frozen=True)
class StateTrend:
    """State-space form of a trend.

    Attributes:
        blocks: Blocks of its states.
        lines: Names of the prior variances of a constant and of a straight line.
    """

    blocks: tuple[StateBlock, ...]
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class SeriesTrend:
    """A trend: all that is known about it.

    Attributes:
        name: Value of `trend=`.
        description: The trend in words, for summaries, reports and documentation.
        extrapolation: Its forecast far beyond the series, in words.
        terms: Terms of its kernel in addition to a constant, the start; cycles last.
        states: State-space form; None if a long series is fitted with dense matrices.
        is_averaged: True for a trend with learned weights, which is averaged by default. Others
            take part with a likelihood, in a search for changes, or by name.
        learned_as: Name of the trend whose learned priors apply; None for its own.
        changes_slope: True if level and slope change at a change point; False for the level alone.
    """

    name: str
    description: str
    extrapolation: str
    terms: tuple[TrendTerm, ...]
    states: StateTrend | None = None
    is_averaged: bool = True
    learned_as: str | None = None
    changes_slope: bool = True

    @property
    def learned(self) -> dict[str, Hyperparameter]:
        """Hyperparameters with learned priors, season and noise included, by name."""
        named = {name: h for term in self.terms for name, h in term.learned.items()}
        return named | SEASON | {NOISE: NOISE_VARIANCE}

    @property
    def has_drift(self) -> bool:
        """True if there is a straight line, which is centred on the times of the series."""
        return DRIFT in self.terms


def any_value() -> dist.Distribution:
    """Placeholder for a learned prior."""
    return dist.LogNormal(0.0, 1.0)


# -- terms -----------------------------------------------------------------------------------------

WALK = TrendTerm(
    "level",
    lambda step: Brownian(any_value()),
    {"variance": Hyperparameter(1, -1, -1.5, 1.5)},
)
SLOPE = TrendTerm(
    "slope",
    lambda step: IntegratedOrnsteinUhlenbeck(any_value(), any_value()),
    {
        "lengthscale": Hyperparameter(0, 1, 1.5, 1.5),
        "variance": Hyperparameter(1, -2, -4.0, 1.5),
    },
)
MEMORY = TrendTerm(
    "memory",
    lambda step: Matern12(above(step), any_value()),
    {
        "lengthscale": Hyperparameter(0, 1, 1.5, 1.5),
        "variance": Hyperparameter(1, 0, -1.0, 1.5),
    },
)
DRIFT = TrendTerm(
    "drift",
    lambda step: Linear(any_value(), 0.0),
    {"variance": Hyperparameter(1, -2, -4.0, 1.5)},
)
BEND = TrendTerm(
    "bend",
    lambda step: RBF(above(step), any_value()),
    {
        "lengthscale": Hyperparameter(0, 1, 2.5, 1.0),
        "variance": Hyperparameter(1, 0, 0.0, 1.5),
    },
)


def _cycle(name: str, lengthscale: float, period: float) -> TrendTerm:
    """Damped cycle with prior medians of the logarithms of its lengthscale and period, in steps."""
    return TrendTerm(
        name,
        lambda step: RBF(above(step), any_value()) * Cosine(any_value(), 1.0),
        {
            "rbf.lengthscale": Hyperparameter(0, 1, lengthscale, 1.0),
            "rbf.variance": Hyperparameter(1, 0, -1.0, 1.5),
            "cosine.period": Hyperparameter(0, 1, period, 1.0),
        },
        CYCLES,
    )


LONG, SHORT = _cycle("long", 3.0, 5.0), _cycle("short", 1.0, 3.5)
# Hyperparameters of every season, and of the noise.
SEASON = {
    "season.size.constant.variance": Hyperparameter(1, 0, -1.0, 1.5),
    "season.size.brownian.variance": Hyperparameter(1, -1, -6.0, 1.5),
    "season.seasonal.lengthscale": Hyperparameter(0, 0, -0.7, 1.0),
}
NOISE_VARIANCE = Hyperparameter(1, 0, -1.5, 1.5)

# -- trends ----------------------------------------------------------------------------------------

START_VARIANCE, WALK_VARIANCE, DRIFT_VARIANCE = (
    f"{LEVEL}.{name}.variance" for name in ("start", WALK.name, DRIFT.name)
)
# Rates of the states of `Matern12`, and of the smallest approximation of `RBF`.
_REVERTING = StationaryStates(LEVEL, "trend.memory", np.array([[-1.0]]))
_SMOOTH = unit_process(6).F
_CYCLES = [
    StationaryStates(CYCLES, f"cycles.{n}.rbf", _SMOOTH, f"cycles.{n}.cosine.period")
    for n in ("long", "short")
]


def _by_name(*trends: SeriesTrend) -> dict[str, SeriesTrend]:
    return {trend.name: trend for trend in trends}


# Trends that `trend=` accepts.
TRENDS = _by_name(
    SeriesTrend(
        "slope",
        "local slope",
        "a line whose slope is forgotten",
        (WALK, SLOPE, MEMORY),
        StateTrend((LevelStates(LEVEL, START_VARIANCE, WALK_VARIANCE, "trend.slope"), _REVERTING)),
    ),
    SeriesTrend(
        "drift",
        "local level with drift",
        "a line from the last level",
        (WALK, DRIFT),
        StateTrend((LevelStates(LEVEL, START_VARIANCE, WALK_VARIANCE),), (DRIFT_VARIANCE,)),
        is_averaged=False,
    ),
    SeriesTrend(
        "reverting",
        "level that reverts to a line",
        "back to the line of the whole series",
        (MEMORY, DRIFT),
        StateTrend((_REVERTING,), (START_VARIANCE, DRIFT_VARIANCE)),
    ),
    SeriesTrend(
        "smooth",
        "smooth trend",
        "back to the line of the whole series; cycles are damped",
        (DRIFT, BEND, LONG, SHORT),
        StateTrend(
            (StationaryStates(LEVEL, "trend.bend", _SMOOTH), *_CYCLES),
            (START_VARIANCE, DRIFT_VARIANCE),
        ),
    ),
)
# Trends of a search for changes, in addition to TRENDS.
STEADY, LINE = "steady", "line"
CHANGING = _by_name(
    SeriesTrend(
        STEADY,
        "steady level",
        "the last level",
        (),
        is_averaged=False,
        learned_as="drift",
        changes_slope=False,
    ),
    # A line is a level with drift whose level does not wander.
    SeriesTrend(LINE, "straight line", "the line", (DRIFT,), is_averaged=False, learned_as="drift"),
)
ALL_TRENDS = TRENDS | CHANGING
# Trends that are averaged by default.
AVERAGED = tuple(name for name, trend in TRENDS.items() if trend.is_averaged)


def in_words(name: str) -> str:
    """A trend in words; the name of a kernel of the user."""
    if name in ALL_TRENDS:
        return ALL_TRENDS[name].description
    return "the kernel as given" if name == GIVEN else name


def default_kernel(
    trend: str,
    seasons: Mapping[str, float],
    changes: tuple[float, ...] = (),
    width: float = 0.0,
    step: float = 0.0,
) -> Kernel:
    """Kernel of a trend, its seasons and its cycles.

    Callers replace the priors, LogNormal(0, 1), by learned priors, and set `trend.start.variance`
    and `trend.drift.center` from the series.

    Args:
        trend: Name of a trend. Random walks of level and slope start at time 0.
        seasons: Name -> period, in the unit of the kernel's input.
        changes: Change points of level and slope, or of the level alone, in the same unit.
        width: Duration of a change, in the same unit.
        step: Shortest lengthscale of stationary terms, in the same unit.
    """
    registered = ALL_TRENDS[trend]
    terms: dict[str, list[Kernel]] = {LEVEL: [Constant(1.0).named("start")], CYCLES: []}
    for term in registered.terms:
        terms[term.component].append(term.named(step))
    for time in changes:
        after = Constant(any_value())
        after = after + Linear(any_value(), time) if registered.changes_slope else after
        terms[LEVEL].append(ChangePoint(Constant(0.0), after, time, width))
    kernel = Sum(tuple(terms[LEVEL])).named(LEVEL)
    for name, period in seasons.items():
        # The amplitude is a random walk.
        season = (Constant(any_value()) + Brownian(any_value())).named("size")
        season *= Seasonal(period, any_value(), 1.0)
        shorter = longest_factor(period, seasons)
        if shorter is not None:
            # The days of a week differ in level and in the shape of the day.
            season *= Periodic(shorter, any_value(), 1.0)
        kernel += season.named(name)
    return kernel + Sum(tuple(terms[CYCLES])).named(CYCLES) if terms[CYCLES] else kernel


def in_units(location: float, name: str, size: float, step: float) -> float:
    """Location of a log-normal prior for standardised y and times in the calendar's unit.

    Args:
        location: Location for values in units of `size` and times in steps.
        name: Name of the hyperparameter in `learned.json`.
        size: Step size of the standardised series, the RMS of its differences.
        step: Time from one value to the next, in the calendar's unit.
    """
    unit = HYPERPARAMETERS[name]
    return location + 2.0 * unit.of_squared_size * np.log(size) + unit.of_time * np.log(step)


# Name in `learned.json` -> hyperparameter.
HYPERPARAMETERS = {name: h for trend in ALL_TRENDS.values() for name, h in trend.learned.items()}


def priors_of_changes(trend: str, count: int, span: float) -> dict[str, tuple[float, float]]:
    """Name of a variance of a change -> location and scale of its logarithm.

    Args:
        trend: Trend of the structure.
        count: Number of changes.
        span: Time span of the series, so that the prior of a slope has no unit of time.
    """
    of_change = {"constant_2": (JUMP_VARIANCE, 1.0)}
    if ALL_TRENDS[trend].changes_slope:
        of_slope = JUMP_VARIANCE - 2.0 * float(np.log(0.5 * span))
        of_change = {"sum.constant": (JUMP_VARIANCE, 1.0), "sum.linear": (of_slope, 1.0)}
    return {
        f"{LEVEL}.changepoint{f'_{i + 1}' if i else ''}.{name}.variance": prior
        for i in range(count)
        for name, prior in of_change.items()
    }
