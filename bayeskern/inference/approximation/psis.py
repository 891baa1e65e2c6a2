"""Importance weights: Pareto smoothing, effective sizes, resampling, the evidence.

Vehtari, Simpson, Gelman, Yao and Gabry (2024), "Pareto smoothed importance sampling".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from bayeskern.inference.estimate import Estimate

# A tail of log ratios that spans more than this has no digits left when its ratios are formed.
WIDEST = 500.0
# Rounding of the log ratios above which small differences between them say nothing.
MAX_ROUNDING_NATS = 1e-3


class Weights(NamedTuple):
    """Smoothed weights of S draws.

    log: (S,), normalised, so that their exponentials sum to one. khat: the shape of their tail, NaN
    where it cannot be known; -inf where all of them are equal. raw: the log ratios.
    """

    log: np.ndarray
    khat: float
    raw: np.ndarray

    @property
    def normal(self) -> np.ndarray:
        """The weights themselves, which sum to one: (S,)."""
        return np.exp(self.log)

    @property
    def ess(self) -> float:
        """1 / sum w^2."""
        return float(np.exp(-logsumexp(2.0 * self.log)))

    @property
    def log_evidence(self) -> Estimate:
        """The log of the mean ratio, and its standard error by the delta method.

        From the ratios as they are: smoothing them would bias their mean.
        """
        count, total = len(self.raw), logsumexp(self.raw)
        if not np.isfinite(total):
            return Estimate(-np.inf, np.nan)
        relative = np.exp(self.raw - total) * count
        return Estimate(float(total - np.log(count)), float(np.std(relative) / np.sqrt(count)))

    @property
    def threshold(self) -> float:
        """The largest k-hat at which this many draws give reliable estimates."""
        return khat_threshold(len(self.log))


def khat_threshold(count: float) -> float:
    """min(1 - 1/log10 S, 0.7): Vehtari et al. (2024), section 3.2.4."""
    return min(1.0 - 1.0 / np.log10(max(count, 2)), 0.7)


def pareto_smooth(log_ratios) -> Weights:
    """Pareto smoothed weights from log p - log q: (S,).

    A ratio of -inf is a weight of zero. NaN or +inf leave k-hat unknown (NaN), and so do ratios so
    large that nothing but rounding tells them apart.
    """
    from arviz_stats.base import array_stats

    log_ratios = np.asarray(log_ratios, float)
    count = len(log_ratios)
    if np.any(np.isnan(log_ratios)) or np.any(np.isposinf(log_ratios)):
        usable = np.where(np.isfinite(log_ratios), log_ratios, -np.inf)
        uniform = np.full(count, -np.log(count))
        log = usable - logsumexp(usable) if np.any(np.isfinite(usable)) else uniform
        return Weights(log, np.nan, usable)
    if not np.any(np.isfinite(log_ratios)):
        return Weights(np.full(count, -np.log(count)), np.nan, log_ratios)
    largest = np.max(log_ratios)
    tail = np.sort(log_ratios)[-max(5, int(np.ceil(min(0.2 * count, 3 * np.sqrt(count))))) :]
    if largest - tail[0] <= WIDEST and np.spacing(abs(largest)) > MAX_ROUNDING_NATS:
        return Weights(log_ratios - logsumexp(log_ratios), np.nan, log_ratios)
    if tail[0] > largest - 1e-9 * np.clip(abs(largest), 1.0, 1e6):
        # All tail ratios are the same, up to rounding: the proposal is exact there.
        return Weights(log_ratios - logsumexp(log_ratios), -np.inf, log_ratios)
    if count < 25 or not np.isfinite(tail[0]):
        return Weights(log_ratios - logsumexp(log_ratios), np.nan, log_ratios)
    if largest - tail[0] > WIDEST:
        # Next to such weights the others vanish, and no Pareto distribution can be fitted to them;
        # Hill's (1975) estimate of the index of a tail needs their logarithms only.
        hill = float(np.mean(tail[1:] - tail[0]))
        return Weights(log_ratios - logsumexp(log_ratios), hill, log_ratios)
    # Not -inf, which the fit of the tail cannot take; such weights are zero all the same.
    ratios = np.maximum(log_ratios - largest, -1e4)
    # arviz wants minus the log ratios.
    log, khat = array_stats.psislw(-ratios)
    log = np.where(np.isfinite(log_ratios), log, -np.inf)
    return Weights(log - logsumexp(log), float(khat), log_ratios)


def has_even_tail(log_ratios, efficiency: float = 1.0) -> bool:
    """Whether the largest of the ratios (S,) are all the same, so that ArviZ cannot smooth them."""
    count = len(log_ratios)
    wide = count * efficiency > 225
    tail = int(3.0 * np.sqrt(count / efficiency)) if wide else count // 5
    return bool(np.ptp(np.sort(log_ratios)[-max(1, min(tail, count)) :]) == 0.0)


def resample(weights: np.ndarray, count: int, rng, replace: bool = True) -> np.ndarray:
    """Indices of `count` equally weighted draws, in random order.

    Systematic resampling, each draw taken floor(count w) times at least; or, with replace=False,
    draws without replacement (Efraimidis and Spirakis, 2006), which flattens the weights a little.
    """
    if not replace:
        # On the log scale, where a weight of zero does not overflow.
        chance = np.log(rng.exponential(size=len(weights)))
        keys = chance - np.log(np.maximum(weights, np.finfo(float).tiny))
        # Draws without weight are never chosen.
        return rng.permutation(np.argsort(keys)[: min(count, np.count_nonzero(weights))])
    points = (rng.random() + np.arange(count)) / count
    return rng.permutation(
        np.minimum(np.searchsorted(np.cumsum(weights), points), len(weights) - 1)
    )


def weighted_moments(z, weights) -> tuple[np.ndarray, np.ndarray]:
    """Weighted mean (d,) and covariance (d, d) of z (S, d)."""
    mean = weights @ z
    centred = z - mean
    return mean, (centred * weights[:, None]).T @ centred


class Shift(NamedTuple):
    """How plain draws differ from the same draws weighted, for each column: (m,) each."""

    mean: np.ndarray  # in sds of the weighted draws
    log_sd: np.ndarray  # log of the ratio of the sds
    ks: np.ndarray  # Kolmogorov-Smirnov distance


def weighted_difference(x, y, x_weights=None, y_weights=None) -> Shift:
    """The draws x (S, m) against the draws y (T, m).

    x_weights (S,) and y_weights (T,) sum to one; None for equal ones.

    Infinite where a draw that has weight is not finite: such a difference cannot be told.
    """
    u = np.full(len(x), 1.0 / len(x)) if x_weights is None else x_weights
    w = np.full(len(y), 1.0 / len(y)) if y_weights is None else y_weights
    # A draw without weight says nothing, however far out it is.
    x, u, y, w = x[u > 0], u[u > 0], y[w > 0], w[w > 0]
    finite = np.all(np.isfinite(x), axis=0) & np.all(np.isfinite(y), axis=0)
    differences = np.full((3, x.shape[1]), np.inf)
    # Some columns at a time, which bounds the memory.
    for columns in np.array_split(np.flatnonzero(finite), 1 + finite.sum() // COLUMNS):
        if len(columns):
            differences[:, columns] = _compare(x[:, columns], y[:, columns], u, w)
    return Shift(*differences)


# Columns that are compared at a time.
COLUMNS = 200


def _compare(x, y, u, w):
    """The fields of `Shift`, for finite x and y with weights u and w."""
    # Around a common point, since squares of large numbers would lose the difference.
    centre = np.median(y, axis=0)
    x, y = x - centre, y - centre
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        mx, my = u @ x, w @ y
        sx, sy = np.sqrt(u @ np.square(x - mx)), np.sqrt(w @ np.square(y - my))
        shift, ratio = np.abs(mx - my) / sy, np.abs(np.log(sx / sy))
    both = np.concatenate([x, y])
    # Constants that agree do not differ.
    same = np.all(both == both[0], axis=0)
    order = np.argsort(both, axis=0)
    steps = np.concatenate([u, -w])[order]
    gap = np.abs(np.cumsum(steps, axis=0))
    # Between equal values the distribution functions have no step yet.
    values = np.take_along_axis(both, order, axis=0)
    last = np.concatenate([values[1:] != values[:-1], np.ones((1, both.shape[1]), bool)])
    ks = np.max(np.where(last, gap, 0.0), axis=0)
    return [np.where(same, 0.0, difference) for difference in (shift, ratio, ks)]
