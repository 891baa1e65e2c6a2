"""Gram matrices of functions of time with their derivatives, in NumPy.

Nothing is compiled. The formulas are those of the kernels. Derivatives are accumulated in reverse:
from weights A to the slopes of sum_ij A_ij k(x_i, x_j) in every hyperparameter, so that a factor of
a product is weighted once, and a function of the lag alone is summed over the lags first. For a few
hundred values this takes less time than JAX needs to look up a compiled program.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from functools import cached_property, partial, reduce, singledispatch

import numpy as np
from scipy.special import expit, i0e, i1e

from bayeskern.kernels import base
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.components import component_names
from bayeskern.kernels.families import dot_product, periodic, stationary, trend

# Computes a slope when it is called.
Slope = Callable[[], float]
# From weights of the pairs to the slope in each hyperparameter.
Pullback = Callable[["PairWeights"], list[Slope]]
# A Gram matrix and its derivative. The matrix is given at the lags, at the pairs, or as one number
# for all of them.
Evaluation = tuple[np.ndarray, Pullback]


class Pairs:
    """Pairs of times s and t, arrays that broadcast, with values that kernels share.

    Attributes:
        s: First times.
        t: Second times.
        lag: s - t. With `index`, each distinct lag once.
        index: Place in `lag` of each pair, where `between` found few distinct lags; else None.
        are_same: Whether s and t are the same points, not only points at the same times.
    """

    #: Lags that differ by less than this share of the longest count as equal.
    LAG_TOL = 1e-9
    #: Distinct lags are taken one by one if there are at most this many for each time.
    MAX_LAGS_PER_TIME = 8

    are_same = False

    def __init__(self, s: np.ndarray, t: np.ndarray):
        self.s, self.t, self.lag, self.index = s, t, s - t, None
        self._cache = {}

    @classmethod
    def between(cls, x: np.ndarray, x_new: np.ndarray) -> Pairs:
        """All pairs of times x (n,) and x_new (m,): (n, m).

        Each lag is computed once where the steps are regular, with gaps or without.
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
        """Values at the pairs, from values at the lags or the pairs; one number stays one."""
        if self.index is None or values.shape != self.lag.shape:
            return values
        return values.take(self.index)

    @cached_property
    def squared_lag(self) -> np.ndarray:
        """Squared lags."""
        return np.square(self.lag)

    def cached(self, function: Callable, *values: float):
        """function(pairs, *values), kept for as long as the values stay the same."""
        entry = self._cache.get(function)
        if entry is None or entry[0] != values:
            # One assignment, since several threads may use the same pairs.
            entry = self._cache[function] = values, function(self, *values)
        return entry[1]


class PairWeights:
    """Weights A of pairs of times, for sums over the pairs of A times a matrix.

    Args:
        pairs: The pairs.
        compute: () -> A, at the pairs, or its sums at the lags.
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
        """sum_ij A_ij values_ij, of values at the lags or at the pairs, or of one number."""
        if values.ndim == 0:
            return float(values) * self.total
        weights = self._at_lags if values.shape == self.pairs.lag.shape else self._values
        return float(np.vdot(weights, values))

    def dot_increments(self, of_s: np.ndarray, of_t: np.ndarray, of_lag: np.ndarray) -> float:
        """sum_ij A_ij (of_s_i + of_t_j - of_lag_ij), of values at s, at t and at the lags."""
        by_s, by_t = self._sums
        return float(np.vdot(by_s, of_s) + np.vdot(by_t, of_t)) - self.dot(of_lag)

    @cached_property
    def _sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Sums of A over all pairs of each s, and of each t."""
        return self._values.sum(axis=1), self._values.sum(axis=0)

    def times(self, values: np.ndarray) -> PairWeights:
        """A_ij values_ij; for values at the lags, the sums of A over each lag times the values."""
        at_lags = values.shape == self.pairs.lag.shape
        return PairWeights(
            self.pairs, lambda: (self._at_lags if at_lags else self._values) * values
        )


