"""Solvers of kernel ridge regression: the choice of one, and conjugate gradients."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bayeskern.core import validation
from bayeskern.kernels.base import Kernel
from bayeskern.linalg import SOLVERS, Solution, Status, TooLargeError, choose, conjugate_gradients
from bayeskern.linalg.dense import DenseSolver

#: the solvers that store the Gram matrix; "dense" takes one of the other two
WITH_MATRIX = ("cholesky", "eigen", "dense")
SOLVER_NAMES = tuple(dict.fromkeys(("auto", *WITH_MATRIX, "iterative", *SOLVERS)))


def choose_solver(
    requested: str,
    kernel: Kernel,
    X: np.ndarray,
    noise: np.ndarray | float,
    needs_matrix: str | None,
    needs_factor: str | None,
    may_be_singular: bool,
) -> str:
    """Choose one of SOLVER_NAMES other than "auto".

    Args:
        requested: The argument `solver` of the estimator.
        kernel: The kernel.
        X: Points, (n, d).
        noise: alpha W^-1 for some alpha, with the sample weights W: a number, or (n,).
        needs_matrix: A requested option that only solvers with the matrix support; or None.
        needs_factor: A requested option that needs the matrix or a factor; or None.
        may_be_singular: True if an alpha is 0, for which a solver needs the matrix.

    Raises:
        ValueError: If the solver does not support an option, or memory does not suffice.
    """
    if requested in WITH_MATRIX:
        return requested
    if requested == "auto":
        # An option that needs the matrix takes it, even if memory seems too small for it.
        if needs_matrix is not None or (may_be_singular and matrix_fits_in_memory(kernel, X)):
            return "dense"
        return _fastest(kernel, X, noise, needs_factor)
    unsupported = needs_matrix or (needs_factor if requested == "iterative" else None)
    if unsupported is not None:
        raise ValueError(
            f"solver={requested!r} does not support {unsupported}. Use solver='auto', or drop that "
            "option."
        )
    if requested == "iterative":
        return requested
    if SOLVERS[requested].approximate:
        raise ValueError(
            f"solver={requested!r} approximates the Gram matrix, so that it has no exact dual "
            "coefficients. Use NystromRidge or GaussianProcess."
        )
    return choose(kernel, X, requested, noise).solver  # pyright: ignore[reportArgumentType]


def matrix_fits_in_memory(kernel: Kernel, X: np.ndarray) -> bool:
    """True if the Gram matrix of X and its factor fit in memory."""
    return _bytes_of_matrix(kernel, X) <= validation.machine_memory()


def _fastest(kernel, X, noise, needs_factor: str | None) -> str:
    """The fastest exact solver that fits in memory, or "iterative" if none does."""
    try:
        name = choose(kernel, X, noise=noise).solver
    except TooLargeError:
        name = "iterative"
    if name != "iterative" and not SOLVERS[name].approximate:
        return name
    if needs_factor is not None:
        raise ValueError(
            f"{needs_factor} needs a factor of K + alpha I, which takes about "
            f"{_bytes_of_matrix(kernel, X) / 1e9:,.0f} GB for {len(X):,} points, and this machine "
            f"has {validation.machine_memory() / 1e9:,.0f}. Give alpha as a number, which needs no "
            f"factor, or take NystromRidge({needs_factor})."
        )
    return "iterative"


def _bytes_of_matrix(kernel, X) -> float:
    return DenseSolver().applicability(kernel, X).cost.bytes


def solve_iteratively(
    kernel: Kernel, X, alpha: float, T, u, constant: bool, tol: float, seed: int
) -> tuple[np.ndarray, np.ndarray, Solution]:
    """Solve a `RidgeSystem` by conjugate gradients, without storing a matrix.

    Args:
        kernel: The kernel.
        X: Points, (n, d).
        alpha: The penalty.
        T: Targets times u, (n, k).
        u: The square roots of the sample weights, (n,).
        constant: True if there is an unpenalised constant.
        tol: The relative residual at which to stop.
        seed: The seed of the preconditioner.

    Returns:
        The coefficients c, (n, k), the constants b, (k,), and the solver's `Solution`.

    Raises:
        numpy.linalg.LinAlgError: If the matrix is not positive definite, or products are NaN.

    Warns:
        sklearn.exceptions.ConvergenceWarning: If the residual is above tol.
    """
    # x = S c solves (K + alpha W^-1) x = S^-1 t, with S = diag(u) and W = S^2.
    S = u[:, None]
    B = np.concatenate([T, S], axis=1) if constant else T
    noise = alpha / np.square(u)
    solution = conjugate_gradients(kernel, X, noise, B / S, tol=tol, seed=seed, progress=True)
    ending = (
        f"conjugate gradients did not reach tol={tol:g}: {solution.status}, with a relative "
        f"residual of {solution.residual:.2g} after {solution.iterations} steps."
    )
    if solution.status in (Status.INDEFINITE, Status.NOT_FINITE):
        raise np.linalg.LinAlgError(f"{ending} Take a larger alpha.")
    if not solution.converged:
        warnings.warn(
            f"{ending} The error of f at the points is about that fraction of the size of y. Use "
            "a larger alpha, which needs fewer steps, a larger tol, or NystromRidge.",
            ConvergenceWarning,
            stacklevel=3,
        )
    c = solution.x / S
    if not constant:
        return c, np.zeros(T.shape[1]), solution
    # The last column is q = (S K S + alpha I)^-1 u; u'c = 0 gives b.
    c, q = c[:, :-1], c[:, -1]
    b = (u @ c) / (u @ q)
    return c - np.multiply.outer(q, b), b, solution
