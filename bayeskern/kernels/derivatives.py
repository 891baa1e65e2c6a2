"""Gram matrices of kernels of time, and their derivatives, in NumPy.

Nothing is compiled: for a few hundred values this takes less time than JAX needs to look up a
compiled program. Derivatives are computed in reverse mode: weights A of the pairs give the
derivatives (slopes) of sum_ij A_ij k(x_i, x_j) with respect to each hyperparameter. Each factor of
a product is therefore weighted once, and weights are summed over equal lags before they are
multiplied by a function of the lag alone.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from functools import cached_property, partial, reduce
from typing import NamedTuple

import numpy as np
from scipy.special import expit, i0e, i1e

from bayeskern.kernels import base
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.components import component_names
from bayeskern.kernels.families import dot_product, matern, periodic, stationary, trend

# Function that computes a derivative when it is called.
Slope = Callable[[], float]
# Function from weights of the pairs to the slopes with respect to each hyperparameter.
Pullback = Callable[["PairWeights"], list[Slope]]
# A Gram matrix and its pullback. The matrix is an array over the lags, an array over the pairs, or
# one number for all pairs.
Evaluation = tuple[np.ndarray, Pullback]


class Pairs:
    """Pairs of times s and t, arrays that broadcast, with a cache that kernels share.

    Attributes:
        s: First times.
        t: Second times.
        lag: s - t of all pairs; if `index` is not None, only the distinct lags.
        index: Index in `lag` of each pair, if there are few distinct lags; otherwise None.
        are_same: True if s and t are the same points; False if at most their times agree.
    """

    #: Lags that differ by less than this share of the longest lag are treated as equal.
    LAG_TOL = 1e-9
    #: Functions are evaluated at the distinct lags if there are at most this many per time.
    MAX_LAGS_PER_TIME = 8

    are_same = False

    def __init__(self, s: np.ndarray, t: np.ndarray):
        self.s, self.t, self.lag, self.index = s, t, s - t, None
        self._cache = {}

    @classmethod
    def between(cls, x: np.ndarray, x_new: np.ndarray) -> Pairs:
        """All pairs of times x (n,) and x_new (m,): (n, m).

        If the steps are regular, with or without gaps, each distinct lag is computed once.
        """
        pairs = cls(x[:, None], x_new[None, :])
        longest = np.abs(pairs.lag).max(initial=0.0)
        steps = np.rint(pairs.lag / (cls.LAG_TOL * longest or 1.0))
        lags, first, index = np.unique(steps, return_index=True, return_inverse=True)
        if len(lags) <= cls.MAX_LAGS_PER_TIME * max(steps.shape):
            pairs.lag, pairs.index = pairs.lag.ravel()[first], index.reshape(steps.shape)
        return pairs

    @classmethod
    def among(cls, x: np.ndarray) -> Pairs:
        """All pairs of times x (n,) with themselves: (n, n)."""
        pairs = cls.between(x, x)
        pairs.are_same = True
        return pairs

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Values at the pairs, from values at the lags; other values are returned unchanged."""
        if self.index is None or values.shape != self.lag.shape:
            return values
        return values.take(self.index)

    @cached_property
    def squared_lag(self) -> np.ndarray:
        """Squared lags."""
        return np.square(self.lag)

    def cached(self, function: Callable, *values: float):
        """function(pairs, *values), cached until the function is called with other values."""
        entry = self._cache.get(function)
        if entry is None or entry[0] != values:
            # A single assignment: several threads may use the same pairs.
            entry = self._cache[function] = values, function(self, *values)
        return entry[1]