class Gram:
    """Gram matrix of a kernel and of its additive components, by formulas.

    Args:
        kernel: The kernel.

    Raises:
        NotImplementedError: A part of the kernel has no formula here.
    """

    def __init__(self, kernel: Kernel):
        for node in kernel.nodes():
            if _evaluate.dispatch(type(node)) is _unknown:
                raise NotImplementedError(type(node).__name__)
        terms = kernel.terms if isinstance(kernel, base.Sum) else (kernel,)
        if any(len(component_names(term)) > 1 for term in terms):
            raise NotImplementedError("a product or a multiple of several named terms")
        self._kernel = kernel
        self._components = [(*component_names(term), term) for term in terms]

    def __call__(self, values: Iterator[float], pairs: Pairs) -> Evaluation:
        """k(s, t) at the lags or, if need be, the pairs, and its derivative.

        Args:
            values: Values of the `sites` of the kernel, in their order, which is also the order of
                the slopes. They replace the values that the kernel holds.
            pairs: The pairs of times.
        """
        K, pullback = _evaluate(self._kernel, iter(values), pairs)
        return K if K.ndim else np.full(pairs.lag.shape, K), pullback

    def of_components(self, values: Iterator[float], pairs: Pairs) -> dict[str, np.ndarray]:
        """k(s, t) of each component by its name, at the pairs; they add up to the kernel."""
        values, grams = iter(values), {}
        for name, term in self._components:
            K = pairs.spread(_evaluate(term, values, pairs)[0])
            grams[name] = grams.get(name, 0.0) + K
        shape = np.broadcast_shapes(np.shape(pairs.s), np.shape(pairs.t))
        return {name: np.broadcast_to(K, shape) for name, K in grams.items()}


def _unknown(kernel, values: Iterator[float], pairs: Pairs) -> Evaluation:
    raise NotImplementedError(type(kernel).__name__)


# Gram matrix and derivative of a kernel, at the next values of the iterator.
_evaluate = singledispatch(_unknown)


# -- composed kernels ------------------------------------------------------------------------------


@_evaluate.register
def _(kernel: base.Sum, values, pairs):
    grams, pullbacks = zip(*(_evaluate(term, values, pairs) for term in kernel.terms), strict=True)
    # Numbers and functions of the lag alone are added up before they are spread.
    at_lags = [K for K in grams if K.ndim == 0] + [K for K in grams if K.shape == pairs.lag.shape]
    at_pairs = [K for K in grams if K.ndim and K.shape != pairs.lag.shape]
    if at_lags:
        total = reduce(operator.add, at_lags)
        at_pairs = [*at_pairs, pairs.spread(total) if at_pairs else total]
    total = reduce(operator.add, at_pairs)
    return total, lambda w: [slope for pull in pullbacks for slope in pull(w)]


@_evaluate.register
def _(kernel: base.Product, values, pairs):
    grams, pullbacks = zip(*(_evaluate(term, values, pairs) for term in kernel.terms), strict=True)
    if any(K.ndim and K.shape != pairs.lag.shape for K in grams):
        grams = [pairs.spread(K) for K in grams]

    def pullback(w):
        slopes = []
        for i, pull in enumerate(pullbacks):
            slopes += pull(w.times(reduce(operator.mul, [*grams[:i], *grams[i + 1 :]])))
        return slopes

    return reduce(operator.mul, grams), pullback


@_evaluate.register
def _(kernel: base.Scaled, values, pairs):
    scale = next(values)
    K, pull = _evaluate(kernel.inner, values, pairs)

    def pullback(w):
        return [partial(w.dot, K), *(partial(_times, scale, slope) for slope in pull(w))]

    return scale * K, pullback


def _times(factor: float, slope: Slope) -> float:
    return factor * slope()


@_evaluate.register
def _(kernel: base.Named, values, pairs):
    return _evaluate(kernel.inner, values, pairs)


