"""Kernel that changes at a point in time."""

from __future__ import annotations

import equinox as eqx
import jax
from numpyro.distributions import constraints
from scipy.special import expit

from bayeskern.hyperparameters import Hyperparameter, hyperparameter
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.description import InputAxis
from bayeskern.kernels.families.trend import time_of
from bayeskern.kernels.means.boxes import Boxes
from bayeskern.kernels.state_space.space import StateSpace


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

    @staticmethod
    def numpy_gram(parts, values, pairs):
        location, width = next(values), next(values)
        before, pull_before = parts[0].evaluate(values, pairs)
        after, pull_after = parts[1].evaluate(values, pairs)
        before, after = pairs.spread(before), pairs.spread(after)
        s, t = (pairs.s - location) / width, (pairs.t - location) / width
        u, v = expit(s), expit(t)
        # Derivatives of u = expit(s) with respect to s and v = expit(t) with respect to t.
        du, dv = u * (1.0 - u), v * (1.0 - v)
        weight_before, weight_after = (1.0 - u) * (1.0 - v), u * v

        def directional(ds, dt):
            """Derivative of the Gram matrix by the chain rule, for derivatives ds and dt."""
            d_before = -ds * du * (1.0 - v) - (1.0 - u) * dt * dv
            d_after = ds * du * v + u * dt * dv
            return d_before * before + d_after * after

        def pullback(w):
            return [
                lambda: w.dot(directional(-1.0 / width, -1.0 / width)),
                lambda: w.dot(directional(-s / width, -t / width)),
                *pull_before(w.times(weight_before)),
                *pull_after(w.times(weight_after)),
            ]

        return weight_before * before + weight_after * after, pullback

    def describe(self, axis: InputAxis) -> str:
        before, after = self.before.describe(axis), self.after.describe(axis)
        return f"{before} until about {axis.span(self.location)}, and {after} from then on"

    def _as_sum(self) -> Kernel:
        before = self.before.modulate(LogisticTransition(self.location, -self.width))
        return before + self.after.modulate(LogisticTransition(self.location, self.width))

    def _arguments(self):
        return [repr(self.before), repr(self.after), *super()._arguments()]
