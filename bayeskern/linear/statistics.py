"""Sufficient statistics of linear models with Gaussian noise, as square roots.

The likelihood of n rows [x y] depends on n, their mean, and an upper triangular R, where R'R is the
scatter matrix of the rows around the mean. The statistics of two sets of rows merge exactly, by
another QR factorisation, so that old rows need not be kept. If y has k columns, they come last.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import solve_triangular

from bayeskern.core import sharding, validation
from bayeskern.core.constants import LOG_2PI

# With columns scaled to norm 1, singular values below this share of the largest count as 0.
RANK_TOL = 1e-10
# Rows are summed in chunks of this size, which stay in the processor's cache.
CHUNK_ROWS = 4096


class SufficientStatistics(NamedTuple):
    """Sufficient statistics of n rows [x y] with p features.

    Attributes:
        n: The number of rows, as an array, so that JAX does not recompile for another number.
        mean: The mean of the rows, (p + 1,).
        R: Upper triangular, R'R is the scatter matrix: (min(n, p + 1), p + 1).
        log_det: log |C| if the covariance of the rows is noise * C; see `correlated`.
    """

    n: np.ndarray
    mean: np.ndarray
    R: np.ndarray
    log_det: np.ndarray | float = 0.0

    @classmethod
    def correlated(cls, X: np.ndarray, y: np.ndarray, root: np.ndarray) -> SufficientStatistics:
        """Summarise rows whose covariance is noise * C, with C = root root' and 1'C^-1 1 = n.

        Sums over rows become products with C^-1: the mean is that of generalised least squares.
        """
        rows = np.column_stack([np.ones(len(X)), X, y])
        whitened = solve_triangular(root, rows, lower=True)
        mean = whitened[:, 0] @ whitened[:, 1:] / len(X)
        R = _stacked_qr([whitened[:, 1:] - np.outer(whitened[:, 0], mean)])
        log_det = 2.0 * np.sum(np.log(root.diagonal()))
        return cls(np.asarray(float(len(X))), mean, R, np.asarray(log_det))

    @classmethod
    def of(cls, X: np.ndarray, y: np.ndarray) -> SufficientStatistics:
        """Summarise rows X (n, p) and y (n,) or (n, k).

        One pass over well-conditioned rows, two over others. R is NaN if a value is not finite.
        """
        if y.ndim == 2:
            return cls.of(np.column_stack([X, y[:, :-1]]), y[:, -1])
        n, p = X.shape
        if n == 0:
            return cls(np.zeros(()), np.zeros(p + 1), np.zeros((0, p + 1)))
        if n > p + 1:
            statistics = _summarize_by_products(X, y)
            if statistics is not None:
                return statistics
        return _summarize_by_qr(X, y)

    @classmethod
    def of_shares(cls, X: np.ndarray, y: np.ndarray) -> SufficientStatistics:
        """Summarise all rows, of which each process reads a share; all get the result."""
        first, step = sharding.processes()
        if step == 1:
            return cls.of(X, y)
        share = cls.of(X[first::step], y[first::step])
        R = np.pad(share.R, ((0, len(share.mean) - len(share.R)), (0, 0)))
        shares = [cls(*s) for s in sharding.gather((share.n, share.mean, R))]
        return reduce(lambda a, b: a.merge(b), shares)

    def merge(self, other: SufficientStatistics) -> SufficientStatistics:
        """Statistics of both sets of rows together.

        Chan, Golub and LeVeque (1983), equation 2.1b, with square roots of the scatter matrices:
        R'R = R_1'R_1 + R_2'R_2 + n_1 n_2 / n d d', where d is the difference of the means.
        """
        if self.n == 0 or other.n == 0:
            return other if self.n == 0 else self
        n, difference = self.n + other.n, other.mean - self.mean
        between = np.sqrt(self.n * other.n / n) * difference
        mean = self.mean + difference * (other.n / n)
        return SufficientStatistics(
            np.asarray(n), mean, _stacked_qr([self.R, other.R, between[None]])
        )

    @classmethod
    def of_features(cls, X: np.ndarray) -> SufficientStatistics:
        """Summarise rows of features X, with y = 0."""
        features = cls.of(X[:, :-1], X[:, -1])
        R = np.pad(features.R, ((0, 0), (0, 1)))
        return cls(features.n, np.append(features.mean, 0.0), R)

    @property
    def is_finite(self) -> bool:
        """True if all rows and their squares were finite."""
        return bool(np.all(np.isfinite(self.R)) and np.all(np.isfinite(self.mean)))

    def log_likelihood(self, weights, intercept, noise) -> jax.Array:
        """log N(y; intercept + X weights, noise I); the arguments may be traced."""
        # The error of a row is y - weights'x - intercept = [x y] @ error - intercept.
        error = jnp.concatenate([-weights, jnp.ones(1)])
        mean_error = self.mean @ error - intercept
        squared_error = jnp.sum(jnp.square(self.R @ error)) + self.n * jnp.square(mean_error)
        log_normalizer = self.n * (LOG_2PI + jnp.log(noise)) + self.log_det
        return -0.5 * (log_normalizer + squared_error / noise)

    @property
    def sds(self) -> np.ndarray:
        """The standard deviations of the columns, with y last: (p + 1,)."""
        return np.linalg.norm(self.R, axis=0) / np.sqrt(max(1.0, float(self.n)))

    def around(self, center: np.ndarray) -> np.ndarray:
        """M (k, p + 2) with M'M = Z'Z for the columns Z = [1, x - center, y] of all rows."""
        p = len(center)
        mean_row = np.concatenate([[1.0], self.mean[:p] - center, self.mean[p:]])
        return _with_mean_row(self, mean_row)

    def about_zero(self) -> np.ndarray:
        """M (k, p + 1) with M'M = Z'Z for the columns Z = [x, y] of all rows."""
        return _with_mean_row(self, self.mean)


def _with_mean_row(statistics: SufficientStatistics, mean_row: np.ndarray) -> np.ndarray:
    """M with M'M = Z'Z, from the mean row of Z (n, ...) and the scatter around it."""
    scatter = np.zeros((len(statistics.R), len(mean_row)))
    scatter[:, len(mean_row) - statistics.R.shape[1] :] = statistics.R
    return _stacked_qr([np.sqrt(statistics.n) * mean_row[None], scatter])


def _stacked_qr(blocks) -> np.ndarray:
    """R of the QR factorisation of stacked blocks of rows."""
    return np.linalg.qr(np.concatenate(blocks), mode="r")


def _summarize_by_products(X, y) -> SufficientStatistics | None:
    """Summarise rows by cross products of columns; None if these are ill-conditioned."""
    # Subtract the mean of the first rows, so that columns with a large mean lose no digits.
    shift = np.append(
        np.mean(X[:CHUNK_ROWS], axis=0, dtype=float), np.mean(y[:CHUNK_ROWS], dtype=float)
    )
    products, total = _products(X, y, shift)
    n = len(X)
    shifted_mean = total / n
    with np.errstate(invalid="ignore", over="ignore"):
        mean = shift + shifted_mean
        scatter = products - n * np.outer(shifted_mean, shifted_mean)
    if not np.all(np.isfinite(scatter)):
        return _not_finite(n, mean)
    norms = np.sqrt(np.diagonal(scatter))
    if not np.all(norms > 0):
        return None
    eigenvalues = np.linalg.eigvalsh(scatter / np.outer(norms, norms))
    # With a larger condition number, cross products lose too many digits.
    if not eigenvalues[-1] < 1e6 * eigenvalues[0]:
        return None
    return SufficientStatistics(np.asarray(float(n)), mean, np.linalg.cholesky(scatter).T)


def _products(X, y, shift) -> tuple[np.ndarray, np.ndarray]:
    """Z'Z and the sums of the columns of Z = [X y] - shift."""
    p = X.shape[1]
    products, total = np.zeros((p + 1, p + 1)), np.zeros(p + 1)
    buffer, ones = np.empty((min(CHUNK_ROWS, len(X)), p)), np.ones(CHUNK_ROWS)
    with np.errstate(invalid="ignore", over="ignore"):
        for start in range(0, len(X), CHUNK_ROWS):
            t = y[start : start + CHUNK_ROWS] - shift[p]
            x = np.subtract(X[start : start + CHUNK_ROWS], shift[:p], out=buffer[: len(t)])
            products[:p, :p] += x.T @ x
            products[:p, p] += t @ x
            products[p, p] += t @ t
            total[:p] += ones[: len(t)] @ x
            total[p] += t.sum()
    products[p, :p] = products[:p, p]
    return products, total


