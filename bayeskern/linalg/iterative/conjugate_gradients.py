"""Conjugate gradients with a Nystrom preconditioner.

They serve Gram matrices too large for memory. A product with k(X) takes O(n^2) operations and O(n)
memory. The number of products depends on the eigenvalues that the preconditioner leaves. Hestenes
and Stiefel (1952); Frangella, Tropp and Udell (2023), "Randomized Nystrom preconditioning".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve

from bayeskern.core import validation
from bayeskern.core.progress import Progress
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.gram_matrix import diagonal
from bayeskern.linalg.iterative.tiled_gram import TiledGram


class Status(StrEnum):
    """Outcome of conjugate gradients: convergence, or the reason why not."""

    CONVERGED = "it converged"
    EXHAUSTED = "the iterations are used up"
    STALLED = "rounding errors keep the residual from falling further"
    INDEFINITE = "the matrix is not positive definite to rounding"
    NOT_FINITE = "products with the matrix are NaN or infinite"


class Solution(NamedTuple):
    """Result of conjugate gradients.

    Attributes:
        x: Solution, of the shape of the right-hand sides.
        status: Convergence, or the reason why not.
        residual: |b - (k(X) + noise I) x| / |b|, computed from x; the largest of several columns.
        iterations: Number of steps, each with one product.
    """

    x: np.ndarray
    status: Status
    residual: float
    iterations: int

    @property
    def converged(self) -> bool:
        """True if the residual is at most `tol`."""
        return self.status is Status.CONVERGED


def conjugate_gradients(
    kernel: Kernel,
    X: ArrayLike | list,
    noise: ArrayLike,
    B: ArrayLike,
    *,
    tol: float = 1e-6,
    max_iterations: int = 1000,
    rank: int | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Solution:
    """Solve (k(X) + noise I) x = b by conjugate gradients, without holding the matrix.

    Memory holds a few vectors and the preconditioner, n numbers for each landmark. The values of
    the mean f = k(X) x at X are within residual |b| of those of the exact x. Columns of B are
    solved for side by side, each by its own steps, and share the tiles of the matrix.

    Args:
        kernel: A positive definite kernel of numbers.
        X: Inputs, shape (n, d) or (n,).
        noise: Noise variance, a number or shape (n,).
        B: Right-hand sides, shape (n,) or (n, k).
        tol: Relative residual at which the iteration stops.
        max_iterations: Maximum number of steps.
        rank: Number of landmarks of the preconditioner. By default 10 sqrt(n), or as many as an
            eighth of the memory holds.
        seed: Seed of the landmarks, a whole number from 0 to 2**32 - 1.
        progress: Whether to show a progress bar on a terminal.

    Returns:
        The solution with its status. Check the status: nothing is raised where the iteration did
        not converge, and x is then the best solution so far.

    Raises:
        TypeError: A hyperparameter is still a distribution or free.
        ValueError: Input has other shapes, or is NaN or infinite; noise is negative; the kernel is
            not positive definite by construction, or NaN at some of the points.

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
    max_iterations = validation.positive_integer(max_iterations, "max_iterations")
    rank = _default_rank(n) if rank is None else validation.positive_integer(rank, "rank")
    precondition = Preconditioner.of(kernel, X, noise, min(rank, n), validation.seed(seed))
    columns, gram = B.reshape(n, -1), TiledGram(kernel, X)

    def multiply(V):
        return gram @ V + noise[:, None] * V

    # Columns of zeros are solved by zeros.
    sizes = np.linalg.norm(columns, axis=0)
    sizes[sizes == 0.0] = 1.0
    digits = math.ceil(max(-10.0 * math.log10(tol), 1.0))
    with Progress("conjugate gradients", digits, progress, delay=2.0) as bar:

        def report(R):
            residual = np.max(np.linalg.norm(R, axis=0) / sizes)
            done = -10.0 * math.log10(residual) if residual > tol else digits
            bar.to(int(np.clip(done, 0, digits)), f"residual {residual:.1e}")

        solution = _solve(multiply, precondition, columns, sizes, tol, max_iterations, report)
    return solution._replace(x=solution.x.reshape(B.shape))


