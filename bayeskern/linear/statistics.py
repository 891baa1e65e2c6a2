"""Sufficient statistics of a linear model with Gaussian noise, in a square-root form.

All that such a model needs of n rows (x, y) are their number, their mean, and an upper triangular R
whose R'R is the scatter of the columns [x y] around it. Two such summaries merge exactly, by one
more QR factorisation: yesterday's data need not be kept.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

LOG_2PI = float(np.log(2.0 * np.pi))
# Rows that are worked on at once: few enough that they stay in the cache.
ROWS = 4096
# R comes from the Cholesky factor of the cross products where they are no worse conditioned.
ILL = 1e6


class Statistics(NamedTuple):
    """n: how many rows; mean: (p + 1,); R: (k, p + 1), k = min(n, p + 1); y is the last column.

    n is an array, so that other numbers of rows do not compile again.
    """

    n: np.ndarray
    mean: np.ndarray
    R: np.ndarray

    @classmethod
    def of(cls, X, y) -> Statistics:
        """Of rows X (n, p) and y (n,), in one pass where the columns allow it.

        Anything that is not finite leaves NaN in R.
        """
        n, p = X.shape
        if n == 0:
            return cls(np.zeros(()), np.zeros(p + 1), np.zeros((0, p + 1)))
        if n > p + 1:
            found = _by_products(X, y)
            if found is not None:
                return found
        return _by_qr(X, y)

    def merge(self, other: Statistics) -> Statistics:
        """Of both sets of rows. Chan, Golub and LeVeque (1983), equation 2.1b, by square roots."""
        if self.n == 0 or other.n == 0:
            return other if self.n == 0 else self
        n, apart = self.n + other.n, other.mean - self.mean
        between = np.sqrt(self.n * other.n / n) * apart
        mean = self.mean + apart * (other.n / n)
        return Statistics(np.asarray(n), mean, _triangle([self.R, other.R, between[None]]))

    @classmethod
    def of_features(cls, X) -> Statistics:
        """Of rows X alone, with a last column of zeros."""
        own = cls.of(X[:, :-1], X[:, -1])
        R = np.pad(own.R, ((0, 0), (0, 1)))
        return cls(own.n, np.append(own.mean, 0.0), R)

    @property
    def is_finite(self) -> bool:
        return bool(np.all(np.isfinite(self.R)) and np.all(np.isfinite(self.mean)))

    def log_likelihood(self, weights, intercept, noise):
        """log N(y; intercept + X weights, noise I), for values that may be traced."""
        error = jnp.concatenate([-weights, jnp.ones(1)])
        level = self.mean @ error - intercept
        missed = jnp.sum(jnp.square(self.R @ error)) + self.n * jnp.square(level)
        return -0.5 * (self.n * (LOG_2PI + jnp.log(noise)) + missed / noise)

    @property
    def sds(self) -> np.ndarray:
        """The standard deviations of the columns, with y last: (p + 1,)."""
        return np.linalg.norm(self.R, axis=0) / np.sqrt(max(1.0, float(self.n)))

    def around(self, center) -> np.ndarray:
        """M (k, p + 2) with M'M = Z'Z for the columns Z = [1, x - center, y] of all rows."""
        first = np.concatenate([[1.0], self.mean[:-1] - center, self.mean[-1:]])
        return _with_ones(self, first)

    def about_zero(self) -> np.ndarray:
        """M (k, p + 1) with M'M = Z'Z for the columns Z = [x, y] of all rows."""
        return _with_ones(self, self.mean)


def _with_ones(statistics, first):
    scatter = np.zeros((len(statistics.R), len(first)))
    scatter[:, len(first) - statistics.R.shape[1] :] = statistics.R
    return _triangle([np.sqrt(statistics.n) * first[None], scatter])


def _triangle(parts) -> np.ndarray:
    """The R of a QR factorisation of rows that lie over one another."""
    return np.linalg.qr(np.concatenate(parts), mode="r")


def _by_products(X, y) -> Statistics | None:
    """From the cross products of the columns; None where that would lose too many digits."""
    # Around the means of the first rows, so that an offset costs no digits.
    shift = np.append(np.mean(X[:ROWS], axis=0, dtype=float), np.mean(y[:ROWS], dtype=float))
    products, total = _products(X, y, shift)
    n = len(X)
    apart = total / n
    with np.errstate(invalid="ignore", over="ignore"):
        mean, scatter = shift + apart, products - n * np.outer(apart, apart)
    if not np.all(np.isfinite(scatter)):
        return _unknown(n, mean)
    size = np.sqrt(np.diagonal(scatter))
    if not np.all(size > 0):
        return None
    values = np.linalg.eigvalsh(scatter / np.outer(size, size))
    if not values[-1] < ILL * values[0]:
        return None
    return Statistics(np.asarray(float(n)), mean, np.linalg.cholesky(scatter).T)


def _products(X, y, shift) -> tuple[np.ndarray, np.ndarray]:
    """Z'Z and the sums of the columns of Z = [X y] - shift."""
    p = X.shape[1]
    products, total = np.zeros((p + 1, p + 1)), np.zeros(p + 1)
    room, ones = np.empty((min(ROWS, len(X)), p)), np.ones(ROWS)
    with np.errstate(invalid="ignore", over="ignore"):
        for start in range(0, len(X), ROWS):
            t = y[start : start + ROWS] - shift[p]
            x = np.subtract(X[start : start + ROWS], shift[:p], out=room[: len(t)])
            products[:p, :p] += x.T @ x
            products[:p, p] += t @ x
            products[p, p] += t @ t
            total[:p] += ones[: len(t)] @ x
            total[p] += t.sum()
    products[p, :p] = products[:p, p]
    return products, total


def _by_qr(X, y) -> Statistics:
    """From the columns themselves, chunk by chunk, around the mean of all."""
    n = len(X)
    mean = np.concatenate([np.mean(X, axis=0, dtype=float), [np.mean(y, dtype=float)]])
    if not np.all(np.isfinite(mean)):
        return _unknown(n, mean)
    R = np.zeros((0, len(mean)))
    for start in range(0, n, ROWS):
        rows = slice(start, start + ROWS)
        R = _triangle([R, np.column_stack([X[rows], y[rows]]).astype(float) - mean])
    return Statistics(np.asarray(float(n)), mean, R)


def _unknown(n: int, mean) -> Statistics:
    """Of rows that are not all finite."""
    k = len(mean)
    return Statistics(np.asarray(float(n)), mean, np.full((min(n, k), k), np.nan))
