"""Fine steps within the periods of a series: the days of its months.

A series of totals and its daily values describe one process on the grid of days. The trend and the
season of the totals change with each third of a period (the ten days of a month); everything
faster, a weekly season for example, changes from day to day. A total is the sum of its days, and
is modelled as n_bar times the mean of its days, with n_bar the average number of days of a period,
so that months of 28 and of 31 days are comparable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from bayeskern.forecast.model.learned import Learned
from bayeskern.kernels.pairs import Pairs

# Number of parts of a period; the slow components are constant within a part.
PARTS = 3
# Positions closer than this share of a period are equal.
POSITION_TOL = 1e-6


class StepIntervals(NamedTuple):
    """Intervals of fine steps over which means are taken; arrays of any shape (...).

    Attributes:
        start: First step of each interval.
        stop: Step after the last one.
        parts: Indices of the parts of periods, (..., PARTS).
        shares: Share of the interval in each part, (..., PARTS).
    """

    start: np.ndarray
    stop: np.ndarray
    parts: np.ndarray
    shares: np.ndarray


@dataclass(frozen=True, eq=False)
class FineSteps:
    """Periods of a series as intervals of fine steps.

    A position x is `step` times a number of periods. A whole number stands for the whole period
    that starts there; other positions stand for single fine steps.

    Attributes:
        step: Length of a period, in the unit of the positions.
        edges: First fine step of each period, and the end of the last one, (P + 1,).
        mean_count: Average number of fine steps of a period, n_bar.
        seasons: Name -> period, in fine steps, of seasons within a period.
        learned: Learned priors for series with fine steps.
    """

    step: float
    edges: np.ndarray
    mean_count: float
    seasons: Mapping[str, float]
    learned: Learned

    def positions(self, steps: np.ndarray) -> np.ndarray:
        """Positions x of single fine steps (m,)."""
        period = np.searchsorted(self.edges, steps, side="right") - 1
        start, count = self.edges[period], np.diff(self.edges)[period]
        return self.step * (period + (steps - start + 0.5) / count)

    def are_periods(self, x: np.ndarray) -> np.ndarray:
        """Mask of the positions x of whole periods."""
        u = np.asarray(x) / self.step
        return np.abs(u - np.round(u)) < POSITION_TOL

    def rows(self, x: np.ndarray) -> StepIntervals:
        """Intervals at positions x, of any shape.

        Raises:
            ValueError: A position lies outside the known periods.
        """
        u = x / self.step
        period = np.floor(u + POSITION_TOL).astype(int)
        if np.any(period < 0) or np.any(period >= len(self.edges) - 1):
            raise ValueError(
                f"times must lie within the {len(self.edges) - 1} periods from the first one; use "
                "a longer horizon for later times."
            )
        is_period, first = self.are_periods(x), self.edges[period]
        count = self.edges[period + 1] - first
        inside = np.minimum(np.floor((u - period) * count).astype(int), count - 1)
        start = np.where(is_period, first, first + inside)
        stop = np.where(is_period, first + count, start + 1)
        single = np.arange(PARTS) == _part_of(inside, count)[..., None]
        shares = np.where(is_period[..., None], self._shares[period], single)
        return StepIntervals(start, stop, PARTS * period[..., None] + np.arange(PARTS), shares)

    @cached_property
    def _shares(self) -> np.ndarray:
        """Share of the steps of each period in each of its parts, (P, PARTS)."""
        counts = np.diff(self.edges)
        shares = [np.bincount(_part_of(np.arange(n), n), minlength=PARTS) / n for n in counts]
        return np.array(shares).reshape(-1, PARTS)

    def middles(self, parts: np.ndarray) -> np.ndarray:
        """Positions of the middles of parts."""
        return self.step * (parts + 0.5) / PARTS

    @cached_property
    def lags(self) -> Pairs:
        """Pairs of fine steps at all lags from 0, (D,)."""
        return Pairs(np.arange(self.edges[-1] - self.edges[0] + 1.0), np.zeros(1))

    def blocks(self, pairs: Pairs) -> Blocks:
        """Covariances of means over intervals, at the positions of the pairs."""
        return Blocks(self, pairs.s, pairs.t)


def _part_of(index: np.ndarray, count: np.ndarray | int) -> np.ndarray:
    """Index of the part that contains step `index` of a period of `count` steps."""
    return np.floor(PARTS * (index + 0.5) / count).astype(int)


class Blocks:
    """Covariances of means over intervals, from those of single steps and of parts.

    With H(l + 1) - 2 H(l) + H(l - 1) = k(l) and H(0) = 0, the sum of k(s - t) over a <= s < b and
    c <= t < d is H(b - c) - H(a - c) - H(b - d) + H(a - d): the second integral of a stationary
    kernel, in sums.

    Args:
        steps: The intervals.
        s: First positions, (n, 1), or (m,).
        t: Second positions, (1, m), or (m,).

    Attributes:
        nodes: Pairs of the middles of the parts.
    """

    def __init__(self, steps: FineSteps, s: np.ndarray, t: np.ndarray):
        rows, columns = steps.rows(s), steps.rows(t)
        self._is_outer = s.ndim == 2
        if self._is_outer:
            (self._left, x), (self._right, x_new) = (_loadings(steps, r) for r in (rows, columns))
            is_same = np.array_equal(x, x_new)
            self.nodes = Pairs.among(x) if is_same else Pairs.between(x, x_new)
        else:
            self._left, self._right = rows.shares, columns.shares
            x, x_new = steps.middles(rows.parts), steps.middles(columns.parts)
            self.nodes = Pairs(x[..., :, None], x_new[..., None, :])
        self._terms = [
            (sign, np.abs(end - other))
            for sign, end, other in (
                (1.0, rows.stop, columns.start),
                (-1.0, rows.start, columns.start),
                (-1.0, rows.stop, columns.stop),
                (1.0, rows.start, columns.stop),
            )
        ]
        self._sizes = ((rows.stop - rows.start) * (columns.stop - columns.start)).astype(float)
        self._lag_count = steps.lags.lag.shape[0]

    def of_parts(self, K: np.ndarray) -> np.ndarray:
        """Covariances of the means, from covariances K of the parts at the nodes."""
        K = self.nodes.spread(K)
        if self._is_outer:
            return self._left @ K @ self._right.T
        return np.einsum("mp,mpq,mq->m", self._left, K, self._right)

    def part_weights(self, A: np.ndarray) -> np.ndarray:
        """Weights W of the nodes with sum(W * K) = sum(A * of_parts(K))."""
        return self._left.T @ A @ self._right

    def of_lags(self, k: np.ndarray) -> np.ndarray:
        """Covariances of the means, from covariances k (D,) of steps at lags 0 to D - 1."""
        H = np.append(0.0, np.cumsum(np.cumsum(k) - 0.5 * k[0])[:-1])
        return sum(sign * H[lags] for sign, lags in self._terms) / self._sizes

    def lag_weights(self, A: np.ndarray) -> np.ndarray:
        """Weights w (D,) of the lags with sum(w * k) = sum(A * of_lags(k))."""
        A = A / self._sizes
        of_H = np.zeros(self._lag_count)
        for sign, lags in self._terms:
            of_H += sign * np.bincount(lags.ravel(), A.ravel(), self._lag_count)
        # H(l) is the sum over i < l of k(0) + ... + k(i) - k(0) / 2.
        of_sums = np.append(np.cumsum(of_H[:0:-1])[::-1], 0.0)
        weights = np.cumsum(of_sums[::-1])[::-1]
        weights[0] -= 0.5 * of_sums.sum()
        return weights


def _loadings(steps: FineSteps, rows: StepIntervals) -> tuple[np.ndarray, np.ndarray]:
    """Shares of the distinct parts in each interval, (n, N), and their middles, (N,)."""
    parts, shares = (array.reshape(-1, PARTS) for array in (rows.parts, rows.shares))
    distinct, index = np.unique(parts, return_inverse=True)
    loadings = np.zeros((len(parts), len(distinct)))
    loadings[np.arange(len(parts))[:, None], index.reshape(parts.shape)] = shares
    return loadings, steps.middles(distinct)
