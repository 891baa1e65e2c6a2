"""A case for each registered trend: its kernel by hand, and a series that it describes best."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import i0e

T = np.linspace(0.2, 5.0, 13)
S, R = np.meshgrid(T, T)
LAG, LEAST = np.abs(S - R), np.minimum(S, R)

# Hyperparameters of the kernels by hand.
VALUES = {
    "trend.start.variance": 1.1,
    "trend.level.variance": 0.3,
    "trend.slope.lengthscale": 2.5,
    "trend.slope.variance": 0.9,
    "trend.memory.lengthscale": 1.7,
    "trend.memory.variance": 0.4,
    "trend.drift.variance": 0.7,
    "trend.drift.center": 2.0,
    "trend.bend.lengthscale": 0.9,
    "trend.bend.variance": 0.6,
    "season.size.constant.variance": 0.5,
    "season.size.brownian.variance": 0.05,
    "season.seasonal.lengthscale": 0.8,
    "cycles.long.rbf.lengthscale": 2.0,
    "cycles.long.rbf.variance": 0.2,
    "cycles.long.cosine.period": 8.0,
    "cycles.short.rbf.lengthscale": 0.5,
    "cycles.short.rbf.variance": 0.1,
    "cycles.short.cosine.period": 3.0,
}


def seasonal(period, lengthscale):
    """The periodic kernel less its mean over a period, of variance one."""
    mean = i0e(lengthscale**-2)
    periodic = np.exp(-2.0 * np.sin(np.pi * (S - R) / period) ** 2 / lengthscale**2)
    return (periodic - mean) / (1.0 - mean)


def integrated_ou(lengthscale, variance):
    """Covariance of an integral of an Ornstein-Uhlenbeck process from 0, in closed form."""
    ends = np.exp(-S / lengthscale) + np.exp(-R / lengthscale) - np.exp(-LAG / lengthscale) - 1.0
    return variance * (2.0 * lengthscale * LEAST + lengthscale**2 * ends)


LEVEL, DRIFT = 0.3 * LEAST, 0.7 * (S - 2.0) * (R - 2.0)
MEMORY, BEND = 0.4 * np.exp(-LAG / 1.7), 0.6 * np.exp(-0.5 * np.square(LAG) / 0.9**2)
CYCLES = sum(
    v * np.exp(-0.5 * np.square(LAG / scale)) * np.cos(2.0 * np.pi * LAG / period)
    for v, scale, period in ((0.2, 2.0, 8.0), (0.1, 0.5, 3.0))
)


class TrendCase(NamedTuple):
    """Truth about a trend, for tests.

    Attributes:
        gram: Kernel at T with hyperparameters VALUES, without start and season.
        simulate: (rng, t, white noise, random walk) -> series that only this trend describes well.
        equivalent: Trends that describe such a series equally well.
        intercepts: Made-up learned intercepts, of the values and of their logarithm.
    """

    gram: np.ndarray
    simulate: Callable
    equivalent: set[str]
    intercepts: tuple[float, float]


def autoregression(phi, rng, n):
    values = np.zeros(n)
    for i in range(1, n):
        values[i] = phi * values[i - 1] + rng.standard_normal()
    return values


# A slope that is forgotten at once is a level with drift, so that `slope` contains `drift`. A slow
# wave is a slope that wanders.
CASES = {
    "slope": TrendCase(
        LEVEL + integrated_ou(2.5, 0.9) + MEMORY,
        lambda rng, t, noise, walk: (
            np.cumsum(autoregression(0.85, rng, len(t))) + walk + 0.3 * noise
        ),
        {"slope"},
        (0.4, 0.2),
    ),
    "drift": TrendCase(
        LEVEL + DRIFT,
        lambda rng, t, noise, walk: 0.2 * t + 2.0 * walk + noise,
        {"drift", "slope"},
        (0.1, 0.3),
    ),
    "reverting": TrendCase(
        MEMORY + DRIFT,
        lambda rng, t, noise, walk: 0.2 * t + 3.0 * autoregression(0.6, rng, len(t)),
        {"reverting"},
        (-0.3, -0.1),
    ),
    "smooth": TrendCase(
        DRIFT + BEND + CYCLES,
        lambda rng, t, noise, walk: 5.0 * np.sin(t / 20.0 + rng.uniform(0, 6)) + noise,
        {"smooth", "slope"},
        (-0.2, -0.4),
    ),
}


def simulate(trend, rng, n=120):
    """A series of one trend with distinctive hyperparameters."""
    noise, walk = rng.standard_normal(n), np.cumsum(rng.standard_normal(n))
    return CASES[trend].simulate(rng, np.arange(n), noise, walk)
