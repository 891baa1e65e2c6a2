"""Kernel principal component analysis and pre-images: scikit-learn's, with bayeskern's kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn import decomposition
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    clone,
    is_regressor,
)
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from bayeskern.core import validation
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.estimator import KernelEstimator
from bayeskern.kernels.gram_matrix import blocks, gram


@dataclass(eq=False, repr=False)
class KernelPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, KernelEstimator):
    """Principal components of phi(x), where k(x, z) = phi(x)'phi(z).

    Args:
        kernel: A positive definite kernel whose hyperparameters are numbers; None means `RBF()`.
        n_components: The number of components, at most n; None keeps all with positive variance.
        inverse: The regression of the points on their components by which `inverse_transform`
            predicts pre-images, such as `KernelRidge(RBF(0.5), alpha=0.1, fit_intercept=True)`,
            whose lengthscale is in the units of the components; None fits none. Without an
            intercept, pre-images shrink towards 0 instead of the mean of the points, as those of
            scikit-learn's `fit_inverse_transform` do.

    Attributes:
        eigenvalues_: The eigenvalues of the centered Gram matrix, (components,): n times the
            variances of the components.
        kernel_: The kernel.
        X_fit_: The training points, (n, d).
        pca_: scikit-learn's KernelPCA of their Gram matrix.
        inverse_: The fitted regression, or None.

    References:
        Schoelkopf, Smola and Mueller (1998), "Nonlinear component analysis as a kernel eigenvalue
        problem". Bakir, Weston and Schoelkopf (2004), "Learning to find pre-images".

    Examples:
        >>> import numpy as np
        >>> from bayeskern.course import KernelPCA
        >>> angle = np.linspace(0.0, 2 * np.pi, 20, endpoint=False)
        >>> circle = np.column_stack([np.cos(angle), np.sin(angle)])
        >>> pca = KernelPCA(n_components=2).fit(circle)
        >>> pca.eigenvalues_.round(1)
        array([4.2, 4.2])
        >>> pca.transform(circle).shape
        (20, 2)
    """

    kernel: Kernel | None = None
    n_components: int | None = None
    inverse: BaseEstimator | None = None

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Find the components.

        Args:
            X: Points, (n, d), or a data frame.
            y: Ignored.

        Returns:
            The transformer.

        Raises:
            ValueError: If the input is invalid, or n_components exceeds n.
            TypeError: If inverse is no scikit-learn regressor.
        """
        self.fit_transform(X)
        return self

    def fit_transform(self, X: ArrayLike, y: ArrayLike | None = None) -> np.ndarray:
        """Find the components, and project the training points on them.

        Args:
            X: Points, (n, d), or a data frame.
            y: Ignored.

        Returns:
            Components, (n, components).
        """
        inputs: Any = X
        points: Any = validate_data(self, inputs, dtype=np.float64, copy=True)
        count = self.n_components
        if count is not None and validation.positive_integer(count, "n_components") > len(points):
            raise ValueError(
                f"n_components={count} is more than the number of points, {len(points)}. Take "
                "fewer, or None for all components."
            )
        is_estimator = isinstance(self.inverse, BaseEstimator)
        if self.inverse is not None and not (is_estimator and is_regressor(self.inverse)):
            raise TypeError(
                f"inverse must be a scikit-learn regressor or None; got {self.inverse!r}. "
                "Use for example KernelRidge(RBF(0.5), alpha=0.1)."
            )
        self.kernel_ = self._concrete_kernel()
        pca = decomposition.KernelPCA(count, kernel="precomputed", copy_X=False, random_state=0)
        components = pca.fit_transform(gram(self.kernel_, points))
        self.X_fit_, self.pca_, self.eigenvalues_ = points, pca, pca.eigenvalues_
        self._n_features_out = len(self.eigenvalues_)
        self.inverse_ = None
        if self.inverse is not None:
            regression: Any = clone(self.inverse)
            self.inverse_ = regression.fit(components, points)
        return components

    def transform(self, X: ArrayLike) -> np.ndarray:
        """Project points on the components.

        Args:
            X: Points, (m, d), with the columns that `fit` saw.

        Returns:
            Components, (m, components).
        """
        points = self._read_points(X)
        components = np.empty((len(points), self._n_features_out))
        for rows in blocks(len(points), len(self.X_fit_)):
            components[rows] = self.pca_.transform(gram(self.kernel_, points[rows], self.X_fit_))
        return components

    def inverse_transform(self, X: ArrayLike) -> np.ndarray:
        """Predict points with these components: their pre-images.

        A projection phi on the components is rarely the image of a point. The pre-image is the
        prediction of `inverse`, a regression of the training points on their components.

        Args:
            X: Components, (m, components).

        Returns:
            Points, (m, d).

        Raises:
            ValueError: If the input is invalid, or `inverse` was None in `fit`.

        References:
            Bakir, Weston and Schoelkopf (2004), "Learning to find pre-images".
        """
        check_is_fitted(self)
        if self.inverse_ is None:
            raise ValueError(
                "inverse_transform needs a regression of the points on their components, and "
                "inverse was None in fit. Fit again with, for example, "
                "KernelPCA(inverse=KernelRidge(RBF(0.5), alpha=0.1))."
            )
        return self.inverse_.predict(check_array(X, dtype="float64"))