@_evaluate.register
def _(kernel: trend.ChangePoint, values, pairs):
    location, width = next(values), next(values)
    before, pull_before = _evaluate(kernel.before, values, pairs)
    after, pull_after = _evaluate(kernel.after, values, pairs)
    before, after = pairs.spread(before), pairs.spread(after)
    s, t = (pairs.s - location) / width, (pairs.t - location) / width
    u, v = expit(s), expit(t)
    # The derivatives of u and v in their arguments.
    du, dv = u * (1.0 - u), v * (1.0 - v)
    off, on = (1.0 - u) * (1.0 - v), u * v

    def directional(of_s, of_t):
        """The derivative where the arguments of u and v change at these rates."""
        falls = -of_s * du * (1.0 - v) - (1.0 - u) * of_t * dv
        rises = of_s * du * v + u * of_t * dv
        return falls * before + rises * after

    def pullback(w):
        return [
            lambda: w.dot(directional(-1.0 / width, -1.0 / width)),
            lambda: w.dot(directional(-s / width, -t / width)),
            *pull_before(w.times(off)),
            *pull_after(w.times(on)),
        ]

    return off * before + on * after, pullback


# -- kernels ---------------------------------------------------------------------------------------


def _leaf(kind: type[Kernel]) -> Callable:
    """Register a formula (values, pairs) -> (K, functions for the derivatives of K)."""

    def register(formula: Callable) -> Callable:
        def evaluate(kernel, values, pairs):
            K, derivatives = formula(values, pairs)
            return K, lambda w: [partial(_slope, w, derivative) for derivative in derivatives]

        _evaluate.register(kind, evaluate)
        return formula

    return register


def _slope(w: PairWeights, derivative: Callable[[], np.ndarray]) -> float:
    return w.dot(derivative())


@_evaluate.register
def _(kernel: base.Constant, values, pairs):
    return np.asarray(next(values)), lambda w: [lambda: w.total]


@_leaf(dot_product.Linear)
def _(values, pairs):
    variance, center = next(values), next(values)
    products = pairs.cached(_products, center)

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
    side, unit = pairs.cached(_level, start)
    return variance * unit, [lambda: unit, lambda: -variance * side]


def _level(pairs, start):
    side, earlier, _ = _since(start, pairs)
    return side, np.abs(side) * earlier


@_leaf(trend.IntegratedBrownian)
def _(values, pairs):
    variance, start = next(values), next(values)
    unit, in_start = pairs.cached(_ramp, start)
    return variance * unit, [lambda: unit, lambda: variance * in_start]


def _ramp(pairs, start):
    """The kernel of a unit variance, and its derivative in the start."""
    side, earlier, later = _since(start, pairs)
    unit = np.abs(side) * np.square(earlier) * (3.0 * later - earlier) / 6.0
    return unit, -side * earlier * later


@_evaluate.register
def _(kernel: trend.IntegratedOrnsteinUhlenbeck, values, pairs):
    lengthscale, variance, start = next(values), next(values), next(values)
    s, t = pairs.s - start, pairs.t - start

    def increments(function):
        """function(s), function(t) and function(s - t), the last at the lags."""
        # One call for all: a step of Python costs as much as a hundred numbers.
        together = function(np.concatenate([s, t, pairs.lag], axis=None))
        of_s, of_t, of_lag = np.split(together, [s.size, s.size + t.size])
        return of_s.reshape(s.shape), of_t.reshape(t.shape), of_lag.reshape(pairs.lag.shape)

    def in_lengthscale(t):
        r = np.abs(t) / lengthscale
        return -np.square(t) * r / lengthscale * trend.remainder_slope(r)

    def in_start(t):
        return lengthscale * np.sign(t) * np.expm1(-np.abs(t) / lengthscale)

    of_s, of_t, of_lag = increments(
        lambda t: np.square(t) * trend.remainder(np.abs(t) / lengthscale, np)
    )
    K = variance * of_s + variance * of_t
    K -= pairs.spread(variance * of_lag)

    def pullback(w):
        return [
            lambda: variance * w.dot_increments(*increments(in_lengthscale)),
            lambda: w.dot_increments(of_s, of_t, of_lag),
            lambda: variance * w.dot(in_start(s) + in_start(t)),
        ]

    return K, pullback


def _since(start, pairs):
    """Side of the start of both times (0 if different), the earlier and the later."""
    s, t = pairs.s - start, pairs.t - start
    side = np.where((s < 0.0) == (t < 0.0), np.where(s < 0.0, -1.0, 1.0), 0.0)
    s, t = np.abs(s), np.abs(t)
    return side, np.minimum(s, t), np.maximum(s, t)
