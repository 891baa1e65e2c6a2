"""Gram matrices of functions of time with their derivatives, in NumPy: nothing is compiled.

The formulas are those of the kernels, each with its derivative in every hyperparameter. For a few
hundred values they take less time than JAX needs to look up what it has compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cached_property, singledispatch

import numpy as np
from scipy.special import expit, i0e, i1e

from bayeskern.kernels import base, dot_product, periodic, stationary, trend
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.components import component_names

# What computes a derivative when it is wanted.
Derivative = Callable[[], np.ndarray]
# From an iterator over values of the hyperparameters, and pairs of times, to a Gram matrix and its
# derivatives.
Formula = Callable[[Iterator[float], "Pairs"], tuple[np.ndarray, list[Derivative]]]
# Lags that differ by less than this share of the longest are rounded from the same one.
SAME = 1e-9
# The most different lags for each time, for which it pays to take them one by one.
FEW = 8


class Pairs:
    """Pairs of times s and t, arrays that broadcast, and what several kernels need of them.

    Attributes:
        lag: s - t. Where `between` has found that few lags occur, it holds each of them once.
        index: The place in `lag` of each pair then, else None.
    """

    def __init__(self, s, t):
        self.s, self.t, self.lag, self.index = s, t, s - t, None
        self._kept = {}

    @classmethod
    def between(cls, x, x_new) -> Pairs:
        """All pairs of times x (n,) and x_new (m,): (n, m).

        Each lag is looked at once where the steps are regular, gaps or not.
        """
        pairs = cls(x[:, None], x_new[None, :])
        longest = np.abs(pairs.lag).max(initial=0.0)
        steps = np.rint(pairs.lag / (SAME * longest or 1.0))
        lags, first, index = np.unique(steps, return_index=True, return_inverse=True)
        if len(lags) <= FEW * max(steps.shape):
            pairs.lag, pairs.index = pairs.lag.ravel()[first], index.reshape(steps.shape)
        return pairs

    def spread(self, values) -> np.ndarray:
        """Values at the lags, or at the pairs, as values at the pairs."""
        if self.index is None or values.shape != self.lag.shape:
            return values
        return values.take(self.index)

    def contract(self, weights) -> Callable[[np.ndarray], float]:
        """A function of values, at the lags or at the pairs: sum_ij weights_ij values_ij."""
        if self.index is None:
            return lambda values: np.vdot(weights, values)
        by_lag = np.bincount(self.index.ravel(), weights.ravel(), len(self.lag))
        return lambda values: np.vdot(by_lag if values.shape == by_lag.shape else weights, values)

    @cached_property
    def squared_lag(self) -> np.ndarray:
        return np.square(self.lag)

    def kept(self, function: Callable, *values):
        """function(pairs, *values), which is kept for as long as the same values come again."""
        known = self._kept.get(function)
        if known is None or known[0] != values:
            # One assignment, since several threads may look at the same pairs.
            known = self._kept[function] = values, function(self, *values)
        return known[1]


class Gram:
    """The formulas of a kernel and of its additive components, read from it once."""

    def __init__(self, kernel: Kernel):
        """Raises NotImplementedError if a part of the kernel has no formula here."""
        terms = kernel.terms if isinstance(kernel, base.Sum) else (kernel,)
        if any(len(component_names(term)) > 1 for term in terms):
            raise NotImplementedError("a product or a multiple of several named terms")
        self._whole = _formula(kernel)
        self._parts = [(*component_names(term), _formula(term)) for term in terms]

    def __call__(self, values, pairs: Pairs) -> tuple[np.ndarray, list[Derivative]]:
        """k(s, t) and its derivative in each hyperparameter, at the lags or, if need be, the pairs.

        values: one for each of the `sites` of the kernel, in their order, which is that of the
        derivatives too; those that the kernel holds do not count.
        """
        return self._whole(iter(values), pairs)

    def of_components(self, values, pairs: Pairs) -> dict[str, np.ndarray]:
        """k(s, t) of each component by its name, at the pairs; they add up to the whole."""
        values, grams = iter(values), {}
        for name, formula in self._parts:
            K = pairs.spread(formula(values, pairs)[0])
            grams[name] = grams[name] + K if name in grams else K
        return grams


@singledispatch
def _formula(kernel) -> Formula:
    raise NotImplementedError(type(kernel).__name__)


# -- kernels made of others ------------------------------------------------------------------------


@_formula.register
def _(kernel: base.Sum) -> Formula:
    formulas = [_formula(term) for term in kernel.terms]

    def gram(values, pairs):
        grams, derivatives = zip(*(f(values, pairs) for f in formulas), strict=True)
        # What depends on the lag alone is added up before it is spread over the pairs.
        at_lags = sum(K for K in grams if K.shape == pairs.lag.shape)
        at_pairs = [K for K in grams if K.shape != pairs.lag.shape]
        total = pairs.spread(np.asarray(at_lags)) + sum(at_pairs) if at_pairs else at_lags
        return total, [d for of_term in derivatives for d in of_term]

    return gram


@_formula.register
def _(kernel: base.Product) -> Formula:
    formulas = [_formula(term) for term in kernel.terms]

    def gram(values, pairs):
        grams, derivatives = zip(*(f(values, pairs) for f in formulas), strict=True)
        if any(K.shape != pairs.lag.shape for K in grams):
            grams = [pairs.spread(K) for K in grams]
            derivatives = [[_spread(pairs, d) for d in of_term] for of_term in derivatives]
        by_rule = []
        for i, of_term in enumerate(derivatives):
            others = math.prod([*grams[:i], *grams[i + 1 :]])
            by_rule += [_times(others, d) for d in of_term]
        return math.prod(grams), by_rule

    return gram


@_formula.register
def _(kernel: base.Scaled) -> Formula:
    inner = _formula(kernel.inner)

    def gram(values, pairs):
        scale = next(values)
        K, derivatives = inner(values, pairs)
        return scale * K, [lambda: K, *(_times(scale, d) for d in derivatives)]

    return gram


@_formula.register
def _(kernel: base.Named) -> Formula:
    return _formula(kernel.inner)


def _spread(pairs: Pairs, derivative: Derivative) -> Derivative:
    return lambda: pairs.spread(derivative())


def _times(factor, derivative: Derivative) -> Derivative:
    return lambda: factor * derivative()


def _leaf(kind: type[Kernel]):
    """Register the formula of a kernel that is made of no others."""

    def register(formula: Formula) -> Formula:
        _formula.register(kind)(lambda kernel: formula)
        return formula

    return register


# -- kernels ---------------------------------------------------------------------------------------


@_leaf(base.Constant)
def _(values, pairs):
    variance, ones = next(values), np.ones(pairs.lag.shape)
    return variance * ones, [lambda: ones]


@_leaf(dot_product.Linear)
def _(values, pairs):
    variance, center = next(values), next(values)
    products = pairs.kept(_products, center)

    def in_center():
        return -variance * (pairs.s + pairs.t - 2.0 * center)

    return variance * products, [lambda: products, in_center]


def _products(pairs, center):
    return (pairs.s - center) * (pairs.t - center)


@_leaf(stationary.RBF)
def _(values, pairs):
    lengthscale, variance = next(values), next(values)
    squares = pairs.squared_lag / lengthscale**2
    unit = np.exp(-0.5 * squares)
    K = variance * unit
    return K, [lambda: K * squares / lengthscale, lambda: unit]


@_leaf(stationary.Matern12)
def _(values, pairs):
    lengthscale, variance = next(values), next(values)
    r = np.abs(pairs.lag) / lengthscale
    unit = np.exp(-r)
    return variance * unit, [lambda: variance * unit * r / lengthscale, lambda: unit]


@_leaf(periodic.Periodic)
def _(values, pairs):
    period, lengthscale, variance = next(values), next(values), next(values)
    angle = np.pi * pairs.lag / period
    squares = 2.0 * np.square(np.sin(angle)) / lengthscale**2
    unit = np.exp(-squares)
    K = variance * unit

    def in_period():
        return K * 2.0 * np.sin(2.0 * angle) / lengthscale**2 * angle / period

    return K, [in_period, lambda: 2.0 * K * squares / lengthscale, lambda: unit]


@_leaf(periodic.Seasonal)
def _(values, pairs):
    period, lengthscale, variance = next(values), next(values), next(values)
    angle, a = np.pi * pairs.lag / period, 1.0 / lengthscale**2
    waves = 2.0 * np.square(np.sin(angle))
    falls, size = np.expm1(-a * waves), periodic.variation(a, i0e, np)
    unit = 1.0 + falls / size

    def in_period():
        by_angle = 2.0 * a * (1.0 + falls) * np.sin(2.0 * angle)
        return variance / size * by_angle * angle / period

    def in_lengthscale():
        # Through a, for which d a / d lengthscale = -2 a / lengthscale.
        in_a = -waves * (1.0 + falls) - (i0e(a) - i1e(a)) * falls / size
        return -2.0 * variance * a / lengthscale * in_a / size

    return variance * unit, [in_period, in_lengthscale, lambda: unit]


@_leaf(periodic.Cosine)
def _(values, pairs):
    period, variance = next(values), next(values)
    angle = 2.0 * np.pi * pairs.lag / period
    unit = np.cos(angle)
    return variance * unit, [lambda: variance * np.sin(angle) * angle / period, lambda: unit]


@_leaf(trend.Brownian)
def _(values, pairs):
    variance, start = next(values), next(values)
    side, unit = pairs.kept(_level, start)
    return variance * unit, [lambda: unit, lambda: -variance * side]


def _level(pairs, start):
    side, earlier, _ = _since(start, pairs)
    return side, np.abs(side) * earlier


@_leaf(trend.IntegratedBrownian)
def _(values, pairs):
    variance, start = next(values), next(values)
    unit, in_start = pairs.kept(_slope, start)
    return variance * unit, [lambda: unit, lambda: variance * in_start]


def _slope(pairs, start):
    """The kernel of a unit variance, and its derivative in the start."""
    side, earlier, later = _since(start, pairs)
    unit = np.abs(side) * np.square(earlier) * (3.0 * later - earlier) / 6.0
    return unit, -side * earlier * later


@_leaf(trend.IntegratedOrnsteinUhlenbeck)
def _(values, pairs):
    lengthscale, variance, start = next(values), next(values), next(values)
    s, t = pairs.s - start, pairs.t - start

    def at_all(function):
        """function(s) + function(t) - function(s - t), at the pairs."""
        # All at once: there are few of them, and each step of Python costs as much as a hundred.
        together = function(np.concatenate([s, t, pairs.lag], axis=None))
        of_s, of_t, of_lag = np.split(together, [s.size, s.size + t.size])
        of_lag = pairs.spread(of_lag.reshape(pairs.lag.shape))
        return of_s.reshape(s.shape) + of_t.reshape(t.shape) - of_lag

    def in_lengthscale(t):
        r = np.abs(t) / lengthscale
        return -np.square(t) * r / lengthscale * trend.remainder_slope(r)

    def in_start(t):
        return lengthscale * np.sign(t) * np.expm1(-np.abs(t) / lengthscale)

    unit = at_all(lambda t: np.square(t) * trend.remainder(np.abs(t) / lengthscale, np))
    return variance * unit, [
        lambda: variance * at_all(in_lengthscale),
        lambda: unit,
        lambda: variance * (in_start(s) + in_start(t)),
    ]


@_formula.register
def _(kernel: trend.ChangePoint) -> Formula:
    before, after = _formula(kernel.before), _formula(kernel.after)

    def gram(values, pairs):
        own = next(values), next(values)
        return _change(*own, before(values, pairs), after(values, pairs), pairs)

    return gram


def _change(location, width, of_before, of_after, pairs):
    (before, of_before), (after, of_after) = of_before, of_after
    s, t = (pairs.s - location) / width, (pairs.t - location) / width
    u, v = expit(s), expit(t)
    # The derivatives of u and v in their arguments.
    du, dv = u * (1.0 - u), v * (1.0 - v)
    off, on = (1.0 - u) * (1.0 - v), u * v

    def along(of_s, of_t):
        """The derivative where the arguments of u and v change at these rates."""
        falls = -of_s * du * (1.0 - v) - (1.0 - u) * of_t * dv
        rises = of_s * du * v + u * of_t * dv
        return falls * pairs.spread(before) + rises * pairs.spread(after)

    return off * pairs.spread(before) + on * pairs.spread(after), [
        lambda: along(-1.0 / width, -1.0 / width),
        lambda: along(-s / width, -t / width),
        *(_times(off, _spread(pairs, d)) for d in of_before),
        *(_times(on, _spread(pairs, d)) for d in of_after),
    ]


def _since(start, pairs):
    """Which side of the start both times lie on (0 if not one), the earlier and the later."""
    s, t = pairs.s - start, pairs.t - start
    side = np.where((s < 0.0) == (t < 0.0), np.where(s < 0.0, -1.0, 1.0), 0.0)
    s, t = np.abs(s), np.abs(t)
    return side, np.minimum(s, t), np.maximum(s, t)