def _summarize_by_qr(X, y) -> SufficientStatistics:
    """Summarise rows by QR factorisations of chunks, minus the mean of all rows."""
    n = len(X)
    mean = np.concatenate([np.mean(X, axis=0, dtype=float), [np.mean(y, dtype=float)]])
    if not np.all(np.isfinite(mean)):
        return _not_finite(n, mean)
    R = np.zeros((0, len(mean)))
    for start in range(0, n, CHUNK_ROWS):
        rows = slice(start, start + CHUNK_ROWS)
        R = _stacked_qr([R, np.column_stack([X[rows], y[rows]]).astype(float) - mean])
    return SufficientStatistics(np.asarray(float(n)), mean, R)


def _not_finite(n: int, mean) -> SufficientStatistics:
    """Statistics with R = NaN, for rows that are not all finite."""
    k = len(mean)
    return SufficientStatistics(np.asarray(float(n)), mean, np.full((min(n, k), k), np.nan))


def require_finite(statistics: SufficientStatistics, X: np.ndarray) -> None:
    """Raise ValueError with the first row that is not finite, or if squares overflow."""
    if not statistics.is_finite:
        validation.finite(X, "X")
        raise ValueError("X has values so large that their squares overflow: use larger units.")


def pooled(sds: np.ndarray) -> float:
    """The pooled sd of several outputs: the root mean square of their sds."""
    return float(np.linalg.norm(sds) / np.sqrt(len(sds)))


def collinear_columns(
    statistics: SufficientStatistics, centered: bool, names: Sequence[str]
) -> str | None:
    """The names of columns in an exact linear relation, or None."""
    M = (statistics.R if centered else statistics.about_zero())[:, : len(names)]
    norms = np.linalg.norm(M, axis=0)
    _, S, Vt = np.linalg.svd(M / np.where(norms > 0, norms, 1.0))
    if len(S) == 0 or S[-1] > RANK_TOL * S[0]:
        return None
    in_relation = np.abs(Vt[-1]) > 1e-6
    return ", ".join(repr(name) for name, part in zip(names, in_relation, strict=True) if part)
