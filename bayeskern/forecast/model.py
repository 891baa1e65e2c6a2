"""The default model of a series: a trend, seasons and slow cycles, with priors.

The kernel and the priors are those of Corani, Benavoli and Zaffalon (2021), "Time series
forecasting with Gaussian processes needs priors", ECML-PKDD, with the linear term centred and the
time unit taken from the series. Kernels see y standardised and time in years (or steps).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import constraints

from bayeskern.forecast.calendar import Calendar
from bayeskern.kernels import RBF, Constant, Cosine, Kernel, Linear, Periodic

# The paper writes exp(-sin^2 / (2 l^2)) and cos(t / l), we exp(-2 sin^2 / l^2) and cos(2 pi t / p).
SEASON_LENGTHSCALE = 0.2 + np.log(2.0)
LONG_PERIOD, SHORT_PERIOD = 1.6 + np.log(2.0 * np.pi), 0.5 + np.log(2.0 * np.pi)
TREND_LENGTHSCALE, LONG_DECAY, SHORT_DECAY = 1.1, 1.1, -0.7
VARIANCE = -1.5


def default_noise() -> dist.Distribution:
    """The prior of the noise variance, for y standardised.

    It keeps above a ten-thousandth of the spread of the series, squared: with no noise at all the
    covariance of a smooth series is too ill-conditioned to be worked with.
    """
    prior = dist.LogNormal(VARIANCE, 1.0)
    return dist.TransformedDistribution(
        prior, dist.transforms.AffineTransform(1e-8, 1.0, constraints.positive)
    )


def default_kernel(seasons: dict[str, float], unit: float, center: float) -> Kernel:
    """trend + a season for each period + two damped cycles.

    seasons: name -> period; unit: the time that plays the part of a year in the priors; center:
    where the straight line of the trend has its pivot. All in the unit of the kernel's input.
    """
    u = np.log(unit)

    def variance(shift=0.0):
        return dist.LogNormal(VARIANCE + shift, 1.0)

    def cycle(decay, period):
        return RBF(dist.LogNormal(decay + u, 1.0), variance()) * Cosine(
            dist.LogNormal(period + u, 1.0), 1.0
        )

    line = Linear(variance(-2.0 * u), center)
    kernel = (
        line + Constant(variance()) + RBF(dist.LogNormal(TREND_LENGTHSCALE + u, 1.0), variance())
    ).named("trend")
    for name, period in seasons.items():
        kernel += Periodic(period, dist.LogNormal(SEASON_LENGTHSCALE, 1.0), variance()).named(name)
    cycles = cycle(LONG_DECAY, LONG_PERIOD).named("long") + cycle(SHORT_DECAY, SHORT_PERIOD).named(
        "short"
    )
    return kernel + cycles.named("cycles")


def name_seasons(calendar: Calendar, season) -> dict[str, float]:
    """Component name -> period in the unit of the calendar's positions.

    season: None to infer them, a number of steps or several, 0 for none.
    """
    if season is None:
        found = calendar.seasons()
        if len(found) == 1:
            return {"season": next(iter(found.values()))}
        return {f"season_{name}": period for name, period in found.items()}
    try:
        given = np.ravel(np.asarray(season, float)).tolist()
    except (TypeError, ValueError):
        given = [np.nan]
    lengths = [length for length in given if length != 0]
    if 0 < len(lengths) < len(given):
        raise ValueError(f"season: 0 is for none and goes with no other, got {season!r}.")
    if not np.all(np.isfinite(lengths)) or any(length < 2 for length in lengths):
        raise ValueError(
            f"season must be a number of steps of at least 2, several of them, or 0 for none; "
            f"got {season!r}."
        )
    if len(lengths) == 1:
        return {"season": lengths[0] * calendar.step}
    return {f"season_{length:.10g}".replace(".", "_"): length * calendar.step for length in lengths}


@dataclass(frozen=True)
class Scale:
    """y <-> z: z = (g(y) - shift) / size, with g the identity or the logarithm."""

    log: bool
    shift: float
    size: float

    @classmethod
    def of(cls, y: np.ndarray, log: bool) -> Scale:
        g = np.log(y) if log else y
        return cls(log, float(np.mean(g)), float(np.std(g)))

    def forward(self, y) -> np.ndarray:
        return ((np.log(y) if self.log else np.asarray(y)) - self.shift) / self.size

    def covers(self, y) -> np.ndarray:
        """Which values this scale has at all."""
        return np.asarray(y) > 0 if self.log else np.ones(np.shape(y), bool)

    def back(self, z) -> np.ndarray:
        g = self.shift + self.size * np.asarray(z)
        return np.exp(g) if self.log else g

    def log_jacobian(self, y) -> np.ndarray:
        """log |dz/dy| at each y: what turns a density of z into one of y."""
        slope = np.full(np.shape(y), -np.log(self.size))
        return slope - np.log(y) if self.log else slope

    def moments(self, means: np.ndarray, variances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of y, from those of Gaussian z."""
        m, v = self.shift + self.size * means, self.size**2 * variances
        if not self.log:
            return m, v
        mean = np.exp(m + 0.5 * v)
        return mean, np.expm1(v) * mean**2


def is_constant(y: np.ndarray) -> bool:
    """No variation beyond rounding."""
    return bool(np.ptp(y) <= 1e-14 * np.max(np.abs(y)))


def require_ordinary(y: np.ndarray) -> None:
    """Raise ValueError where squares would leave the range of floating-point numbers."""
    if np.max(np.abs(y)) > 1e100 or np.ptp(y) < 1e-100:
        raise ValueError(
            f"the values reach {np.max(np.abs(y)):.3g} in size and vary by {np.ptp(y):.3g}, out of "
            "the range that can be computed with; give them in another unit."
        )


def require_positive(y: np.ndarray, labels: list[str]) -> None:
    """Raise ValueError naming the first time (one of labels) whose value is not above zero."""
    if not np.all(y > 0):
        row = int(np.argmin(y > 0))
        raise ValueError(
            f"a positive forecast needs every value above zero, but that at {labels[row]} is "
            f"{y[row]:g}. Do not ask for one, or add a small constant to the series."
        )
