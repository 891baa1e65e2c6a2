"""The linear system of kernel ridge by conjugate gradients, for more points than a matrix holds."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bayeskern.linalg import Solution, Status, conjugate_gradients
from bayeskern.ridge.factored_system import beside_constant


def solve_iteratively(
    kernel, X, alpha: float, T, sqrt_weights, constant: bool, tol: float, seed: int
) -> tuple[np.ndarray, np.ndarray, Solution]:
    """(c, b) of `dual_system` for T (n, k), as sqrt_weights (n,) multiply it, and how it ended.

    Raises numpy.linalg.LinAlgError where nothing was found that could be used, and warns where the
    residual is above tol.
    """
    u = sqrt_weights[:, None]
    B = np.concatenate([T, u], axis=1) if constant else T
    noise = alpha / np.square(sqrt_weights)
    solution = conjugate_gradients(kernel, X, noise, B / u, tol=tol, seed=seed, progress=True)
    if solution.status in (Status.INDEFINITE, Status.NOT_FINITE):
        raise np.linalg.LinAlgError(f"{_missed(solution, tol)} Take a larger alpha.")
    if not solution.converged:
        warnings.warn(
            f"{_missed(solution, tol)} The values of f at the points are off by about that much of "
            "the size of y. Take a larger alpha, which needs fewer steps, a larger tol, or "
            "NystromRidge.",
            ConvergenceWarning,
            stacklevel=4,
        )
    c = solution.x / u
    if not constant:
        return c, np.zeros(T.shape[1]), solution
    return *beside_constant(c[:, :-1], c[:, -1], sqrt_weights), solution


def _missed(solution: Solution, tol: float) -> str:
    return (
        f"conjugate gradients did not reach tol={tol:g}: {solution.status}, with a relative "
        f"residual of {solution.residual:.2g} after {solution.iterations} steps."
    )
