"""Random levels and slopes: Brownian motion, its integral, and their base class.

They are kernels of one column, the time. Functions drawn from them are 0 at their start; add
`Constant` or `Linear` for an unknown level or slope at the start.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from numpyro.distributions import constraints

from bayeskern.hyperparameters import Hyperparameter, hyperparameter
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.means.boxes import Boxes
from bayeskern.kernels.means.lags import mean_by_quadrature
from bayeskern.kernels.pairs import with_slopes
from bayeskern.kernels.state_space.integrals import Integral
from bayeskern.kernels.state_space.space import StateSpace
from bayeskern.kernels.state_space.terms import DerivativesTerm, matrix, taylor

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


class Brownian(Trend):
    """Brownian motion, k(s, t) = variance * min(|s|, |t|).

    Times are measured from the start; k = 0 for times on different sides of it. Functions drawn
    from it are random walks in continuous time that are 0 at the start: the local level of
    structural time series models. `Matern12` is the damped, mean-reverting form.

    Args:
        variance: Variance that the function gains per unit of time, in squared units of the output
            per unit of the input.
        start: Time at which the function is 0, in the units of the inputs.

    References:
        Rasmussen and Williams (2006), appendix B.2.1, the Wiener process.

    Examples:
        >>> from bayeskern.kernels import Brownian
        >>> print(Brownian(variance=2.0)([1.0, 2.0, 3.0]))
        [[2. 2. 2.]
         [2. 4. 4.]
         [2. 4. 6.]]
    """

    offers: ClassVar[tuple[str, ...]] = ("state_space", "means", "numpy_gram")
    sentence: ClassVar[str] = "wanders like a random walk"
    is_differentiable: ClassVar[bool] = False

    variance: Hyperparameter = hyperparameter(1.0)
    start: Hyperparameter = hyperparameter(0.0, constraints.real)

    def state_space(self) -> StateSpace:
        return StateSpace((IntegratedTerm(0, self.variance, self.start),))

    def _covariance(self, s, t):
        return _on_the_same_side(s, t, jnp.minimum)

    def _covariance_of_means(self, s, t):
        # min(|s|, |t|) on one side of 0, and 0 on different sides, is (|s| + |t| - |s - t|) / 2.
        return 0.5 * (s.mean(jnp.abs) + t.mean(jnp.abs) - s.mean_of_lag(jnp.abs, t))

    @staticmethod
    def numpy_gram(parts, values, pairs):
        variance, start = next(values), next(values)
        side, unit = pairs.cached(_level, start)
        return with_slopes(variance * unit, [lambda: unit, lambda: -variance * side])


def _level(pairs, start):
    side, earlier, _ = _since(start, pairs)
    return side, np.abs(side) * earlier


class IntegratedBrownian(Trend):
    """Integrated Brownian motion, k(s, t) = variance * (m^3 / 3 + |s - t| m^2 / 2).

    Here m = min(|s|, |t|) for times measured from the start; k = 0 on different sides of it. The
    slope of functions drawn from it is a random walk (a local slope); function and slope are 0 at
    the start. If a line of unknown level and slope is added, the posterior mean given noisy data
    is a cubic smoothing spline.

    Args:
        variance: Variance that the slope gains per unit of time, in squared units of the output per
            cubed unit of the input.
        start: Time at which the function and its slope are 0, in the units of the inputs.

    References:
        Rasmussen and Williams (2006), section 6.3; Wahba (1978).

    Examples:
        >>> from bayeskern.kernels import IntegratedBrownian
        >>> print(IntegratedBrownian(variance=6.0)([1.0, 2.0]))
        [[ 2.  5.]
         [ 5. 16.]]
    """

    offers: ClassVar[tuple[str, ...]] = ("state_space", "means", "numpy_gram")
    sentence: ClassVar[str] = "has a slope that wanders like a random walk"

    variance: Hyperparameter = hyperparameter(1.0)
    start: Hyperparameter = hyperparameter(0.0, constraints.real)

    def state_space(self) -> StateSpace:
        return StateSpace((IntegratedTerm(1, self.variance, self.start),))

    def _covariance(self, s, t):
        # Two branches, because the second derivatives of a formula with jnp.minimum would be wrong
        # at s = t.
        def cubic(s, t):
            below, above = s * s * (3.0 * t - s), t * t * (3.0 * s - t)
            return jnp.where(s <= t, below, above) / 6.0

        return _on_the_same_side(s, t, cubic)

    def _covariance_of_means(self, s, t):
        # k is (|s - t|^3 - |s|^3 - |t|^3) / 12 + (|s| s t + s |t| t) / 4 for times of any sign.
        def cube(r):
            return jnp.abs(r) * r * r

        def signed_square(r):
            return jnp.abs(r) * r

        cubes = s.mean_of_lag(cube, t) - s.mean(cube) - t.mean(cube)
        middles = [times.lower + 0.5 * times.length for times in (s, t)]
        products = s.mean(signed_square) * middles[1] + middles[0] * t.mean(signed_square)
        return cubes / 12.0 + products / 4.0

    @staticmethod
    def numpy_gram(parts, values, pairs):
        variance, start = next(values), next(values)
        unit, d_start = pairs.cached(_ramp, start)
        return with_slopes(variance * unit, [lambda: unit, lambda: variance * d_start])


def _ramp(pairs, start):
    """The kernel with variance 1, and its derivative with respect to the start."""
    side, earlier, later = _since(start, pairs)
    unit = np.abs(side) * np.square(earlier) * (3.0 * later - earlier) / 6.0
    return unit, -side * earlier * later


def _since(start, pairs):
    """Side of the start, and distances from it: the smaller and the larger one.

    The side is 1 if both times are after the start, -1 if both are before it, otherwise 0.
    """
    s, t = pairs.s - start, pairs.t - start
    side = np.where((s < 0.0) == (t < 0.0), np.where(s < 0.0, -1.0, 1.0), 0.0)
    s, t = np.abs(s), np.abs(t)
    return side, np.minimum(s, t), np.maximum(s, t)


def _on_the_same_side(s, t, covariance):
    """covariance(|s|, |t|) if s and t are on the same side of 0, otherwise 0."""
    return jnp.where((s < 0.0) == (t < 0.0), covariance(jnp.abs(s), jnp.abs(t)), 0.0)


class IntegratedTerm(DerivativesTerm):
    """Brownian motion integrated `order` times; f and its derivatives start at 0."""

    order: int = eqx.field(static=True)
    variance: jax.Array
    start: jax.Array

    @property
    def starts(self) -> tuple[jax.Array, ...]:
        return (self.start,)

    def prior(self, t: jax.Array) -> jax.Array:
        return self.transition(self.start, t - self.start)[1]

    def transition(self, t: jax.Array, d: jax.Array) -> tuple[jax.Array, jax.Array]:
        def entry(i, j):
            power = i + j + 1
            return d**power / (power * math.factorial(i) * math.factorial(j))

        powers = range(self.order, -1, -1)
        Q = [[entry(i, j) for j in powers] for i in powers]
        return taylor(d, self.order), self.variance * matrix(Q)

    def integral(self, t: jax.Array, d: jax.Array, nodes: int) -> Integral:
        A, Q = IntegratedTerm(self.order + 1, self.variance, self.start).transition(t, d)
        return Integral(A[0, 1:], Q[0, 1:], Q[0, 0])
