"""Minima of losses without a penalty: the limit of small penalties, by proximal point steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from bayeskern.course.losses import Loss

# Penalty of the first step, relative to the loss and to K, and its factor from step to step: larger
# penalties take more steps, smaller ones leave rounding errors in f = K b + c.
FIRST_PENALTY, PENALTY_FACTOR = 1e-4, 1e-2


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
