"""Gram matrices of functions of time with their derivatives, in NumPy: nothing is compiled.

The formulas are those of the kernels. Derivatives go backwards: from weights A to the slopes of
sum_ij A_ij k(x_i, x_j) in every hyperparameter, so that a factor of a product is weighed once and
what depends on the lag alone is summed over the lags first. For a few hundred values this takes
less time than JAX needs to look up what it has compiled.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from functools import cached_property, reduce, singledispatch

import numpy as np
from scipy.special import expit, i0e, i1e

from bayeskern.kernels import base
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.components import component_names
from bayeskern.kernels.families import dot_product, periodic, stationary, trend

# What computes a slope when it is wanted.
Slope = Callable[[], float]
# From weights to the slope in each hyperparameter.
Pullback = Callable[["PairWeights"], list[Slope]]
# From an iterator over values of the hyperparameters, and pairs of times, to a Gram matrix and its
# derivative. The matrix is given at the lags, at the pairs, or as one number for all of them.
Formula = Callable[[Iterator[float], "Pairs"], tuple[np.ndarray, Pullback]]
# Lags that differ by less than this share of the longest are rounded from the same one.
LAG_TOL = 1e-9
# The most different lags for each time, for which it pays to take them one by one.
MAX_LAGS_PER_TIME = 8


class Pairs:
    """Pairs of times s and t, arrays that broadcast, and what several kernels need of them.

    Attributes:
        lag: s - t. Where `between` has found that few lags occur, it holds each of them once.
        index: The place in `lag` of each pair then, else None.
        are_same: Whether s and t are the same points, not only points at the same times.
    """

    are_same = False

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
        steps = np.rint(pairs.lag / (LAG_TOL * longest or 1.0))
        lags, first, index = np.unique(steps, return_index=True, return_inverse=True)
        if len(lags) <= MAX_LAGS_PER_TIME * max(steps.shape):
            pairs.lag, pairs.index = pairs.lag.ravel()[first], index.reshape(steps.shape)
        return pairs

    @classmethod
    def among(cls, x) -> Pairs:
        """All pairs of times x (n,) with themselves: (n, n)."""
        pairs = cls.between(x, x)
        pairs.are_same = True
        return pairs

    def spread(self, values) -> np.ndarray:
        """Values at the lags, or at the pairs, as values at the pairs; one number stays one."""
        if self.index is None or values.shape != self.lag.shape:
            return values
        return values.take(self.index)

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
        return np.sum(self._values)

    def dot(self, values: np.ndarray) -> float:
        """sum_ij A_ij values_ij, of values at the lags or at the pairs, or of one number."""
        if values.ndim == 0:
            return values * self.total
        weights = self._at_lags if values.shape == self.pairs.lag.shape else self._values
        return np.vdot(weights, values)

    def dot_increments(self, of_s: np.ndarray, of_t: np.ndarray, of_lag: np.ndarray) -> float:
        """sum_ij A_ij (of_s_i + of_t_j - of_lag_ij), of values at s, at t and at the lags."""
        by_s, by_t = self._sums
        return np.vdot(by_s, of_s) + np.vdot(by_t, of_t) - self.dot(of_lag)

    @cached_property
    def _sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Sums of A over all pairs of each s, and of each t."""
        return self._values.sum(axis=1), self._values.sum(axis=0)

    def times(self, values: np.ndarray) -> PairWeights:
        """A_ij values_ij, of values at the lags or at the pairs."""
        return PairWeights(self.pairs, lambda: self._values * self.pairs.spread(values))

    def times_at_lags(self, values: np.ndarray) -> PairWeights:
        """Sums of A_ij values_ij over the pairs of each lag, of values at the lags."""
        return PairWeights(self.pairs, lambda: self._at_lags * values)


class Gram:
    """The formulas of a kernel and of its additive components, read from it once."""

    def __init__(self, kernel: Kernel):
        """Raises NotImplementedError if a part of the kernel has no formula here."""
        terms = kernel.terms if isinstance(kernel, base.Sum) else (kernel,)
        if any(len(component_names(term)) > 1 for term in terms):
            raise NotImplementedError("a product or a multiple of several named terms")
        self._whole = _formula(kernel)
        self._parts = [(*component_names(term), _formula(term)) for term in terms]

    def __call__(self, values, pairs: Pairs) -> tuple[np.ndarray, Pullback]:
        """k(s, t) at the lags or, if need be, the pairs, and its derivative.

        values: one for each of the `sites` of the kernel, in their order, which is that of the
        slopes too; those that the kernel holds do not count.
        """
        K, pullback = self._whole(iter(values), pairs)
        return K if K.ndim else np.full(pairs.lag.shape, K), pullback

    def of_components(self, values, pairs: Pairs) -> dict[str, np.ndarray]:
        """k(s, t) of each component by its name, at the pairs; they add up to the whole."""
        values, grams = iter(values), {}
        for name, formula in self._parts:
            K = pairs.spread(formula(values, pairs)[0])
            grams[name] = grams.get(name, 0.0) + K
        shape = np.broadcast_shapes(np.shape(pairs.s), np.shape(pairs.t))
        return {name: np.broadcast_to(K, shape) for name, K in grams.items()}


@singledispatch
def _formula(kernel) -> Formula:
    raise NotImplementedError(type(kernel).__name__)


# -- kernels made of others ------------------------------------------------------------------------


