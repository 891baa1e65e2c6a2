"""Sufficient statistics of a long series given the residual process.

y = X w + u + e has the covariance X D X' + noise T, with T of `ResidualFilter`. At a fixed T the
log marginal likelihood, the posterior of w and the forecast need only the m x m matrix X' T^-1 X
and a few vectors: O(n m^2) once, and O(m^3) for each D and noise variance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from bayeskern.core.memory import Memory
from bayeskern.forecast.history.residual_filter import Between, ResidualFilter


@dataclass(frozen=True, eq=False)
class FilteredStatistics:
    """Sufficient statistics of the columns B = [X, y] at one lengthscale and ratio.

    Attributes:
        gram: B' T^-1 B, (m + 1, m + 1).
        log_det: log det T.
        state: Filtered mean of u at the last row, for each column: (m + 1,).
        state_variance: Its variance, in units of the noise variance.
        n: Number of rows.
    """

    gram: np.ndarray
    log_det: float
    state: np.ndarray
    state_variance: float
    n: int


@dataclass(frozen=True, eq=False)
class StatisticsSlopes:
    """Derivatives of `FilteredStatistics` in log lengthscale and log ratio.

    Attributes:
        gram: (2, m + 1, m + 1).
        log_det: (2,).
    """

    gram: np.ndarray
    log_det: np.ndarray


class BackwardStep(NamedTuple):
    """Results of the forward and the backward pass for a chunk of rows, (c, m + 1) each.

    Attributes:
        rows: The rows.
        whitened: F^-1/2 L^-1 B.
        filtered: Filtered means of u.
        sums: Sums of `ResidualFilter.backward`.
        later: The sums one row later.
    """

    rows: slice
    whitened: np.ndarray
    filtered: np.ndarray
    sums: np.ndarray
    later: np.ndarray


class History:
    """A series with the columns of its basis, and passes of the residual filter over them.

    Results for the last few pairs of lengthscale and ratio are cached.

    Attributes:
        x: Sorted times, (n,).
        columns: B = [X, y], (n, m + 1).
    """

    def __init__(self, x: np.ndarray, columns: np.ndarray):
        self.x, self.columns = x, columns
        self._filters, self._statistics, self._slopes = Memory(2), Memory(64), Memory(16)

    def prefix(self, count: int) -> History:
        """The first `count` rows."""
        return History(self.x[:count], self.columns[:count])

    def is_future(self, x_new: np.ndarray) -> bool:
        """True if no time of x_new (M,) lies before the last value."""
        return len(x_new) == 0 or bool(np.min(x_new) >= self.x[-1])

    def residual(self, lengthscale: float, ratio: float) -> ResidualFilter:
        """The filter of the residual process."""
        key = lengthscale, ratio
        return self._filters.recall(key, lambda: ResidualFilter(self.x, *key))

    def statistics(self, lengthscale: float, ratio: float) -> FilteredStatistics:
        """Sufficient statistics: O(n m^2)."""
        key = lengthscale, ratio
        return self._statistics.recall(key, lambda: self.prefixes(*key, (len(self.x),))[0])

    def prefixes(
        self, lengthscale: float, ratio: float, counts: Sequence[int]
    ) -> list[FilteredStatistics]:
        """Sufficient statistics of the first `counts` rows each, by one pass over all rows.

        The filter sees no later rows, so the sums up to a row are the statistics of a shorter
        series.
        """
        residual = self.residual(lengthscale, ratio)
        log_dets = np.cumsum(np.log(residual.scales))
        size, results = self.columns.shape[1], {}
        gram, state = np.zeros((size, size)), np.zeros(size)
        for rows in residual.chunks(counts):
            if rows.start == max(counts):
                break
            whitened, means = residual.forward(self.columns[rows], state, rows)
            gram, state, last = gram + whitened.T @ whitened, means[-1], rows.stop - 1
            results[rows.stop] = FilteredStatistics(
                gram, float(log_dets[last]), state, float(residual.filtered[last]), rows.stop
            )
        return [results[count] for count in counts]

    def slopes(self, lengthscale: float, ratio: float) -> StatisticsSlopes:
        """Derivatives of the sufficient statistics: O(n m^2), about three times `statistics`."""
        residual = self.residual(lengthscale, ratio)

        def compute() -> StatisticsSlopes:
            size = self.columns.shape[1]
            slopes, carry = np.zeros((2, size, size)), np.zeros(size)
            for step in self._backward(residual):
                terms, carry = residual.slope_terms(step.sums, step.later, carry, step.rows)
                slopes += terms
            return StatisticsSlopes(slopes, residual.log_det_slopes)

        return self._slopes.recall((lengthscale, ratio), compute)

    def _chunk(self, rows: slice, extra: np.ndarray | None) -> np.ndarray:
        """Rows of the columns, with one more column (n,) if there is one."""
        chunk = self.columns[rows]
        return chunk if extra is None else np.column_stack([chunk, extra[rows]])

    def _backward(
        self, residual: ResidualFilter, extra: np.ndarray | None = None
    ) -> Iterator[BackwardStep]:
        """Chunks from the last to the first, with the results of both passes."""
        size = self.columns.shape[1] + (extra is not None)
        states, state, chunks = [], np.zeros(size), residual.chunks()
        for rows in chunks:
            states.append(state)
            state = residual.forward(self._chunk(rows, extra), state, rows)[1][-1]
        after = np.zeros(size)
        for rows, state in zip(reversed(chunks), reversed(states), strict=True):
            whitened, means = residual.forward(self._chunk(rows, extra), state, rows)
            sums, later = residual.backward(whitened, after, rows)
            yield BackwardStep(rows, whitened, means, sums, later)
            after = sums[0]

    def solved_chunks(self, residual: ResidualFilter) -> Iterator[tuple[slice, np.ndarray]]:
        """Chunks of T^-1 B from the last to the first: rows as a slice, and their values."""
        for step in self._backward(residual):
            yield step.rows, residual.solved(step.whitened, step.later, step.rows)

    @cached_property
    def averages(self) -> np.ndarray:
        """Averages of the columns: (m + 1,)."""
        return self.columns.mean(axis=0)

    def smoothed_average(self, residual: ResidualFilter) -> np.ndarray:
        """Average of u if each column, and then `residual.averages`, were the data: (m + 2,)."""
        total, state = np.zeros((2, self.columns.shape[1] + 1))
        for rows in residual.chunks():
            chunk = self._chunk(rows, residual.averages)
            whitened, means = residual.forward(chunk, state, rows)
            total, state = total + whitened[:, -1] @ whitened, means[-1]
        return residual.ratio * total

    def smoothed(
        self, residual: ResidualFilter, x_new: np.ndarray, extra: np.ndarray | None = None
    ) -> tuple[np.ndarray, Between]:
        """Means of u at any times if each column in turn were the data u + e.

        Args:
            residual: The filter.
            x_new: Times, (M,).
            extra: One more column, (n,).

        Returns:
            Means, (M, m + 1) or (M, m + 2), and the weights with the variances of u.
        """
        between = Between(residual, x_new)
        means = np.zeros((len(x_new), self.columns.shape[1] + (extra is not None)))
        for step in self._backward(residual, extra):
            here = (between.before >= step.rows.start) & (between.before < step.rows.stop)
            at = between.before[here] - step.rows.start
            means[here] = between.forward_decay[here, None] * step.filtered[at]
            means[here] += between.gain[here, None] * step.later[at]
            if step.rows.start == 0:
                first = between.before < 0
                means[first] = between.gain[first, None] * step.sums[0]
        return means, between
