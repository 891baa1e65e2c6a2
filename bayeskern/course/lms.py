"""Kernel machines by gradient descent: least mean squares, and other convex losses."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Self

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, softmax
from sklearn.base import MultiOutputMixin
from sklearn.exceptions import ConvergenceWarning

from bayeskern.core import validation
from bayeskern.course.expansion import ExpansionRegressor, LossClassifier, read_classes
from bayeskern.course.losses import (
    MARGIN_LOSSES,
    REGRESSION_LOSSES,
    Logistic,
    Loss,
    MarginLoss,
    Squared,
    read_loss,
)
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.estimator import KernelExpansion
from bayeskern.kernels.gram_matrix import blocks, diagonal, gram, gram_times

# A Gram matrix with at most this many entries, half a gigabyte, is kept in memory.
MAX_ENTRIES = 64_000_000


class _Objective:
    """The sum of a loss of each value in F (n, k), given targets Y (n, k)."""

    def __init__(self, loss: Loss, Y: np.ndarray):
        self.loss, self.Y, self.curvature = loss, Y, loss.curvature

    def value(self, F: np.ndarray) -> float:
        return float(np.sum(self.loss.value(self.Y.ravel(), F.ravel())))

    def slope(self, F: np.ndarray, rows: slice | np.ndarray = slice(None)) -> np.ndarray:
        return self.loss.derivative(self.Y[rows].ravel(), F.ravel()).reshape(F.shape)


class _CrossEntropy(_Objective):
    """The cross-entropy of softmax(F), given indicators Y of the classes, (n, classes)."""

    def __init__(self, loss: Loss, Y: np.ndarray):
        super().__init__(loss, Y)
        # Boehning (1992), "Multinomial logistic regression algorithm": the Hessian is below I / 2.
        self.curvature = 0.5

    def value(self, F: np.ndarray) -> float:
        return float(np.sum(logsumexp(F, axis=1)) - np.sum(self.Y * F))

    def slope(self, F: np.ndarray, rows: slice | np.ndarray = slice(None)) -> np.ndarray:
        return softmax(F, axis=1) - self.Y[rows]


@dataclass(eq=False, repr=False)
class _KernelDescent(KernelExpansion):
    kernel: Kernel | None = None
    step: float | None = None
    batch: int | None = None
    _: KW_ONLY
    alpha: float = 1.0
    epochs: int = 10_000
    tol: float | None = 1e-6
    seed: int = 0

    intercept_ = 0.0

    def _descend(self, X: np.ndarray, objective: _Objective) -> np.ndarray:
        """Set the attributes of a fit but the coefficients, and return these, (n, k)."""
        alpha = validation.positive(self.alpha, "alpha", zero=True)
        tol = 0.0 if self.tol is None else validation.positive(self.tol, "tol")
        epochs = validation.positive_integer(self.epochs, "epochs")
        batch = len(X) if self.batch is None else validation.positive_integer(self.batch, "batch")
        batch = min(batch, len(X))
        rng = np.random.default_rng(validation.seed(self.seed))
        self.kernel_, self.X_fit_ = self._concrete_kernel(), X
        A, Y = _RegularizedGram(self.kernel_, X, alpha), objective.Y
        self.step_ = (
            A.safe_step(batch, objective.curvature)
            if self.step is None
            else validation.positive(self.step, "step")
        )
        # AB = (K + alpha I) B, so that the values of f are AB - alpha B.
        B, AB, every = np.zeros_like(Y), np.zeros_like(Y), np.arange(len(X))
        norms = [np.linalg.norm(objective.slope(B))]
        at_zero, target_norm = objective.value(B), tol * norms[0]
        for _ in range(epochs):
            with np.errstate(over="ignore", invalid="ignore"):
                order = every if batch == len(X) else rng.permutation(len(X))
                for start in range(0, len(X), batch):
                    rows = order[start : start + batch]
                    penalty_slope = alpha * B[rows]
                    slope = objective.slope(AB[rows] - penalty_slope, rows) + penalty_slope
                    change = -self.step_ * slope
                    B[rows] += change
                    AB += A.times(rows, change)
                F = AB - alpha * B
                residual = objective.slope(F) + alpha * B
                if isinstance(objective.loss, Squared):
                    # b'(K + alpha I) b / 2 - y'b: 0 at b = 0, and lower unless the steps diverge.
                    excess = np.sum(B * (0.5 * AB - Y), axis=0)
                    rounding = len(Y) * np.finfo(float).eps * np.sum(np.abs(B) * np.abs(Y), axis=0)
                else:
                    excess = objective.value(F) + 0.5 * alpha * np.sum(B * F)
                    # Batches and kinks let the objective rise a little above its start.
                    rounding = 2.0 * at_zero
            if not np.all(excess <= rounding):
                safe = ""
                if np.isfinite(objective.curvature):
                    step = A.safe_step(batch, objective.curvature)
                    safe = f", or step=None (here {step:.3g}), which converges"
                raise ValueError(
                    f"the steps diverge with step={self.step_:g}. Use a shorter step{safe}."
                )
            norms.append(np.linalg.norm(residual))
            if norms[-1] <= target_norm:
                break
        self.residual_norms_ = np.array(norms)
        self.n_iter_ = len(norms) - 1
        self.converged_ = bool(norms[-1] <= target_norm)
        if self.tol is not None and not self.converged_:
            warnings.warn(
                f"after {self.n_iter_} epochs the residual is {norms[-1] / norms[0]:.2g} of its "
                f"start, above tol={tol:g}. Give more epochs, a larger tol, or tol=None to take "
                "the result after `epochs` epochs; KernelRidge and the kernel machines, with the "
                "penalty alpha, solve the same problem directly.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return B


@dataclass(eq=False, repr=False)
class KernelLMS(MultiOutputMixin, _KernelDescent, ExpansionRegressor):
    """Kernel regression by gradient descent, with early stopping; squared loss by default.

    f = sum_i b_i k(., x_i). From b = 0, each step is b_S -= step (loss'(y, K b) + alpha b)_S, where
    S holds all points or one batch; batches are drawn anew in each epoch. For the squared loss this
    is least mean squares, b_S += step (y - K b - alpha b)_S. The steps converge to the minimiser of
    sum_i loss(y_i, f(x_i)) + alpha/2 |f|^2, as in `KernelMachineRegressor(penalty=alpha)`, and for
    the squared loss in `KernelRidge(alpha=alpha)`; alpha = 0 minimises the loss alone. A few epochs
    give a smooth f even without a penalty (early stopping). For the squared loss each step is an
    exact gradient step on b'(K + alpha I) b / 2 - y'b in the coordinates b_S, without sampling
    noise, so the step length need not decrease. There is no intercept: add `Constant()` to the
    kernel for one. With the kernel `Linear()` the weights w = X'b follow gradient descent,
    w -= step (X'loss'(y, X w) + alpha w).

    Args:
        kernel: A positive definite kernel whose hyperparameters are numbers; None means `RBF()`.
        step: The step length, less than 2 / lambda, where lambda is the largest eigenvalue of
            K + alpha I restricted to any batch. None means 1 / bound, where the bound on lambda is
            the largest absolute row sum on any batch. Losses with kinks need a number: their
            steps do not shrink, and end in a band around the minimum, whose width is the step.
        batch: The number of points in S; None means all.
        loss: "squared", "huber", "absolute" or "epsilon_insensitive", as in
            `KernelMachineRegressor`, or one of `losses`.
        alpha: The penalty, 0 or more, in the units of the loss: for the squared loss, the squared
            units of y.
        epochs: The largest number of passes through the points.
        tol: The residual |loss'(y, K b) + alpha b|, relative to its start, at which to stop; for
            the squared loss |y - K b - alpha b| / |y|. None runs all `epochs` epochs, for early
            stopping after a fixed number.
        seed: The seed of the batches.

    Attributes:
        kernel_: The kernel.
        X_fit_: The training points, (n, d). The Gram matrix of up to 8,000 points is kept in
            memory; for more points its rows are computed again in every epoch.
        dual_coef_: The coefficients b, (n,) or (n, k).
        intercept_: 0.
        step_: The step length.
        residual_norms_: The residuals at the start and after each epoch, (n_iter_ + 1,).
        converged_: True if the relative residual is at most tol.
        n_iter_: The number of epochs.

    References:
        Kivinen, Smola and Williamson (2004), "Online learning with kernels". Liu, Pokharel and
        Principe (2008), "The kernel least-mean-square algorithm". Yao, Rosasco and Caponnetto
        (2007), "On early stopping in gradient descent learning".

    Examples:
        >>> import numpy as np
        >>> from bayeskern.course import KernelLMS
        >>> from bayeskern.ridge import KernelRidge
        >>> X = np.linspace(0.0, 6.0, 30)[:, None]
        >>> y = np.sin(X[:, 0])
        >>> descent = KernelLMS(alpha=0.5).fit(X, y)
        >>> exact = KernelRidge(alpha=0.5).fit(X, y)
        >>> bool(np.allclose(descent.predict(X), exact.predict(X), atol=1e-4))
        True
    """

    _: KW_ONLY
    loss: str | Loss = "squared"

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
        loss = read_loss(self.loss, REGRESSION_LOSSES)
        objective = _Objective(loss, y.reshape(len(y), -1).astype(float))
        self.dual_coef_ = self._descend(X, objective).reshape(y.shape)
        return self


@dataclass(eq=False, repr=False)
class KernelLMSClassifier(_KernelDescent, LossClassifier):
    """Kernel logistic and softmax regression by gradient ascent of the log likelihood.

    f = sum_i b_i k(., x_i). From b = 0, each step is b += step (y - p - alpha b), where y is 0 or 1
    and p = 1 / (1 + exp(-f)); with more classes, y indicates the class and p = softmax(f), with a
    column of b and f for each class. With the kernel `Linear()` the weights w = X'b follow gradient
    ascent, w += step (X'(y - p) - alpha w). The limit is `KernelLogisticRegression(penalty=alpha)`;
    alpha = 0 is maximum likelihood, and grows without bound if f can separate the classes. There is
    no intercept: add `Constant()` to the kernel for one.

    Args:
        kernel: A positive definite kernel whose hyperparameters are numbers; None means `RBF()`.
        step: The step length; None means a length that converges, as in `KernelLMS`, where K is
            divided by 4, or by 2 for more than two classes.
        batch: The number of points in each step; None means all.
        loss: "logistic", or "hinge", which needs a step, as losses with kinks in `KernelLMS`; for
            more than two classes, the hinge loss separates each from the rest.
        alpha: The penalty, 0 or more; 1 / C of scikit-learn's LogisticRegression.
        epochs: The largest number of passes through the points.
        tol: The norm of the slope of the objective by f, relative to its start, at which to stop.
            None runs all `epochs` epochs.
        seed: The seed of the batches.

    Attributes:
        classes_: The class labels, (classes,).
        kernel_: The kernel.
        X_fit_: The training points, (n, d).
        dual_coef_: The coefficients b, (n,) for two classes, (n, classes) for more.
        intercept_: 0.
        step_: The step length.
        residual_norms_: |y - p - alpha b| at the start and after each epoch, (n_iter_ + 1,).
        converged_: True if the relative residual is at most tol.
        n_iter_: The number of epochs.

    References:
        Bishop (2006), Pattern Recognition and Machine Learning, equations 4.91 and 4.109. Kivinen,
        Smola and Williamson (2004), "Online learning with kernels".

    Examples:
        >>> from bayeskern.course import KernelLMSClassifier
        >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 1, 1, 0]
        >>> KernelLMSClassifier(alpha=0.1).fit(X, y).predict_proba([[0.0], [1.5]]).round(1)
        array([[0.7, 0.3],
               [0.1, 0.9]])
    """

    _: KW_ONLY
    loss: str | MarginLoss = "logistic"

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit the function to labelled points.

        Args:
            X: Points, (n, d), or a data frame.
            y: Class labels, (n,).

        Returns:
            The estimator.

        Raises:
            ValueError: If the input is invalid, y has a single class, or the steps diverge.

        Warns:
            sklearn.exceptions.ConvergenceWarning: If the epochs end before the relative residual is
                at most tol.
        """
        X, y = self._read_data(X, y, copy=True)
        self._loss = read_loss(self.loss, MARGIN_LOSSES)
        self.classes_, codes = read_classes(y)
        indicators = np.eye(len(self.classes_))[codes]
        two = len(self.classes_) == 2
        if two or not isinstance(self._loss, Logistic):
            signs = 2.0 * indicators - 1.0
            objective = _Objective(self._loss, signs[:, 1:] if two else signs)
        else:
            objective = _CrossEntropy(self._loss, indicators)
        B = self._descend(X, objective)
        self.dual_coef_ = B[:, 0] if two else B
        return self


class _RegularizedGram:
    """A = K + alpha I: kept in memory, or computed in blocks of rows if it is large."""

    def __init__(self, kernel: Kernel, X: np.ndarray, alpha: float):
        self.kernel, self.X, self.alpha = kernel, X, alpha
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

    def safe_step(self, batch: int, curvature: float) -> float:
        """1 / a bound on the eigenvalues of curvature K + alpha I on any batch, by row sums of A.

        Raises ValueError if the curvature is infinite.
        """
        if not np.isfinite(curvature):
            raise ValueError(
                "a loss with kinks has no step that always converges: give step=, the change of a "
                "coefficient in one step, and tol=None."
            )
        n, bound = len(self.X), 0.0
        for rows in blocks(n, n):
            if self.matrix is not None:
                A = self.matrix[rows]
            else:
                A = gram(self.kernel, self.X[rows], self.X)
                A[np.arange(len(A)), np.arange(n)[rows]] += self.shift[rows]
            largest = np.partition(np.abs(A), n - batch, axis=1)[:, n - batch :]
            bound = max(bound, np.max(np.sum(largest, axis=1)))
        bound = curvature * (bound - self.alpha) + self.alpha
        # If K = 0 without a penalty, any step will do.
        return 1.0 / bound if bound > 0.0 else 1.0
