"""Priors, weights of structures, growth and interval widths, learned from many series.

`learned.json` is written by `benchmarks/learn_default_priors.py`: for each frequency, from the
series of one half of a corpus.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import numpy as np
from scipy.special import expit

# The steps of each frequency in years, and its seasons in steps: from, to.
STEPS = {
    "yearly": (0.9, 100.0),
    "quarterly": (0.2, 0.9),
    "monthly": (0.05, 0.2),
    "weekly": (0.01, 0.05),
    "daily": (0.002, 0.01),
}
SEASONS = {
    "quarterly": (2.0, 4.5),
    "daily": (4.5, 9.0),
    "monthly": (9.0, 13.0),
    "weekly": (45.0, 60.0),
}
YEARLY = "yearly"
# Behind a frequency, for series without its season: too short to show it.
SHORT = " short"
# What is said of a frequency that no series had.
ANY = "any"
# Bounds of the roughness of a series.
MIN_ROUGHNESS, MAX_ROUGHNESS = -3.0, 1.0


@dataclass(frozen=True, eq=False)
class Weighing:
    """How structures are weighed: a softmax of intercept + by_evidence e + by_error r.

    Attributes:
        intercepts: Name of a trend, with " log" behind it on that scale -> its intercept.
        by_evidence: Of the log evidence, less that of the best structure.
        by_error: Of minus the log error of rolling-origin forecasts, less that of the best one.
    """

    intercepts: Mapping[str, float]
    by_evidence: float
    by_error: float


@dataclass(frozen=True, eq=False)
class Growth:
    """Growth of a forecast of the logarithm above the largest value of the series.

    A share of it, expit(intercept + by_roughness r), grows in proportion to the error of the
    logarithm; the rest grows exponentially.

    Attributes:
        intercept: The log odds of the share for a series of roughness 0.
        by_roughness: The change of the log odds for one more unit of roughness.
    """

    intercept: float
    by_roughness: float

    def linear_share(self, y: np.ndarray) -> float:
        """The share of a forecast of values y (n,) that grows linearly."""
        return float(expit(self.intercept + self.by_roughness * roughness(y)))


@dataclass(frozen=True, eq=False)
class Width:
    """The prior of the squared scale of intervals, inverse gamma, and what residuals add to it.

    Attributes:
        log_scale: The log of the scale that is expected.
        degrees: The degrees of freedom of the prior.
        share: How much a rolling-origin residual counts for: they go together.
        widening: The log of the scale at the horizon, less that at the first step.
        horizon: That horizon, in steps.
    """

    log_scale: float
    degrees: float
    share: float
    widening: float
    horizon: int


@dataclass(frozen=True, eq=False)
class Learned:
    """What is known of series of one frequency.

    Attributes:
        priors: Trend -> name of a hyperparameter -> location and scale of its logarithm, for values
            in units of the sd of their differences and times in steps.
        weighing: The weights of structures.
        growth: The growth of the logarithm beyond what a series has shown.
        width: The scale of intervals.
    """

    priors: Mapping[str, Mapping[str, tuple[float, float]]]
    weighing: Weighing
    growth: Growth
    width: Width


def roughness(y: np.ndarray) -> float:
    """Log ratio of the sizes of second and first differences of values y (n,).

    log 2 / 2 for a random walk, log 3 / 2 for white noise, much less than 0 for a smooth curve.
    """
    first, second = (np.sum(np.square(np.diff(y, order))) for order in (1, 2))
    with np.errstate(divide="ignore"):
        ratio = 0.5 * np.log(second / first) if first > 0.0 else 0.0
    return float(np.clip(ratio, MIN_ROUGHNESS, MAX_ROUGHNESS))


@lru_cache
def learned(frequency: str) -> Learned:
    """What is known of series of a frequency: one of FREQUENCIES, or of any."""
    table = json.loads(files(__package__).joinpath("learned.json").read_text(encoding="utf-8"))
    entry = table.get(frequency) or table[ANY]
    priors = {
        trend: {name: tuple(prior) for name, prior in named.items()}
        for trend, named in entry["priors"].items()
    }
    weighing, growth = Weighing(**entry["weighing"]), Growth(**entry["growth"])
    return Learned(priors, weighing, growth, Width(**entry["width"]))


def frequency_of(step: float | None, season: float | None, has_season: bool) -> str:
    """The frequency of a series, as `learned` takes it.

    Args:
        step: The time from one value to the next in years; None if times are plain numbers.
        season: The shortest season that was said, in steps; None if none was.
        has_season: Whether a season is part of the model.
    """
    table, key = (STEPS, step) if step is not None else (SEASONS, season)
    for name, (least, most) in table.items():
        if key is not None and least <= key < most:
            return name if has_season or name == YEARLY else name + SHORT
    return ANY
