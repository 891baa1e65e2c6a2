"""Base class of random levels and slopes, kernels of one column, the time.

Functions drawn from them are 0 at their start; add `Constant` or `Linear` for an unknown level or
slope at the start.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from bayeskern.hyperparameters import Hyperparameter
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.means.boxes import Boxes
from bayeskern.kernels.means.lags import mean_by_quadrature

# Gauss-Legendre nodes that make means of piecewise polynomials of degree 4 exact.
PIECEWISE_NODES = 3


def time_of(kernel: Kernel, X: jax.Array, start: ArrayLike = 0.0) -> jax.Array:
    """The single column of X, as time since the start: (n,)."""
    if X.shape[1] != 1:
        raise ValueError(
            f"{type(kernel).__name__} is a kernel of one column, a time, but the points have "
            f"{X.shape[1]} columns; select the column with .on(column)."
        )
    return X[:, 0] - start


class Times(NamedTuple):
    """Intervals of time, arrays that broadcast.

    Attributes:
        lower: Starts of the intervals.
        length: Lengths of the intervals, 0 for a point.
    """

    lower: jax.Array
    length: jax.Array

    def mean(self, f: Callable) -> jax.Array:
        """Means of a piecewise polynomial f of degree 4 at most with a kink at time 0."""
        return mean_by_quadrature(f, self.lower, self.length, jnp.zeros(()), PIECEWISE_NODES)

    def mean_of_lag(self, f: Callable, other: Times) -> jax.Array:
        """Means of f(s - t), for a piecewise polynomial f as in `mean`."""
        r0 = self.lower - other.lower - other.length
        return mean_by_quadrature(f, r0, self.length, other.length, PIECEWISE_NODES)


class Trend(Kernel):
    """Base of kernels whose functions are 0 at a time `start`."""

    if TYPE_CHECKING:
        variance: Hyperparameter
        start: Hyperparameter

    @abstractmethod
    def _covariance(self, s: jax.Array, t: jax.Array) -> jax.Array:
        """Covariance for variance 1 at times s and t since the start; they broadcast."""

    @abstractmethod
    def _covariance_of_means(self, s: Times, t: Times) -> jax.Array:
        """Covariance for variance 1 of means over intervals of times since the start."""

    def evaluate_means(self, X: Boxes, Z: Boxes) -> jax.Array:
        if not X.columns:
            return super().evaluate_means(X, Z)
        s = Times(time_of(self, X.lower, self.start)[:, None], X.sides)
        t = Times(time_of(self, Z.lower, self.start)[None, :], Z.sides.T)
        return self.variance * self._covariance_of_means(s, t)

    def evaluate(self, X: jax.Array, Z: jax.Array | None = None) -> jax.Array:
        t = time_of(self, X, self.start)
        s = t if Z is None else time_of(self, Z, self.start)
        return self.variance * self._covariance(t[:, None], s[None, :])

    def evaluate_diag(self, X: jax.Array) -> jax.Array:
        t = time_of(self, X, self.start)
        return self.variance * self._covariance(t, t)
