"""Pairs of times, and weights of pairs: what Gram matrices in NumPy are computed from.

Derivatives are computed in reverse mode: weights A of the pairs give the derivatives (slopes) of
sum_ij A_ij k(x_i, x_j) with respect to each hyperparameter. Each factor of a product is therefore
weighted once, and weights are summed over equal lags before they are multiplied by a function of
the lag alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import ClassVar, Protocol

import numpy as np

# Function that computes a derivative when it is called.
Slope = Callable[[], float]
# Function from weights of the pairs to the slopes with respect to each hyperparameter.
Pullback = Callable[["PairWeights"], list[Slope]]
# A Gram matrix and its pullback. The matrix is an array over the lags, an array over the pairs, or
# one number for all pairs.
Evaluation = tuple[np.ndarray, Pullback]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of times s and t, arrays that broadcast, with a cache that kernels share.

    Attributes:
        s: First times.
        t: Second times.
        distinct_lags: The distinct lags s - t, if there are few of them; otherwise None.
        index: Index in `distinct_lags` of each pair; None without them.
        are_same: True if s and t are the same points; False if at most their times agree.
    """

    #: Lags that differ by less than this share of the longest lag are treated as equal.
    LAG_TOL: ClassVar[float] = 1e-9
    #: Functions are evaluated at the distinct lags if there are at most this many per time.
    MAX_LAGS_PER_TIME: ClassVar[int] = 8

    s: np.ndarray
    t: np.ndarray
    distinct_lags: np.ndarray | None = None
    index: np.ndarray | None = None
    are_same: bool = False
    # Arguments and result of the latest call of each function by `cached`.
    _latest: dict = field(default_factory=dict, repr=False)

    @classmethod
    def between(cls, x: np.ndarray, x_new: np.ndarray, are_same: bool = False) -> Pairs:
        """All pairs of times x (n,) and x_new (m,): (n, m).

        If the steps are regular, with or without gaps, each distinct lag is computed once.
        """
        s, t = x[:, None], x_new[None, :]
        lag = s - t
        longest = np.abs(lag).max(initial=0.0)
        steps = np.rint(lag / (cls.LAG_TOL * longest or 1.0))
        lags, first, index = np.unique(steps, return_index=True, return_inverse=True)
        if len(lags) > cls.MAX_LAGS_PER_TIME * max(steps.shape):
            return cls(s, t, are_same=are_same)
        return cls(s, t, lag.ravel()[first], index.reshape(steps.shape), are_same)

    @classmethod
    def among(cls, x: np.ndarray) -> Pairs:
        """All pairs of times x (n,) with themselves: (n, n)."""
        return cls.between(x, x, are_same=True)

    @cached_property
    def lag(self) -> np.ndarray:
        """s - t of all pairs; if `index` is not None, only the distinct lags."""
        return self.s - self.t if self.distinct_lags is None else self.distinct_lags

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Values at the pairs, from values at the lags; other values are returned unchanged."""
        if self.index is None or values.shape != self.lag.shape:
            return values
        return values.take(self.index)

    @cached_property
    def squared_lag(self) -> np.ndarray:
        """Squared lags."""
        return np.square(self.lag)

    def cached(self, function: Callable, *values: float):
        """function(pairs, *values), cached until the function is called with other values."""
        entry = self._latest.get(function)
        if entry is None or entry[0] != values:
            # A single assignment: several threads may use the same pairs.
            entry = self._latest[function] = values, function(self, *values)
        return entry[1]


class PairWeights:
    """Weights A of pairs of times, for sums sum_ij A_ij K_ij.

    Args:
        pairs: The pairs.
        compute: () -> A over the pairs, or the sums of A over the pairs of each lag.
    """

    def __init__(self, pairs: Pairs, compute: Callable[[], np.ndarray]):
        self.pairs, self._compute = pairs, compute

    @cached_property
    def _values(self) -> np.ndarray:
        return self._compute()

    @cached_property
    def _at_lags(self) -> np.ndarray:
        """Sums of A over the pairs of each lag."""
        lags, index = self.pairs.lag, self.pairs.index
        if index is None or self._values.shape == lags.shape:
            return self._values
        return np.bincount(index.ravel(), self._values.ravel(), len(lags))

    @cached_property
    def total(self) -> float:
        """sum_ij A_ij."""
        return float(np.sum(self._values))

    def dot(self, values: np.ndarray) -> float:
        """sum_ij A_ij values_ij, for values at the lags or the pairs, or one number."""
        if values.ndim == 0:
            return float(values) * self.total
        weights = self._at_lags if values.shape == self.pairs.lag.shape else self._values
        return float(np.vdot(weights, values))

    def dot_increments(self, g_s: np.ndarray, g_t: np.ndarray, g_lag: np.ndarray) -> float:
        """sum_ij A_ij (g(s_i) + g(t_j) - g(s_i - t_j)), for the values of g at s, t and lags."""
        sums_s, sums_t = self._sums
        return float(np.vdot(sums_s, g_s) + np.vdot(sums_t, g_t)) - self.dot(g_lag)

    @cached_property
    def _sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Row and column sums of A: over all t for each s, and over all s for each t."""
        return self._values.sum(axis=1), self._values.sum(axis=0)

    def times(self, values: np.ndarray) -> PairWeights:
        """Weights A_ij values_ij; for values at the lags, summed over the pairs of each lag."""
        at_lags = values.shape == self.pairs.lag.shape
        return PairWeights(
            self.pairs, lambda: (self._at_lags if at_lags else self._values) * values
        )


class PartGram(Protocol):
    """Gram matrix of one of the kernels of which a kernel is composed."""

    def evaluate(self, values: Iterator[float], pairs: Pairs) -> Evaluation:
        """Gram matrix and pullback; the hyperparameters of the part are taken from `values`."""
        ...


def with_slopes(K: np.ndarray, derivatives: Sequence[Callable[[], np.ndarray]]) -> Evaluation:
    """`Evaluation` of a kernel without parts, from functions that compute its derivatives.

    Args:
        K: The Gram matrix.
        derivatives: Derivative of K with respect to each hyperparameter, in their order.
    """
    return K, lambda w: [partial(_slope, w, derivative) for derivative in derivatives]


def _slope(w: PairWeights, derivative: Callable[[], np.ndarray]) -> float:
    return w.dot(derivative())
