"""Ornstein-Uhlenbeck process plus white noise at sorted times: solves and determinants in O(n).

The covariance in units of the noise variance is T = I + q K with K_ij = exp(-|x_i - x_j| / l). The
process is Markov, so the Kalman filter factors T = L diag(F) L' with unit lower triangular L. Every
quantity of the filter is a sum of positive terms, so that nothing cancels for any ratio q of the
variances.

References:
    Rasmussen and Williams (2006), "Gaussian processes for machine learning", section B.2;
    Durbin and Koopman (2012), "Time series analysis by state space methods", sections 4.3 to 4.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy.linalg import get_lapack_funcs

(_tbtrs,) = get_lapack_funcs(("tbtrs",), dtype=np.float64)

# Rows in a chunk, so that its matrices of 250 columns stay in the cache of the processor.
CHUNK_ROWS = 512


class ResidualFilter:
    """Kalman filter of u + e, with u an Ornstein-Uhlenbeck process of variance q and e ~ N(0, I).

    Attributes:
        x: Sorted times, (n,).
        lengthscale: l, in the unit of the times.
        ratio: q, the variance of u in units of the noise variance.
        variances: Predictive variances p of u_i given the values before i, (n,).
        scales: Predictive variances F = p + 1 of the values, (n,).
        filtered: Variances p / F of u_i given the values up to i, which are also the gains, (n,).
    """

    def __init__(self, x: np.ndarray, lengthscale: float, ratio: float):
        """Run the variance recursion of the filter.

        Args:
            x: Sorted times, (n,).
            lengthscale: Positive.
            ratio: Positive.
        """
        self.x, self.lengthscale, self.ratio = x, float(lengthscale), float(ratio)
        gaps = np.diff(x) / lengthscale
        # The process starts from its stationary distribution: nothing is known before.
        self._decay = np.append(0.0, np.exp(-gaps))
        self._innovation = np.append(1.0, -np.expm1(-2.0 * gaps))
        self._decay_slope = np.append(0.0, self._decay[1:] * gaps)
        squares = np.square(self._decay).tolist()
        added = (self.ratio * self._innovation).tolist()
        variances, filtered = [], 0.0
        for square, addition in zip(squares, added, strict=True):
            p = square * filtered + addition
            variances.append(p)
            filtered = p / (p + 1.0)
        self.variances = np.array(variances)
        self.scales = self.variances + 1.0
        self.filtered = self.variances / self.scales
        self._kept = 1.0 / self.scales
        self._next_decay = np.append(self._decay[1:], 0.0)

    @cached_property
    def log_det_slopes(self) -> np.ndarray:
        """Derivatives of log det T in log l and log q: (2,)."""
        before = np.append(0.0, self.filtered[:-1])
        slopes = 2.0 * self._decay * self._decay_slope * (before - self.ratio)
        rows = np.stack([slopes, self.ratio * self._innovation], axis=1)
        coefficients = np.square(self._decay * np.append(0.0, self._kept[:-1]))
        return (recurrence(coefficients, rows) / self.scales[:, None]).sum(axis=0)

    @cached_property
    def information(self) -> np.ndarray:
        """Variances of the sums of `backward`, and 0 after the last value: (n + 1,)."""
        coefficients = np.square(self._next_decay * self._kept)
        rows = recurrence(coefficients, 1.0 / self.scales[:, None], reverse=True)
        return np.append(rows[:, 0], 0.0)

    @property
    def precision_diagonal(self) -> np.ndarray:
        """Diagonal of T^-1: (n,)."""
        later = np.square(self.filtered * self._next_decay) * self.information[1:]
        return 1.0 / self.scales + later

    @cached_property
    def averages(self) -> np.ndarray:
        """K 1 / n, the covariances of u_i / q with the average of u: (n,)."""
        before, after = self.decay_sums
        return (before + after - 1.0) / len(self.x)

    @cached_property
    def decay_sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Sums of exp(-|x_i - x_j| / l) over j <= i, and over j >= i: (n,) each."""
        shape = len(self.x), 1
        before = recurrence(self._decay, np.ones(shape))[:, 0]
        return before, recurrence(self._next_decay, np.ones(shape), reverse=True)[:, 0]

    # -- passes over the rows of a matrix ----------------------------------------------------------

    def chunks(self, edges: Sequence[int] = ()) -> list[slice]:
        """Chunks of rows; no chunk crosses an edge."""
        n = len(self.x)
        bounds = sorted({0, n, *edges, *range(0, n, CHUNK_ROWS)})
        return [slice(*ends) for ends in pairwise(bounds)]

    def forward(
        self, B: np.ndarray, before: np.ndarray, rows: slice
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rows of F^-1/2 L^-1 B, and the filtered means of u: (c, m) each.

        Args:
            B: These rows of a matrix, (c, m).
            before: Filtered mean of u at the row before, zero before the first row, (m,).
            rows: The rows.
        """
        decay, gains = self._decay[rows, None], self.filtered[rows, None]
        means = recurrence((self._decay * self._kept)[rows], gains * B, before)
        whitened = np.array(B, order="F")
        whitened[0] -= decay[0] * before
        whitened[1:] -= decay[1:] * means[:-1]
        whitened /= np.sqrt(self.scales[rows, None])
        return whitened, means

    def backward(
        self, whitened: np.ndarray, after: np.ndarray, rows: slice
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rows i of sum_{j >= i} exp(-(x_j - x_i) / l) (T^-1 B)_j, and rows i + 1: (c, m) each.

        Args:
            whitened: These rows of F^-1/2 L^-1 B, (c, m).
            after: The sum at the row after, zero after the last row, (m,).
            rows: The rows.
        """
        coefficients = (self._next_decay * self._kept)[rows]
        scaled = whitened / np.sqrt(self.scales[rows, None])
        sums = recurrence(coefficients, scaled, after, reverse=True)
        return sums, np.concatenate([sums[1:], after[None]])

    def solved(self, whitened: np.ndarray, later: np.ndarray, rows: slice) -> np.ndarray:
        """Rows of T^-1 B, by those of F^-1/2 L^-1 B and the later sums: (c, m)."""
        gains = (self.filtered * self._next_decay)[rows, None]
        return whitened / np.sqrt(self.scales[rows, None]) - gains * later

    def slope_terms(
        self, sums: np.ndarray, later: np.ndarray, after: np.ndarray, rows: slice
    ) -> tuple[np.ndarray, np.ndarray]:
        """Terms of -V' (dT / d log l) V and -V' (dT / d log q) V, V = T^-1 B, from some rows.

        K is sum' diag(1 - a^2) sum, with a the decay over a gap and `sum` the sums of `backward`.

        Args:
            sums: Sums of `backward`, (c, m).
            later: The sums one row later, (c, m).
            after: Derivative of the sum at the row after in log l at fixed V, (m,).
            rows: The rows.

        Returns:
            Two matrices (2, m, m), and the derivative of the first sum (m,).
        """
        gap_slopes = np.append(self._decay_slope[1:], 0.0)[rows, None]
        sum_slopes = recurrence(self._next_decay[rows], gap_slopes * later, after, reverse=True)
        innovation = self.ratio * self._innovation[rows, None]
        slope = -self.ratio * (self._decay * self._decay_slope)[rows, None]
        half = sums.T @ (slope * sums + innovation * sum_slopes)
        roots = np.sqrt(innovation) * sums
        return -np.stack([half + half.T, roots.T @ roots]), sum_slopes[0]

    # -- the process at other times ----------------------------------------------------------------

    def covariance(self, x_new: np.ndarray) -> np.ndarray:
        """Covariance of u at any times x_new (M,), given all values: (M, M), in O(n M^2)."""
        known, before = np.zeros((len(x_new), len(x_new))), np.zeros(len(x_new))
        for rows in self.chunks():
            lags = np.abs(self.x[rows, None] - x_new)
            half, means = self.forward(np.exp(-lags / self.lengthscale), before, rows)
            known += half.T @ half
            before = means[-1]
        own = np.exp(-np.abs(x_new[:, None] - x_new) / self.lengthscale)
        return self.ratio * own - np.square(self.ratio) * known


def recurrence(
    coefficients: np.ndarray,
    rows: np.ndarray,
    start: np.ndarray | float = 0.0,
    *,
    reverse: bool = False,
) -> np.ndarray:
    """h_i = c_i h_{i-1} + g_i, or h_i = c_i h_{i+1} + g_i in reverse, by a bidiagonal solve.

    Args:
        coefficients: c, (n,).
        rows: g, (n, m); may be overwritten.
        start: h before the first row, or after the last row in reverse, (m,).
        reverse: Run from the last row to the first.

    Returns:
        h, (n, m).
    """
    bands, h = np.ones((2, len(rows)), order="F"), np.asfortranarray(rows)
    first = -1 if reverse else 0
    h[first] += coefficients[first] * start
    if reverse:
        bands[0, 1:] = -coefficients[:-1]
    else:
        bands[1, :-1] = -coefficients[1:]
    solved, _ = _tbtrs(bands, h, uplo="U" if reverse else "L", diag="U", overwrite_b=True)
    return solved


def covariance_after(
    gaps: np.ndarray, lengthscale: float, ratio: float, state_variance: float
) -> np.ndarray:
    """Covariance of u after the last value, given all values, in units of the noise variance.

    Args:
        gaps: Times since the last value, (M,).
        lengthscale: l.
        ratio: q.
        state_variance: Variance of u at the last value, given all values.

    Returns:
        Array of shape (M, M).
    """
    decay = np.exp(-gaps / lengthscale)
    own = np.exp(-np.abs(gaps[:, None] - gaps) / lengthscale)
    return ratio * own + (state_variance - ratio) * np.outer(decay, decay)


class Between:
    """Weights for u at times between, before and after the values.

    The mean of u is forward_decay h_i + gain s_{i+1}, with h the filtered means, s the rows of
    `ResidualFilter.backward` and i the last value at or before the time.

    Attributes:
        before: i, -1 before the first value: (M,).
        forward_decay: (M,).
        gain: (M,).
        variance: Variance of u given all values, (M,).
        averages: Covariance of u / q with its average over the values, (M,).
    """

    def __init__(self, residual: ResidualFilter, x_new: np.ndarray):
        """Compute the weights for times x_new (M,)."""
        n, q = len(residual.x), residual.ratio
        self.before = np.searchsorted(residual.x, x_new, side="right") - 1
        at, after = np.maximum(self.before, 0), np.minimum(self.before + 1, n - 1)
        since = (x_new - residual.x[at]) / residual.lengthscale
        until = (residual.x[after] - x_new) / residual.lengthscale
        has_before, has_after = self.before >= 0, self.before + 1 < n
        self.forward_decay = np.where(has_before, np.exp(-np.maximum(since, 0.0)), 0.0)
        backward_decay = np.where(has_after, np.exp(-np.maximum(until, 0.0)), 0.0)
        innovation = np.where(has_before, -np.expm1(-2.0 * np.maximum(since, 0.0)), 1.0)
        variance = np.square(self.forward_decay) * residual.filtered[at] + q * innovation
        self.gain = variance * backward_decay
        known = np.square(self.gain) * residual.information[self.before + 1]
        self.variance = np.maximum(variance - known, 0.0)
        sums = [s[i] for s, i in zip(residual.decay_sums, (at, after), strict=True)]
        self.averages = (self.forward_decay * sums[0] + backward_decay * sums[1]) / n
