"""Sufficient statistics of a long series given the residual process.

y = X w + u + e has the covariance X D X' + noise T, where `ResidualFilter` factors T. At a fixed T
the log marginal likelihood, the posterior of w and the forecast depend on the data only through the
m x m matrix X' T^-1 X and a few vectors. They cost O(n m^2) once, and O(m^3) for each D and noise
variance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from bayeskern.core.memory import Memory
from bayeskern.forecast.history.residual_filter import InterpolationWeights, ResidualFilter


@dataclass(frozen=True, eq=False)
class FilteredStatistics:
    """Sufficient statistics of the columns B = [X, y] at one lengthscale and ratio.

    Attributes:
        gram: B' T^-1 B, (m + 1, m + 1).
        log_det: log det T.
        state: Filtered mean of u at the last row, with each column as data: (m + 1,).
        state_variance: Filtered variance of u at the last row, in units of the noise variance.
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
        gram: Derivatives of the gram matrix, (2, m + 1, m + 1).
        log_det: Derivatives of log det T, (2,).
    """

    gram: np.ndarray
    log_det: np.ndarray


class BackwardStep(NamedTuple):
    """Results of both passes of the filter for a chunk of rows, (c, m + 1) each.

    Attributes:
        rows: Slice of the rows.
        columns: B.
        whitened: F^-1/2 L^-1 B.
        sums: Sums of `ResidualFilter.backward`.
        next_sums: Sums of the next row.
    """

    rows: slice
    columns: np.ndarray
    whitened: np.ndarray
    sums: np.ndarray
    next_sums: np.ndarray


class History:
    """A series with its basis columns, and passes of the residual filter over them.

    Results for recent pairs of lengthscale and ratio are cached.

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
        """True if no time of x_new (M,) lies before the last observed time."""
        return len(x_new) == 0 or bool(np.min(x_new) >= self.x[-1])

    def residual(self, lengthscale: float, ratio: float) -> ResidualFilter:
        """Filter of u + e at a lengthscale l and a ratio q."""
        key = lengthscale, ratio
        return self._filters.recall(key, lambda: ResidualFilter(self.x, *key))

    def statistics(self, lengthscale: float, ratio: float) -> FilteredStatistics:
        """Sufficient statistics: O(n m^2)."""
        key = lengthscale, ratio
        return self._statistics.recall(key, lambda: self.prefixes(*key, (len(self.x),))[0])

    def prefixes(
        self, lengthscale: float, ratio: float, counts: Sequence[int]
    ) -> list[FilteredStatistics]:
        """Sufficient statistics of the first c rows, for each c of `counts`, in one pass.

        The filter runs forward, so its sums up to a row are the statistics of a shorter series.
        """
        residual = self.residual(lengthscale, ratio)
        log_dets = np.cumsum(np.log(residual.scales))
        size, results = self.columns.shape[1], {}
        gram, state = np.zeros((size, size)), np.zeros(size)
        for rows in residual.chunks(counts):
            if rows.start == max(counts):
                break
            whitened, state = residual.forward(self.columns[rows], state, rows)
            gram, last = gram + whitened.T @ whitened, rows.stop - 1
            results[rows.stop] = FilteredStatistics(
                gram, float(log_dets[last]), state, float(residual.filtered[last]), rows.stop
            )
        return [results[count] for count in counts]

    def slopes(self, lengthscale: float, ratio: float) -> StatisticsSlopes:
        """Derivatives of the sufficient statistics, at about three times their cost."""
        residual = self.residual(lengthscale, ratio)

        def compute() -> StatisticsSlopes:
            size = self.columns.shape[1]
            slopes, carry = np.zeros((2, size, size)), np.zeros(size)
            for step in self._backward(residual):
                terms, carry = residual.slope_terms(step.sums, step.next_sums, carry, step.rows)
                slopes += terms
            return StatisticsSlopes(slopes, residual.log_det_slopes)

        return self._slopes.recall((lengthscale, ratio), compute)

    def _chunk(self, rows: slice, extra: np.ndarray | None) -> np.ndarray:
        """Rows of the columns and of an extra column (n,), if given."""
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
            _, state = residual.forward(self._chunk(rows, extra), state, rows)
        next_sum = np.zeros(size)
        for rows, state in zip(reversed(chunks), reversed(states), strict=True):
            columns = self._chunk(rows, extra)
            whitened, _ = residual.forward(columns, state, rows)
            sums, next_sums = residual.backward(whitened, next_sum, rows)
            yield BackwardStep(rows, columns, whitened, sums, next_sums)
            next_sum = sums[0]

    def solved_chunks(self, residual: ResidualFilter) -> Iterator[tuple[slice, np.ndarray]]:
        """Chunks of T^-1 B from the last to the first, each with the slice of its rows."""
        for step in self._backward(residual):
            yield step.rows, residual.solved(step.whitened, step.next_sums, step.rows)

    @cached_property
    def averages(self) -> np.ndarray:
        """Average of each column: (m + 1,)."""
        return self.columns.mean(axis=0)

    def smoothed_average(self, residual: ResidualFilter) -> np.ndarray:
        """Average of the smoothed means of u, (m + 2,).

        The data y are replaced by each column of [X, y, residual.averages] in turn.
        """
        total, state = np.zeros((2, self.columns.shape[1] + 1))
        for rows in residual.chunks():
            chunk = self._chunk(rows, residual.averages)
            whitened, state = residual.forward(chunk, state, rows)
            total = total + whitened[:, -1] @ whitened
        return residual.ratio * total

    def smoothed(
        self, residual: ResidualFilter, x_new: np.ndarray, extra: np.ndarray | None = None
    ) -> tuple[np.ndarray, InterpolationWeights]:
        """Posterior means of u at any times, with each column in turn as the data u + e.

        Args:
            residual: Filter of u + e.
            x_new: Times, (M,).
            extra: Extra column, (n,).

        Returns:
            Means, (M, m + 1) or (M, m + 2) with an extra column; and the interpolation weights.
        """
        weights = InterpolationWeights(residual, x_new)
        means = np.zeros((len(x_new), self.columns.shape[1] + (extra is not None)))
        for step in self._backward(residual, extra):
            in_chunk = (weights.left >= step.rows.start) & (weights.left < step.rows.stop)
            left = weights.left[in_chunk]
            rows = left - step.rows.start
            filtered = residual.filtered_means(step.columns[rows], step.whitened[rows], left)
            means[in_chunk] = weights.forward_decay[in_chunk, None] * filtered
            means[in_chunk] += weights.gain[in_chunk, None] * step.next_sums[rows]
            if step.rows.start == 0:
                is_past = weights.left < 0
                means[is_past] = weights.gain[is_past, None] * step.sums[0]
        return means, weights
