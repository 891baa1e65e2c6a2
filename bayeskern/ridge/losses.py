"""Convex losses for kernel machines: values, slopes, conjugates, and how each is minimised.

Each minimises J(b, c) = sum_i w_i loss(y_i, f_i) + 1/2 b'K b over b: (n,) and, if there is an
intercept, c, with f = K b + c. At the minimum b_i = -w_i loss'(y_i, f_i), and for any such b with
slopes s = -b / w

    gap = sum_i w_i [loss(y_i, f_i) + loss*(y_i, s_i) - s_i f_i] >= 0

bounds J from above its minimum (Fenchel and Young; with an intercept if sum b = 0).
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpstrf
from scipy.special import expit, logsumexp, xlogy
from sklearn.linear_model import LogisticRegression

from bayeskern.core import validation
from bayeskern.ridge.machines import interior_point
from bayeskern.ridge.machines.shifted import Shifted

# Of the gradient, below rounding: the solver stops where it can go no further.
GRADIENT = 1e-15


class Minimum(NamedTuple):
    """b: (n,) or (n, classes), c: a number or (classes,), and how near they are."""

    coefficients: np.ndarray
    intercept: float | np.ndarray
    iterations: int
    #: what J may be above its minimum
    gap: float
    #: J, and that of f = 0
    value: float
    at_zero: float


class Loss(ABC):
    """A convex function of a prediction f, given y. All arguments are (n,)."""

    @abstractmethod
    def value(self, y, f) -> np.ndarray:
        """loss(y, f)."""

    @abstractmethod
    def derivative(self, y, f) -> np.ndarray:
        """d loss(y, f) / df, or one of the slopes at a kink."""

    @abstractmethod
    def conjugate(self, y, s) -> np.ndarray:
        """loss*(y, s) = sup_f [s f - loss(y, f)] for a slope s that the loss can have."""

    @abstractmethod
    def _solve(self, K, y, weights, intercept) -> tuple[np.ndarray, float, int]:
        """(b, c, number of steps)."""

    def minimise(self, K, y, weights, intercept=False) -> Minimum:
        """Minimise J. K: (n, n) positive semidefinite, y: (n,), weights w: (n,) positive."""
        at_zero = float(weights @ self.value(y, np.zeros_like(y)))
        if at_zero == 0.0:
            return Minimum(np.zeros_like(y), 0.0, 0, gap=0.0, value=0.0, at_zero=0.0)
        b, c, iterations = self._solve(K, y, weights, intercept)
        f = K @ b
        size, f = 0.5 * (b @ f), f + c
        loss = self.value(y, f)
        excess = loss + self.conjugate(y, -b / weights) + f * b / weights
        return Minimum(
            b,
            c,
            iterations,
            gap=float(weights @ excess),
            value=float(weights @ loss + size),
            at_zero=at_zero,
        )


@dataclass(frozen=True)
class Squared(Loss):
    """(y - f)^2 / 2, in the squared units of y."""

    def value(self, y, f):
        return 0.5 * np.square(y - f)

    def derivative(self, y, f):
        return f - y

    def conjugate(self, y, s):
        return s * y + 0.5 * np.square(s)

    def _solve(self, K, y, weights, intercept):
        b, c = Shifted(K, weights, intercept).solve(y)
        return b, float(c), 1


class Kinked(Loss):
    """A loss that is linear between kinks, at each of which it may be rounded off."""

    #: how far f moves at a kink while the slope rises by 1: 0 where the kink is sharp
    roundness: ClassVar[float] = 0.0

    @abstractmethod
    def kinks(self, y) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Kinks t and the slopes before and after: (m, n) each; the slopes of the m are added."""

    def _solve(self, K, y, weights, intercept):
        kinks, before, after = self.kinks(y)
        return interior_point.minimise(
            K, kinks, -weights * after, -weights * before, self.roundness / weights, intercept
        )


@dataclass(frozen=True)
class Absolute(Kinked):
    """|y - f|, in the units of y: f is a median. Minus the log density of Laplace noise."""

    def value(self, y, f):
        return np.abs(y - f)

    def derivative(self, y, f):
        return np.sign(f - y)

    def conjugate(self, y, s):
        return s * y

    def kinks(self, y):
        one = np.ones((1, len(y)))
        return y[None], -one, one


@dataclass(frozen=True)
class Huber(Kinked):
    """(y - f)^2 / 2 up to |y - f| = delta, and delta (|y - f| - delta / 2) beyond.

    delta is in the units of y; 1.345 standard deviations of the noise have 95 % of the efficiency
    of the squared loss where noise is Gaussian. Huber (1964).
    """

    delta: float = 1.345
    roundness: ClassVar[float] = 1.0

    def __post_init__(self):
        validation.positive(self.delta, "delta")

    def value(self, y, f):
        near = np.minimum(np.abs(y - f), self.delta)
        return near * (np.abs(y - f) - 0.5 * near)

    def derivative(self, y, f):
        return np.clip(f - y, -self.delta, self.delta)

    def conjugate(self, y, s):
        return s * y + 0.5 * np.square(s)

    def kinks(self, y):
        slope = np.full((1, len(y)), self.delta)
        return y[None], -slope, slope


