"""The perceptron in the feature space of a kernel."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from bayeskern.core import validation
from bayeskern.kernels.gram_matrix import gram
from bayeskern.ridge.base import KernelExpansion, most_likely, read_classes


class KernelPerceptron(ClassifierMixin, KernelExpansion):
    """f_c = sum_i b_ic k(., x_i), where b_ic counts mistakes at x_i.

    The points are gone through one by one; where the class y of a point does not have the highest
    f, b rises by 1 for y and falls by 1 for the class that has. That ends with an epoch in which
    there are no mistakes. With two classes f = sum_i b_i k(., x_i), b_i of the sign of y_i = -1 or
    1, and if some u of norm 1 has y_i u(x_i) >= margin for all i, there are at most
    (max_i k(x_i, x_i)) / margin^2 mistakes (Novikoff 1962). There is no intercept: add Constant()
    to the kernel for one.

    kernel: a positive definite kernel of numbers, None for RBF(); epochs: passes through the
    points, at most; seed: of the order of the points in each.

    After `fit`: `classes_`, `kernel_`, `X_fit_`, `dual_coef_` b: (n,) for two classes, (n, classes)
    for more, `mistakes_`, how many there were in each epoch, `converged_` and `n_iter_`, the number
    of epochs.

    Rosenblatt (1958); Aizerman, Braverman and Rozonoer (1964) with a kernel; Crammer and Singer
    (2003) for several classes.
    """

    intercept_ = 0.0

    def __init__(self, kernel=None, epochs=100, seed=0):
        self.kernel = kernel
        self.epochs = epochs
        self.seed = seed

    def fit(self, X, y):
        """Learn from points X: (n, d) or a data frame and labels y: (n,).

        Raises ValueError on bad input, among it a single class. Warns with ConvergenceWarning if
        the last epoch still had mistakes.
        """
        X, y = validate_data(self, X, y, dtype=np.float64, copy=True)
        epochs = validation.positive_integer(self.epochs, "epochs")
        rng = np.random.default_rng(validation.seed(self.seed))
        self.classes_, codes = read_classes(y)
        self.kernel_ = self._concrete_kernel()
        self.X_fit_ = X
        B, self.mistakes_ = _learn(gram(self.kernel_, X), codes, epochs, rng)
        # Of two classes one is minus the other.
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

    def decision_function(self, X) -> np.ndarray:
        """f(X): (m,) for two classes, above 0 for the second; (m, classes) for more."""
        return self._values(X)

    def predict(self, X) -> np.ndarray:
        """The class, (m,), whose f(X) is highest."""
        values = self._values(X)
        return most_likely(self.classes_, values)


def _learn(K, codes, epochs, rng):
    """Coefficients (n, classes) and the number of mistakes in each epoch."""
    shape = (len(K), np.max(codes) + 1)
    B, F, mistakes = np.zeros(shape), np.zeros(shape), []
    for _ in range(epochs):
        wrong = 0
        for i in rng.permutation(len(K)):
            y, others = codes[i], F[i].copy()
            others[y] = -np.inf
            rival = np.argmax(others)
            # At first all are equal, which is a mistake too.
            if F[i, y] <= others[rival]:
                wrong += 1
                for c, change in ((y, 1.0), (rival, -1.0)):
                    B[i, c] += change
                    F[:, c] += change * K[i]
        mistakes.append(wrong)
        if wrong == 0:
            break
    return B, np.array(mistakes)
