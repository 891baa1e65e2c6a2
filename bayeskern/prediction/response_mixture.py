"""Predictive distributions of counts and shares, with a latent normal mixture."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, ndtr

from bayeskern.prediction.mixture import (
    MIN_SD,
    Quantiles,
    bisected,
    quantiles_between,
    without_nan,
)
from bayeskern.prediction.student_errors import StudentErrors

# Largest mean for which counts can be drawn.
MAX_MEAN = 1e15


class Response(ABC):
    """Distribution of y given a latent f and hyperparameters theta, in NumPy.

    y and f have shape (n,) or broadcast; the first axis of theta runs over the hyperparameters.

    Attributes:
        whole: True if y is a whole number.
        smallest: Lower bound of y.
        largest: Upper bound of y.
    """

    whole: ClassVar[bool] = True
    smallest: ClassVar[float] = 0.0
    largest: ClassVar[float] = np.inf

    @abstractmethod
    def log_density(self, f: np.ndarray, y: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """Log density log p(y | f)."""

    @abstractmethod
    def information(self, f: np.ndarray, y: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """Negative second derivative of log p(y | f) in f, or its mean over y (Fisher's)."""

    @abstractmethod
    def below(self, y: np.ndarray, f: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """Probability of a value of at most y, for possible y."""

    @abstractmethod
    def moments(self, f: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of y."""

    def quantile(self, u: np.ndarray, f: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """Quantiles of y given f for probabilities u, in the shape of u and f.

        Quantiles of counts are whole numbers, at most about `MAX_MEAN`.
        """
        mean, variance = self.moments(f, theta)
        return self.least(lambda y: self.below(y, f, theta), u, mean + np.sqrt(variance))

    def least(
        self, below: Callable[[np.ndarray], np.ndarray], u: np.ndarray, guess: ArrayLike
    ) -> np.ndarray:
        """Least values y with probability below(y) of at least u, in the shape of u.

        guess: Likely values of counts, from which the search goes up.
        """
        low = np.full(u.shape, self.smallest - (1.0 if self.whole else 0.0))
        high = np.full(u.shape, self.largest)
        if self.whole:
            high = np.ceil(np.broadcast_to(guess, u.shape) + 1.0)
            while np.any(too_low := (below(high) < u) & (high < MAX_MEAN)):
                low, high = np.where(too_low, high, low), np.where(too_low, 4.0 * high, high)

        def is_above(y: np.ndarray) -> np.ndarray:
            return (below(y) >= u) & (y >= self.smallest)

        return bisected(is_above, low, high, self.whole)[1]

    @abstractmethod
    def draw(self, rng: np.random.Generator, f: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """A draw of y for each f."""


class ResponseMixture(Quantiles):
    """Distribution of y ~ likelihood(f) at m times, with f from a normal mixture.

    Beyond the 99 % quantile of f, the mean of counts grows linearly in f instead of exponentially,
    so that the mean of y lies inside the central 98 % interval.

    Args:
        likelihood: Distribution of y given f.
        weights: Weights of the S parts, (S,), which sum to one.
        locations: Means of f, (S, m).
        sds: Standard deviations of f, (S, m).
        thetas: Hyperparameters of the likelihood in each part, (S, k).
        paths: (part, n, seed) -> joint draws of f, (n, m).
    """

    def __init__(
        self,
        likelihood: Response,
        weights: np.ndarray,
        locations: np.ndarray,
        sds: np.ndarray,
        thetas: ArrayLike,
        paths: Callable[[int, int, int], np.ndarray] | None = None,
    ):
        self.likelihood, self.weights, self.thetas = likelihood, weights, np.asarray(thetas)
        self.locations, self.sds = _clipped(locations), without_nan(sds)
        self._paths = paths

    def with_errors(self, errors: StudentErrors) -> ResponseMixture:
        """Return the mixture unchanged: the likelihood has its own errors."""
        return self

    @cached_property
    def _nodes(self) -> tuple[np.ndarray, np.ndarray]:
        """G quadrature nodes of f for each part, (S G, m), and their weights (S G,)."""
        information = self.likelihood.information(self.locations, np.ones(1), self._theta(1))
        with np.errstate(over="ignore", invalid="ignore"):
            ratio = np.max(self.sds * np.sqrt(information))
        # More nodes if the sd of f is large compared with the information of an observation.
        count = int(np.clip(8 + 3.0 * ratio, 8, 48))
        nodes, weights = np.polynomial.hermite_e.hermegauss(count)
        f = self.locations[:, None] + self.sds[:, None] * nodes[:, None]
        pairs = np.outer(self.weights, weights / weights.sum())
        return self.tempered(f.reshape(-1, f.shape[-1])), pairs.ravel()

    @cached_property
    def _linear_from(self) -> np.ndarray:
        """99 % quantile of f, beyond which the mean of counts is linear in f: (m,)."""
        # No probability lies beyond eight sds in double precision.
        low = np.min(self.locations - 8.0 * self.sds, axis=0)
        high = np.max(self.locations + 8.0 * self.sds, axis=0)
        sds = np.maximum(self.sds, MIN_SD)

        def below(x: np.ndarray, i: np.ndarray) -> np.ndarray:
            return self.weights @ np.asarray(ndtr((x - self.locations[:, i]) / sds[:, i]))

        return quantiles_between(low, high, 0.99, below)

    def tempered(self, f: np.ndarray) -> np.ndarray:
        """Transform f (..., m) so that exp(f) is linear beyond the 99 % quantile."""
        f = _clipped(f)
        if not self.likelihood.whole:
            return f
        excess = np.maximum(f - self._linear_from, 0.0)
        return f - excess + np.log1p(excess)

    def _theta(self, count: int) -> np.ndarray:
        """Hyperparameters for `count` nodes of every part, (k, S count, 1)."""
        return np.repeat(self.thetas, count, axis=0).T[:, :, None]

    @property
    def _theta_of_nodes(self) -> np.ndarray:
        return self._theta(len(self._nodes[1]) // len(self.weights))

    @property
    def mean(self) -> np.ndarray:
        """Mean of y, (m,)."""
        return self._moments[0]

    @property
    def variance(self) -> np.ndarray:
        """Variance of y, (m,)."""
        return self._moments[1]

    @cached_property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        f, weights = self._nodes
        mean, variance = self.likelihood.moments(f, self._theta_of_nodes)
        overall = weights @ mean
        return overall, weights @ (variance + np.square(mean - overall))

    def quantile(self, q: ArrayLike) -> np.ndarray:
        """Quantiles for probabilities q, (*q.shape, m); whole numbers for counts."""
        q = np.asarray(q, float)
        columns = [self._quantiles(q.ravel(), j) for j in range(self.locations.shape[1])]
        return np.stack(columns, axis=-1).reshape(*q.shape, -1)

    def _quantiles(self, q: np.ndarray, column: int, points: int = 128) -> np.ndarray:
        """Quantiles at one time, by interpolation of the distribution function.

        The function is evaluated at `points` values. Quantiles of counts are exact if the smallest
        and the largest quantile span at most `points` counts.
        """
        whole, below = self.likelihood.whole, partial(self._below, column=column)
        extremes, guess = np.array([np.min(q), np.max(q)]), self.mean[column] + self.sd[column]
        ends = self.likelihood.least(below, extremes, guess)
        if ends[0] == ends[1]:
            return np.full(len(q), ends[0])
        if whole:
            grid = np.arange(ends[0], min(ends[0] + points, ends[1] + 1.0))
            if grid[-1] != ends[1]:
                # Geometric steps, since a few parts may have much larger counts than the others.
                logs = np.log1p(ends)
                grid = np.unique(np.round(np.expm1(np.linspace(logs[0], logs[1], points))))
        else:
            grid = np.linspace(ends[0], ends[1], points)
        cdf = below(grid)
        right = np.searchsorted(cdf, q).clip(1, len(grid) - 1)
        low, high = cdf[right - 1], cdf[right]
        share = (q - low) / np.maximum(high - low, 1e-300)
        step = grid[right] - grid[right - 1]
        values = grid[right - 1] + step * np.clip(share, 0.0, 1.0)
        return np.where(q <= cdf[0], grid[0], np.ceil(values) if whole else values)

    def _below(self, y: np.ndarray, column: int) -> np.ndarray:
        """Probability of a value of at most y (k,) at one time, (k,)."""
        f, weights = self._nodes
        cdfs = self.likelihood.below(y, f[:, [column]], self._theta_of_nodes)
        return np.where(y < self.likelihood.smallest, 0.0, weights @ cdfs)

    def below(self, y: np.ndarray) -> np.ndarray:
        """Probability of a value of at most y (m,) at each time, (m,)."""
        return np.array([self._below(np.array([value]), j)[0] for j, value in enumerate(y)])

    def tails(self, y: np.ndarray) -> np.ndarray:
        """Smaller of the probabilities of a value of at most y (m,) and of at least y: (m,)."""
        at_most = self.below(y)
        less = self.below(y - 1.0) if self.likelihood.whole else at_most
        return np.minimum(at_most, 1.0 - less)

    def middle(self, y: np.ndarray) -> np.ndarray:
        """Probability of a value below y (m,), plus half the probability of y itself: (m,)."""
        at_most = self.below(y)
        return 0.5 * (at_most + self.below(y - 1.0)) if self.likelihood.whole else at_most

    def sample_each(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Independent draws of y at each time, (n, m)."""
        parts = rng.choice(len(self.weights), n, p=self.weights)
        shape = n, self.locations.shape[1]
        f = self.locations[parts] + self.sds[parts] * rng.standard_normal(shape)
        thetas = self.thetas[parts].T[:, :, None]
        return self.likelihood.draw(rng, self.tempered(f), thetas)

    def log_density(self, y: ArrayLike) -> np.ndarray:
        """Log probability of counts, or log density of shares, at y (m,) for each time."""
        values = np.asarray(y, float)
        is_possible = (values >= self.likelihood.smallest) & (values <= self.likelihood.largest)
        if self.likelihood.whole:
            is_possible &= values == np.round(values)
        f, weights = self._nodes
        # A placeholder for impossible values, which have the density 0.
        values = np.where(is_possible, values, 0.5)
        with np.errstate(divide="ignore"):
            density = self.likelihood.log_density(f, values, self._theta_of_nodes)
            total = np.asarray(logsumexp(density + np.log(weights)[:, None], axis=0))
        return np.where(is_possible, total, -np.inf)

    def sample(self, n: int = 1, seed: int = 0) -> np.ndarray:
        """Joint draws of y at all times, (n, m).

        Args:
            n: Number of draws.
            seed: Seed of the draws.

        Raises:
            ValueError: If joint draws of f are unknown.
        """
        if self._paths is None:
            raise ValueError("joint draws need joint draws of f; this prediction has none.")
        rng = np.random.default_rng(seed)
        counts = rng.multinomial(n, self.weights).tolist()
        draws = []
        for i, count in enumerate(counts):
            if count == 0:
                continue
            f = self.tempered(self._paths(i, count, seed + i))
            draws.append(self.likelihood.draw(rng, f, self.thetas[i]))
        return rng.permutation(np.concatenate(draws))


def _clipped(f: np.ndarray) -> np.ndarray:
    """Clip f to |f| <= log(MAX_MEAN); raise FloatingPointError if it contains NaN."""
    return np.clip(without_nan(f), -np.log(MAX_MEAN), np.log(MAX_MEAN))
