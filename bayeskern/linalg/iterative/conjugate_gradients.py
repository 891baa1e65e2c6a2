"""Conjugate gradients with a Nystrom preconditioner, for Gram matrices that no memory holds.

A product with k(X) takes O(n^2) operations and O(n) memory. How many it takes depends on the
eigenvalues that the preconditioner has not taken out. Hestenes and Stiefel (1952); Frangella, Tropp
and Udell (2023), "Randomized Nystrom preconditioning".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from bayeskern.core import validation
from bayeskern.core.progress import Progress
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.gram_matrix import diagonal
from bayeskern.linalg.iterative.tiled_gram import TiledGram

# The default number of landmarks is so many times the square root of n, in at most this part of
# the memory.
LANDMARKS = 10.0
PART_OF_MEMORY = 1.0 / 8.0
# A solution starts again from its true residual while that falls by this factor at least.
WORTH_A_RESTART = 0.5
# Seconds after which a bar is shown.
MOMENT = 2.0


class Status(StrEnum):
    """How conjugate gradients ended, and if they did not converge, why."""

    CONVERGED = "it converged"
    EXHAUSTED = "the iterations are used up"
    STALLED = "rounding errors keep the residual from falling further"
    INDEFINITE = "the matrix is not positive definite to rounding"
    NOT_FINITE = "products with the matrix are NaN or infinite"


class Solution(NamedTuple):
    """What conjugate gradients found.

    Attributes:
        x: The solution, of the shape of the right-hand sides.
        status: Whether it converged, and if not, why.
        residual: |b - (k(X) + noise I) x| / |b|, computed from x; the largest of several columns.
        iterations: How many steps were taken, a product each.
    """

    x: np.ndarray
    status: Status
    residual: float
    iterations: int

    @property
    def converged(self) -> bool:
        """Whether the residual is as small as was asked for."""
        return self.status is Status.CONVERGED


def conjugate_gradients(
    kernel: Kernel,
    X,
    noise,
    B,
    *,
    tol: float = 1e-6,
    max_iterations: int = 1000,
    rank: int | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Solution:
    """Solve (k(X) + noise I) x = b by conjugate gradients, without holding the matrix.

    The memory is that of a few vectors and of the preconditioner, n numbers for each landmark. The
    values of the mean f = k(X) x at X are within residual |b| of those that exact x gives. Columns
    of B are solved for side by side, each by its own steps; tiles of the matrix serve all of them.

    Args:
        kernel: A positive definite kernel of numbers.
        X: Inputs, shape (n, d) or (n,).
        noise: The noise variance, a number or shape (n,).
        B: Right-hand sides, shape (n,) or (n, k).
        tol: The relative residual at which a solution is good enough.
        max_iterations: The most steps.
        rank: The number of landmarks of the preconditioner. By default 10 sqrt(n), or as many as
            an eighth of the memory holds.
        seed: A whole number from 0 to 2**32 - 1, from which the landmarks follow.
        progress: Whether to show a bar on a terminal.

    Returns:
        The solution with its status, which has to be looked at: nothing is raised where it did not
        converge. x is then what had been found until then.

    Raises:
        TypeError: A hyperparameter is still a distribution or free.
        ValueError: For input of other shapes, NaN or infinite, for negative noise, and for a kernel
            that is not positive definite by construction, or NaN at some of the points.

    Examples:
        >>> import numpy as np
        >>> from bayeskern.kernels import Matern32
        >>> from bayeskern.linalg import conjugate_gradients
        >>> X = np.random.default_rng(0).normal(size=(500, 3))
        >>> b = np.sin(X.sum(axis=1))
        >>> solution = conjugate_gradients(Matern32(2.0), X, 0.1, b, tol=1e-10)
        >>> solution.converged, solution.residual < 1e-10
        (True, True)
        >>> exact = np.linalg.solve(Matern32(2.0)(X) + 0.1 * np.eye(500), b)
        >>> bool(np.max(np.abs(solution.x - exact)) < 1e-8)
        True
    """
    X = np.asarray(validation.inputs(X)[0])
    n = len(X)
    noise, B = _read_noise(noise, n), _read_right_hand_sides(B, n)
    tol = validation.positive(tol, "tol")
    most = validation.positive_integer(max_iterations, "max_iterations")
    rank = _default_rank(n) if rank is None else validation.positive_integer(rank, "rank")
    precondition = Preconditioner.of(kernel, X, noise, min(rank, n), validation.seed(seed))
    columns, gram = B.reshape(n, -1), TiledGram(kernel, X)

    def multiply(V):
        return gram @ V + noise[:, None] * V

    # Columns of zeros are solved by zeros.
    sizes = np.linalg.norm(columns, axis=0)
    sizes[sizes == 0.0] = 1.0
    digits = math.ceil(max(-10.0 * math.log10(tol), 1.0))
    with Progress("conjugate gradients", digits, progress, delay=MOMENT) as bar:

        def report(R):
            left = np.max(np.linalg.norm(R, axis=0) / sizes)
            done = -10.0 * math.log10(left) if left > tol else digits
            bar.to(int(np.clip(done, 0, digits)), f"residual {left:.1e}")

        x, *ended = _solve(multiply, precondition, columns, sizes, tol, most, report)
    return Solution(x.reshape(B.shape), *ended)


class Preconditioner(NamedTuple):
    """The inverse of D^1/2 (L L' + I) D^1/2, where D^1/2 L L' D^1/2 stands for k(X).

    D is the noise with what else is known of the diagonal alone. k(X) minus its Nystrom
    approximation is positive semidefinite, so that no eigenvalue of the preconditioned matrix is
    below 1.

    Attributes:
        root: The square roots of D, (n, 1).
        L: Features at the landmarks, divided by root: (n, m).
        factor: I + L'L as SciPy's `cho_factor` has it.
    """

    root: np.ndarray
    L: np.ndarray
    factor: tuple

    @classmethod
    def of(cls, kernel: Kernel, X, noise, rank: int, seed: int) -> Preconditioner:
        """X: (n, d); noise: (n,); rank: the number of landmarks.

        They are drawn by their ridge leverage scores, which know of the kernel, and other than
        pivots are not led astray by outliers. Musco and Musco (2017).
        """
        # Here, since scikit-learn takes half a second to import.
        from bayeskern.kernels.approximation import NystromFeatures

        variances, smooth = np.asarray(kernel.evaluate_diag(X)), diagonal(kernel, X)
        features = NystromFeatures(kernel, rank, "leverage", seed)
        L = features.fit_transform(X) if np.any(smooth) else np.zeros((len(X), 1))
        # White noise has no features. Without any noise there are still rounding errors.
        white = np.maximum(variances - smooth, 0.0)
        rounding = len(X) * np.finfo(float).eps * np.mean(variances)
        root = np.sqrt(noise + white + rounding)[:, None]
        L /= root
        M = L.T @ L
        M[np.diag_indices_from(M)] += 1.0
        return cls(root, L, cho_factor(M, lower=True, overwrite_a=True))

    def __call__(self, R):
        """The product with R (n, k)."""
        W = R / self.root
        return (W - self.L @ cho_solve(self.factor, self.L.T @ W)) / self.root


def _solve(multiply, precondition, B, sizes, tol, most, report):
    """(x, status, residual, iterations) for B: (n, k) with the norms `sizes` of its columns.

    The residual that the recurrence of conjugate gradients carries along drifts away from the true
    one, b - A x. Where it alone has reached tol, they start again from the true one.
    """
    x, R, residual, taken = np.zeros_like(B), B, np.inf, 0
    while True:
        step, steps, status = _descend(multiply, precondition, R, tol * sizes, most - taken, report)
        taken += steps
        R = B - multiply(x + step)
        left = np.max(np.linalg.norm(R, axis=0) / sizes)
        if not np.isfinite(left):
            return x, Status.NOT_FINITE, residual, taken
        before, residual = residual, min(residual, left)
        x = x + step if left <= before else x
        if residual <= tol:
            return x, Status.CONVERGED, float(residual), taken
        if status is not Status.CONVERGED:
            return x, status, float(residual), taken
        if left > WORTH_A_RESTART * before:
            return x, Status.STALLED, float(residual), taken


def _descend(
    multiply: Callable, precondition: Callable, R, goals, most: int, report: Callable
) -> tuple[np.ndarray, int, Status]:
    """(x, steps, status) with |R - A x| at most `goals` by its recurrence, from x = 0.

    R: (n, k); goals: (k,). Golub and Van Loan (2013), algorithm 11.5.1. A column that has reached
    its goal stays as it is.
    """
    x, Z = np.zeros_like(R), precondition(R)
    directions, products = Z, np.sum(R * Z, axis=0)
    active = np.linalg.norm(R, axis=0) > goals
    for taken in range(most):
        if not np.any(active):
            return x, taken, Status.CONVERGED
        AD = multiply(directions)
        curvatures = np.sum(directions * AD, axis=0)
        if not np.all(np.isfinite(curvatures)):
            return x, taken, Status.NOT_FINITE
        if np.any(active & ((curvatures <= 0.0) | (products <= 0.0))):
            return x, taken, Status.INDEFINITE
        lengths = np.divide(products, curvatures, np.zeros_like(products), where=active)
        x, R = x + lengths * directions, R - lengths * AD
        report(R)
        active &= np.linalg.norm(R, axis=0) > goals
        Z, before = precondition(R), products
        products = np.sum(R * Z, axis=0)
        directions = Z + directions * np.divide(
            products, before, np.zeros_like(products), where=active
        )
    return x, most, Status.EXHAUSTED if np.any(active) else Status.CONVERGED


def _default_rank(n: int) -> int:
    held = PART_OF_MEMORY * validation.machine_memory() / (8.0 * n)
    return max(1, int(min(n, LANDMARKS * math.sqrt(n), held)))


def _read_noise(noise, n: int) -> np.ndarray:
    try:
        variances = np.broadcast_to(np.asarray(noise, dtype=float), (n,))
    except (TypeError, ValueError):
        raise ValueError(
            f"noise must be a variance, or one for each of {n} points, got shape {np.shape(noise)}."
        ) from None
    if not np.all(np.isfinite(variances) & (variances >= 0.0)):
        raise ValueError("noise must be finite variances of 0 or more. Look for NaN and signs.")
    return variances


def _read_right_hand_sides(B, n: int) -> np.ndarray:
    B = np.asarray(B, dtype=float)
    if B.ndim not in (1, 2) or len(B) != n or B.size == 0:
        raise ValueError(
            f"B has shape {B.shape}; it must be ({n},) or ({n}, k), as X has {n} rows."
        )
    validation.finite(B, "B")
    return B
