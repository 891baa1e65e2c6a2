"""Kernel principal component analysis, by scikit-learn with the kernels of this toolkit."""

from __future__ import annotations

import numpy as np
from sklearn import decomposition
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from bayeskern.core import validation
from bayeskern.kernels.estimator import KernelEstimator
from bayeskern.kernels.gram_matrix import blocks, gram


class KernelPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, KernelEstimator):
    """Principal components of phi(x), where k(x, z) = phi(x)'phi(z).

    Args:
        kernel: A positive definite kernel whose hyperparameters are numbers; None means `RBF()`.
        n_components: The number of components, at most n; None takes all of positive variance.

    Attributes:
        eigenvalues_: The eigenvalues of the centered Gram matrix, (components,): n times the
            variances of the components.
        kernel_: The kernel.
        X_fit_: The training points, (n, d).
        pca_: scikit-learn's KernelPCA of their Gram matrix.

    References:
        Schoelkopf, Smola and Mueller (1998), "Nonlinear component analysis as a kernel eigenvalue
        problem".

    Examples:
        >>> import numpy as np
        >>> from bayeskern.ridge import KernelPCA
        >>> angle = np.linspace(0.0, 2 * np.pi, 20, endpoint=False)
        >>> circle = np.column_stack([np.cos(angle), np.sin(angle)])
        >>> pca = KernelPCA(n_components=2).fit(circle)
        >>> pca.eigenvalues_.round(1)
        array([4.2, 4.2])
        >>> pca.transform(circle).shape
        (20, 2)
    """

    def __init__(self, kernel=None, n_components=None):
        self.kernel = kernel
        self.n_components = n_components

    def fit(self, X, y=None):
        """Find the components.

        Args:
            X: Points, (n, d), or a data frame.
            y: Ignored.

        Returns:
            The transformer.

        Raises:
            ValueError: For bad input, which includes more components than points.
        """
        self._fit(X)
        return self

    def fit_transform(self, X, y=None) -> np.ndarray:
        """Find the components, and return those of the same points.

        Args:
            X: Points, (n, d), or a data frame.
            y: Ignored.

        Returns:
            Components, (n, components).
        """
        return self._fit(X)

    def transform(self, X) -> np.ndarray:
        """Project points on the components.

        Args:
            X: Points, (m, d), with the columns that `fit` saw.

        Returns:
            Components, (m, components).
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        components = np.empty((len(X), self._n_features_out))
        for rows in blocks(len(X), len(self.X_fit_)):
            components[rows] = self.pca_.transform(gram(self.kernel_, X[rows], self.X_fit_))
        return components

    def _fit(self, X):
        X = validate_data(self, X, dtype=np.float64, copy=True)
        count = self.n_components
        if count is not None and validation.positive_integer(count, "n_components") > len(X):
            raise ValueError(
                f"n_components={count} is more than the {len(X)} points have. Take at most "
                f"{len(X)}, or None for all that there are."
            )
        self.kernel_ = self._concrete_kernel()
        pca = decomposition.KernelPCA(count, kernel="precomputed", copy_X=False, random_state=0)
        components = pca.fit_transform(gram(self.kernel_, X))
        self.X_fit_, self.pca_, self.eigenvalues_ = X, pca, pca.eigenvalues_
        self._n_features_out = len(self.eigenvalues_)
        return components
