"""Kernel ridge regression by descent: least mean squares in the feature space of a kernel."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from bayeskern.core import validation
from bayeskern.kernels.gram_matrix import blocks, diagonal, gram
from bayeskern.ridge.base import KernelExpansion

EPS = np.finfo(float).eps
# A Gram matrix with at most so many entries is held, half a gigabyte of them.
HELD = 64_000_000


class KernelLMS(MultiOutputMixin, RegressorMixin, KernelExpansion):
    """f = sum_i b_i k(., x_i) by steps b_S += step (y - K b - alpha b)_S from b = 0.

    S is all points, or a batch of them, new in each epoch. Where the steps converge it is to
    (K + alpha I) b = y, which is KernelRidge(alpha=alpha), and with alpha = 0 to interpolation;
    where they are stopped early, after few epochs, f is smooth without a penalty. Each batch is a
    step down the objective b'(K + alpha I) b / 2 - y'b in some coordinates, so that no step needs
    to shrink.

    kernel: a positive definite kernel of numbers, None for RBF(); alpha: the penalty, 0 or more,
    in the squared units of y.

    step: below 2 over the largest eigenvalue of K + alpha I on any batch; None for 1 over its
    largest sum of absolute values in a row, which no eigenvalue exceeds. batch: the number of
    points in S, None for all. epochs: passes through the points, at most; tol: stop where
    |y - K b - alpha b| <= tol |y|; None to run all epochs, which is early stopping. seed: of the
    batches.

    After `fit`: `kernel_`, `X_fit_`, `dual_coef_` b: (n,) or (n, k), `step_`, `residual_norms_`,
    |y - K b - alpha b| at the start and after each epoch, `converged_` and `n_iter_`, the number of
    epochs. The Gram matrix of up to 8,000 points is held; of more its rows are computed as they
    are needed, in every epoch again.

    Kivinen, Smola and Williamson (2004); Liu, Pokharel and Principe (2008); Yao, Rosasco and
    Caponnetto (2007) for early stopping.
    """

    intercept_ = 0.0

    def __init__(
        self, kernel=None, step=None, batch=None, *, alpha=1.0, epochs=10_000, tol=1e-6, seed=0
    ):
        self.kernel = kernel
        self.step = step
        self.batch = batch
        self.alpha = alpha
        self.epochs = epochs
        self.tol = tol
        self.seed = seed

    def fit(self, X, y):
        """Fit points X: (n, d) or a data frame to y: (n,) or (n, k).

        Raises ValueError on bad input, or where the steps diverge. Warns with ConvergenceWarning
        if the epochs end before the residual is down to tol.
        """
        X, y = validate_data(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, copy=True
        )
        alpha = validation.positive(self.alpha, "alpha", zero=True)
        tol = 0.0 if self.tol is None else validation.positive(self.tol, "tol")
        epochs = validation.positive_integer(self.epochs, "epochs")
        batch = len(X) if self.batch is None else validation.positive_integer(self.batch, "batch")
        batch = min(batch, len(X))
        rng = np.random.default_rng(validation.seed(self.seed))
        self.kernel_, self.X_fit_ = self._concrete_kernel(), X
        K = _Rows(self.kernel_, X, alpha)
        self.step_ = (
            K.safe_step(batch) if self.step is None else validation.positive(self.step, "step")
        )

        Y = y.reshape(len(y), -1).astype(float)
        B, residual = np.zeros_like(Y), Y.copy()
        norms, goal = [np.linalg.norm(Y)], tol * np.linalg.norm(Y)
        for _ in range(epochs):
            with np.errstate(over="ignore", invalid="ignore"):
                _epoch(K, B, residual, self.step_, batch, rng)
                objective = -0.5 * np.sum(B * (Y + residual), axis=0)
                rounding = len(Y) * EPS * np.sum(np.abs(B) * np.abs(Y), axis=0)
            # From b = 0, where it is 0, each step that converges brings the objective down.
            if not np.all(objective <= rounding):
                raise ValueError(
                    f"the steps diverge with step={self.step_:g}. Take a shorter one, or None for "
                    f"{K.safe_step(batch):.3g}, which converges."
                )
            norms.append(np.linalg.norm(residual))
            if norms[-1] <= goal:
                break
        self.dual_coef_ = B.reshape(y.shape)
        self.residual_norms_ = np.array(norms)
        self.n_iter_ = len(norms) - 1
        self.converged_ = bool(norms[-1] <= goal)
        if self.tol is not None and not self.converged_:
            warnings.warn(
                f"after {self.n_iter_} epochs the residual is {norms[-1] / norms[0]:.2g} of |y|, "
                f"not yet tol={tol:g}. Give more epochs, a larger tol, or tol=None to stop early "
                "on purpose; KernelRidge solves the same problem directly.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def predict(self, X) -> np.ndarray:
        """f(X): (m,) or (m, k), for X: (m, d)."""
        return self._values(X)


def _epoch(K, B, residual, step, batch, rng):
    """Go once through the points, batch by batch, in place."""
    n = len(B)
    order = np.arange(n) if batch == n else rng.permutation(n)
    for start in range(0, n, batch):
        chosen = order[start : start + batch]
        change = step * residual[chosen]
        B[chosen] += change
        # K is symmetric: the rows of a batch bring every residual up to date.
        for rows, A in K.rows(chosen):
            residual -= A.T @ change[rows]


class _Rows:
    """Rows of A = K + alpha I: from memory if A is one block, or else computed anew each time."""

    def __init__(self, kernel, X, alpha):
        self.kernel, self.X = kernel, X
        self.whole = None
        if len(X) ** 2 <= HELD:
            self.whole = gram(kernel, X)
            np.fill_diagonal(self.whole, self.whole.diagonal() + alpha)
        else:
            # What k(X) has on its diagonal and k(X, X), between two sets, has not: white noise.
            self.shift = alpha + np.asarray(kernel.evaluate_diag(X)) - diagonal(kernel, X)

    def rows(self, chosen):
        """Pieces of the chosen rows: (which of them, A[those]), each of bounded size."""
        n = len(self.X)
        if self.whole is not None:
            # Without a copy where all are chosen.
            yield slice(None), self.whole if len(chosen) == n else self.whole[chosen]
            return
        for rows in blocks(len(chosen), n):
            these = chosen[rows]
            A = gram(self.kernel, self.X[these], self.X)
            A[np.arange(len(these)), these] += self.shift[these]
            yield rows, A

    def safe_step(self, batch) -> float:
        """1 / the largest possible sum of absolute values in a row of A on a batch."""
        n, bound = len(self.X), 0.0
        for _, A in self.rows(np.arange(n)):
            sizes = np.abs(A)
            if batch < n:
                sizes = np.partition(sizes, n - batch, axis=1)[:, n - batch :]
            bound = max(bound, np.max(np.sum(sizes, axis=1)))
        # Of K = 0 and no penalty any step will do.
        return 1.0 / bound if bound > 0.0 else 1.0
