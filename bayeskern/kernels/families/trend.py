"""Kernels of a trend: levels and slopes that wander, and changes from one kernel to another.

They are functions of time, one column. Up to its start a level or a slope that wanders is known;
`Constant` and `Linear` beside it say how far it may be from 0 there.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import constraints

from bayeskern.hyperparameters import Hyperparameter, hyperparameter
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.state_space.space import StateSpace
from bayeskern.kernels.state_space.terms import IntegratedOrnsteinUhlenbeckTerm, IntegratedTerm


def time_of(kernel: Kernel, X, start=0.0):
    """The one column of X, as time since the start: (n,)."""
    if X.shape[1] != 1:
        raise ValueError(
            f"{type(kernel).__name__} is a kernel of one column, a time, but the points have "
            f"{X.shape[1]} columns; say which one it takes with .on(column)."
        )
    return X[:, 0] - start


class Trend(Kernel):
    """A function of the time since `start`, where it is 0."""

    @abstractmethod
    def _covariance(self, s, t):
        """The covariance at times s and t since the start, arrays that broadcast."""

    def evaluate(self, X, Z=None):
        t = time_of(self, X, self.start)
        s = t if Z is None else time_of(self, Z, self.start)
        return self.variance * self._covariance(t[:, None], s[None, :])

    def evaluate_diag(self, X):
        t = time_of(self, X, self.start)
        return self.variance * self._covariance(t, t)


class Brownian(Trend):
    """Brownian motion, k(s, t) = variance * min(|s|, |t|) on the same side of the start, else 0.

    Functions drawn from it are random walks in continuous time, 0 at the start: a local level.
    Matern12 is its damped form, which is pulled back to its mean.

    Args:
        variance: The variance that the function gains in a unit of time, in the squared units of
            the output over those of the input.
        start: Where the function is 0, in the units of the inputs.

    References:
        Rasmussen and Williams (2006), appendix B.2.1, the Wiener process.

    Examples:
        >>> from bayeskern.kernels import Brownian
        >>> print(Brownian(variance=2.0)([1.0, 2.0, 3.0]))
        [[2. 2. 2.]
         [2. 4. 4.]
         [2. 4. 6.]]
    """

    variance: Hyperparameter = hyperparameter(1.0)
    start: Hyperparameter = hyperparameter(0.0, constraints.real)

    def state_space(self):
        return StateSpace((IntegratedTerm(0, self.variance, self.start),))

    def _covariance(self, s, t):
        return _on_the_same_side(s, t, jnp.minimum)


class IntegratedBrownian(Trend):
    """Integrated Brownian motion, k(s, t) = variance * (m^3 / 3 + |s - t| m^2 / 2).

    Here m = min(|s|, |t|) on the same side of the start, else k = 0. The slope of the functions
    drawn from it is a random walk, 0 at the start as they are themselves: a local slope. With a
    line of unknown level and slope beside it, the mean given noisy data is a cubic smoothing
    spline.

    Args:
        variance: The variance that the slope gains in a unit of time, in the squared units of the
            output over the cubed ones of the input.
        start: Where the function and its slope are 0, in the units of the inputs.

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

    def state_space(self):
        return StateSpace((IntegratedTerm(1, self.variance, self.start),))

    def _covariance(self, s, t):
        # Branches rather than the minimum, whose derivatives at s = t are those of neither.
        def cubic(s, t):
            below, above = s * s * (3.0 * t - s), t * t * (3.0 * s - t)
            return jnp.where(s <= t, below, above) / 6.0

        return _on_the_same_side(s, t, cubic)