class PairWeights:
    """Weights A of pairs of times, for sums sum_ij A_ij K_ij.

    Args:
        pairs: The pairs.
        compute: () -> A over the pairs, or the sums of A over the pairs of each lag.
    """

    def __init__(self, pairs: Pairs, compute: Callable[[], np.ndarray]):
        self.pairs, self._compute = pairs, compute

    @cached_property
    def _values(self) -> np.ndarray:
        return self._compute()

    @cached_property
    def _at_lags(self) -> np.ndarray:
        """Sums of A over the pairs of each lag."""
        lags, index = self.pairs.lag, self.pairs.index
        if index is None or self._values.shape == lags.shape:
            return self._values
        return np.bincount(index.ravel(), self._values.ravel(), len(lags))

    @cached_property
    def total(self) -> float:
        """sum_ij A_ij."""
        return float(np.sum(self._values))

    def dot(self, values: np.ndarray) -> float:
        """sum_ij A_ij values_ij, for values at the lags or the pairs, or one number."""
        if values.ndim == 0:
            return float(values) * self.total
        weights = self._at_lags if values.shape == self.pairs.lag.shape else self._values
        return float(np.vdot(weights, values))

    def dot_increments(self, g_s: np.ndarray, g_t: np.ndarray, g_lag: np.ndarray) -> float:
        """sum_ij A_ij (g(s_i) + g(t_j) - g(s_i - t_j)), for the values of g at s, t and lags."""
        sums_s, sums_t = self._sums
        return float(np.vdot(sums_s, g_s) + np.vdot(sums_t, g_t)) - self.dot(g_lag)

    @cached_property
    def _sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Row and column sums of A: over all t for each s, and over all s for each t."""
        return self._values.sum(axis=1), self._values.sum(axis=0)

    def times(self, values: np.ndarray) -> PairWeights:
        """Weights A_ij values_ij; for values at the lags, summed over the pairs of each lag."""
        at_lags = values.shape == self.pairs.lag.shape
        return PairWeights(
            self.pairs, lambda: (self._at_lags if at_lags else self._values) * values
        )


class Gram:
    """Gram matrix of a kernel and of its additive components, in NumPy.

    Args:
        kernel: The kernel.

    Raises:
        NotImplementedError: A part of the kernel has no formula in this module.
    """

    def __init__(self, kernel: Kernel):
        terms = kernel.terms if isinstance(kernel, base.Sum) else (kernel,)
        if any(len(component_names(term)) > 1 for term in terms):
            raise NotImplementedError("a product or a multiple of several named terms")
        self._formula = Formula.of(kernel)
        self._components = [(*component_names(term), Formula.of(term)) for term in terms]

    def __call__(self, values: Iterator[float], pairs: Pairs) -> Evaluation:
        """k(s, t) and its pullback; at the lags if k depends on the lag alone, else at the pairs.

        Args:
            values: Values of the `sites` of the kernel, in their order, which is also the order of
                the slopes. They replace the values in the kernel.
            pairs: The pairs of times.
        """
        K, pullback = self._formula.evaluate(iter(values), pairs)
        return K if K.ndim else np.full(pairs.lag.shape, K), pullback

    def of_components(self, values: Iterator[float], pairs: Pairs) -> dict[str, np.ndarray]:
        """Dictionary from the name of a component to its k(s, t) at the pairs."""
        values, grams = iter(values), {}
        for name, formula in self._components:
            K = pairs.spread(formula.evaluate(values, pairs)[0])
            grams[name] = grams.get(name, 0.0) + K
        shape = np.broadcast_shapes(np.shape(pairs.s), np.shape(pairs.t))
        return {name: np.broadcast_to(K, shape) for name, K in grams.items()}


class Formula(NamedTuple):
    """Formula of a kernel, with the formulas of its parts.

    It is looked up once for the many evaluations of a fit.

    Attributes:
        rule: Function (parts, values, pairs) -> `Evaluation`. It takes the hyperparameters of the
            kernel from the iterator `values`.
        parts: Formulas of the kernels of which the kernel is composed.
    """

    rule: Callable[..., Evaluation]
    parts: tuple[Formula, ...]

    @classmethod
    def of(cls, kernel: Kernel) -> Formula:
        """Formula of a kernel; raise NotImplementedError if a part of it has none."""
        if type(kernel) not in RULES:
            raise NotImplementedError(type(kernel).__name__)
        parts = (part for _, part in kernel.children() if isinstance(part, Kernel))
        return cls(RULES[type(kernel)], tuple(cls.of(part) for part in parts))

    def evaluate(self, values: Iterator[float], pairs: Pairs) -> Evaluation:
        """Gram matrix and pullback."""
        return self.rule(self.parts, values, pairs)


# Rule of each kind of kernel. A subclass may compute something else, and has none. Rules have names
# of their own, so that forecasts, which keep them, can be pickled.
RULES: dict[type[Kernel], Callable[..., Evaluation]] = {}


def _rule(kind: type[Kernel]) -> Callable:
    """Register the rule of a kind of kernel: (parts, values, pairs) -> `Evaluation`."""

    def register(rule: Callable) -> Callable:
        RULES[kind] = rule
        return rule

    return register


# -- composed kernels ------------------------------------------------------------------------------


@_rule(base.Sum)
def gram_of_sum(parts, values, pairs):
    grams, pullbacks = zip(*(part.evaluate(values, pairs) for part in parts), strict=True)
    # Numbers and functions of the lag alone are added before the sum is spread over the pairs.
    at_lags = [K for K in grams if K.ndim == 0] + [K for K in grams if K.shape == pairs.lag.shape]
    at_pairs = [K for K in grams if K.ndim and K.shape != pairs.lag.shape]
    if at_lags:
        total = reduce(operator.add, at_lags)
        at_pairs = [*at_pairs, pairs.spread(total) if at_pairs else total]
    total = reduce(operator.add, at_pairs)
    return total, lambda w: [slope for pull in pullbacks for slope in pull(w)]


@_rule(base.Product)
def gram_of_product(parts, values, pairs):
    grams, pullbacks = zip(*(part.evaluate(values, pairs) for part in parts), strict=True)
    if any(K.ndim and K.shape != pairs.lag.shape for K in grams):
        grams = [pairs.spread(K) for K in grams]

    def pullback(w):
        slopes = []
        for i, pull in enumerate(pullbacks):
            slopes += pull(w.times(reduce(operator.mul, [*grams[:i], *grams[i + 1 :]])))
        return slopes

    return reduce(operator.mul, grams), pullback


@_rule(base.Scaled)
def gram_of_scaled(parts, values, pairs):
    scale = next(values)
    K, pull = parts[0].evaluate(values, pairs)

    def pullback(w):
        return [partial(w.dot, K), *(partial(_times, scale, slope) for slope in pull(w))]

    return scale * K, pullback


def _times(factor: float, slope: Slope) -> float:
    return factor * slope()


@_rule(base.Named)
def gram_of_named(parts, values, pairs):
    return parts[0].evaluate(values, pairs)


@_rule(trend.ChangePoint)
def gram_of_change_point(parts, values, pairs):
    location, width = next(values), next(values)
    (before, pull_before), (after, pull_after) = (part.evaluate(values, pairs) for part in parts)
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


# -- kernels ---------------------------------------------------------------------------------------


def _leaf(kind: type[Kernel]) -> Callable:
    """Register a formula (values, pairs) -> (K, derivatives), one function per derivative.

    For example, d_period() is the derivative of K with respect to the period.
    """

    def register(formula: Callable) -> Callable:
        RULES[kind] = partial(_evaluate_leaf, formula)
        return formula

    return register


def _evaluate_leaf(formula, parts, values, pairs):
    K, derivatives = formula(values, pairs)
    return K, lambda w: [partial(_slope, w, derivative) for derivative in derivatives]


def _slope(w: PairWeights, derivative: Callable[[], np.ndarray]) -> float:
    return w.dot(derivative())


@_rule(base.Constant)
def gram_of_constant(parts, values, pairs):
    return np.asarray(next(values)), lambda w: [lambda: w.total]


@_leaf(dot_product.Linear)
def gram_of_linear(values, pairs):
    variance, center = next(values), next(values)
    products = pairs.cached(_products, center)

    def d_center():
        return -variance * (pairs.s + pairs.t - 2.0 * center)

    return variance * products, [lambda: products, d_center]


def _products(pairs, center):
    return (pairs.s - center) * (pairs.t - center)


@_leaf(stationary.RBF)
def gram_of_rbf(values, pairs):
    lengthscale, variance = next(values), next(values)
    squares = pairs.squared_lag / lengthscale**2
    unit = np.exp(-0.5 * squares)
    K = variance * unit
    return K, [lambda: K * squares / lengthscale, lambda: unit]


@_leaf(matern.Matern12)
def gram_of_matern12(values, pairs):
    lengthscale, variance = next(values), next(values)
    r = np.abs(pairs.lag) / lengthscale
    unit = np.exp(-r)
    return variance * unit, [lambda: variance * unit * r / lengthscale, lambda: unit]


@_leaf(periodic.Periodic)
def gram_of_periodic(values, pairs):
    period, lengthscale, variance = next(values), next(values), next(values)
    angle = np.pi * pairs.lag / period
    squares = 2.0 * np.square(np.sin(angle)) / lengthscale**2
    unit = np.exp(-squares)
    K = variance * unit

    def d_period():
        return K * 2.0 * np.sin(2.0 * angle) / lengthscale**2 * angle / period

    return K, [d_period, lambda: 2.0 * K * squares / lengthscale, lambda: unit]


@_leaf(periodic.Seasonal)
def gram_of_seasonal(values, pairs):
    period, lengthscale, variance = next(values), next(values), next(values)
    angle, a = np.pi * pairs.lag / period, 1.0 / lengthscale**2
    waves = 2.0 * np.square(np.sin(angle))
    # change = exp(-a waves) - 1; size = 1 - c, where c is the mean of exp(-a waves) over a period.
    change, size = np.expm1(-a * waves), periodic.variation(a, i0e, np)
    unit = 1.0 + change / size

    def d_period():
        # d change / d angle, and d angle / d period = -angle / period.
        d_angle = -2.0 * a * (1.0 + change) * np.sin(2.0 * angle)
        return -variance / size * d_angle * angle / period

    def d_lengthscale():
        # Through a, with d a / d lengthscale = -2 a / lengthscale.
        d_a = -waves * (1.0 + change) - (i0e(a) - i1e(a)) * change / size
        return -2.0 * variance * a / lengthscale * d_a / size

    return variance * unit, [d_period, d_lengthscale, lambda: unit]


@_leaf(periodic.Cosine)
def gram_of_cosine(values, pairs):
    period, variance = next(values), next(values)
    angle = 2.0 * np.pi * pairs.lag / period
    unit = np.cos(angle)
    return variance * unit, [lambda: variance * np.sin(angle) * angle / period, lambda: unit]


@_leaf(trend.Brownian)
def gram_of_brownian(values, pairs):
    variance, start = next(values), next(values)
    side, unit = pairs.cached(_level, start)
    return variance * unit, [lambda: unit, lambda: -variance * side]


def _level(pairs, start):
    side, earlier, _ = _since(start, pairs)
    return side, np.abs(side) * earlier


@_leaf(trend.IntegratedBrownian)
def gram_of_integrated_brownian(values, pairs):
    variance, start = next(values), next(values)
    unit, d_start = pairs.cached(_ramp, start)
    return variance * unit, [lambda: unit, lambda: variance * d_start]


def _ramp(pairs, start):
    """The kernel with variance 1, and its derivative with respect to the start."""
    side, earlier, later = _since(start, pairs)
    unit = np.abs(side) * np.square(earlier) * (3.0 * later - earlier) / 6.0
    return unit, -side * earlier * later


@_rule(trend.IntegratedOrnsteinUhlenbeck)
def gram_of_integrated_ornstein_uhlenbeck(parts, values, pairs):
    lengthscale, variance, start = next(values), next(values), next(values)
    s, t = pairs.s - start, pairs.t - start

    def increments(function):
        """function(s), function(t), and function(s - t) at the lags."""
        # One call for all: the overhead of a NumPy call exceeds the cost of a hundred elements.
        values = function(np.concatenate([s, t, pairs.lag], axis=None))
        g_s, g_t, g_lag = np.split(values, [s.size, s.size + t.size])
        return g_s.reshape(s.shape), g_t.reshape(t.shape), g_lag.reshape(pairs.lag.shape)

    # k = variance (g(s) + g(t) - g(s - t)), with g and its derivatives:
    def g(t):
        return np.square(t) * trend.remainder(np.abs(t) / lengthscale, np)

    def d_lengthscale(t):
        r = np.abs(t) / lengthscale
        return -np.square(t) * r / lengthscale * trend.remainder_slope(r)

    def d_start(t):
        return lengthscale * np.sign(t) * np.expm1(-np.abs(t) / lengthscale)

    g_s, g_t, g_lag = increments(g)
    K = variance * g_s + variance * g_t
    K -= pairs.spread(variance * g_lag)

    def pullback(w):
        return [
            lambda: variance * w.dot_increments(*increments(d_lengthscale)),
            lambda: w.dot_increments(g_s, g_t, g_lag),
            lambda: variance * w.dot(d_start(s) + d_start(t)),
        ]

    return K, pullback


def _since(start, pairs):
    """Side of the start, and distances from it: the smaller and the larger one.

    The side is 1 if both times are after the start, -1 if both are before it, otherwise 0.
    """
    s, t = pairs.s - start, pairs.t - start
    side = np.where((s < 0.0) == (t < 0.0), np.where(s < 0.0, -1.0, 1.0), 0.0)
    s, t = np.abs(s), np.abs(t)
    return side, np.minimum(s, t), np.maximum(s, t)
