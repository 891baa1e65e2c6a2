"""Basis functions of time with random coefficients: trend, seasons, effects.

f(x) = sum_j w_j phi_j(x) with independent w_j ~ N(0, d_j). The functions phi do not depend on the
hyperparameters; the variances d do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ive

from bayeskern.forecast.model.effects import Effects
from bayeskern.gp.time_series.prior import LogNormalPrior


@dataclass(frozen=True, eq=False)
class BasisBlock(ABC):
    """Basis functions of time whose prior approximates one kernel.

    Attributes:
        component: Name of the component to which the block belongs.
        priors: Name of each of the p hyperparameters -> its prior.
    """

    component: str
    priors: Mapping[str, LogNormalPrior]

    @abstractmethod
    def functions(self, x: np.ndarray) -> np.ndarray:
        """Values of the m functions at times x (n,): (n, m)."""

    @abstractmethod
    def variances(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Variances of the coefficients, and their derivatives in the log hyperparameters.

        Args:
            values: Hyperparameters, (p,).

        Returns:
            Variances (m,) and derivatives (p, m).
        """


@dataclass(frozen=True, eq=False)
class Line(BasisBlock):
    """Constant and Linear kernel: the functions 1 and x - center."""

    center: float

    def functions(self, x: np.ndarray) -> np.ndarray:
        return np.stack([np.ones_like(x), x - self.center], axis=1)

    def variances(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return values, np.diag(values)


@dataclass(frozen=True, eq=False)
class RandomWalkLevel(BasisBlock):
    """Karhunen-Loeve series of a Brownian kernel on [a, b], b = a + L.

    min(s, t) = sum_j 2 / (L k_j^2) sin(k_j s) sin(k_j t), with k_j = (j - 1/2) pi / L and times
    since a. The first m terms leave out changes faster than a wave of length 2 L / m; their
    variance at b is about 2 L / (pi^2 m).

    Attributes:
        lower: a.
        upper: b.
        count: m.
    """

    lower: float
    upper: float
    count: int

    @property
    def frequencies(self) -> np.ndarray:
        """k_j, in radians per unit of time: (m,)."""
        return np.pi * (np.arange(self.count) + 0.5) / (self.upper - self.lower)

    def functions(self, x: np.ndarray) -> np.ndarray:
        return np.sin(np.outer(x - self.lower, self.frequencies))

    def variances(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        length = self.upper - self.lower
        scaled = 2.0 * values / (length * np.square(self.frequencies))
        return scaled, scaled[None]


class RandomWalkSlope(RandomWalkLevel):
    """IntegratedBrownian kernel: integrals of the functions of `RandomWalkLevel`."""

    def functions(self, x: np.ndarray) -> np.ndarray:
        # 1 - cos(u) = 2 sin^2(u / 2), which loses no digits near a.
        halves = np.outer(0.5 * (x - self.lower), self.frequencies)
        return 2.0 * np.square(np.sin(halves)) / self.frequencies


@dataclass(frozen=True, eq=False)
class Season(BasisBlock):
    """Truncated cosine series of a Periodic kernel.

    exp(-2 sin^2(pi t / p) / l^2) = sum_j e^-z I_j(z) cos(2 pi j t / p) over all integers j, with
    z = 1 / l^2 and the modified Bessel function I_j. The hyperparameters are l and the variance.

    Attributes:
        period: p.
        harmonics: Increasing j > 0, ((m - 1) / 2,).
    """

    period: float
    harmonics: np.ndarray

    def functions(self, x: np.ndarray) -> np.ndarray:
        waves = self._waves(x)
        return np.concatenate([np.ones((len(x), 1)), waves.real, waves.imag], axis=1)

    def _waves(self, x: np.ndarray) -> NDArray[np.complex128]:
        """exp(2 pi i j x / p) at times x (n,): (n, number of harmonics)."""
        # The fraction of a period is more accurate than a large angle.
        return _powers(np.modf(x / self.period)[0], self.harmonics)

    def variances(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lengthscale, variance = values
        shape, slope = _coefficients(np.append(0, self.harmonics), lengthscale)
        # The variances, and their derivatives in log l and in the log variance.
        terms = variance * np.stack([shape, slope, shape])
        terms = np.concatenate([terms[:, :1], 2.0 * np.tile(terms[:, 1:], 2)], axis=1)
        return terms[0], terms[1:]


@dataclass(frozen=True, eq=False)
class NestedSeason(Season):
    """Season that changes the shape of a shorter season, such as week and day.

    The kernel is Periodic(p) Periodic(p / R) without the multiples of R among its harmonics, which
    belong to the shorter season. Its series is the convolution of the two series: if harmonic k of
    the shorter season is strong, harmonics R k +- 1, 2, ... are strong as well. If the lengthscale
    of Periodic(p / R) is long, the kernel is Periodic(p). The hyperparameters are the two
    lengthscales and the variance.

    Attributes:
        ratio: R.
    """

    ratio: int

    def functions(self, x: np.ndarray) -> np.ndarray:
        waves = self._waves(x)
        return np.concatenate([waves.real, waves.imag], axis=1)

    def variances(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lengthscale, inner_lengthscale, variance = values
        # Twelve more harmonics of the shorter season than fit below the last harmonic.
        last = int(self.harmonics[-1]) // self.ratio + 12
        inner = np.arange(-last, last + 1)
        offsets = np.abs(self.harmonics[:, None] - self.ratio * inner)
        outer, outer_slope = _coefficients(np.arange(offsets.max() + 1), lengthscale)
        shape, shape_slope = _coefficients(np.abs(inner), inner_lengthscale)
        terms = outer[offsets] @ shape
        slopes = np.stack([outer_slope[offsets] @ shape, outer[offsets] @ shape_slope, terms])
        return 2.0 * variance * np.tile(terms, 2), 2.0 * variance * np.tile(slopes, 2)


@dataclass(frozen=True, eq=False)
class EffectColumns(BasisBlock):
    """Columns of all linear effects, whose coefficients have variance 1."""

    effects: Effects

    def functions(self, x: np.ndarray) -> np.ndarray:
        return self.effects.rows(x)

    def variances(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.ones(self.effects.linear), np.zeros((0, self.effects.linear))


def _powers(turns: np.ndarray, exponents: np.ndarray) -> NDArray[np.complex128]:
    """exp(2 pi i j t) for turns t (n,) and increasing exponents j (m,): (n, m)."""
    base = np.exp(2.0j * np.pi * turns)
    out = np.empty((len(turns), len(exponents)), complex)
    power, previous = np.ones_like(base), 0
    for column, exponent in enumerate(exponents):
        for _ in range(exponent - previous):
            power = power * base
        out[:, column], previous = power, exponent
    return out


def _coefficients(orders: np.ndarray, lengthscale: float) -> tuple[np.ndarray, np.ndarray]:
    """e^-z I_j(z), z = 1 / l^2, for orders j, and derivatives in log l: (m,) each.

    Abramowitz and Stegun (1964), equation 9.6.26: 2 I_j' = I_{j-1} + I_{j+1}.
    """
    # Bounded below, since the series at a lengthscale of 1e-4 already has harmonics up to 10,000.
    z = 1.0 / max(lengthscale, 1e-4) ** 2
    values = ive(orders, z)
    slopes = 0.5 * (ive(np.abs(orders - 1), z) + ive(orders + 1, z)) - values
    return values, -2.0 * z * slopes
