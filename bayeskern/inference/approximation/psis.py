"""Importance weights: Pareto smoothing, effective sample size, resampling.

Vehtari, Simpson, Gelman, Yao and Gabry (2024), "Pareto smoothed importance sampling".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from bayeskern.inference.estimate import Estimate


class Weights(NamedTuple):
    """Smoothed weights of S draws.

    Attributes:
        log: Log weights, normalised so that the weights sum to one, (S,).
        khat: Pareto shape of the tail of the weights; NaN if it is unknown, -inf if all weights of
            the tail are equal.
        raw: Log ratios log p - log q, (S,); -inf in place of values that are not finite.
    """

    log: np.ndarray
    khat: float
    raw: np.ndarray

    @property
    def normal(self) -> np.ndarray:
        """Weights that sum to one, (S,)."""
        return np.exp(self.log)

    @property
    def ess(self) -> float:
        """Effective sample size, 1 / sum w^2."""
        return float(np.exp(-np.asarray(logsumexp(2.0 * self.log))))

    @property
    def unseen(self) -> float:
        """Expected share of the weight of all draws that lies beyond the largest weight.

        The Pareto tail has P(w > max) ~ 1 / S and E[w | w > max] ~ max / (1 - k).
        """
        if not self.khat < 1.0:
            return np.inf
        largest = float(np.exp(np.max(self.raw) - logsumexp(self.raw)))
        return largest / (1.0 - max(self.khat, 0.0))

    @property
    def log_evidence(self) -> Estimate:
        """Log of the mean ratio, with its standard error by the delta method.

        The ratios are not smoothed, because smoothing would bias their mean.
        """
        count, total = len(self.raw), np.asarray(logsumexp(self.raw))
        if not np.isfinite(total):
            return Estimate(-np.inf, np.nan)
        relative = np.exp(self.raw - total) * count
        return Estimate(float(total - np.log(count)), float(np.std(relative) / np.sqrt(count)))

    @property
    def threshold(self) -> float:
        """Largest k-hat at which this many draws give reliable estimates."""
        return khat_threshold(len(self.log))


def khat_threshold(count: float) -> float:
    """min(1 - 1/log10 S, 0.7) for S draws: Vehtari et al. (2024), section 3.2.4."""
    return min(1.0 - 1.0 / np.log10(max(count, 2)), 0.7)


def pareto_smooth(log_ratios: ArrayLike, efficiency: float = 1.0) -> Weights:
    """Pareto smoothed weights.

    Args:
        log_ratios: log p - log q of each draw, (S,). A ratio of -inf is a weight of zero. k-hat is
            unknown if a ratio is NaN or +inf, or if rounding hides differences between the ratios.
        efficiency: Effective draws per draw, below 1 for Markov chains: with fewer effective draws,
            the Pareto distribution is fitted to a longer tail.
    """
    from arviz_stats.base.array import array_stats

    log_ratios = np.asarray(log_ratios, float)
    invalid = bool(np.any(np.isnan(log_ratios) | np.isposinf(log_ratios)))
    finite = np.isfinite(log_ratios)
    log_ratios = np.where(finite, log_ratios, -np.inf)
    if not finite.any():
        uniform = np.full(len(log_ratios), -np.log(len(log_ratios)))
        return Weights(uniform, np.nan, log_ratios)
    khat = np.nan if invalid else _khat_without_fit(log_ratios, efficiency)
    if khat is not None:
        return Weights(log_ratios - logsumexp(log_ratios), khat, log_ratios)
    # The fit needs finite ratios; the weights of ratios of -inf are set to zero after it.
    ratios = np.maximum(log_ratios - np.max(log_ratios), -1e4)
    # ArviZ takes minus the log ratios.
    log, khat = array_stats.psislw(-ratios, r_eff=efficiency)  # pyright: ignore[reportArgumentType]
    log = np.where(finite, log, -np.inf)
    return Weights(log - logsumexp(log), float(khat), log_ratios)


def _khat_without_fit(log_ratios: np.ndarray, efficiency: float) -> float | None:
    """k-hat of ratios to which no Pareto tail can be fitted; None if one can."""
    count, largest = len(log_ratios), np.max(log_ratios)
    length = min(0.2 * count, 3.0 * np.sqrt(count / efficiency))
    tail = np.sort(log_ratios)[-max(5, int(np.ceil(length))) :]
    # In a tail that spans more than 500, the smaller ratios vanish beside the largest.
    is_wide = largest - tail[0] > 500.0
    if not is_wide and np.spacing(abs(largest)) > 1e-3:
        # Rounding hides differences of less than a thousandth between the log ratios.
        return np.nan
    if tail[0] > largest - 1e-9 * np.clip(abs(largest), 1.0, 1e6):
        # All ratios of the tail are equal up to rounding: the proposal is exact there.
        return -np.inf
    if count < 25 or not np.isfinite(tail[0]):
        return np.nan
    # Hill's (1975) estimate of the index of a tail needs the logarithms only.
    return float(np.mean(tail[1:] - tail[0])) if is_wide else None


def has_even_tail(log_ratios: np.ndarray, efficiency: float = 1.0) -> np.ndarray:
    """True if the largest ratios are all equal, so that ArviZ cannot smooth them.

    Args:
        log_ratios: Log ratios, (S, ...).
        efficiency: Relative efficiency of the draws, as ArviZ's `r_eff`.
    """
    count = len(log_ratios)
    is_long = count * efficiency > 225
    tail = int(3.0 * np.sqrt(count / efficiency)) if is_long else count // 5
    return np.ptp(np.sort(log_ratios, axis=0)[-max(1, min(tail, count)) :], axis=0) == 0.0


def resample(
    weights: np.ndarray, count: int, rng: np.random.Generator, replace: bool = True
) -> np.ndarray:
    """Indices of `count` equally weighted draws, in random order.

    Args:
        weights: Weights that sum to one, (S,).
        count: Number of draws.
        rng: Random numbers.
        replace: True for systematic resampling, which takes each draw at least floor(count w)
            times. False for draws without replacement (Efraimidis and Spirakis, 2006), which
            flatten the weights a little.
    """
    if not replace:
        # The smallest keys Exp(1) / w; on the log scale, a weight of zero does not overflow.
        log_exponential = np.log(rng.exponential(size=len(weights)))
        keys = log_exponential - np.log(np.maximum(weights, np.finfo(float).tiny))
        # Draws without weight are never chosen.
        return rng.permutation(np.argsort(keys)[: min(count, np.count_nonzero(weights))])
    points = (rng.random() + np.arange(count)) / count
    return rng.permutation(
        np.minimum(np.searchsorted(np.cumsum(weights), points), len(weights) - 1)
    )


def weighted_moments(z: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted mean (d,) and covariance (d, d) of z (S, d)."""
    mean = weights @ z
    centred = z - mean
    return mean, (centred * weights[:, None]).T @ centred


