"""Kernel machines: minimise a convex loss plus the squared norm of the function."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from bayeskern.core import validation
from bayeskern.course.expansion import (
    ExpansionRegressor,
    LossClassifier,
    read_classes,
    read_weighted,
)
from bayeskern.course.losses import (
    MARGIN_LOSSES,
    REGRESSION_LOSSES,
    Loss,
    MarginLoss,
    Minimum,
    read_loss,
)
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.estimator import KernelExpansion
from bayeskern.kernels.gram_matrix import gram


class _KernelMachine(KernelExpansion):
    penalty: float

    def _prepare(self, X: np.ndarray) -> tuple[np.ndarray, float]:
        """The Gram matrix and the penalty, for points of positive weight."""
        penalty = validation.positive(self.penalty, "penalty", zero=True)
        self.kernel_, self.X_fit_ = self._concrete_kernel(), X
        return gram(self.kernel_, X), penalty

    def _store(self, minimum: Minimum, penalty: float) -> Self:
        """Set the attributes of a fit; warn if the duality gap is too large."""
        self.dual_coef_ = minimum.coefficients
        self.intercept_ = minimum.intercept
        self.objective_ = penalty * minimum.value
        self.duality_gap_ = penalty * max(minimum.gap, 0.0)
        # Relative to the objective, plus an allowance for rounding relative to the loss of f = 0.
        tolerance = 1e-6 * minimum.value + 1e-12 * minimum.at_zero
        self.converged_ = bool(minimum.gap <= tolerance)
        self.n_iter_ = minimum.iterations
        if not self.converged_:
            warnings.warn(
                f"{type(self).__name__} stopped at an objective of {self.objective_:.6g}, which "
                f"may be {self.duality_gap_:.2g} above its minimum. Rounding limits progress with "
                f"penalty={self.penalty:g}: use a larger one.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self


@dataclass(eq=False, repr=False)
class KernelMachineRegressor(_KernelMachine, ExpansionRegressor):
    """Regression that minimises sum_i w_i loss(y_i, f(x_i)) + penalty/2 |f - c|^2.

    By the representer theorem f = sum_i b_i k(., x_i) + c. The squared loss is solved directly, the
    others by an interior-point method with 10 to 30 factorisations of an n x n matrix.

    Args:
        kernel: A positive definite kernel whose hyperparameters are numbers; None means `RBF()`.
        loss: "squared", (y - f)^2 / 2, as in `KernelRidge(alpha=penalty)`; "absolute", |y - f|, for
            a median; "huber", quadratic for small errors and linear for large ones; or
            "epsilon_insensitive", 0 for small errors and linear for large ones.
            `losses.Huber(delta=1.345)` and `losses.EpsilonInsensitive(epsilon=0.1)` set the limit
            of small errors, in the units of y.
        penalty: The penalty, 0 or more, in the units of the loss; 1 / C of support vector
            regression. 0 is the limit of small penalties: f minimises the loss alone, and
            interpolates if K is not singular.
        fit_intercept: Whether to add an unpenalised constant c; otherwise c = 0.

    Attributes:
        kernel_: The kernel.
        X_fit_: The training points of positive weight, (n, d).
        dual_coef_: The coefficients b, (n,).
        intercept_: The constant c.
        objective_: The value of the objective.
        duality_gap_: A bound on the objective minus its minimum. The minimiser f* satisfies
            |f - f*|^2 <= 2 duality_gap_ / penalty, without the constants. Without a penalty, an
            estimate: the gap of the last proximal step, or |f| |gradient| of the logistic loss.
        converged_: True if the gap is at most 1e-6 times the objective plus 1e-12 times the loss
            of f = 0.
        n_iter_: The number of iterations.

    References:
        Schoelkopf, Herbrich and Smola (2001), "A generalized representer theorem", theorem 1.

    Examples:
        >>> import numpy as np
        >>> from bayeskern.course import KernelMachineRegressor
        >>> X = np.linspace(0.0, 6.0, 40)[:, None]
        >>> y = np.sin(X[:, 0])
        >>> y[10] += 5.0
        >>> robust = KernelMachineRegressor(loss="absolute", penalty=0.1).fit(X, y)
        >>> robust.predict(X[10:11]).round(1)
        array([1.])
    """

    kernel: Kernel | None = None
    loss: str | Loss = "squared"
    penalty: float = 1.0
    _: KW_ONLY
    fit_intercept: bool = False

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the function to data.

        Args:
            X: Points, (n, d), or a data frame.
            y: Targets, (n,).
            sample_weight: Non-negative weights w of the losses, (n,); None means 1.

        Returns:
            The estimator.

        Raises:
            ValueError: If X, y or an option is invalid.
            TypeError: If a hyperparameter of the kernel is not a number.

        Warns:
            sklearn.exceptions.ConvergenceWarning: If rounding keeps the objective off its minimum.
        """
        X, y, weights, _ = read_weighted(self, X, y, sample_weight, y_numeric=True)
        loss: Loss = read_loss(self.loss, REGRESSION_LOSSES)
        K, penalty = self._prepare(X)
        weights = weights / (penalty or 1.0)
        constant = bool(self.fit_intercept)
        minimum = loss.minimise(K, y.astype(float), weights, constant, penalty > 0.0)
        return self._store(minimum, penalty or 1.0)


