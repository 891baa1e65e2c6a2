"""Linear least squares, with the rank and the condition number of X.

Golub and Van Loan (2013), chapters 5 and 6.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve, eigvalsh, solve_triangular, svd, svdvals

from bayeskern.core import validation


class LeastSquares(NamedTuple):
    """The minimiser of |y - a - X b|^2 + penalty |b|^2, with the shortest b.

    Attributes:
        coefficients: b, (d,), or (d, k) for y of shape (n, k).
        rank: The rank of X (centered, if there is an intercept).
        condition_number: The largest singular value of X (centered, if there is an intercept) over
            the smallest; infinite if the smallest is 0.
        solver: The name of the solver used.
        remark: The reason if another solver than requested was used; otherwise None.
        converged: For lms and sgd, True if the relative error of b is proved to be at most 1e-8
            (lms) or 1e-3 (sgd); None for other solvers.
        iterations: For lms and sgd, the number of steps; None for other solvers.
        intercept: a, a number or (k,); 0 without an intercept.
        residual_sum_of_squares: |y - a - X b|^2, a number or (k,).

    Examples:
        >>> from bayeskern.course import least_squares
        >>> solution = least_squares([[1.0], [1.0], [2.0]], [0.0, 2.0, 2.0])
        >>> solution.coefficients.round(3), round(solution.residual_sum_of_squares, 3)
        (array([1.]), 2.0)
        >>> solution.rank, round(solution.condition_number, 3)
        (1, 1.0)
    """

    coefficients: np.ndarray
    rank: int
    condition_number: float
    solver: str
    remark: str | None = None
    converged: bool | None = None
    iterations: int | None = None
    intercept: float | np.ndarray = 0.0
    residual_sum_of_squares: float | np.ndarray = np.nan


def least_squares(
    X: ArrayLike,
    y: ArrayLike,
    solver: str = "qr",
    penalty: float = 0.0,
    *,
    intercept: bool = False,
    rank_tolerance: float | None = None,
    step: float | None = None,
    epochs: int = 10_000,
    batch: int = 32,
    seed: int = 0,
) -> LeastSquares:
    """Minimise |y - a - X b|^2 + penalty |b|^2 by a direct solver or by descent.

    The minimum is over b, and over a if there is an intercept. If several b are minimisers, the
    shortest is returned. The solvers are

    - "cholesky" of X'X + penalty I (XX' + penalty I if d > n): fast, with an error of order
      condition_number^2 eps;
    - "qr", replaced by "svd" if X is rank deficient;
    - "svd", in which small singular values count as 0;
    - "lms", gradient descent b += step (X'(y - X b) - penalty b) from b = 0;
    - "sgd", descent along gradients estimated from batches of rows, with step lengths that finally
      decrease as 1 / t, and averaged iterates.

    With the smallest curvature mu, |gradient| / mu is a bound on the error of b. "lms" and "sgd"
    stop when it is small enough, or after the given number of epochs (passes through the data).

    Args:
        X: (n, d), an array or a data frame.
        y: (n,) or (n, k), an array or a data frame.
        solver: One of the solvers above.
        penalty: In the squared units of X, 0 or more; it does not apply to the intercept.
        intercept: Whether to fit a; otherwise a = 0.
        rank_tolerance: Singular values up to this fraction of the largest count as 0; None means
            max(n, d) eps.
        step: The length of all steps of "lms", or of the first step of "sgd". None means 1 / L for
            "lms", with L = |X|^2 + penalty and the largest singular value |X|; for "sgd", a length
            that suits the batch size.
        epochs: The largest number of passes through the data, for "lms" and "sgd".
        batch: The largest number of rows in a batch of "sgd".
        seed: The seed of the batches of "sgd".

    Returns:
        The minimiser, with the rank of X, its condition number and the solver.

    Raises:
        ValueError: If the input is invalid, or the step is so long that descent diverges.
        numpy.linalg.LinAlgError: If solver="cholesky" and X'X + penalty I is singular.

    References:
        Golub and Van Loan (2013), "Matrix Computations", chapters 5 and 6. Gower, Loizou, Qian,
        Sailanbayev, Shulgin and Richtarik (2019), "SGD: general analysis and improved rates",
        theorem 3.2. Polyak and Juditsky (1992), "Acceleration of stochastic approximation by
        averaging".

    Examples:
        >>> import numpy as np
        >>> from bayeskern.course import least_squares
        >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
        >>> solution = least_squares(X, X @ [2.0, -1.0] + 3.0, intercept=True)
        >>> solution.coefficients.round(6)
        array([ 2., -1.])
        >>> round(solution.intercept, 6), solution.rank, solution.solver
        (3.0, 2, 'qr')
    """
    validation.one_of("solver", solver, ["cholesky", "qr", "svd", "lms", "sgd"])
    X, Y, single = _data(X, y)
    penalty = validation.positive(penalty, "penalty", zero=True)
    tolerance = rounding(X)
    if rank_tolerance is not None:
        tolerance = validation.positive(rank_tolerance, "rank_tolerance", zero=True)
    if solver in ("lms", "sgd"):
        step = None if step is None else validation.positive(step, "step")
        epochs = validation.positive_integer(epochs, "epochs")
    if solver == "sgd":
        batch = min(validation.positive_integer(batch, "batch"), len(X))
        seed = validation.seed(seed)

    X_mean, Y_mean = np.zeros(X.shape[1]), np.zeros(Y.shape[1])
    if intercept:
        X, Y, X_mean, Y_mean = centered(X, Y)
    if solver == "lms":
        solution = _lms(X, Y, penalty, tolerance, step, epochs)
    elif solver == "sgd":
        solution = _sgd(X, Y, penalty, tolerance, step, epochs, batch, seed)
    else:
        direct = {"cholesky": _cholesky, "qr": _qr, "svd": _svd}
        solution = direct[solver](X, Y, penalty, tolerance)
    b = solution.coefficients
    a = Y_mean - X_mean @ b
    rss = np.sum(np.square(Y - X @ b), axis=0)
    if single:
        b, a, rss = b[:, 0], float(a[0]), float(rss[0])
    return solution._replace(coefficients=b, intercept=a, residual_sum_of_squares=rss)


# -- the solvers: X (n, d), Y (n, k); singular values up to tolerance times the largest count as 0 -


def _cholesky(X, Y, penalty: float, tolerance: float) -> LeastSquares:
    n, d = X.shape
    wide = d > n
    gram = X @ X.T if wide else X.T @ X
    size = len(gram)
    eigenvalues = eigvalsh(gram)
    low, high = eigenvalues[0], eigenvalues[-1]
    if low + penalty <= size * np.finfo(float).eps * (high + penalty) or (wide and penalty == 0.0):
        raise np.linalg.LinAlgError(
            f"X'X + penalty I is singular to rounding, with X of shape {X.shape} and "
            f"penalty={penalty:g}, so it has no Cholesky factor. "
            'Take solver="svd", which finds the shortest solution, or a larger penalty.'
        )
    factor = cho_factor(gram + penalty * np.eye(size), lower=True)
    b = X.T @ cho_solve(factor, Y) if wide else cho_solve(factor, X.T @ Y)
    # Singular values below sqrt(eps) times the largest are lost in X'X.
    values = np.sqrt(np.maximum(eigenvalues[::-1], 0.0))
    floor = max(tolerance, np.sqrt(size * np.finfo(float).eps))
    return _solution(b, values, floor, "cholesky")


def _qr(X, Y, penalty: float, tolerance: float) -> LeastSquares:
    n, d = X.shape
    # QR of X, or of X' if X is wide, leaves a square problem A c = C, with b = lift c, |b| = |c|.
    if n >= d:
        Q, A = np.linalg.qr(X)
        C, lift = Q.T @ Y, np.eye(d)
    else:
        lift, R = np.linalg.qr(X.T)
        A, C = R.T, Y
    # A has the singular values of X, and so its rank.
    values = svdvals(A)
    if _rank(values, tolerance) < len(A):
        solution = _svd(A, C, penalty, tolerance)
        remark = f"X has rank {solution.rank}, not full rank {len(A)}: SVD was used instead of QR."
        return solution._replace(coefficients=lift @ solution.coefficients, remark=remark)
    if penalty > 0.0:
        stacked = np.vstack([A, np.sqrt(penalty) * np.eye(len(A))])
        Q, R = np.linalg.qr(stacked)
        c = solve_triangular(R, Q[: len(A)].T @ C)
    else:
        c = solve_triangular(A, C, lower=n < d)
    return _solution(lift @ c, values, tolerance, "qr")


def _svd(X, Y, penalty: float, tolerance: float) -> LeastSquares:
    values, solve = by_singular_values(X, Y, tolerance)
    return _solution(solve(penalty), values, tolerance, "svd")


def by_singular_values(X, Y, tolerance: float) -> tuple[np.ndarray, Callable]:
    """The singular values of X, and a function from penalty to coefficients, (d, k).

    The coefficients are the shortest minimiser of |Y - X b|^2 + penalty |b|^2, which is
    V S (S^2 + penalty I)^-1 U'Y with X = U S V'. Singular values up to tolerance times the largest
    count as 0.
    """
    U, values, Vt = svd(X, full_matrices=False)
    rank = _rank(values, tolerance)
    nonzero, projections = values[:rank], U[:, :rank].T @ Y

    def solve(penalty: float) -> np.ndarray:
        return Vt[:rank].T @ ((nonzero / (np.square(nonzero) + penalty))[:, None] * projections)

    return values, solve


# Relative error of the coefficients at which "lms" stops.
LMS_TOL = 1e-8


def _lms(X, Y, penalty, tolerance, step, epochs) -> LeastSquares:
    values = svdvals(X)
    largest = values[0] ** 2 + penalty
    if step is not None and step * largest >= 2.0:
        raise ValueError(
            f"step={step:g} is too long: descent diverges unless step < 2 / L = {2 / largest:g}. "
            "Use a shorter step, or None for 1 / L."
        )
    step = step or _inverse(largest)
    _, bound = _convergence(X, Y, values, penalty, LMS_TOL)
    b, iterations = np.zeros((X.shape[1], Y.shape[1])), 0
    gradient = _negative_gradient(X, Y, penalty, b)
    while iterations < epochs and not _has_converged(b, gradient, bound):
        b, iterations = b + step * gradient, iterations + 1
        gradient = _negative_gradient(X, Y, penalty, b)
    converged = bool(_has_converged(b, gradient, bound))
    return _solution(b, values, tolerance, "lms", converged=converged, iterations=iterations)


# Relative error of the coefficients at which "sgd" stops.
SGD_TOL = 1e-3


def _sgd(X, Y, penalty, tolerance, step, epochs, batch, seed) -> LeastSquares:
    n, values = len(X), svdvals(X)
    # Batches of equal size that cover all rows, so that their errors nearly cancel in an epoch.
    steps = -(-n // batch)
    batch = -(-n // steps)
    # An upper bound on the expected smoothness of Gower et al. (2019), proposition 3.8.
    largest_row = n * np.max(np.sum(np.square(X), axis=1))
    smoothness = values[0] ** 2 + largest_row / batch + penalty
    mu, bound = _convergence(X, Y, values, penalty, SGD_TOL)
    length, key = step or 0.5 * _inverse(smoothness), jax.random.key(seed)
    b, epochs, converged = _descend_in_batches(
        X, Y, penalty, length, mu, bound, epochs, key, steps=steps
    )
    with np.errstate(over="ignore", invalid="ignore"):
        # At b = 0 the sum of squares is |Y|^2. Comparisons with NaN are False.
        has_descended = np.sum(np.square(Y - X @ b)) <= 2.0 * np.sum(np.square(Y))
    if not has_descended:
        raise ValueError(
            f"sgd diverged with step={step}. Use a shorter step, or None for the default."
        )
    iterations = int(epochs) * steps
    return _solution(
        np.array(b), values, tolerance, "sgd", converged=bool(converged), iterations=iterations
    )


# -- descent --------------------------------------------------------------------------------------


def _convergence(X, Y, values, penalty: float, tol: float) -> tuple[float, tuple]:
    """The smallest curvature mu, and (slope, floor) for each target.

    b has converged if |gradient| <= slope |b| + floor: its error is at most |gradient| / mu, and
    the floor is the rounding error of the gradient. mu is the smallest curvature in the span of the
    rows of X, which descent from b = 0 never leaves.
    """
    mu = values[max(_rank(values, rounding(X)), 1) - 1] ** 2 + penalty
    return mu, (tol * mu, np.finfo(float).eps * values[0] * np.linalg.norm(Y, axis=0))


def _has_converged(b, gradient, bound):
    """True if b has converged for every target. For NumPy and JAX arrays."""
    slope, floor = bound
    length, size = ((v**2).sum(axis=0) ** 0.5 for v in (gradient, b))
    return (length <= slope * size + floor).all()


def _negative_gradient(X, Y, penalty, b):
    """Minus half the gradient of the objective. For NumPy and JAX arrays."""
    return X.T @ (Y - X @ b) - penalty * b


# eta of the polynomial-decay average of "sgd", which favours late iterates (Shamir and Zhang 2013).
SGD_RECENCY = 8
# Step t of "sgd" has length step / (1 + step mu t / SGD_DECAY), about SGD_DECAY / (mu t) for large
# t, with the smallest curvature mu.
SGD_DECAY = 4.0


@partial(jax.jit, static_argnames="steps")
def _descend_in_batches(X, Y, penalty, step, mu, bound, epochs, key, *, steps: int):
    n = X.shape[0]
    batch = -(-n // steps)
    # Rows of 0 pad the last batch.
    fill = steps * batch - n
    rows_X, rows_Y = (jnp.concatenate([A, jnp.zeros((1, A.shape[1]))]) for A in (X, Y))

    def move(state, rows):
        b, mean, t = state
        x, length = rows_X[rows], step / (1.0 + step * mu * t / SGD_DECAY)
        b = b + length * (steps * x.T @ (rows_Y[rows] - x @ b) - penalty * b)
        mean = mean + (1 + SGD_RECENCY) / (t + 1 + SGD_RECENCY) * (b - mean)
        return (b, mean, t + 1), None

    def unfinished(state):
        (_, mean, _), epoch, converged = state
        return ~converged & jnp.all(jnp.isfinite(mean)) & (epoch < epochs)

    def sweep(state):
        iterate, epoch, _ = state
        order = jax.random.permutation(jax.random.fold_in(key, epoch), n)
        order = jnp.concatenate([order, jnp.full(fill, n)]).reshape(steps, batch)
        (b, mean, t), _ = jax.lax.scan(move, iterate, order)
        converged = _has_converged(mean, _negative_gradient(X, Y, penalty, mean), bound)
        return (b, mean, t), epoch + 1, converged

    b = jnp.zeros((X.shape[1], Y.shape[1]))
    converged = _has_converged(b, _negative_gradient(X, Y, penalty, b), bound)
    start = (b, b, 0), 0, converged
    (_, mean, _), epoch, converged = jax.lax.while_loop(unfinished, sweep, start)
    return mean, epoch, converged


# -- helpers ---------------------------------------------------------------------------------------


def centered(X, Y) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """X (n, d) and Y (n, k) or (n,) minus their column means, and these means."""
    X_mean, Y_mean = X.mean(axis=0), Y.mean(axis=0)
    # A constant column, centered, holds only the rounding error of its mean.
    constant = np.ptp(X, axis=0) <= len(X) * np.finfo(float).eps * np.abs(X_mean)
    return np.where(constant, 0.0, X - X_mean), Y - Y_mean, X_mean, Y_mean


def rounding(X: np.ndarray) -> float:
    """Relative rounding error of singular values, as in NumPy's lstsq."""
    return max(X.shape) * float(np.finfo(float).eps)


def _solution(b, values, tolerance: float, solver: str, **descent) -> LeastSquares:
    """The result, with rank and condition number from the singular values of X."""
    return LeastSquares(b, _rank(values, tolerance), _condition(values), solver, **descent)


def _rank(values, tolerance) -> int:
    return int(np.sum(values > tolerance * values[0]))


def _condition(values) -> float:
    return float(values[0] / values[-1]) if values[-1] > 0.0 else np.inf


def _inverse(number) -> float:
    # Any step will do if X = 0 and there is no penalty.
    return 1.0 / number if number > 0.0 else 1.0


def _data(X, y) -> tuple[np.ndarray, np.ndarray, bool]:
    """X (n, d), Y (n, k), and whether y has a single column."""
    single = np.ndim(y) == 1
    X, Y = np.asarray(validation.inputs(X)[0]), np.asarray(validation.inputs(y, "y")[0])
    if len(Y) != len(X):
        raise ValueError(f"y has {len(Y)} values but X has {len(X)} points; they must match.")
    return X, Y, single