@_formula.register
def _(kernel: base.Sum) -> Formula:
    formulas = [_formula(term) for term in kernel.terms]

    def gram(values, pairs):
        grams, pullbacks = zip(*(f(values, pairs) for f in formulas), strict=True)
        # What is one number, and what depends on the lag alone, is added up before it is spread.
        numbers = [K for K in grams if K.ndim == 0]
        at_lags = [K for K in grams if K.shape == pairs.lag.shape]
        at_pairs = [K for K in grams if K.ndim and K.shape != pairs.lag.shape]
        total = _sum([*numbers, *at_lags]) if numbers or at_lags else None
        if at_pairs and total is not None:
            at_pairs.append(pairs.spread(total))
        total = _sum(at_pairs) if at_pairs else total
        return total, lambda w: [slope for pull in pullbacks for slope in pull(w)]

    return gram


def _sum(arrays: list[np.ndarray]) -> np.ndarray:
    """Their sum, of shapes that broadcast."""
    return reduce(operator.add, arrays)


@_formula.register
def _(kernel: base.Product) -> Formula:
    formulas = [_formula(term) for term in kernel.terms]

    def gram(values, pairs):
        grams, pullbacks = zip(*(f(values, pairs) for f in formulas), strict=True)
        is_at_lags = all(K.ndim == 0 or K.shape == pairs.lag.shape for K in grams)
        if not is_at_lags:
            grams = [pairs.spread(K) for K in grams]

        def pullback(w):
            times = w.times_at_lags if is_at_lags else w.times
            slopes = []
            for i, pull in enumerate(pullbacks):
                others = reduce(operator.mul, [*grams[:i], *grams[i + 1 :]])
                slopes += pull(times(others))
            return slopes

        return reduce(operator.mul, grams), pullback

    return gram


@_formula.register
def _(kernel: base.Scaled) -> Formula:
    inner = _formula(kernel.inner)

    def gram(values, pairs):
        scale = next(values)
        K, pull = inner(values, pairs)

        def pullback(w):
            return [lambda: w.dot(K), *(_times(scale, slope) for slope in pull(w))]

        return scale * K, pullback

    return gram


def _times(factor: float, slope: Slope) -> Slope:
    return lambda: factor * slope()


@_formula.register
def _(kernel: base.Named) -> Formula:
    return _formula(kernel.inner)


def _leaf(kind: type[Kernel]):
    """Register the formula of a kernel that is made of no others.

    It returns the Gram matrix and what computes the derivative in each hyperparameter.
    """

    def register(formula) -> Formula:
        def gram(values, pairs):
            K, derivatives = formula(values, pairs)
            return K, lambda w: [_slope(w, derivative) for derivative in derivatives]

        _formula.register(kind)(lambda kernel: gram)
        return gram

    return register


def _slope(w: PairWeights, derivative: Callable[[], np.ndarray]) -> Slope:
    return lambda: w.dot(derivative())


# -- kernels ---------------------------------------------------------------------------------------


@_formula.register
def _(kernel: base.Constant) -> Formula:
    return lambda values, pairs: (np.asarray(next(values)), lambda w: [lambda: w.total])


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
    unit, in_start = pairs.kept(_ramp, start)
    return variance * unit, [lambda: unit, lambda: variance * in_start]


def _ramp(pairs, start):
    """The kernel of a unit variance, and its derivative in the start."""
    side, earlier, later = _since(start, pairs)
    unit = np.abs(side) * np.square(earlier) * (3.0 * later - earlier) / 6.0
    return unit, -side * earlier * later


@_formula.register
def _(kernel: trend.IntegratedOrnsteinUhlenbeck) -> Formula:
    return _damped_slope


def _damped_slope(values, pairs):
    lengthscale, variance, start = next(values), next(values), next(values)
    s, t = pairs.s - start, pairs.t - start

    def increments(function):
        """function(s), function(t) and function(s - t), the last at the lags."""
        # All at once: there are few of them, and each step of Python costs as much as a hundred.
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


@_formula.register
def _(kernel: trend.ChangePoint) -> Formula:
    before, after = _formula(kernel.before), _formula(kernel.after)

    def gram(values, pairs):
        own = next(values), next(values)
        return _change(*own, before(values, pairs), after(values, pairs), pairs)

    return gram


def _change(location, width, of_before, of_after, pairs):
    (before, pull_before), (after, pull_after) = of_before, of_after
    before, after = pairs.spread(before), pairs.spread(after)
    s, t = (pairs.s - location) / width, (pairs.t - location) / width
    u, v = expit(s), expit(t)
    # The derivatives of u and v in their arguments.
    du, dv = u * (1.0 - u), v * (1.0 - v)
    off, on = (1.0 - u) * (1.0 - v), u * v

    def along(of_s, of_t):
        """The derivative where the arguments of u and v change at these rates."""
        falls = -of_s * du * (1.0 - v) - (1.0 - u) * of_t * dv
        rises = of_s * du * v + u * of_t * dv
        return falls * before + rises * after

    def pullback(w):
        return [
            lambda: w.dot(along(-1.0 / width, -1.0 / width)),
            lambda: w.dot(along(-s / width, -t / width)),
            *pull_before(w.times(off)),
            *pull_after(w.times(on)),
        ]

    return off * before + on * after, pullback


def _since(start, pairs):
    """Which side of the start both times lie on (0 if not one), the earlier and the later."""
    s, t = pairs.s - start, pairs.t - start
    side = np.where((s < 0.0) == (t < 0.0), np.where(s < 0.0, -1.0, 1.0), 0.0)
    s, t = np.abs(s), np.abs(t)
    return side, np.minimum(s, t), np.maximum(s, t)
