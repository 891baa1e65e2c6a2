"""scikit-learn's own kernel machines, with the kernels of this toolkit."""

from __future__ import annotations

import numpy as np
from sklearn import decomposition, svm
from sklearn.base import (
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted, validate_data

from bayeskern.core import validation
from bayeskern.kernels.estimator import KernelEstimator
from bayeskern.kernels.gram_matrix import blocks, gram
from bayeskern.ridge.base import KernelExpansion, read_classes
from bayeskern.ridge.validation import read_weights


class KernelPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, KernelEstimator):
    """Principal components of phi(x), with k(x, z) = phi(x)'phi(z), by scikit-learn's KernelPCA.

    kernel: a positive definite kernel of numbers, None for RBF(); n_components: how many, at most
    n, or None for all whose variance is above 0.

    After `fit`: `eigenvalues_` (components,), those of the centred Gram matrix, n times the
    variances; `kernel_`, `X_fit_`, and `pca_`, the KernelPCA of their Gram matrix.

    Schoelkopf, Smola and Mueller (1998).
    """

    def __init__(self, kernel=None, n_components=None):
        self.kernel = kernel
        self.n_components = n_components

    def fit(self, X, y=None):
        """Find the components of points X: (n, d) or a data frame. y is not looked at."""
        self._fit(X)
        return self

    def fit_transform(self, X, y=None) -> np.ndarray:
        """`fit(X)` and the components (n, components) of the same points."""
        return self._fit(X)

    def transform(self, X) -> np.ndarray:
        """Components (m, components) of points X: (m, d), with the columns that `fit` saw."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        out = np.empty((len(X), self._n_features_out))
        for rows in blocks(len(X), len(self.X_fit_)):
            out[rows] = self.pca_.transform(gram(self.kernel_, X[rows], self.X_fit_))
        return out

    def _fit(self, X):
        X = validate_data(self, X, dtype=np.float64, copy=True)
        wanted = self.n_components
        if wanted is not None and validation.positive_integer(wanted, "n_components") > len(X):
            raise ValueError(
                f"n_components={wanted} is more than the {len(X)} points have. Take at most "
                f"{len(X)}, or None for all that there are."
            )
        self.kernel_ = self._concrete_kernel()
        pca = decomposition.KernelPCA(wanted, kernel="precomputed", copy_X=False, random_state=0)
        found = pca.fit_transform(gram(self.kernel_, X))
        self.X_fit_, self.pca_, self.eigenvalues_ = X, pca, pca.eigenvalues_
        self._n_features_out = len(self.eigenvalues_)
        return found


class KernelSVR(RegressorMixin, KernelExpansion):
    """Support vector regression, by scikit-learn's SVR: C sum_i w_i max(|y_i - f| - epsilon, 0).

    To it is added 1/2 |f - c|^2, with a constant c that is not penalised.
    KernelMachineRegressor(loss="epsilon_insensitive", penalty=1 / C, fit_intercept=True) is the
    same to more digits, since libsvm keeps the Gram matrix in single precision, but slower.

    kernel: a positive definite kernel of numbers, None for RBF(); C: above 0; epsilon: 0 or more,
    in the units of y; tol: by how much the slopes of the dual may miss, in the units of y.

    After `fit`: `kernel_`, `support_`, the indices of the points that count, those points
    `X_fit_`, their `dual_coef_`, `intercept_` and `n_iter_`.
    """

    def __init__(self, kernel=None, C=1.0, epsilon=0.1, tol=1e-3):
        self.kernel = kernel
        self.C = C
        self.epsilon = epsilon
        self.tol = tol

    def fit(self, X, y, sample_weight=None):
        """Fit points X: (n, d) or a data frame to y: (n,), with weights w: (n,) of 0 or more."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        weights = read_weights(sample_weight, X)
        used = weights > 0.0
        X, y, weights = X[used], y[used], weights[used]
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
            # All errors are below epsilon: f is constant, and one point will do.
            support, self.dual_coef_ = np.array([0]), np.zeros(1)
        self.support_, self.X_fit_ = np.flatnonzero(used)[support], X[support]
        self.intercept_ = float(machine.intercept_[0])
        self.n_iter_ = int(machine.n_iter_)
        return self

    def predict(self, X) -> np.ndarray:
        """f(X): (m,), for X: (m, d)."""
        return self._values(X)


class KernelSVC(ClassifierMixin, KernelEstimator):
    """The support vector classifier, by scikit-learn's SVC: C sum_i w_i max(1 - y_i f, 0).

    To it is added 1/2 |f - c|^2, with a constant c that is not penalised. Of more than two classes
    each is set against each other, and the one that wins most often is chosen.
    KernelMachineClassifier(loss="hinge", penalty=1 / C, fit_intercept=True) is the same for two
    classes to more digits, but slower.

    kernel: a positive definite kernel of numbers, None for RBF(); C: above 0; tol: by how much the
    margins may miss.

    After `fit`: `classes_`, `kernel_`, `support_`, the indices of the points that count, those
    points `X_fit_`, `svc_`, the SVC of their Gram matrix, and its `n_iter_`, one for each pair.
    """

    def __init__(self, kernel=None, C=1.0, tol=1e-3):
        self.kernel = kernel
        self.C = C
        self.tol = tol

    def fit(self, X, y, sample_weight=None):
        """Fit points X: (n, d) or a data frame to labels y: (n,), with weights w: (n,) >= 0."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        weights = read_weights(sample_weight, X)
        used = weights > 0.0
        X, y, weights = X[used], y[used], weights[used]
        self.classes_, _ = read_classes(y)
        machine = svm.SVC(
            kernel="precomputed",
            C=validation.positive(self.C, "C"),
            tol=validation.positive(self.tol, "tol"),
        )
        self.kernel_ = self._concrete_kernel()
        self.svc_ = machine.fit(gram(self.kernel_, X), y, weights)
        self.support_ = np.flatnonzero(used)[machine.support_]
        self.X_fit_ = X[machine.support_]
        self.n_iter_ = machine.n_iter_
        return self

    def decision_function(self, X) -> np.ndarray:
        """f(X): (m,) for two classes, above 0 for the second; votes (m, classes) for more."""
        return np.concatenate([self.svc_.decision_function(K) for K in self._gram_rows(X)])

    def predict(self, X) -> np.ndarray:
        """The class of each point: (m,)."""
        return np.concatenate([self.svc_.predict(K) for K in self._gram_rows(X)])

    def _gram_rows(self, X):
        """k(X, training points), block by block, in the columns that count: support vectors."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        n = self.svc_.shape_fit_[0]
        for rows in blocks(len(X), n):
            K = np.zeros((len(X[rows]), n))
            K[:, self.svc_.support_] = gram(self.kernel_, X[rows], self.X_fit_)
            yield K
