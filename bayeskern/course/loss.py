"""A convex loss, and its minimum with and without a penalty.

A loss minimises J(b, c) = sum_i w_i loss(y_i, f_i) + 1/2 b'K b over b, (n,), and over c if there is
an intercept, with f = K b + c. At the minimum b_i = -w_i loss'(y_i, f_i). For any b with slopes
s = -b / w and the convex conjugate loss*, the duality gap

    gap = sum_i w_i [loss(y_i, f_i) + loss*(y_i, s_i) - s_i f_i] >= 0

bounds J minus its minimum (Fenchel and Young); with an intercept this requires sum b = 0. Without a
penalty, proximal point steps find the limit of small penalties.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np

# Penalty of the first step, relative to the loss and to K, and its factor from step to step: larger
# penalties take more steps, smaller ones leave rounding errors in f = K b + c.
FIRST_PENALTY, PENALTY_FACTOR = 1e-4, 1e-2


class Minimum(NamedTuple):
    """The minimum of J found by a solver.

    Attributes:
        coefficients: b, (n,) or (n, classes).
        intercept: c, a number or (classes,).
        iterations: The number of steps.
        gap: A bound on J minus its minimum.
        value: J at b and c.
        at_zero: J at f = 0.
    """

    coefficients: np.ndarray
    intercept: float | np.ndarray
    iterations: int
    gap: float
    value: float
    at_zero: float


class Loss(ABC):
    """A convex function of a prediction f, given y.

    `bayeskern.course.losses` has those of `KernelMachineRegressor` and `KernelMachineClassifier`.

    Attributes:
        has_one_minimum: True if loss(y, f) depends on y - f, and is 0 only at f = y.
        curvature: The largest second derivative by f; infinite for a loss with kinks.
    """

    has_one_minimum: ClassVar[bool] = False
    curvature: ClassVar[float] = np.inf

    @abstractmethod
    def value(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """Evaluate the loss.

        Args:
            y: Targets, (n,).
            f: Predictions, (n,).

        Returns:
            loss(y, f), (n,).
        """

    @abstractmethod
    def derivative(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """Evaluate the slope of the loss.

        Args:
            y: Targets, (n,).
            f: Predictions, (n,).

        Returns:
            d loss(y, f) / df, (n,); at a kink, one of the slopes between both sides.
        """

    @abstractmethod
    def conjugate(self, y: np.ndarray, s: np.ndarray) -> np.ndarray:
        """Evaluate the convex conjugate of the loss.

        Args:
            y: Targets, (n,).
            s: Slopes within the range of the loss, (n,).

        Returns:
            loss*(y, s) = sup_f [s f - loss(y, f)], (n,).
        """

    @abstractmethod
    def _solve(
        self, K: np.ndarray, y: np.ndarray, weights: np.ndarray, intercept: bool
    ) -> tuple[np.ndarray, float, int]:
        """(b, c, number of steps)."""

    def minimise(
        self,
        K: np.ndarray,
        y: np.ndarray,
        weights: np.ndarray,
        intercept: bool = False,
        penalised: bool = True,
    ) -> Minimum:
        """Minimise J.

        Args:
            K: The Gram matrix, (n, n), positive semidefinite.
            y: Targets, (n,).
            weights: Weights w, (n,), all above 0.
            intercept: Whether to minimise over c too; otherwise c = 0.
            penalised: False for the limit of small penalties: the minimum of the loss alone.

        Returns:
            The minimum, with its duality gap.

        Raises:
            ValueError: If the loss alone has no minimum.
        """
        at_zero = float(weights @ self.value(y, np.zeros_like(y)))
        if at_zero == 0.0:
            return Minimum(np.zeros_like(y), 0.0, 0, gap=0.0, value=0.0, at_zero=0.0)
        if not penalised:
            b, c, iterations, gap = minimise_loss(self, K, y, weights, intercept)
            value = float(weights @ self.value(y, K @ b + c))
            return Minimum(b, c, iterations, gap=gap, value=value, at_zero=at_zero)
        b, c, iterations = self._solve(K, y, weights, intercept)
        f = K @ b
        squared_norm, f = b @ f, f + c
        loss = self.value(y, f)
        excess = loss + self.conjugate(y, -b / weights) + f * b / weights
        return Minimum(
            b,
            c,
            iterations,
            gap=float(weights @ excess),
            value=float(weights @ loss + 0.5 * squared_norm),
            at_zero=at_zero,
        )


def minimise_loss(
    loss: Loss, K: np.ndarray, y: np.ndarray, weights: np.ndarray, intercept: bool
) -> tuple[np.ndarray, float, int, float]:
    """Minimise sum_i w_i loss(y_i, f_i) over f = K b + c, with b in the range of K.

    Each step adds to f the minimiser of the loss of f + g plus a small penalty on |g|^2. Under a
    loss with many minima, each step starts from f = 0 instead: with a penalty below a threshold,
    the step ends at the minimiser of least norm, because the loss consists of lines and kinks.

    Args:
        loss: The loss.
        K: The Gram matrix, (n, n), positive semidefinite.
        y: Targets, (n,).
        weights: Weights w, (n,), all above 0.
        intercept: Whether to minimise over c too; otherwise c = 0.

    Returns:
        b (n,), c, the number of steps of the solver, and the duality gap of the last step.

    References:
        Rockafellar (1976), "Monotone operators and the proximal point algorithm". Mangasarian and
        Meyer (1979), "Nonlinear perturbation of linear programs", on the threshold.
    """
    s, U = np.linalg.eigh(K)
    U = U[:, s > len(K) * np.finfo(float).eps * s[-1]]
    slope = np.mean(weights * np.abs(loss.derivative(y, np.zeros_like(y))))
    penalty = FIRST_PENALTY * (K.diagonal().mean() or 1.0) * slope / np.mean(np.abs(y))
    b, c, f, steps, gap = np.zeros_like(y), 0.0, np.zeros_like(y), 0, 0.0
    least = start = float(weights @ loss.value(y, f))
    while penalty > 0.0 and least > np.square(len(y) * np.finfo(float).eps) * start:
        base, offset, target = (b, c, y - f) if loss.has_one_minimum else (0.0, 0.0, y)
        minimum = loss.minimise(K, target, weights / penalty, intercept)
        # The part of b outside the range of K does not change f, except by rounding errors.
        new_b = base + U @ (U.T @ minimum.coefficients)
        new_c = offset + float(minimum.intercept)
        new_f = K @ new_b + new_c
        value = float(weights @ loss.value(y, new_f))
        steps += minimum.iterations
        if not value < least:
            break
        b, c, f, least, gap = new_b, new_c, new_f, value, penalty * minimum.gap
        penalty *= PENALTY_FACTOR
    return b, c, steps, gap
