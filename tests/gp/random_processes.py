"""Small random Gaussian processes whose scales run over twelve orders of magnitude.

Each kernel comes with its covariance function in exact arithmetic, written from the formula.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from flint import arb

from bayeskern.kernels import (
    RBF,
    AllSubsets,
    Brownian,
    Constant,
    Coregion,
    Cosine,
    IntegratedBrownian,
    InverseMultiquadric,
    Kernel,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    Polynomial,
    RationalQuadratic,
    White,
)
from bayeskern.linalg import NoisyGram
from tests.gp.exact_arithmetic import ExactProcess

N, M = 6, 3
ORDERS = 6.0  # A scale is 10^u with u uniform in [-ORDERS, ORDERS].


class Pair(NamedTuple):
    """A kernel, and k(x, z) of two points (tuples of floats) as an arb.

    A point is one row of the data: the same values in another row are another point to `White`.
    """

    kernel: Kernel
    covariance: Callable

    def __add__(self, other):
        return Pair(
            self.kernel + other.kernel,
            lambda x, z: self.covariance(x, z) + other.covariance(x, z),
        )

    def __mul__(self, other):
        return Pair(
            self.kernel * other.kernel,
            lambda x, z: self.covariance(x, z) * other.covariance(x, z),
        )

    def squared(self):
        """The pair to the power of two."""
        return Pair(self.kernel**2, lambda x, z: self.covariance(x, z) ** 2)

    def exp(self):
        """The exponential of the pair, scaled to exponents of at most 1."""
        largest = float(self.covariance((0.0,), (0.0,)))
        scale = 1.0 / largest
        return Pair(
            (scale * self.kernel).exp(), lambda x, z: (arb(scale) * self.covariance(x, z)).exp()
        )

    def on(self, column):
        """The pair as a function of one column."""
        return Pair(
            self.kernel.on([column]),
            lambda x, z: self.covariance((x[column],), (z[column],)),
        )


def _decay(r, order, polynomial):
    s = arb(order).sqrt() * r
    return polynomial(s) * (-s).exp()


# Stationary kernels of variance 1 as functions of r, the distance in lengthscales.
PROFILES = {
    RBF: lambda r: (-r * r / 2).exp(),
    Matern12: lambda r: (-r).exp(),
    Matern32: lambda r: _decay(r, 3, lambda s: 1 + s),
    Matern52: lambda r: _decay(r, 5, lambda s: 1 + s + s * s / 3),
    InverseMultiquadric: lambda r: 1 / (1 + r * r).sqrt(),
}


def stationary(family, length, variance=1.0) -> Pair:
    """A kernel of `PROFILES`."""

    def covariance(x, z):
        squared = sum(
            (((arb(a) - arb(b)) / arb(length)) ** 2 for a, b in zip(x, z, strict=True)), arb(0)
        )
        return arb(variance) * PROFILES[family](squared.sqrt())

    return Pair(family(length, variance), covariance)


def constant(variance) -> Pair:
    return Pair(Constant(variance), lambda x, z: arb(variance))


def linear(variance) -> Pair:
    return Pair(Linear(variance=variance), lambda x, z: arb(variance) * _dot(x, z))


@dataclass(frozen=True)
class Draw:
    """Random hyperparameters in random units.

    Attributes:
        rng: Generator.
        unit: Unit of the inputs.
    """

    rng: np.random.Generator
    unit: float

    def scale(self, orders=ORDERS) -> float:
        return float(10.0 ** self.rng.uniform(-orders, orders))

    def length(self) -> float:
        return self.unit * self.scale(0.7)

    def stationary(self, family) -> Pair:
        return stationary(family, self.length(), self.scale())

    def rbf(self):
        return self.stationary(RBF)

    def matern12(self):
        return self.stationary(Matern12)

    def matern32(self):
        return self.stationary(Matern32)

    def matern52(self):
        return self.stationary(Matern52)

    def rational_quadratic(self):
        length, alpha, variance = self.length(), self.scale(1.0), self.scale()

        def covariance(x, z):
            squared = sum(
                (((arb(a) - arb(b)) / arb(length)) ** 2 for a, b in zip(x, z, strict=True)), arb(0)
            )
            return arb(variance) * (1 + squared / (2 * arb(alpha))) ** (-arb(alpha))

        return Pair(RationalQuadratic(length, alpha=alpha, variance=variance), covariance)

    def periodic(self):
        period, length, variance = self.length(), self.scale(0.5), self.scale()

        def covariance(x, z):
            sines = (
                (arb.pi() * (arb(a) - arb(b)) / arb(period)).sin()
                for a, b in zip(x, z, strict=True)
            )
            return (
                arb(variance) * (-2 * sum((s * s for s in sines), arb(0)) / arb(length) ** 2).exp()
            )

        return Pair(Periodic(period=period, lengthscale=length, variance=variance), covariance)

    def cosine(self):
        period, variance = self.length(), self.scale()

        def covariance(x, z):
            turns = sum(
                ((arb(a) - arb(b)) / arb(period) for a, b in zip(x, z, strict=True)), arb(0)
            )
            return arb(variance) * (2 * arb.pi() * turns).cos()

        return Pair(Cosine(period=period, variance=variance), covariance)

    def constant(self):
        return constant(self.scale())

    def linear(self):
        return linear(self.scale() / self.unit**2)

    def polynomial(self):
        offset, variance = self.unit**2 * self.scale(1.0), self.scale() / self.unit**4
        return Pair(
            Polynomial(degree=2, offset=offset, variance=variance),
            lambda x, z: arb(variance) * (arb(offset) + _dot(x, z)) ** 2,
        )

    def inverse_multiquadric(self):
        return self.stationary(InverseMultiquadric)

    def all_subsets(self):
        variance = self.scale()

        def covariance(x, z):
            return arb(variance) * math.prod(1 + arb(a) * arb(b) for a, b in zip(x, z, strict=True))

        return Pair(AllSubsets(variance), covariance)

    def brownian(self):
        variance = self.scale() / self.unit

        def covariance(x, z):
            s, t = abs(arb(x[0])), abs(arb(z[0]))
            return arb(variance) * min(s, t) if x[0] * z[0] > 0.0 else arb(0)

        return Pair(Brownian(variance), covariance)

    def integrated_brownian(self):
        variance = self.scale() / self.unit**3

        def covariance(x, z):
            s, t = sorted((abs(arb(x[0])), abs(arb(z[0]))))
            return arb(variance) * (s**3 / 3 + (t - s) * s * s / 2) if x[0] * z[0] > 0.0 else arb(0)

        return Pair(IntegratedBrownian(variance), covariance)

    def white(self):
        variance = self.scale()
        return Pair(White(variance), lambda x, z: arb(variance) if x is z else arb(0))

    def coregion(self):
        """Two outputs whose units differ by up to twelve orders of magnitude."""
        W, kappa = self.rng.normal(size=2), self.rng.uniform(0.1, 1.0, size=2)
        units = np.array([self.scale(), self.scale()])
        W, kappa = W * units, kappa * units**2

        def covariance(x, z):
            i, j = int(x[0]), int(z[0])
            return arb(W[i]) * arb(W[j]) + (arb(kappa[i]) if i == j else arb(0))

        return Pair(Coregion(outputs=2, weights=W[:, None], kappa=kappa), covariance)


def _dot(x, z):
    return sum((arb(a) * arb(b) for a, b in zip(x, z, strict=True)), arb(0))


def two_outputs(draw):
    return draw.rbf().on(0) * draw.coregion().on(1)


KERNELS = {
    "dense": (
        lambda d: d.rbf() + d.constant(),
        lambda d: d.matern52() + d.linear() + d.white(),
        lambda d: d.rational_quadratic() * d.periodic(),
        two_outputs,
        lambda d: (d.inverse_multiquadric() + d.constant()).squared(),
        lambda d: d.all_subsets() + d.rbf().exp(),
        lambda d: d.integrated_brownian() + d.brownian(),
    ),
    "markov": (
        lambda d: d.matern52() + d.constant(),
        lambda d: d.matern32() * d.cosine() + d.matern12(),
        lambda d: d.matern52() + d.linear() + d.constant() + d.white(),
        lambda d: d.matern12() + d.matern32(),
        lambda d: d.integrated_brownian() + d.linear() + d.constant(),
    ),
    "low_rank": (
        lambda d: d.linear() + d.constant(),
        lambda d: d.polynomial() + d.cosine(),
    ),
    "kronecker": (lambda d: d.rbf().on(0) * d.matern32().on(1),),
    "neighbors": (lambda d: d.rbf() + d.constant(),),
}
NOISES = ("number", "each", "masked")


class Problem:
    """A random problem of a solver, and its exact answers.

    Attributes:
        solver: Name of the solver.
        pair: The kernel and its covariance function.
        X, X_new: Points, (N, d) and (M, d).
        noise: Noise variance, a number or (N,).
        mask: Mask of the observed rows, or None.
        y: Values, (N,).
        exact: The answers, for the observed rows.
    """

    def __init__(self, solver: str, kernel: int, noise: str, seed: int):
        rng = np.random.default_rng([seed, kernel, NOISES.index(noise), *solver.encode()])
        draw = Draw(rng, float(10.0 ** rng.uniform(-3.0, 3.0)))
        self.solver, self.pair = solver, KERNELS[solver][kernel](draw)
        self.X, self.X_new = (inputs(solver, kernel, rng, draw.unit, n) for n in (N, M))
        self.noise = draw.scale() if noise == "number" else 10.0 ** rng.uniform(-6.0, 6.0, N)
        self.mask = None
        if noise == "masked":
            self.mask = np.arange(N) != rng.integers(N)
        self.y = draw.scale(3.0) * rng.normal(size=N)
        rows = np.ones(N, bool) if self.mask is None else self.mask
        self.rows = rows
        self.exact = ExactProcess(
            self.pair.covariance,
            [tuple(x) for x in self.X[rows].tolist()],
            np.broadcast_to(self.noise, N)[rows],
            self.y[rows],
            [tuple(x) for x in self.X_new.tolist()],
        )

    def matrix(self) -> NoisyGram:
        """Covariance matrix of the observed rows."""
        noise = np.broadcast_to(self.noise, N)[self.rows]
        return NoisyGram(self.pair.kernel, self.X[self.rows], noise)


def inputs(solver, kernel, rng, unit, n):
    """Random points, some of them repeated or close."""
    if solver == "kronecker":
        if n == M:
            return unit * rng.uniform(-1.0, 6.0, (M, 2))
        first, second = unit * np.cumsum(rng.uniform(0.1, 2.0, 2)), unit * rng.uniform(0.0, 5.0, 3)
        return np.array([[a, b] for a in first for b in second])
    x = unit * rng.uniform(0.0, 5.0, n)
    if n == M:
        x[0] = -unit * rng.uniform(0.0, 2.0)
    elif rng.uniform() < 0.5:
        x[1] = x[0]
    if KERNELS[solver][kernel] is two_outputs:
        return np.column_stack([x, np.arange(n) % 2])
    return x[:, None]