@dataclass(frozen=True)
class EpsilonInsensitive(Kinked):
    """max(|y - f| - epsilon, 0): errors up to epsilon, in the units of y, cost nothing.

    Vapnik (1995); the loss of support vector regression.
    """

    epsilon: float = 0.1

    def __post_init__(self):
        validation.positive(self.epsilon, "epsilon", zero=True)

    def value(self, y, f):
        return np.maximum(np.abs(y - f) - self.epsilon, 0.0)

    def derivative(self, y, f):
        return np.sign(f - y) * (np.abs(y - f) > self.epsilon)

    def conjugate(self, y, s):
        return s * y + self.epsilon * np.abs(s)

    def kinks(self, y):
        zero, one = np.zeros_like(y), np.ones_like(y)
        kinks = np.stack([y - self.epsilon, y + self.epsilon])
        return kinks, np.stack([-one, zero]), np.stack([zero, one])


class MarginLoss(Loss):
    """A loss of the margin y f, for labels y of -1 or 1."""

    def classify(self, K, codes, classes, weights, intercept=False) -> Minimum:
        """Coefficients (n,) for two classes, or (n, classes): one against the rest, for each.

        codes: (n,), the number of each point's class.
        """
        if classes == 2:
            return self.minimise(K, 2.0 * codes - 1.0, weights, intercept)
        each = [
            self.minimise(K, np.where(codes == c, 1.0, -1.0), weights, intercept)
            for c in range(classes)
        ]
        return Minimum(
            np.stack([one.coefficients for one in each], axis=1),
            np.array([one.intercept for one in each]),
            max(one.iterations for one in each),
            gap=sum(one.gap for one in each),
            value=sum(one.value for one in each),
            at_zero=sum(one.at_zero for one in each),
        )


@dataclass(frozen=True)
class Hinge(Kinked, MarginLoss):
    """max(1 - y f, 0), the loss of the support vector machine."""

    def value(self, y, f):
        return np.maximum(1.0 - y * f, 0.0)

    def derivative(self, y, f):
        return -y * (y * f < 1.0)

    def conjugate(self, y, s):
        return s * y

    def kinks(self, y):
        return y[None], np.minimum(-y, 0.0)[None], np.maximum(-y, 0.0)[None]


@dataclass(frozen=True)
class Logistic(MarginLoss):
    """log(1 + exp(-y f)); of more than two classes log sum_c exp(f_c) - f_y, the cross-entropy."""

    def value(self, y, f):
        return np.logaddexp(0.0, -y * f)

    def derivative(self, y, f):
        return -y * expit(-y * f)

    def conjugate(self, y, s):
        t = np.clip(-y * s, 0.0, 1.0)
        return xlogy(t, t) + xlogy(1.0 - t, 1.0 - t)

    def _solve(self, K, y, weights, intercept):
        P, c, iterations = _logistic_regression(K, y > 0.0, weights, intercept)
        return weights * ((y > 0.0) - P[:, 1]), float(c[0]), iterations

    def classify(self, K, codes, classes, weights, intercept=False):
        """As for any loss of the margin, but all classes at once: multinomial, not one by one."""
        if classes == 2:
            return super().classify(K, codes, classes, weights, intercept)
        P, c, iterations = _logistic_regression(K, codes, weights, intercept)
        Y = np.eye(classes)[codes]
        B = weights[:, None] * (Y - P)
        F = K @ B
        size, F = 0.5 * np.sum(B * F), F + c
        whole, entropy = logsumexp(F, axis=1), np.sum(xlogy(P, P), axis=1)
        excess = whole + entropy - np.sum(P * F, axis=1)
        loss = whole - np.sum(Y * F, axis=1)
        return Minimum(
            B,
            c,
            iterations,
            gap=float(weights @ excess),
            value=float(weights @ loss + size),
            at_zero=float(np.sum(weights) * np.log(classes)),
        )


def _logistic_regression(K, codes, weights, intercept):
    """Probabilities (n, classes), intercepts and the number of steps, by scikit-learn.

    K = L L' makes it a linear problem in the columns of L, as many as K has rank.
    """
    factor, pivots, rank, _ = dpstrf(K, lower=1)
    L = np.empty((len(K), max(rank, 1)), order="F")
    L[pivots - 1] = np.tril(factor)[:, : L.shape[1]]
    solver = LogisticRegression(
        C=1.0, fit_intercept=intercept, solver="newton-cg", tol=GRADIENT, max_iter=1000
    )
    with warnings.catch_warnings():
        # That nothing but rounding is left of the gradient is no news; the gap judges.
        warnings.simplefilter("ignore")
        solver.fit(L, codes, sample_weight=weights)
    return solver.predict_proba(L), np.asarray(solver.intercept_), int(np.max(solver.n_iter_))
