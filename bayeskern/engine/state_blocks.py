"""State-space form of the terms of a structural model, on a grid with step h.

Each block holds a few states. With T its transition, Q the covariance of its disturbances and P the
covariance of its first state, the block of the grid's first time, `slopes` is the chain rule.
Harvey (1989), "Forecasting, structural time series models and the Kalman filter", chapter 9.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg import expm


class BlockMatrices(NamedTuple):
    """Matrices of a block with b states, or derivatives with respect to them.

    Attributes:
        transition: T, (b, b).
        disturbance: Q, (b, b).
        start: P, (b, b).
    """

    transition: np.ndarray
    disturbance: np.ndarray
    start: np.ndarray


class StateBlock(Protocol):
    """Some of the states of a model.

    Attributes:
        component: Name of the component that they belong to.
    """

    @property
    def component(self) -> str: ...

    def observation(self, values: Mapping[str, float]) -> np.ndarray:
        """Z at hyperparameters by name, (b,)."""
        ...

    def matrices(self, values: Mapping[str, float], h: float) -> BlockMatrices:
        """T, Q and P at hyperparameters by name, for a step h of the grid."""
        ...

    def slopes(self, values: Mapping[str, float], h: float, of: BlockMatrices) -> dict[str, float]:
        """Derivatives in the hyperparameters by name, from those in T, Q and P."""
        ...


@dataclass(frozen=True)
class LevelStates:
    """A random walk, plus the integral of an Ornstein-Uhlenbeck process if there is a slope.

    Attributes:
        component: Name of the component.
        start: Name of the variance of the first value.
        walk: Name of the variance of the walk.
        slope: First part of the names of the slope's lengthscale and variance; None without slope.
    """

    component: str
    start: str
    walk: str
    slope: str | None = None

    def observation(self, values: Mapping[str, float]) -> np.ndarray:
        return np.array([1.0] if self.slope is None else [1.0, 0.0])

    def matrices(self, values: Mapping[str, float], h: float) -> BlockMatrices:
        start, walk = values[self.start], h * values[self.walk]
        if self.slope is None:
            return BlockMatrices(np.ones((1, 1)), np.full((1, 1), walk), np.full((1, 1), start))
        length, v = values[f"{self.slope}.lengthscale"], values[f"{self.slope}.variance"]
        r = h / length
        a = -np.expm1(-r)
        T = np.array([[1.0, length * a], [0.0, 1.0 - a]])
        cross = v * length * a * a
        Q = [[walk + v * length * length * _integrated(r), cross], [cross, -v * np.expm1(-2.0 * r)]]
        return BlockMatrices(T, np.array(Q), np.diag([start, v]))

    def slopes(self, values: Mapping[str, float], h: float, of: BlockMatrices) -> dict[str, float]:
        slopes = {self.start: of.start[0, 0], self.walk: h * of.disturbance[0, 0]}
        if self.slope is None:
            return slopes
        length, v = values[f"{self.slope}.lengthscale"], values[f"{self.slope}.variance"]
        r = h / length
        a, e = -np.expm1(-r), np.exp(-r)
        Q, g = of.disturbance, _integrated(r)
        cross = Q[0, 1] + Q[1, 0]
        slopes[f"{self.slope}.variance"] = (
            length * length * g * Q[0, 0]
            + length * a * a * cross
            - np.expm1(-2.0 * r) * Q[1, 1]
            + of.start[1, 1]
        )
        slopes[f"{self.slope}.lengthscale"] = (
            (a - r * e) * of.transition[0, 1]
            + e * r / length * of.transition[1, 1]
            + 2.0 * v * (length * g - h * a * a) * Q[0, 0]
            + v * (a * a - 2.0 * a * e * r) * cross
            - 2.0 * v * e * e * r / length * Q[1, 1]
        )
        return slopes


def _integrated(r: float) -> float:
    """2 r - 3 + 4 exp(-r) - exp(-2 r)."""
    # The terms cancel; below 0.02 the power series is more accurate.
    if r < 0.02:
        return r**3 * (2.0 / 3.0 - r / 2.0 + 7.0 * r**2 / 30.0 - r**3 / 12.0 + 31.0 * r**4 / 1260.0)
    return 2.0 * (r + np.expm1(-r)) - np.square(np.expm1(-r))


@dataclass(frozen=True, eq=False)
class StationaryStates:
    """A stationary process dx = F x dt / lengthscale + noise, x ~ N(0, variance I), f = x[0].

    With a cosine, each element of x turns with the period: the kernel is multiplied by `Cosine`.

    Attributes:
        component: Name of the component.
        name: First part of the names of its lengthscale and variance.
        rates: F, (b, b).
        period: Name of the period of a cosine; None without a cosine.
    """

    component: str
    name: str
    rates: np.ndarray
    period: str | None = None

    def observation(self, values: Mapping[str, float]) -> np.ndarray:
        Z = np.zeros(len(self.rates) * (1 if self.period is None else 2))
        Z[0] = 1.0
        return Z

    def _turn(self, values: Mapping[str, float], h: float) -> tuple[np.ndarray, np.ndarray]:
        """Rotation by one step, and its derivative in the log period; 1 and 0 without a cosine."""
        if self.period is None:
            return np.ones((1, 1)), np.zeros((1, 1))
        angle = 2.0 * np.pi * h / values[self.period]
        c, s = np.cos(angle), np.sin(angle)
        return np.array([[c, s], [-s, c]]), -angle * np.array([[-s, c], [-c, -s]])

    def matrices(self, values: Mapping[str, float], h: float) -> BlockMatrices:
        v, (turn, _) = values[f"{self.name}.variance"], self._turn(values, h)
        T, identity = self._transition(values, h), np.eye(len(turn))
        Q = v * (np.eye(len(T)) - T @ T.T)
        start = v * np.eye(len(T) * len(turn))
        return BlockMatrices(np.kron(T, turn), np.kron(Q, identity), start)

    def _transition(self, values: Mapping[str, float], h: float) -> np.ndarray:
        return expm(h / values[f"{self.name}.lengthscale"] * self.rates)

    def slopes(self, values: Mapping[str, float], h: float, of: BlockMatrices) -> dict[str, float]:
        v, T = values[f"{self.name}.variance"], self._transition(values, h)
        turn, turned = self._turn(values, h)
        identity, length = np.eye(len(turn)), values[f"{self.name}.lengthscale"]
        by_length = -h / length**2 * self.rates @ T
        loss = by_length @ T.T
        by_name = {
            f"{self.name}.lengthscale": float(
                np.sum(of.transition * np.kron(by_length, turn))
                - v * np.sum(of.disturbance * np.kron(loss + loss.T, identity))
            ),
            f"{self.name}.variance": float(
                np.sum(of.disturbance * np.kron(np.eye(len(T)) - T @ T.T, identity))
                + np.trace(of.start)
            ),
        }
        if self.period is not None:
            by_period = np.sum(of.transition * np.kron(T, turned)) / values[self.period]
            by_name[self.period] = float(by_period)
        return by_name


@dataclass(frozen=True)
class SeasonStates:
    """A season whose amplitude is a random walk: (Constant + Brownian) * Seasonal.

    The season is a sum of harmonics. Within a season with a shorter one, such as a week of days, it
    is also multiplied by `Periodic` of the shorter period: harmonic r of the week and harmonic k of
    the day give the harmonics 7 k - r and 7 k + r.

    Attributes:
        name: Name of the component.
        period: Period in steps.
        harmonics: Number of harmonics, of the longer season if there is a shorter one.
        ratio: Number of shorter periods in the period; 0 without a shorter season.
        inner: Number of harmonics of the shorter season.
    """

    name: str
    period: float
    harmonics: int
    ratio: int = 0
    inner: int = 0

    @property
    def component(self) -> str:
        return self.name

    def _shares(self, values: Mapping[str, float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`_shares` at hyperparameters by name."""
        return _shares(self, *(values[name] for name in self._lengthscales))

    @property
    def _lengthscales(self) -> list[str]:
        """Names of the lengthscales of the season and of the shape of a shorter one."""
        kinds = ("seasonal", "periodic") if self.ratio else ("seasonal",)
        return [f"{self.name}.{kind}.lengthscale" for kind in kinds]

    @staticmethod
    def _counts(frequencies: np.ndarray) -> np.ndarray:
        """Number of states of each harmonic: 1 if its period is 2 steps, else 2."""
        return np.where(np.abs(frequencies - 0.5) < 1e-9, 1, 2)

    def observation(self, values: Mapping[str, float]) -> np.ndarray:
        counts = self._counts(self._shares(values)[0])
        Z = np.zeros(counts.sum())
        Z[np.cumsum(counts) - counts] = 1.0
        return Z

    def matrices(self, values: Mapping[str, float], h: float) -> BlockMatrices:
        frequencies, shares, _ = self._shares(values)
        counts = self._counts(frequencies)
        T, first = np.zeros((counts.sum(),) * 2), 0
        for angle, count in zip(2.0 * np.pi * frequencies, counts, strict=True):
            c, s = np.cos(angle), np.sin(angle)
            T[first : first + count, first : first + count] = np.array([[c, s], [-s, c]])[
                :count, :count
            ]
            first += count
        variances = np.repeat(shares, counts)
        constant, walk = (
            values[f"{self.name}.size.{n}.variance"] for n in ("constant", "brownian")
        )
        return BlockMatrices(T, np.diag(h * walk * variances), np.diag(constant * variances))

    def slopes(self, values: Mapping[str, float], h: float, of: BlockMatrices) -> dict[str, float]:
        frequencies, shares, by_lengthscale = self._shares(values)
        counts = self._counts(frequencies)
        starts = np.cumsum(counts) - counts
        of_Q, of_P = (np.add.reduceat(np.diag(m), starts) for m in (of.disturbance, of.start))
        constant, walk = (
            values[f"{self.name}.size.{n}.variance"] for n in ("constant", "brownian")
        )
        of_shares = h * walk * of_Q + constant * of_P
        return {
            f"{self.name}.size.constant.variance": float(shares @ of_P),
            f"{self.name}.size.brownian.variance": h * float(shares @ of_Q),
            **{
                name: float(slope @ of_shares) / values[name]
                for name, slope in zip(self._lengthscales, by_lengthscale, strict=True)
            },
        }


