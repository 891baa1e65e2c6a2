"""Predictive distributions of counts and shares: mixtures of normals seen through a likelihood."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.special import logsumexp, ndtr

from bayeskern.prediction.mixture import MIN_SD, Quantiles, without_nan
from bayeskern.prediction.student_errors import StudentErrors

# The largest mean of which counts can be drawn.
MAX_MEAN = 1e15
# The quantile of f from which the mean of counts is linear in f.
LINEAR_FROM = 0.99
# Between the least and the largest of the quantiles wanted the distribution function is looked at
# at so many values; whole numbers as close as that are exact, others lie on straight lines between.
GRID = 128
# Nodes of quadrature over f: more where it varies much for what an observation says of it.
MIN_NODES, MAX_NODES, NODES_PER_SD = 8, 48, 3.0
# Standard deviations that an interval of f reaches beyond all of its parts.
REACH = 8.0
# The most halvings of an interval that holds a quantile.
HALVINGS = 52


class Response(ABC):
    """Distribution of an observation y given a latent f and hyperparameters theta, in NumPy.

    y and f are (n,), or broadcast; theta has its numbers along the first axis.

    Attributes:
        whole: Whether y is a whole number.
        smallest, largest: The ends of what y can be.
    """

    whole: ClassVar[bool] = True
    smallest: ClassVar[float] = 0.0
    largest: ClassVar[float] = np.inf

    @abstractmethod
    def log_density(self, f, y, theta) -> np.ndarray:
        """log p(y | f)."""

    @abstractmethod
    def information(self, f, y, theta) -> np.ndarray:
        """Minus the second derivative of log p(y | f) in f, or its mean over y: Fisher's."""

    @abstractmethod
    def below(self, y, f, theta) -> np.ndarray:
        """The probability of y or less, for y that can be."""

    @abstractmethod
    def moments(self, f, theta) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of y."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, f, theta) -> np.ndarray:
        """A y for each f."""