class Shift(NamedTuple):
    """Difference of two weighted samples in each of m columns.

    Attributes:
        mean: Absolute difference of the means, in sds of the second sample, (m,).
        log_sd: Absolute log ratio of the sds, (m,).
        ks: Kolmogorov-Smirnov distance, (m,).
    """

    mean: np.ndarray
    log_sd: np.ndarray
    ks: np.ndarray


def weighted_difference(
    x: np.ndarray,
    y: np.ndarray,
    x_weights: np.ndarray | None = None,
    y_weights: np.ndarray | None = None,
) -> Shift:
    """Difference of draws x (S, m) from draws y (T, m).

    It is infinite in columns with a draw of positive weight that is not finite.

    Args:
        x: Draws, (S, m).
        y: Draws, (T, m).
        x_weights: Weights that sum to one, (S,); None for equal weights.
        y_weights: Weights that sum to one, (T,); None for equal weights.
    """
    u = np.full(len(x), 1.0 / len(x)) if x_weights is None else x_weights
    w = np.full(len(y), 1.0 / len(y)) if y_weights is None else y_weights
    # A draw without weight has no influence, however extreme it is.
    x, u, y, w = x[u > 0], u[u > 0], y[w > 0], w[w > 0]
    finite = np.all(np.isfinite(x), axis=0) & np.all(np.isfinite(y), axis=0)
    differences = np.full((3, x.shape[1]), np.inf)
    # At most 200 columns at a time, which bounds the memory.
    for columns in np.array_split(np.flatnonzero(finite), 1 + finite.sum() // 200):
        if len(columns):
            differences[:, columns] = _finite_difference(x[:, columns], y[:, columns], u, w)
    return Shift(*differences)


def _finite_difference(
    x: np.ndarray, y: np.ndarray, u: np.ndarray, w: np.ndarray
) -> list[np.ndarray]:
    """Fields of `Shift` for finite x and y with weights u and w."""
    # Subtract a common point: squares of large numbers would lose the difference.
    centre = np.median(y, axis=0)
    x, y = x - centre, y - centre
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        x_mean, y_mean = u @ x, w @ y
        x_sd = np.sqrt(u @ np.square(x - x_mean))
        y_sd = np.sqrt(w @ np.square(y - y_mean))
        shift, ratio = np.abs(x_mean - y_mean) / y_sd, np.abs(np.log(x_sd / y_sd))
    pooled = np.concatenate([x, y])
    # The same constant in both samples is no difference.
    constant = np.all(pooled == pooled[0], axis=0)
    order = np.argsort(pooled, axis=0)
    steps = np.concatenate([u, -w])[order]
    gap = np.abs(np.cumsum(steps, axis=0))
    # Equal values make one step of the distribution functions, at the last of them.
    values = np.take_along_axis(pooled, order, axis=0)
    is_step = np.concatenate([values[1:] != values[:-1], np.ones((1, pooled.shape[1]), bool)])
    ks = np.max(np.where(is_step, gap, 0.0), axis=0)
    return [np.where(constant, 0.0, difference) for difference in (shift, ratio, ks)]
