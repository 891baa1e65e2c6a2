"""Support vector machines: scikit-learn's (libsvm), with bayeskern's kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn import svm
from sklearn.base import ClassifierMixin

from bayeskern.core import validation
from bayeskern.course.expansion import ExpansionRegressor, read_classes, read_weighted
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.estimator import KernelEstimator
from bayeskern.kernels.gram_matrix import blocks, gram


@dataclass(eq=False, repr=False)
class KernelSVR(ExpansionRegressor):
    """Support vector regression, by scikit-learn's SVR.

    Minimises C sum_i w_i max(|y_i - f(x_i)| - epsilon, 0) + 1/2 |f - c|^2, with an unpenalised
    constant c. `KernelMachineRegressor(loss="epsilon_insensitive", penalty=1 / C,
    fit_intercept=True)` is slower and more precise, since libsvm keeps the Gram matrix in single
    precision.

    Args:
        kernel: A positive definite kernel whose hyperparameters are numbers; None means `RBF()`.
        C: The weight of the losses, above 0.
        epsilon: The largest error without loss, 0 or more, in the units of y.
        tol: libsvm's stopping tolerance for the gradient of the dual problem, in the units of y.

    Attributes:
        kernel_: The kernel.
        support_: The indices of the support vectors, (s,).
        X_fit_: The support vectors, (s, d).
        dual_coef_: Their coefficients, (s,).
        intercept_: The constant c.
        n_iter_: The number of iterations.

    References:
        Smola and Schoelkopf (2004), "A tutorial on support vector regression", equation 3.

    Examples:
        >>> import numpy as np
        >>> from bayeskern.course import KernelSVR
        >>> X = np.linspace(0.0, 6.0, 30)[:, None]
        >>> machine = KernelSVR(C=10.0, epsilon=0.1).fit(X, np.sin(X[:, 0]))
        >>> bool(np.max(np.abs(machine.predict(X) - np.sin(X[:, 0]))) < 0.11)
        True
        >>> len(machine.support_) < 15
        True
    """

    kernel: Kernel | None = None
    C: float = 1.0
    epsilon: float = 0.1
    tol: float = 1e-3

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
        """
        X, y, weights, indices = read_weighted(self, X, y, sample_weight, y_numeric=True)
        machine = svm.SVR(
            kernel="precomputed",
            C=validation.positive(self.C, "C"),
            epsilon=validation.positive(self.epsilon, "epsilon", zero=True),
            tol=validation.positive(self.tol, "tol"),
        )
        self.kernel_ = self._concrete_kernel()
        machine.fit(gram(self.kernel_, X), y, weights)
        support, self.dual_coef_ = machine.support_, machine.dual_coef_[0]
        if not support.size:
            # No error exceeds epsilon: f is constant, and one point represents it.
            support, self.dual_coef_ = np.array([0]), np.zeros(1)
        self.support_, self.X_fit_ = indices[support], X[support]
        self.intercept_ = float(machine.intercept_[0])
        self.n_iter_ = int(machine.n_iter_)
        return self


@dataclass(eq=False, repr=False)
class KernelSVC(ClassifierMixin, KernelEstimator):
    """The support vector classifier, by scikit-learn's SVC.

    Minimises C sum_i w_i max(1 - y_i f(x_i), 0) + 1/2 |f - c|^2, with an unpenalised constant c and
    labels y_i of -1 or 1. Several classes are compared in pairs; the class that wins most often is
    predicted. For two classes `KernelMachineClassifier(loss="hinge", penalty=1 / C,
    fit_intercept=True)` is slower and more precise.

    Args:
        kernel: A positive definite kernel whose hyperparameters are numbers; None means `RBF()`.
        C: The weight of the losses, above 0.
        tol: libsvm's stopping tolerance for the gradient of the dual problem, in the units of f.

    Attributes:
        classes_: The class labels, (classes,).
        kernel_: The kernel.
        support_: The indices of the support vectors, (s,).
        X_fit_: The support vectors, (s, d).
        svc_: scikit-learn's SVC, fitted to the Gram matrix of all training points.
        n_iter_: The number of iterations for each pair of classes.

    References:
        Cortes and Vapnik (1995), "Support-vector networks". Schoelkopf and Smola (2002), "Learning
        with Kernels", section 7.5.

    Examples:
        >>> from bayeskern.course import KernelSVC
        >>> X, y = [[0.0], [1.0], [2.0], [3.0]], ["out", "in", "in", "out"]
        >>> machine = KernelSVC(C=10.0).fit(X, y)
        >>> machine.predict([[0.1], [1.5]])
        array(['out', 'in'], dtype='<U3')
    """

    kernel: Kernel | None = None
    C: float = 1.0
    tol: float = 1e-3

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the function to labelled points.

        Args:
            X: Points, (n, d), or a data frame.
            y: Class labels, (n,).
            sample_weight: Non-negative weights w of the losses, (n,); None means 1.

        Returns:
            The estimator.

        Raises:
            ValueError: If the input is invalid, or y has a single class.
            TypeError: If a hyperparameter of the kernel is not a number.
        """
        X, y, weights, indices = read_weighted(self, X, y, sample_weight)
        self.classes_, _ = read_classes(y)
        machine = svm.SVC(
            kernel="precomputed",
            C=validation.positive(self.C, "C"),
            tol=validation.positive(self.tol, "tol"),
        )
        self.kernel_ = self._concrete_kernel()
        self.svc_ = machine.fit(gram(self.kernel_, X), y, weights)
        self.support_, self.X_fit_ = indices[machine.support_], X[machine.support_]
        self.n_iter_ = machine.n_iter_
        return self

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Evaluate the decision function f.

        Args:
            X: Points, (m, d), with the columns that `fit` saw.

        Returns:
            f(X): (m,) for two classes, positive for the second; votes (m, classes) for more.
        """
        return np.concatenate([self.svc_.decision_function(K) for K in self._gram_rows(X)])

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predict the class.

        Args:
            X: Points, (m, d), with the columns that `fit` saw.

        Returns:
            Class labels, (m,).
        """
        return np.concatenate([self.svc_.predict(K) for K in self._gram_rows(X)])

    def _gram_rows(self, X) -> Iterator[np.ndarray]:
        """Yield row blocks of k(X, training points), 0 except for support vectors."""
        points = self._read_points(X)
        n = self.svc_.shape_fit_[0]
        for rows in blocks(len(points), n):
            K = np.zeros((len(points[rows]), n))
            K[:, self.svc_.support_] = gram(self.kernel_, points[rows], self.X_fit_)
            yield K