class ResponseMixture(Quantiles):
    """y ~ likelihood(f), f a mixture of normal distributions at m times.

    Beyond the 99 % quantile of f, the mean of counts grows in proportion to f and not
    exponentially: the mean of y lies inside of the central 98 % interval.

    Args:
        likelihood: What is observed.
        weights: Of the S parts, (S,); they sum to one.
        locations, sds: Mean and standard deviation of f, (S, m).
        thetas: The hyperparameters of the likelihood in each part, (S, k).
        paths: (part, n, seed) -> joint draws of f, (n, m).
    """

    def __init__(self, likelihood: Response, weights, locations, sds, thetas, paths=None):
        self.likelihood, self.weights, self.thetas = likelihood, weights, np.asarray(thetas)
        self.locations, self.sds = _within_reach(locations), without_nan(sds)
        self._paths = paths

    def with_errors(self, errors: StudentErrors) -> ResponseMixture:
        """This mixture itself: the likelihood has the errors of observations."""
        return self

    @cached_property
    def _nodes(self) -> tuple[np.ndarray, np.ndarray]:
        """Values of f (S G, m), and their weights (S G,)."""
        information = self.likelihood.information(self.locations, np.ones(1), self._theta(1))
        with np.errstate(over="ignore", invalid="ignore"):
            ratio = np.max(self.sds * np.sqrt(information))
        count = int(np.clip(MIN_NODES + NODES_PER_SD * ratio, MIN_NODES, MAX_NODES))
        nodes, weights = np.polynomial.hermite_e.hermegauss(count)
        f = self.locations[:, None] + self.sds[:, None] * nodes[:, None]
        pairs = np.outer(self.weights, weights / weights.sum())
        return self._tempered(f.reshape(-1, f.shape[-1])), pairs.ravel()

    @cached_property
    def _linear_from(self) -> np.ndarray:
        """The quantile of f beyond which the mean of counts is linear: (m,)."""
        low = np.min(self.locations - REACH * self.sds, axis=0)
        high = np.max(self.locations + REACH * self.sds, axis=0)
        sds = np.maximum(self.sds, MIN_SD)
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            enough = self.weights @ ndtr((middle - self.locations) / sds) >= LINEAR_FROM
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return high

    def _tempered(self, f) -> np.ndarray:
        """f (..., m), so that exp(f) is linear from a quantile on."""
        f = _within_reach(f)
        if not self.likelihood.whole:
            return f
        beyond = np.maximum(f - self._linear_from, 0.0)
        return f - beyond + np.log1p(beyond)

    def _theta(self, each: int) -> np.ndarray:
        """The hyperparameters in a column for each of so many nodes: (k, S each, 1)."""
        return np.repeat(self.thetas, each, axis=0).T[:, :, None]

    @property
    def _theta_of_nodes(self) -> np.ndarray:
        return self._theta(len(self._nodes[1]) // len(self.weights))

    @property
    def mean(self) -> np.ndarray:
        """The mean of y: (m,)."""
        return self._moments[0]

    @property
    def variance(self) -> np.ndarray:
        """The variance of y: (m,)."""
        return self._moments[1]

    @cached_property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        f, weights = self._nodes
        mean, variance = self.likelihood.moments(f, self._theta_of_nodes)
        overall = weights @ mean
        return overall, weights @ (variance + np.square(mean - overall))

    def quantile(self, q) -> np.ndarray:
        """Quantiles for probabilities q: (*q.shape, m). Those of counts are whole numbers."""
        q = np.asarray(q, float)
        columns = [self._quantiles(q.ravel(), j) for j in range(self.locations.shape[1])]
        return np.stack(columns, axis=-1).reshape(*q.shape, -1)

    def _quantiles(self, q, column: int) -> np.ndarray:
        ends = self._bisected(np.array([np.min(q), np.max(q)]), column)
        whole = self.likelihood.whole
        if ends[0] == ends[1]:
            return np.full(len(q), ends[0])
        if whole:
            # In steps of a share of the value, since a few parts may reach far beyond the others.
            grid = np.expm1(np.linspace(*np.log1p(ends), GRID))
            near = np.arange(ends[0], min(ends[0] + GRID, ends[1] + 1.0))
            grid = near if near[-1] == ends[1] else np.unique(np.round(grid))
        else:
            grid = np.linspace(*ends, GRID)
        below = self._below(grid, column)
        place = np.searchsorted(below, q).clip(1, len(grid) - 1)
        low, high = below[place - 1], below[place]
        share = (q - low) / np.maximum(high - low, 1e-300)
        step = grid[place] - grid[place - 1]
        found = grid[place - 1] + step * np.clip(share, 0.0, 1.0)
        return np.where(q <= below[0], grid[0], np.ceil(found) if whole else found)

    def _bisected(self, q, column: int) -> np.ndarray:
        """The quantiles of a column, one value after another."""
        likelihood = self.likelihood
        low = np.full(len(q), likelihood.smallest - (1.0 if likelihood.whole else 0.0))
        high = np.full(len(q), likelihood.largest)
        if likelihood.whole:
            above = self.mean[column] + self.sd[column]
            high = np.full(len(q), np.ceil(above + 1.0))
            while np.any(short := (self._below(high, column) < q) & (high < MAX_MEAN)):
                low, high = np.where(short, high, low), np.where(short, 4.0 * high, high)
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            middle = np.floor(middle) if likelihood.whole else middle
            if likelihood.whole and np.all(high - low <= 1.0):
                break
            enough = self._below(middle, column) >= q
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return high

    def _below(self, y, column: int) -> np.ndarray:
        """The probability of y or less, (k,), at one of the times."""
        f, weights = self._nodes
        below = self.likelihood.below(y, f[:, [column]], self._theta_of_nodes)
        return np.where(y < self.likelihood.smallest, 0.0, weights @ below)

    def below(self, y) -> np.ndarray:
        """The probability of y (m,) or less, time by time."""
        each = [self._below(np.array([one]), j)[0] for j, one in enumerate(y)]
        return np.array(each)

    def sample_each(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draws of y at each time by itself: (n, m)."""
        parts = rng.choice(len(self.weights), n, p=self.weights)
        shape = n, self.locations.shape[1]
        f = self.locations[parts] + self.sds[parts] * rng.standard_normal(shape)
        thetas = self.thetas[parts].T[:, :, None]
        return self.likelihood.draw(rng, self._tempered(f), thetas)

    def log_density(self, y) -> np.ndarray:
        """The log probability of counts, or density of shares, y (m,), time by time."""
        y = np.asarray(y, float)
        can_be = (y >= self.likelihood.smallest) & (y <= self.likelihood.largest)
        if self.likelihood.whole:
            can_be &= y == np.round(y)
        f, weights = self._nodes
        some = np.where(can_be, y, 0.5)
        with np.errstate(divide="ignore"):
            density = self.likelihood.log_density(f, some, self._theta_of_nodes)
            total = logsumexp(density + np.log(weights)[:, None], axis=0)
        return np.where(can_be, total, -np.inf)

    def sample(self, n: int = 1, seed: int = 0) -> np.ndarray:
        """Joint draws of y at all times: (n, m)."""
        rng = np.random.default_rng(seed)
        counts = rng.multinomial(n, self.weights)
        draws = []
        for i in np.flatnonzero(counts):
            f = self._tempered(self._paths(i, counts[i], seed + i))
            draws.append(self.likelihood.draw(rng, f, self.thetas[i]))
        return rng.permutation(np.concatenate(draws))


def _within_reach(f) -> np.ndarray:
    """f, of which no mean is beyond what can be computed with; NaN raises FloatingPointError."""
    return np.clip(without_nan(f), -np.log(MAX_MEAN), np.log(MAX_MEAN))
