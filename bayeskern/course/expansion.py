"""Regressors and classifiers whose functions are kernel expansions."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from bayeskern.course.losses import Logistic, MarginLoss
from bayeskern.kernels.estimator import KernelEstimator, KernelExpansion, read_weights


class ExpansionRegressor(RegressorMixin, KernelExpansion):
    """A regressor that predicts f."""

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predict f.

        Args:
            X: Points, (m, d), with the columns that `fit` saw.

        Returns:
            f(X), (m,), or (m, k) for k targets.
        """
        return self._values(X)


class ExpansionClassifier(ClassifierMixin, KernelExpansion):
    """A classifier with one f for two classes, or one f for each of several classes.

    Attributes:
        classes_: The class labels, (classes,).
    """

    classes_: np.ndarray

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Evaluate the decision function f.

        Args:
            X: Points, (m, d), with the columns that `fit` saw.

        Returns:
            f(X): (m,) for two classes, positive for the second; (m, classes) for more.
        """
        return self._values(X)

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predict the class whose f(X) is highest.

        Args:
            X: Points, (m, d), with the columns that `fit` saw.

        Returns:
            Class labels, (m,).
        """
        values = self._values(X)
        highest = (values > 0.0).astype(int) if values.ndim == 1 else np.argmax(values, axis=1)
        return self.classes_[highest]


class LossClassifier(ExpansionClassifier):
    """A classifier fitted by a loss of the margin, with probabilities under the logistic loss."""

    loss: str | MarginLoss
    _loss: MarginLoss

    @available_if(lambda self: self.loss == "logistic" or isinstance(self.loss, Logistic))
    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Predict the probabilities of the classes, for the logistic loss only.

        Args:
            X: Points, (m, d), with the columns that `fit` saw.

        Returns:
            Probabilities, (m, classes).

        Raises:
            ValueError: If the machine was fitted with another loss.
        """
        f = self._values(X)
        if not isinstance(self._loss, Logistic):
            raise ValueError(
                f"the machine was fitted with {self._loss}, which has no probabilities. Fit it "
                "again with the logistic loss."
            )
        return np.stack([expit(-f), expit(f)], axis=1) if f.ndim == 1 else softmax(f, axis=1)


def read_weighted(
    estimator: KernelEstimator, X, y, sample_weight, **options
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The points of positive weight, their targets, weights and indices.

    Args:
        estimator: The estimator to be fitted.
        X: Points, (n, d), or a data frame.
        y: Targets, (n,).
        sample_weight: Weights, (n,); None means 1.
        **options: Options of scikit-learn's `validate_data`.
    """
    X, y = estimator._read_data(X, y, **options)
    weights = read_weights(sample_weight, X)
    indices = np.flatnonzero(weights > 0.0)
    return X[indices], y[indices], weights[indices], indices


def read_classes(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sorted class labels, (classes,), and the index of each point's label, (n,).

    Raises ValueError if y holds real numbers, or one class only.
    """
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"y has only one class, {classes[0]}, among the points of positive weight. "
            "Give points of at least one more class."
        )
    return classes, codes
