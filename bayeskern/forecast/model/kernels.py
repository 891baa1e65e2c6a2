"""Names of the components of a series, priors of noise and lengthscales, and its seasons."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpyro.distributions as dist
from numpy.typing import ArrayLike
from numpyro.distributions import constraints

from bayeskern.series.calendar import Calendar

# Names of components: the trend, which carries the level of the series; damped cycles; short-term
# deviations of fine steps.
LEVEL, CYCLES, SHORT_TERM = "trend", "cycles", "short_term"
# Name of a user's kernel without a name.
GIVEN = "given"
# Site of the noise variance.
NOISE = "noise"


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


def longest_factor(period: float, seasons: Mapping[str, float]) -> float | None:
    """Longest shorter period of which `period` is a multiple, such as the day of a week."""
    ratios = {other: period / other for other in seasons.values() if other < period}
    whole = [p for p, ratio in ratios.items() if abs(ratio - round(ratio)) < 1e-6 * ratio]
    return max(whole, default=None)


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
