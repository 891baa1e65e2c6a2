"""Linear least squares by Cholesky, QR, SVD or gradient descent, and how far to trust the answer.

Golub and Van Loan (2013), chapters 5 and 6.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigvalsh, qr, solve_triangular, svd, svdvals

from bayeskern.core import validation

EPS = np.finfo(float).eps
# Relative errors of the coefficients at which descent may stop.
LMS_TOLERANCE = 1e-8
SGD_TOLERANCE = 1e-3
# How strongly the average of the iterates of sgd leans on the later ones (Shamir and Zhang 2013).
RECENCY = 8
# Its step is step / (1 + step mu t / FALL) at step t, in the end FALL / (mu t).
FALL = 4


class LeastSquares(NamedTuple):
    """The minimiser of |y - a - X b|^2 + penalty |b|^2, of least norm where there are several.

    For y of shape (n, k) there are k of each of the coefficients, intercepts and sums of squares.
    """

    #: b, (d,) or (d, k)
    coefficients: np.ndarray
    #: the number of singular values of X (centred, if there is an intercept) that count
    rank: int
    #: the largest singular value of X (likewise) over the smallest, infinite where that is 0
    condition_number: float
    #: the solver that found b
    solver: str
    #: why that is another than was asked for
    remark: str | None = None
    #: lms and sgd: whether b is proved to be within 1e-8 (lms) or 1e-3 (sgd) of the minimiser
    converged: bool | None = None
    #: lms and sgd: the number of steps
    iterations: int | None = None
    #: a, a number or (k,); 0 unless asked for
    intercept: float | np.ndarray = 0.0
    #: |y - a - X b|^2, a number or (k,)
    residual_sum_of_squares: float | np.ndarray = np.nan


def least_squares(
    X,
    y,
    solver="qr",
    penalty=0.0,
    *,
    intercept=False,
    rank_tolerance=None,
    step=None,
    epochs=10_000,
    batch=32,
    seed=0,
) -> LeastSquares:
    """Minimise |y - a - X b|^2 + penalty |b|^2 over b, and over a if intercept.

    X: (n, d), y: (n,) or (n, k), arrays or data frames; penalty: in the squared units of X, 0 or
    more, not applied to the intercept. Where several b are best the shortest is returned.

    solver: "cholesky" of X'X (or XX' + penalty, if d > n), fast, with an error of order
    condition_number^2 eps; "qr" with column pivoting, which hands on to the SVD where X is short of
    full rank; "svd", in which singular values up to rank_tolerance (by default max(n, d) eps) times
    the largest count as 0; "lms", steps b += step (X'(y - X b) - penalty b) from b = 0, with
    step 1 / L by default, L = |X|^2 + penalty; "sgd", the same with the gradient estimated from at
    most batch rows, a step that falls in the end as 1 / t (Gower et al. 2019, theorem 3.2) and
    averaged iterates (Polyak and Juditsky 1992). These two stop when |gradient| / mu shows b to be
    near enough, mu the smallest curvature, or after so many epochs (passes through the data);
    step, epochs, batch and seed are theirs.

    Raises ValueError on bad input or a step with which descent diverges, and
    numpy.linalg.LinAlgError if "cholesky" is asked for and X'X + penalty is singular.
    """
    validation.one_of("solver", solver, _SOLVERS)
    X, Y, single = _data(X, y)
    penalty = validation.positive(penalty, "penalty", zero=True)
    tolerance = _rounding(X)
    if rank_tolerance is not None:
        tolerance = validation.positive(rank_tolerance, "rank_tolerance", zero=True)
    options = {}
    if solver in ("lms", "sgd"):
        options["step"] = None if step is None else validation.positive(step, "step")
        options["epochs"] = validation.positive_integer(epochs, "epochs")
    if solver == "sgd":
        options["batch"] = min(validation.positive_integer(batch, "batch"), len(X))
        options["seed"] = validation.seed(seed)

    X_mean, Y_mean = (X.mean(axis=0), Y.mean(axis=0)) if intercept else (0.0, 0.0)
    if intercept:
        # What is left of a constant column is the rounding of its mean.
        constant = np.ptp(X, axis=0) <= len(X) * EPS * np.abs(X_mean)
        X, Y = np.where(constant, 0.0, X - X_mean), Y - Y_mean
    found = _SOLVERS[solver](X, Y, penalty, tolerance, **options)
    b = found.coefficients
    a = Y_mean - X_mean @ b if intercept else np.zeros(Y.shape[1])
    squares = np.sum(np.square(Y - X @ b), axis=0)
    if single:
        b, a, squares = b[:, 0], float(a[0]), float(squares[0])
    return found._replace(coefficients=b, intercept=a, residual_sum_of_squares=squares)


# -- the solvers: X (n, d), Y (n, k); singular values up to tolerance, relative, count as 0 --------


def _cholesky(X, Y, penalty, tolerance):
    n, d = X.shape
    wide = d > n
    gram = X @ X.T if wide else X.T @ X
    size = len(gram)
    eigenvalues = eigvalsh(gram)
    low, high = eigenvalues[0], eigenvalues[-1]
    if low + penalty <= size * EPS * (high + penalty) or (wide and penalty == 0.0):
        raise np.linalg.LinAlgError(
            f"X'X + penalty is singular to rounding, with X of shape {X.shape} and "
            f"penalty={penalty:g}, so it has no Cholesky factor. "
            'Take solver="svd", which finds the shortest solution, or a larger penalty.'
        )
    factor = cho_factor(gram + penalty * np.eye(size), lower=True)
    b = X.T @ cho_solve(factor, Y) if wide else cho_solve(factor, X.T @ Y)
    # Smaller singular values than sqrt(eps) times the largest are lost in X'X.
    values = np.sqrt(np.maximum(eigenvalues[::-1], 0.0))
    floor = max(tolerance, np.sqrt(size * EPS))
    return LeastSquares(b, _rank(values, floor), _condition(values), "cholesky")


def _qr(X, Y, penalty, tolerance):
    n, d = X.shape
    # A square system A c = C is left, with b = lift c: X P = Q R, or X'P = Q R if X is wide.
    if n >= d:
        Q, A, order = qr(X, mode="economic", pivoting=True)
        C, lift = Q.T @ Y, np.eye(d)[:, order]
    else:
        lift, R, order = qr(X.T, mode="economic", pivoting=True)
        A, C = R.T, Y[order]
    # The singular values of R are those of X, and say more of its rank than its diagonal does.
    values = svdvals(A)
    if _rank(values, tolerance) < len(A):
        found = _svd(A, C, penalty, tolerance)
        remark = f"QR found X short of rank {len(A)}; the SVD took over, with rank {found.rank}."
        return found._replace(coefficients=lift @ found.coefficients, remark=remark)
    if penalty > 0.0:
        Q, R = qr(np.vstack([A, np.sqrt(penalty) * np.eye(len(A))]), mode="economic")
        c = solve_triangular(R, Q[: len(A)].T @ C)
    else:
        c = solve_triangular(A, C, lower=n < d)
    return LeastSquares(lift @ c, len(A), _condition(values), "qr")


def _svd(X, Y, penalty, tolerance):
    U, values, Vt = svd(X, full_matrices=False)
    r = _rank(values, tolerance)
    shrunk = values[:r] / (np.square(values[:r]) + penalty)
    b = Vt[:r].T @ (shrunk[:, None] * (U[:, :r].T @ Y))
    return LeastSquares(b, r, _condition(values), "svd")


def _lms(X, Y, penalty, tolerance, step, epochs):
    values = svdvals(X)
    largest = values[0] ** 2 + penalty
    if step is not None and step * largest >= 2.0:
        raise ValueError(
            f"step={step:g} is too long: descent diverges from 2 / L = {2 / largest:g} on. "
            "Take a shorter one, or None for 1 / L."
        )
    step = step or _inverse(largest)
    goal = _goal(values, _curvature(X, values, penalty), Y, LMS_TOLERANCE)
    b, iterations, converged = _descend(X, Y, penalty, step, goal, epochs)
    return _descended(b, values, tolerance, "lms", converged, iterations)


def _sgd(X, Y, penalty, tolerance, step, epochs, batch, seed):
    n, values = len(X), svdvals(X)
    # Batches of equal size, all rows in each epoch: then the errors of an epoch nearly cancel.
    steps = -(-n // batch)
    batch = -(-n // steps)
    # At least the expected smoothness of Gower et al. (2019), proposition 3.8.
    worst = n * np.max(np.sum(np.square(X), axis=1))
    smoothness = values[0] ** 2 + worst / batch + penalty
    mu = _curvature(X, values, penalty)
    goal = _goal(values, mu, Y, SGD_TOLERANCE)
    key = jax.random.key(seed)
    b, epochs, converged = _descend_in_batches(
        X, Y, penalty, step or 0.5 * _inverse(smoothness), mu, goal, epochs, key, steps
    )
    with np.errstate(over="ignore", invalid="ignore"):
        # b = 0 leaves |Y|^2; NaN is not below anything.
        sound = np.sum(np.square(Y - X @ b)) <= 2.0 * np.sum(np.square(Y))
    if not sound:
        raise ValueError(
            f"sgd diverged with step={step}. Take a shorter one, or None for one that fits."
        )
    return _descended(b, values, tolerance, "sgd", converged, epochs * steps)


_SOLVERS = {"cholesky": _cholesky, "qr": _qr, "svd": _svd, "lms": _lms, "sgd": _sgd}


# -- descent --------------------------------------------------------------------------------------


def _descended(b, values, tolerance, solver, converged, iterations):
    return LeastSquares(
        np.array(b),
        _rank(values, tolerance),
        _condition(values),
        solver,
        converged=bool(converged),
        iterations=int(iterations),
    )


def _curvature(X, values, penalty):
    """The smallest curvature mu along the rows of X, which b, from zero start, never leaves."""
    return values[max(_rank(values, _rounding(X)), 1) - 1] ** 2 + penalty


def _goal(values, mu, Y, accuracy):
    """(slope, floor) for each target: b will do once |gradient| <= slope |b| + floor.

    The error of b is at most |gradient| / mu. The floor is the rounding error of the gradient.
    """
    return accuracy * mu, EPS * values[0] * np.linalg.norm(Y, axis=0)


def _near(b, gradient, goal):
    slope, floor = goal
    norm = partial(jnp.linalg.norm, axis=0)
    return jnp.all(norm(gradient) <= slope * norm(b) + floor)


def _ascent(X, Y, penalty, b):
    return X.T @ (Y - X @ b) - penalty * b


@jax.jit
def _descend(X, Y, penalty, step, goal, epochs):
    def going(state):
        b, gradient, i = state
        return ~_near(b, gradient, goal) & (i < epochs)

    def move(state):
        b, gradient, i = state
        b = b + step * gradient
        return b, _ascent(X, Y, penalty, b), i + 1

    b = jnp.zeros((X.shape[1], Y.shape[1]))
    b, gradient, i = jax.lax.while_loop(going, move, (b, _ascent(X, Y, penalty, b), 0))
    return b, i, _near(b, gradient, goal)


@partial(jax.jit, static_argnames="steps")
def _descend_in_batches(X, Y, penalty, step, mu, goal, epochs, key, steps):
    n = X.shape[0]
    batch = -(-n // steps)
    # Rows of 0 fill the last batch.
    fill = steps * batch - n
    rows_X, rows_Y = (jnp.concatenate([A, jnp.zeros((1, A.shape[1]))]) for A in (X, Y))

    def move(state, rows):
        b, mean, t = state
        x, length = rows_X[rows], step / (1.0 + step * mu * t / FALL)
        b = b + length * (steps * x.T @ (rows_Y[rows] - x @ b) - penalty * b)
        mean = mean + (1 + RECENCY) / (t + 1 + RECENCY) * (b - mean)
        return (b, mean, t + 1), None

    def going(state):
        (_, mean, _), epoch, near = state
        return ~near & jnp.all(jnp.isfinite(mean)) & (epoch < epochs)

    def sweep(state):
        at, epoch, _ = state
        order = jax.random.permutation(jax.random.fold_in(key, epoch), n)
        order = jnp.concatenate([order, jnp.full(fill, n)]).reshape(steps, batch)
        at, _ = jax.lax.scan(move, at, order)
        near = _near(at[1], _ascent(X, Y, penalty, at[1]), goal)
        return at, epoch + 1, near

    b = jnp.zeros((X.shape[1], Y.shape[1]))
    near = _near(b, _ascent(X, Y, penalty, b), goal)
    (_, mean, _), epoch, near = jax.lax.while_loop(going, sweep, ((b, b, 0), 0, near))
    return mean, epoch, near


# -- small pieces ----------------------------------------------------------------------------------


def _rounding(X) -> float:
    """The relative size of singular values that rounding makes of 0, as in NumPy's lstsq."""
    return max(X.shape) * EPS


def _rank(values, tolerance) -> int:
    return int(np.sum(values > tolerance * values[0]))


def _condition(values) -> float:
    return float(values[0] / values[-1]) if values[-1] > 0.0 else np.inf


def _inverse(number) -> float:
    # Of X = 0 and no penalty any step will do.
    return 1.0 / number if number > 0.0 else 1.0


def _data(X, y):
    single = np.ndim(y) == 1
    X, Y = np.asarray(validation.inputs(X)[0]), np.asarray(validation.inputs(y, "y")[0])
    if len(Y) != len(X):
        raise ValueError(f"y has {len(Y)} values but X has {len(X)} points; they must match.")
    return X, Y, single
