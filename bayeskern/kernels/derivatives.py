"""Gram matrices of functions of time with their derivatives, in NumPy: nothing is compiled.

The formulas are those of the kernels, each with its derivative in every hyperparameter. For a few
hundred values they take less time than JAX needs to look up what it has compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, singledispatch

import numpy as np

from bayeskern.hyperparameters.names import sites
from bayeskern.kernels import base, dot_product, periodic, stationary
from bayeskern.kernels.base import Kernel

# What computes a derivative when it is wanted.
Derivative = Callable[[], np.ndarray]


class Pairs:
    """Pairs of times s and t, arrays that broadcast, and what several kernels need of them."""

    def __init__(self, s, t):
        self.s, self.t = s, t

    @cached_property
    def lag(self) -> np.ndarray:
        return self.s - self.t

    @cached_property
    def squared_lag(self) -> np.ndarray:
        return np.square(self.lag)


def gram(kernel: Kernel, values, pairs: Pairs) -> tuple[np.ndarray, list[Derivative]]:
    """k(s, t) of all pairs, and its derivative in each hyperparameter.

    values: one for each of `sites(kernel)`, in their order, which is that of the derivatives too;
    those that the kernel holds do not count.
    """
    return _gram(kernel, iter(values), pairs)


def has_derivatives(kernel: Kernel) -> bool:
    """Whether `gram` takes this kernel."""
    try:
        gram(kernel, np.ones(len(sites(kernel))), Pairs(np.zeros(1), np.zeros(1)))
    except NotImplementedError:
        return False
    return True


@singledispatch
def _gram(kernel, values, pairs):
    raise NotImplementedError(type(kernel).__name__)


# -- kernels made of others ------------------------------------------------------------------------


@_gram.register
def _(kernel: base.Sum, values, pairs):
    grams, derivatives = zip(*(_gram(k, values, pairs) for k in kernel.terms), strict=True)
    return sum(grams), [d for of_term in derivatives for d in of_term]


@_gram.register
def _(kernel: base.Product, values, pairs):
    grams, derivatives = zip(*(_gram(k, values, pairs) for k in kernel.terms), strict=True)
    others = [np.prod([*grams[:i], *grams[i + 1 :]], axis=0) for i in range(len(grams))]
    by_rule = [
        _times(o, d) for o, of_term in zip(others, derivatives, strict=True) for d in of_term
    ]
    return others[0] * grams[0], by_rule


@_gram.register
def _(kernel: base.Scaled, values, pairs):
    scale = next(values)
    K, derivatives = _gram(kernel.inner, values, pairs)
    return scale * K, [lambda: K, *(_times(scale, d) for d in derivatives)]


@_gram.register
def _(kernel: base.Named, values, pairs):
    return _gram(kernel.inner, values, pairs)


def _times(factor, derivative: Derivative) -> Derivative:
    return lambda: factor * derivative()


# -- kernels ---------------------------------------------------------------------------------------


@_gram.register
def _(kernel: base.Constant, values, pairs):
    variance, ones = next(values), np.ones(np.broadcast_shapes(pairs.s.shape, pairs.t.shape))
    return variance * ones, [lambda: ones]


@_gram.register
def _(kernel: dot_product.Linear, values, pairs):
    variance, center = next(values), next(values)
    products = (pairs.s - center) * (pairs.t - center)

    def in_center():
        return -variance * (pairs.s + pairs.t - 2.0 * center)

    return variance * products, [lambda: products, in_center]


@_gram.register
def _(kernel: stationary.RBF, values, pairs):
    lengthscale, variance = next(values), next(values)
    squares = pairs.squared_lag / lengthscale**2
    unit = np.exp(-0.5 * squares)
    K = variance * unit
    return K, [lambda: K * squares / lengthscale, lambda: unit]


@_gram.register
def _(kernel: periodic.Periodic, values, pairs):
    period, lengthscale, variance = next(values), next(values), next(values)
    angle = np.pi * pairs.lag / period
    squares = 2.0 * np.square(np.sin(angle)) / lengthscale**2
    unit = np.exp(-squares)
    K = variance * unit

    def in_period():
        return K * 2.0 * np.sin(2.0 * angle) / lengthscale**2 * angle / period

    return K, [in_period, lambda: 2.0 * K * squares / lengthscale, lambda: unit]


@_gram.register
def _(kernel: periodic.Cosine, values, pairs):
    period, variance = next(values), next(values)
    angle = 2.0 * np.pi * pairs.lag / period
    unit = np.cos(angle)
    return variance * unit, [lambda: variance * np.sin(angle) * angle / period, lambda: unit]