@dataclass(eq=False, repr=False)
class KernelMachineClassifier(_KernelMachine, LossClassifier):
    """Classifier that minimises sum_i w_i loss(y_i f(x_i)) + penalty/2 |f - c|^2.

    By the representer theorem f = sum_i b_i k(., x_i) + c, for labels y_i of -1 or 1. The logistic
    loss is minimised by scikit-learn's LogisticRegression, with the columns of a pivoted Cholesky
    factor of K as features; the hinge loss, by an interior-point method.

    Args:
        kernel: A positive definite kernel whose hyperparameters are numbers; None means `RBF()`.
        loss: "logistic", log(1 + exp(-y f)), which gives probabilities; for more than two classes,
            the multinomial loss log sum_c exp(f_c) - f_y with a function f_c for each class. Or
            "hinge", max(1 - y f, 0), of the support vector machine; for more than two classes, each
            is separated from the rest.
        penalty: The penalty, 0 or more; 1 / C of the support vector machine and of scikit-learn's
            LogisticRegression. 0 is the limit of small penalties: maximum likelihood, which needs
            classes that f cannot separate; or the least hinge loss, and of several f with the same
            loss the one of least norm, which has the largest margin.
        fit_intercept: Whether to add unpenalised constants c; otherwise c = 0.

    Attributes:
        classes_: The class labels, (classes,).
        kernel_: The kernel.
        X_fit_: The training points of positive weight, (n, d).
        dual_coef_: The coefficients b, (n,) for two classes, (n, classes) for more.
        intercept_: The constant c for two classes, (classes,) for more.
        objective_: The value of the objective.
        duality_gap_: A bound on the objective minus its minimum. The minimiser f* satisfies
            |f - f*|^2 <= 2 duality_gap_ / penalty, without the constants. Without a penalty, an
            estimate: the gap of the last proximal step, or |f| |gradient| of the logistic loss.
        converged_: True if the gap is at most 1e-6 times the objective plus 1e-12 times the loss
            of f = 0.
        n_iter_: The number of iterations.

    References:
        Schoelkopf, Herbrich and Smola (2001), "A generalized representer theorem", theorem 1. Zhu
        and Hastie (2005), "Kernel logistic regression and the import vector machine".

    Examples:
        >>> from bayeskern.course import KernelMachineClassifier
        >>> X, y = [[0.0], [1.0], [2.0], [3.0]], ["out", "in", "in", "out"]
        >>> machine = KernelMachineClassifier(loss="hinge", penalty=0.1).fit(X, y)
        >>> machine.predict([[0.1], [1.5]])
        array(['out', 'in'], dtype='<U3')
    """

    kernel: Kernel | None = None
    loss: str | MarginLoss = "logistic"
    penalty: float = 1.0
    _: KW_ONLY
    fit_intercept: bool = False

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the function to labelled points.

        Args:
            X: Points, (n, d), or a data frame.
            y: Class labels, (n,).
            sample_weight: Non-negative weights w of the losses, (n,); None means 1.

        Returns:
            The estimator.

        Raises:
            ValueError: If the input is invalid, y has a single class, or the loss has no minimum
                without a penalty.
            TypeError: If a hyperparameter of the kernel is not a number.

        Warns:
            sklearn.exceptions.ConvergenceWarning: If rounding keeps the objective off its minimum.
        """
        X, y, weights, _ = read_weighted(self, X, y, sample_weight)
        loss: MarginLoss = read_loss(self.loss, MARGIN_LOSSES)
        self.classes_, codes = read_classes(y)
        K, penalty = self._prepare(X)
        self._loss, weights = loss, weights / (penalty or 1.0)
        classes, constant = len(self.classes_), bool(self.fit_intercept)
        minimum = loss.classify(K, codes, classes, weights, constant, penalty > 0.0)
        return self._store(minimum, penalty or 1.0)


class KernelLogisticRegression(KernelMachineClassifier):
    """Kernel logistic regression, binomial or multinomial.

    This is `KernelMachineClassifier` with the logistic loss, and has the same attributes.

    Args:
        kernel: A positive definite kernel whose hyperparameters are numbers; None means `RBF()`.
        penalty: The penalty, 0 or more; 1 / C of scikit-learn's LogisticRegression. 0 is maximum
            likelihood, and needs classes that f cannot separate.
        fit_intercept: Whether to add unpenalised constants c; otherwise c = 0.

    References:
        Zhu and Hastie (2005), "Kernel logistic regression and the import vector machine".

    Examples:
        >>> from bayeskern.course import KernelLogisticRegression
        >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 1, 1, 0]
        >>> KernelLogisticRegression(penalty=0.1).fit(X, y).predict_proba([[0.0], [1.5]]).round(1)
        array([[0.7, 0.3],
               [0.1, 0.9]])
    """

    def __init__(
        self, kernel: Kernel | None = None, penalty: float = 1.0, *, fit_intercept: bool = False
    ):
        super().__init__(kernel, "logistic", penalty, fit_intercept=fit_intercept)
