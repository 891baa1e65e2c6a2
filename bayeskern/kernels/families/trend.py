"""Kernels of a trend: random levels and slopes, change points.

They are kernels of one column, the time. A random level or slope is 0 at its start; add `Constant`
or `Linear` for an unknown level or slope at the start.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
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
from bayeskern.kernels.means.lags import (
    LagFunction,
    mean_by_quadrature,
    mean_in_closed_form,
)
from bayeskern.kernels.state_space.space import StateSpace
from bayeskern.kernels.state_space.terms import IntegratedOrnsteinUhlenbeckTerm, IntegratedTerm

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


class IntegratedOrnsteinUhlenbeck(Trend):
    """Integral of an Ornstein-Uhlenbeck process, a slope that reverts to 0.

    k(s, t) = variance * (g(s) + g(t) - g(s - t)), where
    g(t) = lengthscale^2 (r - 1 + exp(-r)) and r = |t| / lengthscale. The slope of functions drawn
    from it has the kernel variance * exp(-r): its correlation decays over a lengthscale, and its
    variance is constant. It is the damped form of `IntegratedBrownian`. For a short lengthscale it
    approaches `Brownian` with the variance 2 * variance * lengthscale, for a long lengthscale
    straight lines.

    Args:
        lengthscale: Correlation time of the slope, in the units of the inputs.
        variance: Variance of the slope, in squared units of the output per squared unit of the
            input.
        start: Time at which the function is 0, in the units of the inputs.

    References:
        Taylor, Cumberland and Sy (1994), "A stochastic model for analysis of longitudinal AIDS
        data".

    Examples:
        >>> from bayeskern.kernels import IntegratedOrnsteinUhlenbeck
        >>> print(IntegratedOrnsteinUhlenbeck(lengthscale=2.0)([1.0, 2.0]).round(3))
        [[0.852 1.472]
         [1.472 2.943]]
    """

    lengthscale: Hyperparameter = hyperparameter(1.0)
    variance: Hyperparameter = hyperparameter(1.0)
    start: Hyperparameter = hyperparameter(0.0, constraints.real)

    def state_space(self) -> StateSpace:
        term = IntegratedOrnsteinUhlenbeckTerm(self.lengthscale, self.variance, self.start)
        return StateSpace((term,))

    def _covariance(self, s, t):
        return self._half_variogram(s) + self._half_variogram(t) - self._half_variogram(s - t)

    def _covariance_of_means(self, s, t):
        scale, zero = self.lengthscale, jnp.zeros(())
        function = IntegratedOrnsteinUhlenbeckLags()

        def mean(lower, h, g):
            unit = mean_in_closed_form(function, lower / scale, h / scale, g / scale)
            return jnp.square(scale) * unit

        means = mean(s.lower, s.length, zero) + mean(t.lower, t.length, zero)
        return means - mean(s.lower - t.lower - t.length, s.length, t.length)

    def _half_variogram(self, t):
        # t^2 is a separate factor, so that the second derivative at 0 is correct.
        return jnp.square(t) * remainder(jnp.abs(t) / self.lengthscale)


@dataclass(frozen=True)
class IntegratedOrnsteinUhlenbeckLags(LagFunction):
    """r - 1 + exp(-r), half the variogram of an integrated Ornstein-Uhlenbeck process."""

    def value(self, r: jax.Array) -> jax.Array:
        return r * r * remainder(jnp.abs(r))

    def first_integral(self, r: jax.Array) -> jax.Array:
        return 0.5 * r * r - r - jnp.expm1(-r)

    def second_integral(self, r: jax.Array) -> jax.Array:
        return r**3 / 6.0 - 0.5 * r * r + r + jnp.expm1(-r)


class LogisticTransition(eqx.Module):
    """Logistic function of time, 1 / (1 + exp(-(t - location) / width))."""

    location: jax.Array
    width: jax.Array

    def __call__(self, x):
        return jax.nn.sigmoid((x[0] - self.location) / self.width)


class ChangePoint(Kernel):
    """Kernel that changes from one kernel to another at a point in time.

    k(s, t) = (1 - w(s)) (1 - w(t)) before(s, t) + w(s) w(t) after(s, t), with the logistic function
    w(t) = 1 / (1 + exp(-(t - location) / width)). The functions before and after are independent.

    Args:
        before: The kernel before the change.
        after: The kernel after the change.
        location: Midpoint of the change, in the units of the inputs.
        width: Width of the change, in the units of the inputs: w rises from 5 % to 95 % within
            three widths on either side of the midpoint.

    References:
        Lloyd et al. (2014), "Automatic construction and natural-language description of
        nonparametric regression models", section 2; Saatci, Turner and Rasmussen (2010).

    Examples:
        >>> from bayeskern.kernels import ChangePoint, Constant
        >>> kernel = ChangePoint(Constant(1.0), Constant(4.0), location=5.0, width=0.1)
        >>> print(kernel([0.0, 4.0, 5.0, 10.0]).round(3))
        [[1.   1.   0.5  0.  ]
         [1.   1.   0.5  0.  ]
         [0.5  0.5  1.25 2.  ]
         [0.   0.   2.   4.  ]]
    """

    before: Kernel
    after: Kernel
    location: Hyperparameter = hyperparameter(0.0, constraints.real)
    width: Hyperparameter = hyperparameter(1.0)

    branches = True

    def children(self) -> list[tuple[tuple, Kernel]]:
        return [(("before",), self.before), (("after",), self.after)]

    def evaluate(self, X: jax.Array, Z: jax.Array | None = None) -> jax.Array:
        time_of(self, X)
        return self._as_sum().evaluate(X, Z)

    def evaluate_diag(self, X: jax.Array) -> jax.Array:
        time_of(self, X)
        return self._as_sum().evaluate_diag(X)

    def evaluate_means(self, X: Boxes, Z: Boxes) -> jax.Array:
        return self._as_sum().evaluate_means(X, Z)

    def features(self, X: jax.Array, degree: int | None) -> jax.Array:
        time_of(self, X)
        return self._as_sum().features(X, degree)

    def state_space(self) -> StateSpace:
        return self._as_sum().state_space()

    def _as_sum(self) -> Kernel:
        before = self.before.modulate(LogisticTransition(self.location, -self.width))
        return before + self.after.modulate(LogisticTransition(self.location, self.width))

    def _arguments(self):
        return [repr(self.before), repr(self.after), *super()._arguments()]


def _on_the_same_side(s, t, covariance):
    """covariance(|s|, |t|) if s and t are on the same side of 0, otherwise 0."""
    return jnp.where((s < 0.0) == (t < 0.0), covariance(jnp.abs(s), jnp.abs(t)), 0.0)


@lru_cache
def _remainder_series() -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (-1)^j / (j + 2)! of `remainder`, and those of its derivative.

    The series are accurate to rounding for r <= 1.
    """
    series = np.array([(-1.0) ** j / math.factorial(j + 2) for j in reversed(range(18))])
    return series, np.polyder(series)


def remainder(r, xp: ModuleType = jnp):
    """(exp(-r) - 1 + r) / r^2, which is 1/2 at 0; xp is NumPy or `jax.numpy`."""
    is_small = r < 1.0
    small, large = xp.where(is_small, r, 0.0), xp.where(is_small, 1.0, r)
    closed = (large + xp.expm1(-large)) / xp.square(large)
    return xp.where(is_small, xp.polyval(_remainder_series()[0], small), closed)


def remainder_slope(r: np.ndarray) -> np.ndarray:
    """Derivative of `remainder`, in NumPy."""
    is_small = r < 1.0
    small, large = np.where(is_small, r, 0.0), np.where(is_small, 1.0, r)
    closed = (-large - 2.0 * np.expm1(-large) - large * np.exp(-large)) / large**3
    return np.where(is_small, np.polyval(_remainder_series()[1], small), closed)
