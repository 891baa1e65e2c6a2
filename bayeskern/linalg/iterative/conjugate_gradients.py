"""Conjugate gradients with a Nystrom preconditioner.

For Gram matrices too large for memory: a product with k(X) takes O(n^2) operations and O(n) memory.
The number of products depends on the eigenvalues of the preconditioned matrix. Hestenes
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
    """Outcome of conjugate gradients: convergence, or the reason for failure."""

    CONVERGED = "it converged"
    EXHAUSTED = "the iterations are used up"
    STALLED = "rounding errors keep the residual from falling further"
    INDEFINITE = "the matrix is not positive definite to rounding"
    NOT_FINITE = "products with the matrix are NaN or infinite"


class Solution(NamedTuple):
    """Result of conjugate gradients.

    Attributes:
        x: Solution, of the shape of the right-hand sides.
        status: Convergence, or the reason for failure.
        residual: |b - (k(X) + noise I) x| / |b|, computed from x; for several columns, the largest.
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
    """Solve (k(X) + noise I) x = b by conjugate gradients, without storing the matrix.

    Memory holds a few vectors and the preconditioner, n numbers for each landmark. The values of
    the posterior mean k(X) x are accurate to residual |b|. Columns of B are solved side by side,
    with separate step lengths, and share the tiles of the matrix.

    Args:
        kernel: A positive definite kernel whose hyperparameters are numbers.
        X: Inputs, shape (n, d) or (n,).
        noise: Noise variance, a number or shape (n,).
        B: Right-hand sides, shape (n,) or (n, k).
        tol: Relative residual at which the iteration stops.
        max_iterations: Maximum number of steps.
        rank: Number of landmarks of the preconditioner. By default 10 sqrt(n), or fewer to fit in
            an eighth of the memory.
        seed: Seed of the landmarks, a whole number from 0 to 2**32 - 1.
        progress: Whether to show a progress bar on a terminal.

    Returns:
        The solution with its status. Check the status: if the iteration does not converge, no error
        is raised, and x is the best solution so far.

    Raises:
        TypeError: A hyperparameter is still a distribution or free.
        ValueError: Input has a wrong shape, or is NaN or infinite; noise is negative; the kernel is
            known not to be positive definite, or is NaN or infinite at some of the points.

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

    # The solution for a column of zeros is 0; its size 1 avoids a division by 0.
    sizes = np.linalg.norm(columns, axis=0)
    sizes[sizes == 0.0] = 1.0
    digits = math.ceil(max(-10.0 * math.log10(tol), 1.0))
    with Progress("conjugate gradients", digits, progress, delay=2.0) as bar:

        def report(R):
            residual = np.max(np.linalg.norm(R, axis=0) / sizes)
            position = -10.0 * math.log10(residual) if residual > tol else digits
            bar.to(int(np.clip(position, 0, digits)), f"residual {residual:.1e}")

        solution = _solve(multiply, precondition, columns, sizes, tol, max_iterations, report)
    return solution._replace(x=solution.x.reshape(B.shape))


class Preconditioner(NamedTuple):
    """Inverse of D^1/2 (L L' + I) D^1/2, where D^1/2 L L' D^1/2 approximates k(X).

    D is the noise variance plus the variance of white noise in the kernel. k(X) minus its Nystrom
    approximation is positive semidefinite, so all eigenvalues of the preconditioned matrix are at
    least 1.

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
        # Imported here, because scikit-learn takes half a second to import.
        from bayeskern.kernels.approximation import NystromFeatures

        variances, smooth = np.asarray(kernel.evaluate_diag(jnp.asarray(X))), diagonal(kernel, X)
        features = NystromFeatures(kernel, rank, "leverage", seed)
        L = features.fit_transform(X) if np.any(smooth) else np.zeros((len(X), 1))
        # White noise has no features. The rounding error keeps D positive without any noise.
        white = np.maximum(variances - smooth, 0.0)
        rounding = len(X) * np.finfo(float).eps * variances
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
    If only the recurrence has reached tol, the iteration restarts from the true residual, as long
    as each restart at least halves it.
    """
    x, R, residual, n_steps = np.zeros_like(B), B, np.inf, 0
    while True:
        change, n_new, status = _descend(
            multiply, precondition, R, tol * sizes, max_iterations - n_steps, report
        )
        n_steps += n_new
        R = B - multiply(x + change)
        new_residual = np.max(np.linalg.norm(R, axis=0) / sizes)
        if not np.isfinite(new_residual):
            return Solution(x, Status.NOT_FINITE, float(residual), n_steps)
        old_residual, residual = residual, min(residual, new_residual)
        x = x + change if new_residual <= old_residual else x
        if residual <= tol:
            status = Status.CONVERGED
        elif status is Status.CONVERGED:
            if new_residual <= 0.5 * old_residual:
                continue
            status = Status.STALLED
        return Solution(x, status, float(residual), n_steps)


def _descend(
    multiply: Callable, precondition: Callable, R, goals, max_iterations: int, report: Callable
) -> tuple[np.ndarray, int, Status]:
    """Solve A x = R from x = 0 until |R - A x| <= goals by the recurrence of the residual.

    R: (n, k); goals: (k,). A column that has reached its goal stays fixed. Returns x, the number of
    steps and the status. Golub and Van Loan (2013), algorithm 11.5.1.
    """
    x, Z = np.zeros_like(R), precondition(R)
    directions, products = Z, np.sum(R * Z, axis=0)
    active = np.linalg.norm(R, axis=0) > goals
    for n_steps in range(max_iterations):
        if not np.any(active):
            return x, n_steps, Status.CONVERGED
        AD = multiply(directions)
        curvatures = np.sum(directions * AD, axis=0)
        if not np.all(np.isfinite(curvatures)):
            return x, n_steps, Status.NOT_FINITE
        if np.any(active & ((curvatures <= 0.0) | (products <= 0.0))):
            return x, n_steps, Status.INDEFINITE
        lengths = np.divide(products, curvatures, np.zeros_like(products), where=active)
        x, R = x + lengths * directions, R - lengths * AD
        report(R)
        active &= np.linalg.norm(R, axis=0) > goals
        Z, old_products = precondition(R), products
        products = np.sum(R * Z, axis=0)
        directions = Z + directions * np.divide(
            products, old_products, np.zeros_like(products), where=active
        )
    return x, max_iterations, Status.EXHAUSTED if np.any(active) else Status.CONVERGED


def _default_rank(n: int) -> int:
    memory_limit = 0.125 * validation.machine_memory() / (8.0 * n)
    return max(1, int(min(n, 10.0 * math.sqrt(n), memory_limit)))


def _read_noise(noise, n: int) -> np.ndarray:
    try:
        variances = np.broadcast_to(np.asarray(noise, dtype=float), (n,))
    except (TypeError, ValueError):
        raise ValueError(
            f"noise must be a number, or a variance for each of the {n} points; got shape "
            f"{np.shape(noise)}."
        ) from None
    if not np.all(np.isfinite(variances) & (variances >= 0.0)):
        raise ValueError("noise must be finite and at least 0. Check for NaN and signs.")
    return variances


def _read_right_hand_sides(B, n: int) -> np.ndarray:
    B = np.asarray(B, dtype=float)
    if B.ndim not in (1, 2) or len(B) != n or B.size == 0:
        raise ValueError(
            f"B has shape {B.shape}; it must be ({n},) or ({n}, k), as X has {n} rows."
        )
    validation.finite(B, "B")
    return B
