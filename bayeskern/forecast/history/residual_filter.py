"""Ornstein-Uhlenbeck process plus white noise: solves and determinants in O(n).

The covariance in units of the noise variance is T = I + q K with K_ij = exp(-|x_i - x_j| / l). The
process is Markov, so the Kalman filter factors T = L diag(F) L' with unit lower triangular L. All
quantities of the filter are sums of positive terms: no digits cancel at any ratio q.

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

# Rows of a chunk, so that matrices of 250 columns fit into the processor cache.
CHUNK_ROWS = 512


class ResidualFilter:
    """Kalman filter of u + e: Ornstein-Uhlenbeck u of variance q, and e ~ N(0, I).

    Attributes:
        x: Sorted times, (n,).
        lengthscale: l, in the unit of the times.
        ratio: q, the variance of u in units of the noise variance.
        variances: p_i, the predictive variance of u_i given the values before i, (n,).
        scales: F_i = p_i + 1, the predictive variance of value i, (n,).
        filtered: p_i / F_i: both the Kalman gain and the variance of u_i given the values up to i,
            (n,).
    """

    def __init__(self, x: np.ndarray, lengthscale: float, ratio: float):
        """Run the variance recursion of the filter.

        Args:
            x: Sorted times, (n,).
            lengthscale: l > 0.
            ratio: q > 0.
        """
        self.x, self.lengthscale, self.ratio = x, float(lengthscale), float(ratio)
        gaps = np.diff(x) / lengthscale
        # p_i = a_i^2 filtered_{i-1} + q (1 - a_i^2), with the decay a_i = exp(-gap_i) and a_0 = 0:
        # the process starts from its stationary distribution.
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
        # One minus the gain.
        self._retained = 1.0 / self.scales
        self._next_decay = np.append(self._decay[1:], 0.0)

    @cached_property
    def log_det_slopes(self) -> np.ndarray:
        """Derivatives of log det T with respect to log l and log q, (2,)."""
        # Differentiate the recursion for p, with d filtered / d p = 1 / F^2 for filtered = p / F.
        previous = np.append(0.0, self.filtered[:-1])
        slopes = 2.0 * self._decay * self._decay_slope * (previous - self.ratio)
        rows = np.stack([slopes, self.ratio * self._innovation], axis=1)
        coefficients = np.square(self._decay * np.append(0.0, self._retained[:-1]))
        return (recurrence(coefficients, rows) / self.scales[:, None]).sum(axis=0)

    @cached_property
    def information(self) -> np.ndarray:
        """Variances of the sums s_i of `backward`, followed by a final 0, (n + 1,).

        The column B of `backward` is then a draw of u + e.
        """
        coefficients = np.square(self._next_decay * self._retained)
        rows = recurrence(coefficients, 1.0 / self.scales[:, None], reverse=True)
        return np.append(rows[:, 0], 0.0)

    @property
    def precision_diagonal(self) -> np.ndarray:
        """Diagonal of T^-1: (n,)."""
        next_terms = np.square(self.filtered * self._next_decay) * self.information[1:]
        return 1.0 / self.scales + next_terms

    @cached_property
    def smoothed(self) -> np.ndarray:
        """Variances of u_i given all values: (n,)."""
        # After the last row comes one that is independent of it.
        predicted = np.append(self.variances[1:], self.ratio)
        added = self.ratio * np.append(self._innovation[1:], 1.0)
        coefficients = np.square(self.filtered * self._next_decay / predicted)
        rows = (self.filtered * added / predicted)[:, None]
        return recurrence(coefficients, rows, reverse=True)[:, 0]

    @cached_property
    def averages(self) -> np.ndarray:
        """Row means of K, which are cov(u_i, average of u) / q: (n,)."""
        left, right = self.decay_sums
        return (left + right - 1.0) / len(self.x)

    @cached_property
    def decay_sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Sums of exp(-|x_i - x_j| / l) over j <= i, and over j >= i: (n,) each."""
        shape = len(self.x), 1
        left = recurrence(self._decay, np.ones(shape))[:, 0]
        return left, recurrence(self._next_decay, np.ones(shape), reverse=True)[:, 0]

    # -- passes over the rows of a matrix ----------------------------------------------------------

    def chunks(self, edges: Sequence[int] = ()) -> list[slice]:
        """Chunks of rows; no chunk crosses an edge."""
        n = len(self.x)
        bounds = sorted({0, n, *edges, *range(0, n, CHUNK_ROWS)})
        return [slice(*ends) for ends in pairwise(bounds)]

    def forward(
        self, B: np.ndarray, previous_mean: np.ndarray, rows: slice
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rows of F^-1/2 L^-1 B (c, m), and the filtered means of u at the last row (m,).

        The prediction error of row i is v_i = b_i - a_i h_{i-1}, with the decay a_i and the
        filtered mean h_i = b_i - v_i / F_i. So v_i = b_i - a_i b_{i-1} + a_i v_{i-1} / F_{i-1}.

        Args:
            B: Rows of B, (c, m).
            previous_mean: Filtered mean of u at the previous row, 0 at the start, (m,).
            rows: Slice of the rows.
        """
        decay, retained = self._decay[rows], self._retained[rows]
        errors = np.empty(B.shape, order="F")
        errors[0] = B[0] - decay[0] * previous_mean
        np.multiply(decay[1:, None], B[:-1], out=errors[1:])
        np.subtract(B[1:], errors[1:], out=errors[1:])
        errors = recurrence(np.append(0.0, decay[1:] * retained[:-1]), errors)
        last_mean = B[-1] - retained[-1] * errors[-1]
        errors /= np.sqrt(self.scales[rows, None])
        return errors, last_mean

    def filtered_means(self, B: np.ndarray, whitened: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Filtered means of u at some rows, from these rows of B and F^-1/2 L^-1 B: (c, m)."""
        return B - whitened / np.sqrt(self.scales[rows, None])

    def backward(
        self, whitened: np.ndarray, next_sum: np.ndarray, rows: slice
    ) -> tuple[np.ndarray, np.ndarray]:
        """s_i = sum_{j >= i} exp(-(x_j - x_i) / l) (T^-1 B)_j, and s_{i+1}: (c, m) each.

        Args:
            whitened: Rows of F^-1/2 L^-1 B, (c, m).
            next_sum: Sum of the row after the chunk, 0 at the end, (m,).
            rows: Slice of the rows.
        """
        coefficients = (self._next_decay * self._retained)[rows]
        scaled = whitened / np.sqrt(self.scales[rows, None])
        sums = recurrence(coefficients, scaled, next_sum, reverse=True)
        return sums, np.concatenate([sums[1:], next_sum[None]])

    def solved(self, whitened: np.ndarray, next_sums: np.ndarray, rows: slice) -> np.ndarray:
        """Rows of T^-1 B, from rows of F^-1/2 L^-1 B and the sums s_{i+1}: (c, m)."""
        gains = (self.filtered * self._next_decay)[rows, None]
        return whitened / np.sqrt(self.scales[rows, None]) - gains * next_sums

    def slope_terms(
        self, sums: np.ndarray, next_sums: np.ndarray, next_slope: np.ndarray, rows: slice
    ) -> tuple[np.ndarray, np.ndarray]:
        """Contributions of rows to -V' (dT / d log l) V and -V' (dT / d log q) V.

        V = T^-1 B, and V' K V = sum_i (1 - a_i^2) s_i' s_i, with the decay a_i and the sums s_i of
        `backward`.

        Args:
            sums: s_i, (c, m).
            next_sums: s_{i+1}, (c, m).
            next_slope: Derivative, with respect to log l at fixed V, of the sum after the chunk,
                (m,).
            rows: Slice of the rows.

        Returns:
            The two matrices (2, m, m), and the derivative of the first sum of the chunk, (m,).
        """
        gap_slopes = np.append(self._decay_slope[1:], 0.0)[rows, None]
        sum_slopes = recurrence(
            self._next_decay[rows], gap_slopes * next_sums, next_slope, reverse=True
        )
        innovation = self.ratio * self._innovation[rows, None]
        slope = -self.ratio * (self._decay * self._decay_slope)[rows, None]
        half = sums.T @ (slope * sums + innovation * sum_slopes)
        roots = np.sqrt(innovation) * sums
        return -np.stack([half + half.T, roots.T @ roots]), sum_slopes[0]

    # -- the process at other times ----------------------------------------------------------------

    def covariance(self, x_new: np.ndarray) -> np.ndarray:
        """Covariance of u at any times x_new (M,), given all values: (M, M), in O(n M^2)."""
        explained, previous_mean = np.zeros((len(x_new), len(x_new))), np.zeros(len(x_new))
        for rows in self.chunks():
            lags = np.abs(self.x[rows, None] - x_new)
            half, previous_mean = self.forward(
                np.exp(-lags / self.lengthscale), previous_mean, rows
            )
            explained += half.T @ half
        prior = np.exp(-np.abs(x_new[:, None] - x_new) / self.lengthscale)
        return self.ratio * prior - np.square(self.ratio) * explained


def recurrence(
    coefficients: np.ndarray,
    rows: np.ndarray,
    start: np.ndarray | float = 0.0,
    *,
    reverse: bool = False,
) -> np.ndarray:
    """Solve h_i = c_i h_{i-1} + g_i, or h_i = c_i h_{i+1} + g_i in reverse.

    Args:
        coefficients: c, (n,).
        rows: g, (n, m); may be overwritten.
        start: h before the first row or, if `reverse`, after the last row, (m,).
        reverse: Run from the last row to the first.

    Returns:
        h, (n, m).
    """
    # A bidiagonal system with unit diagonal and -c beside it.
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
    """Covariance of u at times after the last value, given all values.

    It is in units of the noise variance.

    Args:
        gaps: Times since the last value, (M,).
        lengthscale: l.
        ratio: q.
        state_variance: Variance of u at the last value, given all values.

    Returns:
        Array of shape (M, M).
    """
    decay, lags = np.exp(-gaps / lengthscale), np.abs(gaps[:, None] - gaps)
    # Innovations since the last value up to the earlier of two times.
    added = np.exp(-lags / lengthscale) * -np.expm1(
        -2.0 * np.minimum.outer(gaps, gaps) / lengthscale
    )
    return ratio * added + state_variance * np.outer(decay, decay)


class InterpolationWeights:
    """Weights for u at any times, from the filter results at the observed times.

    The mean of u is forward_decay h_i + gain s_{i+1}, with the filtered means h, the sums s of
    `ResidualFilter.backward`, and i the last observed time at or before the new time.

    Attributes:
        left: i, or -1 before the first observed time, (M,).
        forward_decay: Weight of h_i, (M,).
        gain: Weight of s_{i+1}, (M,).
        variance: Variance of u given all values, in units of the noise variance, (M,).
        averages: Prior covariance of u with its average over the observed times, divided by q,
            (M,).
    """

    def __init__(self, residual: ResidualFilter, x_new: np.ndarray):
        """Compute the weights for times x_new (M,)."""
        n, q = len(residual.x), residual.ratio
        self.left = np.searchsorted(residual.x, x_new, side="right") - 1
        left, right = np.maximum(self.left, 0), np.minimum(self.left + 1, n - 1)
        left_gap = (x_new - residual.x[left]) / residual.lengthscale
        right_gap = (residual.x[right] - x_new) / residual.lengthscale
        has_left, has_right = self.left >= 0, self.left + 1 < n
        self.forward_decay = np.where(has_left, np.exp(-np.maximum(left_gap, 0.0)), 0.0)
        backward_decay = np.where(has_right, np.exp(-np.maximum(right_gap, 0.0)), 0.0)
        innovation = np.where(has_left, -np.expm1(-2.0 * np.maximum(left_gap, 0.0)), 1.0)
        # Variance of u given the values up to i, then given all values.
        variance = np.square(self.forward_decay) * residual.filtered[left] + q * innovation
        self.gain = variance * backward_decay
        # A sum of positive terms, by the next observed time; a difference would cancel if q is
        # large.
        added = np.where(has_right, -q * np.expm1(-2.0 * np.maximum(right_gap, 0.0)), q)
        predicted = np.square(backward_decay) * variance + added
        from_next = np.square(self.gain / predicted) * residual.smoothed[right]
        self.variance = variance * added / predicted + from_next
        sums = [s[i] for s, i in zip(residual.decay_sums, (left, right), strict=True)]
        self.averages = (self.forward_decay * sums[0] + backward_decay * sums[1]) / n