class IntegratedOrnsteinUhlenbeck(Trend):
    """Integral of an Ornstein-Uhlenbeck process, a slope that is pulled back to 0.

    k(s, t) = variance * (g(s) + g(t) - g(s - t)), where
    g(t) = lengthscale^2 (r - 1 + exp(-r)) and r = |t| / lengthscale. The slope of the functions
    drawn from it has the kernel variance * exp(-r): it is forgotten over a lengthscale, and is no
    more certain at the start than elsewhere. It is the damped form of `IntegratedBrownian`. For a
    short lengthscale the functions are Brownian motion with variance 2 variance lengthscale, for a
    long one they are straight lines.

    Args:
        lengthscale: How long a slope lasts, in the units of the inputs.
        variance: The variance of the slope, in the squared units of the output over those of the
            input.
        start: Where the function is 0, in the units of the inputs.

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

    def state_space(self):
        term = IntegratedOrnsteinUhlenbeckTerm(self.lengthscale, self.variance, self.start)
        return StateSpace((term,))

    def _covariance(self, s, t):
        return self._half_variogram(s) + self._half_variogram(t) - self._half_variogram(s - t)

    def _half_variogram(self, t):
        # The square of t stands alone, so that the second derivative at 0 is right.
        return jnp.square(t) * remainder(jnp.abs(t) / self.lengthscale)


class LogisticTransition(eqx.Module):
    """1 / (1 + exp(-(t - location) / width)) of a time t; it falls where the width is negative."""

    location: jax.Array
    width: jax.Array

    def __call__(self, x):
        return jax.nn.sigmoid((x[0] - self.location) / self.width)


class ChangePoint(Kernel):
    """One kernel before a point in time and another after it.

    k(s, t) = (1 - w(s)) (1 - w(t)) before(s, t) + w(s) w(t) after(s, t), with the logistic function
    w(t) = 1 / (1 + exp(-(t - location) / width)). The functions on either side are independent.

    Args:
        before: The kernel before the change.
        after: The kernel after it.
        location: When the change is half over, in the units of the inputs.
        width: How long it takes, in the units of the inputs: nine tenths of it lie within three
            widths on either side.

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

    def children(self):
        return [(("before",), self.before), (("after",), self.after)]

    def evaluate(self, X, Z=None):
        time_of(self, X)
        return self._as_sum().evaluate(X, Z)

    def evaluate_diag(self, X):
        time_of(self, X)
        return self._as_sum().evaluate_diag(X)

    def features(self, X, degree):
        time_of(self, X)
        return self._as_sum().features(X, degree)

    def state_space(self):
        return self._as_sum().state_space()

    def _as_sum(self) -> Kernel:
        fading = self.before.modulate(LogisticTransition(self.location, -self.width))
        return fading + self.after.modulate(LogisticTransition(self.location, self.width))

    def _arguments(self):
        return [repr(self.before), repr(self.after), *super()._arguments()]


def _on_the_same_side(s, t, covariance):
    """covariance(|s|, |t|) where both lie on one side of 0, and 0 elsewhere."""
    return jnp.where((s < 0.0) == (t < 0.0), covariance(jnp.abs(s), jnp.abs(t)), 0.0)


# (exp(-r) - 1 + r) / r^2 = sum_j (-r)^j / (j + 2)!, to the last digit for r <= 1.
SERIES = np.array([(-1.0) ** j / math.factorial(j + 2) for j in reversed(range(18))])
SLOPE_OF_SERIES = np.polyder(SERIES)


def remainder(r, xp=jnp):
    """(exp(-r) - 1 + r) / r^2, which is 1/2 at 0. xp: NumPy or JAX's."""
    small = r < 1.0
    near, far = xp.where(small, r, 0.0), xp.where(small, 1.0, r)
    closed = (far + xp.expm1(-far)) / xp.square(far)
    return xp.where(small, xp.polyval(SERIES, near), closed)


def remainder_slope(r) -> np.ndarray:
    """The derivative of `remainder`, in NumPy."""
    small = r < 1.0
    near, far = np.where(small, r, 0.0), np.where(small, 1.0, r)
    closed = (-far - 2.0 * np.expm1(-far) - far * np.exp(-far)) / far**3
    return np.where(small, np.polyval(SLOPE_OF_SERIES, near), closed)
