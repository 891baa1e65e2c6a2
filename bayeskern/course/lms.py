"""Kernel ridge regression by gradient descent (least mean squares)."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Self

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin
from sklearn.exceptions import ConvergenceWarning

from bayeskern.core import validation
from bayeskern.course.expansion import ExpansionRegressor
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.gram_matrix import blocks, diagonal, gram, gram_times

# A Gram matrix with at most this many entries, half a gigabyte, is kept in memory.
MAX_ENTRIES = 64_000_000


@dataclass(eq=False, repr=False)
class KernelLMS(MultiOutputMixin, ExpansionRegressor):
    """Kernel ridge regression by gradient descent, with early stopping.

    f = sum_i b_i k(., x_i). From b = 0, each step is b_S += step (y - K b - alpha b)_S, where S
    holds all points or one batch; batches are drawn anew in each epoch. The steps converge to the
    solution of (K + alpha I) b = y, as in `KernelRidge(alpha=alpha)`; alpha = 0 interpolates. A few
    epochs give a smooth f even without a penalty (early stopping). Each step is an exact gradient
    step on b'(K + alpha I) b / 2 - y'b in the coordinates b_S, without sampling noise, so the step
    length need not decrease. There is no intercept: add `Constant()` to the kernel for one.

    Args:
        kernel: A positive definite kernel whose hyperparameters are numbers; None means `RBF()`.
        step: The step length, less than 2 / lambda, where lambda is the largest eigenvalue of
            K + alpha I restricted to any batch. None means 1 / bound, where the bound on lambda is
            the largest absolute row sum on any batch.
        batch: The number of points in S; None means all.
        alpha: The penalty, 0 or more, in the squared units of y.
        epochs: The largest number of passes through the points.
        tol: The relative residual |y - K b - alpha b| / |y| at which to stop; None runs all
            `epochs` epochs, for early stopping after a fixed number.
        seed: The seed of the batches.

    Attributes:
        kernel_: The kernel.
        X_fit_: The training points, (n, d). The Gram matrix of up to 8,000 points is kept in
            memory; for more points its rows are computed again in every epoch.
        dual_coef_: The coefficients b, (n,) or (n, k).
        intercept_: 0.
        step_: The step length.
        residual_norms_: |y - K b - alpha b| at the start and after each epoch, (n_iter_ + 1,).
        converged_: True if the relative residual is at most tol.
        n_iter_: The number of epochs.

    References:
        Kivinen, Smola and Williamson (2004), "Online learning with kernels". Liu, Pokharel and
        Principe (2008), "The kernel least-mean-square algorithm". Yao, Rosasco and Caponnetto
        (2007), "On early stopping in gradient descent learning".

    Examples:
        >>> import numpy as np
        >>> from bayeskern.ridge import KernelLMS, KernelRidge
        >>> X = np.linspace(0.0, 6.0, 30)[:, None]
        >>> y = np.sin(X[:, 0])
        >>> descent = KernelLMS(alpha=0.5).fit(X, y)
        >>> exact = KernelRidge(alpha=0.5).fit(X, y)
        >>> bool(np.allclose(descent.predict(X), exact.predict(X), atol=1e-4))
        True
    """

    kernel: Kernel | None = None
    step: float | None = None
    batch: int | None = None
    _: KW_ONLY
    alpha: float = 1.0
    epochs: int = 10_000
    tol: float | None = 1e-6
    seed: int = 0

    intercept_ = 0.0

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit the function to data.

        Args:
            X: Points, (n, d), or a data frame.
            y: Targets, (n,) or (n, k).

        Returns:
            The estimator.

        Raises:
            ValueError: If the input is invalid, or the steps diverge.

        Warns:
            sklearn.exceptions.ConvergenceWarning: If the epochs end before the relative residual is
                at most tol.
        """
        X, y = self._read_data(X, y, multi_output=True, y_numeric=True, copy=True)
        alpha = validation.positive(self.alpha, "alpha", zero=True)
        tol = 0.0 if self.tol is None else validation.positive(self.tol, "tol")
        epochs = validation.positive_integer(self.epochs, "epochs")
        batch = len(X) if self.batch is None else validation.positive_integer(self.batch, "batch")
        batch = min(batch, len(X))
        rng = np.random.default_rng(validation.seed(self.seed))
        self.kernel_, self.X_fit_ = self._concrete_kernel(), X
        A = _RegularizedGram(self.kernel_, X, alpha)
        self.step_ = (
            A.safe_step(batch) if self.step is None else validation.positive(self.step, "step")
        )

        Y = y.reshape(len(y), -1).astype(float)
        B, residual = np.zeros_like(Y), Y.copy()
        norms, target_norm = [np.linalg.norm(Y)], tol * np.linalg.norm(Y)
        for _ in range(epochs):
            with np.errstate(over="ignore", invalid="ignore"):
                order = np.arange(len(X)) if batch == len(X) else rng.permutation(len(X))
                for start in range(0, len(X), batch):
                    chosen = order[start : start + batch]
                    change = self.step_ * residual[chosen]
                    B[chosen] += change
                    residual -= A.times(chosen, change)
                # b'(K + alpha I) b / 2 - y'b: 0 at b = 0, and lower unless the steps diverge.
                objective = -0.5 * np.sum(B * (Y + residual), axis=0)
                rounding = len(Y) * np.finfo(float).eps * np.sum(np.abs(B) * np.abs(Y), axis=0)
            if not np.all(objective <= rounding):
                raise ValueError(
                    f"the steps diverge with step={self.step_:g}. Use a shorter step, or step=None "
                    f"(here {A.safe_step(batch):.3g}), which converges."
                )
            norms.append(np.linalg.norm(residual))
            if norms[-1] <= target_norm:
                break
        self.dual_coef_ = B.reshape(y.shape)
        self.residual_norms_ = np.array(norms)
        self.n_iter_ = len(norms) - 1
        self.converged_ = bool(norms[-1] <= target_norm)
        if self.tol is not None and not self.converged_:
            warnings.warn(
                f"after {self.n_iter_} epochs the residual is {norms[-1] / norms[0]:.2g} of |y|, "
                f"above tol={tol:g}. Give more epochs, a larger tol, or tol=None to take the "
                "result after `epochs` epochs; KernelRidge solves the same problem directly.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self


class _RegularizedGram:
    """A = K + alpha I: kept in memory, or computed in blocks of rows if it is large."""

    def __init__(self, kernel: Kernel, X: np.ndarray, alpha: float):
        self.kernel, self.X = kernel, X
        # alpha plus the white noise, which gram(k, X, X) lacks on its diagonal.
        self.shift = alpha + np.asarray(kernel.evaluate_diag(jnp.asarray(X))) - diagonal(kernel, X)
        self.matrix = None
        if len(X) ** 2 <= MAX_ENTRIES:
            self.matrix = gram(kernel, X)
            np.fill_diagonal(self.matrix, self.matrix.diagonal() + alpha)

    def times(self, chosen: np.ndarray, v: np.ndarray) -> np.ndarray:
        """A[:, chosen] @ v, (n, k), by the rows of A, which is symmetric."""
        if self.matrix is not None:
            # Indexing copies: avoid it if all rows are chosen.
            rows = self.matrix if len(chosen) == len(self.X) else self.matrix[chosen]
            return rows.T @ v
        product = gram_times(self.kernel, self.X, self.X[chosen], v)
        product[chosen] += self.shift[chosen, None] * v
        return product

    def safe_step(self, batch: int) -> float:
        """1 / the largest absolute row sum of A on any batch."""
        n, bound = len(self.X), 0.0
        for rows in blocks(n, n):
            if self.matrix is not None:
                A = self.matrix[rows]
            else:
                A = gram(self.kernel, self.X[rows], self.X)
                A[np.arange(len(A)), np.arange(n)[rows]] += self.shift[rows]
            largest = np.partition(np.abs(A), n - batch, axis=1)[:, n - batch :]
            bound = max(bound, np.max(np.sum(largest, axis=1)))
        # If K = 0 without a penalty, any step will do.
        return 1.0 / bound if bound > 0.0 else 1.0
