"""Kernel expansions f = sum_i b_i k(., x_i) + c over training points, labels and weights."""

from __future__ import annotations

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets

from bayeskern.kernels.estimator import KernelExpansion


class ExpansionRegressor(RegressorMixin, KernelExpansion):
    """A regressor whose prediction is f."""

    def predict(self, X) -> np.ndarray:
        """Predict f.

        Args:
            X: Points, (m, d), with the columns that `fit` saw.

        Returns:
            f(X), (m,), or (m, k) for k targets.
        """
        return self._values(X)


class ExpansionClassifier(ClassifierMixin, KernelExpansion):
    """A classifier with one f for two classes, or one f for each of several classes.

    It has `classes_` besides what a `KernelExpansion` has.
    """

    def decision_function(self, X) -> np.ndarray:
        """The decision function f.

        Args:
            X: Points, (m, d), with the columns that `fit` saw.

        Returns:
            f(X): (m,) for two classes, above 0 for the second; (m, classes) for more.
        """
        return self._values(X)

    def predict(self, X) -> np.ndarray:
        """Predict the class whose f(X) is highest.

        Args:
            X: Points, (m, d), with the columns that `fit` saw.

        Returns:
            Class labels, (m,).
        """
        # First of all, since it says whether the estimator is fitted.
        values = self._values(X)
        highest = (values > 0.0).astype(int) if values.ndim == 1 else np.argmax(values, axis=1)
        return self.classes_[highest]


def read_classes(y) -> tuple[np.ndarray, np.ndarray]:
    """The distinct labels in y, sorted, and the index of each point's label: (classes,), (n,).

    Raises ValueError for real numbers, which are no labels, and for one class only.
    """
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"y has only one class, {classes[0]}, among the points that weigh anything. "
            "Give points of at least one more class."
        )
    return classes, codes