class Preconditioner(NamedTuple):
    """Inverse of D^1/2 (L L' + I) D^1/2, where D^1/2 L L' D^1/2 approximates k(X).

    D is the noise with white noise of the kernel. k(X) minus its Nystrom approximation is positive
    semidefinite, so that no eigenvalue of the preconditioned matrix is below 1.

    Attributes:
        root: Square roots of D, shape (n, 1).
        L: Features at the landmarks, divided by root, shape (n, m).
        factor: I + L'L as returned by SciPy's `cho_factor`.
    """

    root: np.ndarray
    L: np.ndarray
    factor: tuple

    @classmethod
    def of(
        cls, kernel: Kernel, X: np.ndarray, noise: np.ndarray, rank: int, seed: int
    ) -> Preconditioner:
        """Preconditioner for X (n, d), noise (n,) and `rank` landmarks.

        The landmarks are drawn by their ridge leverage scores, which depend on the kernel and,
        unlike pivots, are robust to outliers. Musco and Musco (2017).
        """
        # scikit-learn takes half a second to import.
        from bayeskern.kernels.approximation import NystromFeatures

        variances, smooth = np.asarray(kernel.evaluate_diag(jnp.asarray(X))), diagonal(kernel, X)
        features = NystromFeatures(kernel, rank, "leverage", seed)
        L = features.fit_transform(X) if np.any(smooth) else np.zeros((len(X), 1))
        # White noise has no features. Rounding errors remain without any noise.
        white = np.maximum(variances - smooth, 0.0)
        rounding = len(X) * np.finfo(float).eps * np.mean(variances)
        root = np.sqrt(noise + white + rounding)[:, None]
        L /= root
        M = L.T @ L
        M[np.diag_indices_from(M)] += 1.0
        return cls(root, L, cho_factor(M, lower=True, overwrite_a=True))

    def __call__(self, R: np.ndarray) -> np.ndarray:
        """Product with R (n, k)."""
        W = R / self.root
        return (W - self.L @ cho_solve(self.factor, self.L.T @ W)) / self.root


def _solve(multiply, precondition, B, sizes, tol, max_iterations, report) -> Solution:
    """Solution for B (n, k), with the norms `sizes` of its columns.

    The residual in the recurrence of conjugate gradients drifts away from the true residual b - Ax.
    Where the former alone has reached tol, the iteration restarts from the true residual, for as
    long as a restart at least halves it.
    """
    x, R, residual, taken = np.zeros_like(B), B, np.inf, 0
    while True:
        step, steps, status = _descend(
            multiply, precondition, R, tol * sizes, max_iterations - taken, report
        )
        taken += steps
        R = B - multiply(x + step)
        new = np.max(np.linalg.norm(R, axis=0) / sizes)
        if not np.isfinite(new):
            return Solution(x, Status.NOT_FINITE, float(residual), taken)
        before, residual = residual, min(residual, new)
        x = x + step if new <= before else x
        if residual <= tol:
            status = Status.CONVERGED
        elif status is Status.CONVERGED:
            if new <= 0.5 * before:
                continue
            status = Status.STALLED
        return Solution(x, status, float(residual), taken)


def _descend(
    multiply: Callable, precondition: Callable, R, goals, max_iterations: int, report: Callable
) -> tuple[np.ndarray, int, Status]:
    """x, number of steps and status, with |R - A x| at most `goals` by its recurrence, from x = 0.

    R: (n, k); goals: (k,). Golub and Van Loan (2013), algorithm 11.5.1. A column that has reached
    its goal is no longer changed.
    """
    x, Z = np.zeros_like(R), precondition(R)
    directions, products = Z, np.sum(R * Z, axis=0)
    active = np.linalg.norm(R, axis=0) > goals
    for taken in range(max_iterations):
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
    return x, max_iterations, Status.EXHAUSTED if np.any(active) else Status.CONVERGED


def _default_rank(n: int) -> int:
    in_memory = 0.125 * validation.machine_memory() / (8.0 * n)
    return max(1, int(min(n, 10.0 * math.sqrt(n), in_memory)))


def _read_noise(noise, n: int) -> np.ndarray:
    try:
        variances = np.broadcast_to(np.asarray(noise, dtype=float), (n,))
    except (TypeError, ValueError):
        raise ValueError(
            f"noise must be a variance, or one for each of {n} points, got shape {np.shape(noise)}."
        ) from None
    if not np.all(np.isfinite(variances) & (variances >= 0.0)):
        raise ValueError("noise must be finite variances of 0 or more. Check for NaN and signs.")
    return variances


def _read_right_hand_sides(B, n: int) -> np.ndarray:
    B = np.asarray(B, dtype=float)
    if B.ndim not in (1, 2) or len(B) != n or B.size == 0:
        raise ValueError(
            f"B has shape {B.shape}; it must be ({n},) or ({n}, k), as X has {n} rows."
        )
    validation.finite(B, "B")
    return B