# Cached, since the matrices of one point and their derivatives need the same shares.
@lru_cache(maxsize=64)
def _shares(
    season: SeasonStates, lengthscale: float, inner_lengthscale: float = 1.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Frequencies (J,), shares of the variance (J,), and derivatives in log lengthscales (q, J)."""
    if not season.ratio:
        whole = round(season.period)
        is_whole = abs(season.period - whole) < 1e-6 and 2 * season.harmonics + 1 >= whole
        shares, slope = _harmonics(lengthscale, season.harmonics, whole if is_whole else None)
        j, slopes = np.arange(1, season.harmonics + 1), slope[None]
    else:
        outer, outer_slope = _harmonics(lengthscale, season.harmonics, season.ratio)
        inner, inner_slope = _harmonics(inner_lengthscale, season.inner, None, has_constant=True)
        k, r = np.meshgrid(np.arange(season.inner + 1), np.arange(1, season.harmonics + 1))
        numbers = np.concatenate([season.ratio * k + r, np.abs(season.ratio * k - r)], axis=None)
        j, index = np.unique(numbers, return_inverse=True)
        pairs = (outer, inner), (outer_slope, inner), (outer, inner_slope)
        # Half of each product belongs to either sum of frequencies.
        terms = [np.tile(0.5 * np.outer(*pair).ravel(), 2) for pair in pairs]
        shares, *slopes = (np.bincount(index, term) for term in terms)
        is_visible = 2 * j <= season.period + 1e-6
        j, shares, slopes = j[is_visible], shares[is_visible], np.array(slopes)[:, is_visible]
    # Harmonics with a smaller share have no states.
    kept = shares > 1e-9 * shares.sum()
    return j[kept] / season.period, shares[kept], slopes[:, kept]


def _harmonics(
    lengthscale: float, count: int, points: int | None, has_constant: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Shares of the harmonics in the variance of a periodic kernel, as in `kernels.state_space`.

    Args:
        lengthscale: Lengthscale of `Periodic`.
        count: Number of harmonics, J.
        points: Number of steps of the period, if the kernel is exact at these; None for the 2 J + 1
            points at which J harmonics are exact.
        has_constant: True for `Periodic`, whose first share is that of the constant; False for
            `Seasonal`.

    Returns:
        Shares and their derivatives in the log lengthscale: (J,) or (J + 1,) each.
    """
    n = points or 2 * count + 1
    angles = 2.0 * np.pi * np.arange(n) / n
    # The shares are constant beyond these lengthscales.
    a = np.clip(lengthscale, 1e-4, 1e4) ** -2.0
    j = np.arange(0 if has_constant else 1, count + 1)
    waves = np.cos(np.outer(j, angles)) * np.where((j == 0) | (2 * j == n), 1.0, 2.0)[:, None] / n
    exponents = a * (np.cos(angles) - 1.0)
    shares = waves @ (np.exp(exponents) if has_constant else np.expm1(exponents))
    slopes = -2.0 * (waves @ (exponents * np.exp(exponents)))
    # Rounding can make small shares negative.
    shares = np.maximum(shares, 0.0)
    total = shares.sum()
    return shares / total, (slopes - shares * slopes.sum() / total) / total
