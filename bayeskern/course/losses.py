"""Convex losses for kernel machines: values, slopes, conjugates and minimisers."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.linalg.lapack import dpstrf  # pyright: ignore[reportAttributeAccessIssue]
from scipy.special import expit, logsumexp, xlogy
from sklearn.linear_model import LogisticRegression

from bayeskern.core import validation
from bayeskern.course import interior_point
from bayeskern.course.interior_point import ShiftedGram
from bayeskern.course.loss import Loss, Minimum
from bayeskern.likelihoods.separation import separated


@dataclass(frozen=True)
class Squared(Loss):
    """The squared loss (y - f)^2 / 2, in the squared units of y.

    Examples:
        >>> import numpy as np
        >>> from bayeskern.course import losses
        >>> losses.Squared().value(np.array([3.0]), np.array([1.0]))
        array([2.])
    """

    has_one_minimum: ClassVar[bool] = True
    curvature: ClassVar[float] = 1.0

    def value(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return 0.5 * np.square(y - f)

    def derivative(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return f - y

    def conjugate(self, y: np.ndarray, s: np.ndarray) -> np.ndarray:
        return s * y + 0.5 * np.square(s)

    def _solve(self, K, y, weights, intercept):
        b, c = ShiftedGram(K, weights, intercept).solve(y)
        return b, float(c), 1


class Kinked(Loss):
    """A sum of parts, each linear on both sides of a kink t_j, which may be rounded.

    Part j is s_j (f - t_j) - roundness s_j^2 / 2, where the slope s_j = (f - t_j) / roundness is
    clipped to [low_j, high_j]. With roundness 0 the slope jumps at the kink.
    """

    roundness: ClassVar[float] = 0.0

    @abstractmethod
    def kinks(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Kinks t, ascending, and the lowest and highest slopes of the parts: (m, n) each."""

    def value(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        s, distance = self._slopes(y, f)
        return np.sum(s * distance - 0.5 * self.roundness * np.square(s), axis=0)

    def derivative(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.sum(self._slopes(y, f)[0], axis=0)

    def conjugate(self, y: np.ndarray, s: np.ndarray) -> np.ndarray:
        # The clipped slopes sum to s: several parts have slope ranges that meet at 0.
        t, low, high = self.kinks(np.broadcast_to(y, np.shape(s)))
        return np.sum(t * np.clip(s, low, high), axis=0) + 0.5 * self.roundness * np.square(s)

    def _slopes(self, y, f) -> tuple[np.ndarray, np.ndarray]:
        """Slope of each part (at a sharp kink, the one nearest 0) and f - t: (m, n) each."""
        t, low, high = self.kinks(np.broadcast_to(y, np.shape(f)))
        distance = f - t
        if self.roundness:
            return np.clip(distance / self.roundness, low, high), distance
        steep = np.where(distance == 0.0, 0.0, np.copysign(np.inf, distance))
        return np.clip(steep, low, high), distance

    def _solve(self, K, y, weights, intercept):
        kinks, low, high = self.kinks(y)
        return interior_point.minimize(
            K, kinks, -weights * high, -weights * low, self.roundness / weights, intercept
        )


@dataclass(frozen=True)
class Absolute(Kinked):
    """The absolute loss |y - f|, in the units of y.

    It is minimised by a median, and is minus the log density of Laplace noise up to a constant.

    Examples:
        >>> import numpy as np
        >>> from bayeskern.course import losses
        >>> losses.Absolute().value(np.array([3.0]), np.array([1.0]))
        array([2.])
    """

    has_one_minimum: ClassVar[bool] = True

    def kinks(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        ones = np.ones((1, len(y)))
        return y[None], -ones, ones


@dataclass(frozen=True)
class Huber(Kinked):
    """Huber's loss, quadratic for small errors and linear for large errors.

    It is (y - f)^2 / 2 up to |y - f| = delta, and delta (|y - f| - delta / 2) beyond.

    Args:
        delta: The error above which the loss is linear, in the units of y. With Gaussian
            noise, a delta of 1.345 standard deviations has 95 % of the efficiency of squared loss.

    References:
        Huber (1964), "Robust estimation of a location parameter".

    Examples:
        >>> import numpy as np
        >>> from bayeskern.course import losses
        >>> losses.Huber(delta=1.0).value(np.array([0.5, 3.0]), np.zeros(2))
        array([0.125, 2.5  ])
    """

    delta: float = 1.345
    roundness: ClassVar[float] = 1.0
    curvature: ClassVar[float] = 1.0
    has_one_minimum: ClassVar[bool] = True

    def __post_init__(self):
        validation.positive(self.delta, "delta")

    def kinks(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        slope = np.full((1, len(y)), self.delta)
        return y[None], -slope, slope


@dataclass(frozen=True)
class EpsilonInsensitive(Kinked):
    """The loss of support vector regression, max(|y - f| - epsilon, 0).

    Args:
        epsilon: The largest error without loss, in the units of y.

    References:
        Vapnik (1995), "The Nature of Statistical Learning Theory".

    Examples:
        >>> import numpy as np
        >>> from bayeskern.course import losses
        >>> losses.EpsilonInsensitive(epsilon=0.5).value(np.array([0.25, 2.0]), np.zeros(2))
        array([0. , 1.5])
    """

    epsilon: float = 0.1

    def __post_init__(self):
        validation.positive(self.epsilon, "epsilon", zero=True)

    def kinks(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        zeros, ones = np.zeros_like(y), np.ones_like(y)
        kinks = np.stack([y - self.epsilon, y + self.epsilon])
        return kinks, np.stack([-ones, zeros]), np.stack([zeros, ones])


class MarginLoss(Loss):
    """A loss of the margin y f, for labels y of -1 or 1."""

    def classify(
        self,
        K: np.ndarray,
        codes: np.ndarray,
        classes: int,
        weights: np.ndarray,
        intercept: bool = False,
        penalised: bool = True,
    ) -> Minimum:
        """Minimise J for two classes, or for each of several classes against the rest.

        Args:
            K: The Gram matrix, (n, n), positive semidefinite.
            codes: The index of each point's class, (n,).
            classes: The number of classes.
            weights: Weights w, (n,), all above 0.
            intercept: Whether to minimise over c too; otherwise c = 0.
            penalised: As in `minimise`.

        Returns:
            The minimum, with coefficients (n,) for two classes, (n, classes) for more.
        """
        if classes == 2:
            return self.minimise(K, 2.0 * codes - 1.0, weights, intercept, penalised)
        minima = [
            self.minimise(K, np.where(codes == c, 1.0, -1.0), weights, intercept, penalised)
            for c in range(classes)
        ]
        coefficients, intercepts, iterations, gaps, values, at_zero = zip(*minima, strict=True)
        return Minimum(
            np.stack(coefficients, axis=1),
            np.array(intercepts),
            max(iterations),
            sum(gaps),
            sum(values),
            sum(at_zero),
        )


@dataclass(frozen=True)
class Hinge(Kinked, MarginLoss):
    """The support vector machine's loss max(1 - y f, 0), for labels y of -1 or 1.

    References:
        Cortes and Vapnik (1995), "Support-vector networks".

    Examples:
        >>> import numpy as np
        >>> from bayeskern.course import losses
        >>> losses.Hinge().value(np.array([1.0, -1.0]), np.array([0.5, 0.5]))
        array([0.5, 1.5])
    """

    def kinks(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return y[None], np.minimum(-y, 0.0)[None], np.maximum(-y, 0.0)[None]


@dataclass(frozen=True)
class Logistic(MarginLoss):
    """The logistic loss log(1 + exp(-y f)), for labels y of -1 or 1.

    For more than two classes it is the cross-entropy log sum_c exp(f_c) - f_y.

    Examples:
        >>> import numpy as np
        >>> from bayeskern.course import losses
        >>> losses.Logistic().value(np.array([1.0]), np.array([0.0])).round(3)
        array([0.693])
    """

    curvature: ClassVar[float] = 0.25

    def value(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.logaddexp(0.0, -y * f)

    def derivative(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return -y * expit(-y * f)

    def conjugate(self, y: np.ndarray, s: np.ndarray) -> np.ndarray:
        t = np.clip(-y * s, 0.0, 1.0)
        return xlogy(t, t) + xlogy(1.0 - t, 1.0 - t)

    def _solve(self, K, y, weights, intercept):
        P, c, iterations = _logistic_regression(K, y > 0.0, weights, intercept)
        return weights * ((y > 0.0) - P[:, 1]), float(c[0]), iterations

    def classify(
        self,
        K: np.ndarray,
        codes: np.ndarray,
        classes: int,
        weights: np.ndarray,
        intercept: bool = False,
        penalised: bool = True,
    ) -> Minimum:
        """Minimise J; for more than two classes, with the multinomial loss."""
        if not penalised:
            return _maximum_likelihood(K, codes, classes, weights, intercept)
        if classes == 2:
            return super().classify(K, codes, classes, weights, intercept)
        P, c, iterations = _logistic_regression(K, codes, weights, intercept)
        Y = np.eye(classes)[codes]
        B = weights[:, None] * (Y - P)
        F = K @ B
        squared_norm, F = np.sum(B * F), F + c
        # Duality gap of each row: log sum_c exp(f_c) + sum_c p_c log p_c - p'f, which is 0 at
        # p = softmax(f).
        normalizer = np.asarray(logsumexp(F, axis=1))
        negative_entropy = np.sum(xlogy(P, P), axis=1)
        excess = normalizer + negative_entropy - np.sum(P * F, axis=1)
        loss = normalizer - np.sum(Y * F, axis=1)
        return Minimum(
            B,
            c,
            iterations,
            gap=float(weights @ excess),
            value=float(weights @ loss + 0.5 * squared_norm),
            at_zero=float(np.sum(weights) * np.log(classes)),
        )


def _logistic_regression(K, codes, weights, intercept: bool) -> tuple[np.ndarray, np.ndarray, int]:
    """Probabilities (n, classes), intercepts and the number of steps, by scikit-learn.

    With K = L L' it is a linear logistic regression on the columns of L, (n, rank of K).
    """
    L = _features(K)
    solver = _fitted_regression(L, codes, weights, intercept, 1.0)
    return solver.predict_proba(L), np.asarray(solver.intercept_), int(np.max(solver.n_iter_))


def _maximum_likelihood(K, codes, classes: int, weights, intercept: bool) -> Minimum:
    """Logistic regression without a penalty; raise ValueError if the classes are separable."""
    L, n = _features(K), len(K)
    Z = np.column_stack([L, np.ones(n)]) if intercept else L
    # f_y - f_c in each row, for each class c but y: no maximum if it can be raised without limit.
    contrasts = np.eye(classes)[codes][:, None] - np.eye(classes)
    others = contrasts[np.arange(classes) != codes[:, None]].reshape(n, classes - 1, classes)
    directions = np.einsum("ick,ip->ickp", others, Z).reshape(n * (classes - 1), -1)
    rises = np.ones(len(directions), bool)
    if np.linalg.matrix_rank(Z) == n or separated(directions, ~rises, rises):
        raise ValueError(
            "f can separate the classes, so that the logistic loss has no minimum without a "
            "penalty: give a penalty above 0, a kernel with fewer features, or the hinge loss, "
            "whose limit is the largest margin."
        )
    solver = _fitted_regression(L, codes, weights, intercept, np.inf)
    coefficients, c = solver.coef_.T, np.asarray(solver.intercept_)
    if classes > 2:
        coefficients = coefficients - coefficients.mean(axis=1, keepdims=True)
        c = c - c.mean()
    B = np.linalg.lstsq(L.T, coefficients, rcond=None)[0]
    P = solver.predict_proba(L)
    gradient = L.T @ (weights[:, None] * (P - np.eye(classes)[codes]))
    return Minimum(
        B if classes > 2 else B[:, 0],
        c if classes > 2 else float(c[0]),
        int(np.max(solver.n_iter_)),
        gap=float(np.linalg.norm(gradient) * np.linalg.norm(coefficients)),
        value=float(-weights @ np.log(P[np.arange(n), codes])),
        at_zero=float(np.sum(weights) * np.log(classes)),
    )


def _features(K) -> np.ndarray:
    """L, (n, rank of K), with K = L L'."""
    factor, pivots, rank, _ = dpstrf(K, lower=1)
    L = np.empty((len(K), max(rank, 1)), order="F")
    L[pivots - 1] = np.tril(factor)[:, : L.shape[1]]
    return L


def _fitted_regression(L, codes, weights, intercept: bool, C: float) -> LogisticRegression:
    """scikit-learn's logistic regression on the columns of L."""
    solver = LogisticRegression(
        C=C, fit_intercept=intercept, solver="newton-cg", tol=1e-15, max_iter=1000
    )
    with warnings.catch_warnings():
        # The tolerance is below rounding on purpose; the duality gap measures the accuracy of b.
        warnings.simplefilter("ignore")
        return solver.fit(L, codes, sample_weight=weights)


def read_loss(loss: Any, losses: dict[str, type]) -> Any:
    """The loss of a given name, or `loss` itself if its class is in `losses`."""
    if isinstance(loss, tuple(losses.values())):
        return loss
    return losses[validation.one_of("loss", loss, losses)]()


REGRESSION_LOSSES: dict[str, type[Loss]] = {
    "squared": Squared,
    "absolute": Absolute,
    "huber": Huber,
    "epsilon_insensitive": EpsilonInsensitive,
}
MARGIN_LOSSES: dict[str, type[MarginLoss]] = {"logistic": Logistic, "hinge": Hinge}
