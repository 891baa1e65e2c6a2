"""The perceptron in the feature space of a kernel."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from bayeskern.core import validation
from bayeskern.course.expansion import ExpansionClassifier, read_classes
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.gram_matrix import gram


@dataclass(eq=False, repr=False)
class KernelPerceptron(ExpansionClassifier):
    """Kernel perceptron, f_c = sum_i b_ic k(., x_i) for each class c.

    Training goes through the points one by one. At a mistake at x_i, where another class has the
    highest f, b_ic rises by 1 for the true class and falls by 1 for the other. Training ends after
    an epoch without mistakes. With two classes f = sum_i b_i k(., x_i), and b_i has the sign of
    y_i = -1 or 1. If a function u of norm 1 in the space of the kernel has y_i u(x_i) >= margin for
    all i, there are at most max_i k(x_i, x_i) / margin^2 mistakes (Novikoff 1962). There is no
    intercept: add `Constant()` to the kernel for one.

    Args:
        kernel: A positive definite kernel whose hyperparameters are numbers; None means `RBF()`.
        epochs: The largest number of passes through the points.
        seed: The seed of the order of the points in each epoch.

    Attributes:
        classes_: The class labels, (classes,).
        kernel_: The kernel.
        X_fit_: The training points, (n, d).
        dual_coef_: The coefficients b, (n,) for two classes, (n, classes) for more.
        intercept_: 0.
        mistakes_: The number of mistakes in each epoch, (n_iter_,).
        converged_: True if the last epoch had no mistakes.
        n_iter_: The number of epochs.

    References:
        Rosenblatt (1958), "The perceptron". Aizerman, Braverman and Rozonoer (1964), "Theoretical
        foundations of the potential function method". Crammer and Singer (2003),
        "Ultraconservative online algorithms for multiclass problems".

    Examples:
        >>> from bayeskern.kernels import Polynomial
        >>> from bayeskern.course import KernelPerceptron
        >>> X, exclusive_or = [[0, 0], [0, 1], [1, 0], [1, 1]], [0, 1, 1, 0]
        >>> perceptron = KernelPerceptron(Polynomial(degree=2)).fit(X, exclusive_or)
        >>> perceptron.predict(X)
        array([0, 1, 1, 0])
    """

    kernel: Kernel | None = None
    epochs: int = 100
    seed: int = 0

    intercept_ = 0.0

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from labelled points.

        Args:
            X: Points, (n, d), or a data frame.
            y: Class labels, (n,).

        Returns:
            The estimator.

        Raises:
            ValueError: If the input is invalid, or y has a single class.

        Warns:
            sklearn.exceptions.ConvergenceWarning: If the last epoch still had mistakes.
        """
        X, y = self._read_data(X, y, copy=True)
        epochs = validation.positive_integer(self.epochs, "epochs")
        rng = np.random.default_rng(validation.seed(self.seed))
        self.classes_, codes = read_classes(y)
        self.kernel_ = self._concrete_kernel()
        self.X_fit_ = X
        B, self.mistakes_ = _learn(gram(self.kernel_, X), codes, epochs, rng)
        # With two classes one column is minus the other.
        self.dual_coef_ = B[:, 1] if len(self.classes_) == 2 else B
        self.n_iter_ = len(self.mistakes_)
        self.converged_ = bool(self.mistakes_[-1] == 0)
        if not self.converged_:
            warnings.warn(
                f"KernelPerceptron still made {self.mistakes_[-1]} mistakes in epoch "
                f"{self.n_iter_}, the last. Give more epochs, or a kernel that separates the "
                "classes; KernelLogisticRegression needs no such kernel.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self


def _learn(K, codes, epochs: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """The coefficients, (n, classes), and the number of mistakes in each epoch."""
    shape = (len(K), np.max(codes) + 1)
    B, F, mistakes = np.zeros(shape), np.zeros(shape), []
    for _ in range(epochs):
        epoch_mistakes = 0
        for i in rng.permutation(len(K)):
            y, other_values = codes[i], F[i].copy()
            other_values[y] = -np.inf
            rival = np.argmax(other_values)
            # A tie is a mistake too: otherwise nothing would be learned from f = 0.
            if F[i, y] <= other_values[rival]:
                epoch_mistakes += 1
                for c, change in ((y, 1.0), (rival, -1.0)):
                    B[i, c] += change
                    F[:, c] += change * K[i]
        mistakes.append(epoch_mistakes)
        if epoch_mistakes == 0:
            break
    return B, np.array(mistakes)
